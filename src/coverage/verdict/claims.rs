//! Why a pod waits for devices that it claims: ResourceClaims, their classes and drivers.

use serde_json::Value;

use super::cause::quoted_after;
use super::daemon_set_context::Subject;
use super::finding::{Finding, Origin, TemplatePart};
use super::images::template_of;
use super::node_plugin::{self, Lacks};
use super::scheduler_report::without_nodes;
use super::sentence::Sentence;
use crate::model::event::Event;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::fix::Command;
use crate::report::reason::{Passing, ReasonCode};

/// Finds that the pod waits for its ResourceClaims: until they exist, the scheduler does not try it, and says nothing of it (`PreEnqueue`,
/// pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, release 1.37.2).
pub fn waits_for_claim(subject: &Subject, pod: &Pod) -> Option<Finding> {
    let claims = template_of(subject, pod).value()["spec"]["resourceClaims"].as_array().filter(|it| !it.is_empty())?;
    let has_claim = |claim: &Value| pod.status.resource_claim_statuses.iter().any(|known| claim["name"] == known.name);
    if claims.iter().all(|claim| claim["resourceClaimTemplateName"].is_string() && has_claim(claim)) {
        return None;
    }
    let named = |field: &str| claims.iter().find_map(|claim| claim[field].as_str());
    let of_kind = |kind, resource, name: &str| {
        let part = TemplatePart::Object { kind, name: name.to_owned(), key: None };
        let list = Command::kubectl(&["get", resource]).namespace(&pod.metadata.namespace);
        (format!("create {kind} {name}, or correct its name in the template"), Origin::Template(part), list)
    };
    let controller = || {
        let advice =
            "check kube-controller-manager, which creates the claims of pods from their templates, and its log";
        let list = Command::kubectl(&["get", "resourceclaims"]).namespace(&pod.metadata.namespace);
        (advice.to_owned(), Origin::ControlPlane, list)
    };
    let events = subject.index.events_about("Pod", &pod.metadata);
    let failed = events.iter().find(|event| event.reason == "FailedResourceClaimCreation");
    let message = Sentence::from("the pod waits for its ResourceClaims, before which the scheduler does not try it");
    let (message, (advice, origin, command)) = match failed {
        Some(event) => {
            let missing =
                quoted_after(&event.message, "resource claim template").filter(|_| event.message.contains("not found"));
            let template = missing.map(|name| of_kind("ResourceClaimTemplate", "resourceclaimtemplates", name));
            (message.words(": ").event(event, subject.index.now()), template.unwrap_or_else(controller))
        }
        None => {
            let claim = named("resourceClaimName").filter(|_| named("resourceClaimTemplateName").is_none());
            (message, claim.map_or_else(controller, |name| of_kind("ResourceClaim", "resourceclaims", name)))
        }
    };
    let finding = Finding::new(ReasonCode::DeviceClaimUnsatisfied, message.apart(&advice), advice);
    Some(finding.with_origin(origin).with_passing(Passing::AtStart).with_command(command))
}

/// Finds a device claim that the node cannot satisfy, by the scheduler's reason.
pub fn device_claim_unsatisfied(pod: &Pod, reason: &str) -> Finding {
    let claims = Command::kubectl(&["get", "resourceclaims"]).namespace(&pod.metadata.namespace);
    let message = format!("devices: {}", without_nodes(reason));
    Finding::new(ReasonCode::DeviceClaimUnsatisfied, message, "check the claims, and the drivers' resource slices")
        .with_command(claims)
}

/// Finds that a claim asks for a device class that does not exist: `PreFilter` of the scheduler's plugin for devices names it.
pub fn missing_device_class(reason: &str) -> Option<Finding> {
    let (_, class) = reason.strip_suffix(" does not exist")?.rsplit_once("device class ")?;
    let advice = format!(
        "install the driver that provides DeviceClass {class}, or correct the class in the claim or its template"
    );
    let finding = Finding::new(ReasonCode::DeviceClaimUnsatisfied, format!("devices: {reason}"), advice);
    let part = TemplatePart::Object { kind: "DeviceClass", name: class.to_owned(), key: None };
    Some(finding.with_origin(Origin::Template(part)).with_command(Command::kubectl(&["get", "deviceclasses"])))
}

/// Finds that the kubelet cannot prepare the devices of a bound pod: `PrepareResources`, pkg/kubelet/cm/dra/manager.go, release 1.37.2.
pub fn preparation_failed(subject: &Subject, node: Option<&Node>, pod: &Pod, events: &[&Event]) -> Option<Finding> {
    let event = events
        .iter()
        .find(|event| event.reason == "FailedPrepareDynamicResources" && event.is_recent(subject.index.now()))?;
    let said = event.message.trim();
    let message = Sentence::from("the devices of the pod cannot be prepared: ").event(event, subject.index.now());
    let driver = said.split_once("DRA driver ").and_then(|(_, rest)| rest.split_once(" is not registered"));
    if let Some((driver, _)) = driver {
        let finding = Finding::new(ReasonCode::DeviceClaimUnsatisfied, message, "");
        return Some(
            node_plugin::without_driver(subject, node, driver, Lacks::Registration, finding)
                .with_origin(Origin::ControlPlane),
        );
    }
    let claims = Command::kubectl(&["get", "resourceclaims", "-o", "yaml"]).namespace(&pod.metadata.namespace);
    // Before release 1.36 or so, the kubelet wrote `resource claim NAME(UID)`.
    let words = ["is not allowed to use ResourceClaim ", "is not allowed to use resource claim "];
    let refused = words.into_iter().find_map(|words| said.split_once(words)).map(|(_, rest)| rest);
    let claim = refused.and_then(|rest| rest.split([' ', ',', '(']).next()).filter(|claim| !claim.is_empty());
    let (advice, origin) = match claim {
        Some(claim) => (
            format!(
                "see for which pods ResourceClaim {claim} is reserved (status.reservedFor): the kubelet gives it to no other; use a \
                     ResourceClaimTemplate in the template, so that each pod gets a claim of its own"
            ),
            Origin::Template(TemplatePart::Object { kind: "ResourceClaim", name: claim.to_owned(), key: None }),
        ),
        None => (
            "check the pod of the driver on the node, and its log".to_owned(),
            Origin::Template(TemplatePart::AskedOfNode),
        ),
    };
    let finding = Finding::new(ReasonCode::DeviceClaimUnsatisfied, message.apart(&advice), advice);
    Some(finding.with_origin(origin).with_command(claims))
}
