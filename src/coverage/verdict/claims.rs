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
use crate::model::int_or_percent::int;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::report::fix::Command;
use crate::report::reason::{Passing, ReasonCode};
use crate::scheduling::device_claims::{Obstacle, Open, Rejection};

/// What to do if the claims of a pod are not created.
const CONTROLLER: &str =
    "check kube-controller-manager, which creates the claims of pods from their templates, and its log";

/// Finds that the pod waits for its ResourceClaims: until they exist, the scheduler does not try it, and says nothing of it (`PreEnqueue`,
/// pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, release 1.37.2).
pub fn waits_for_claim(subject: &Subject, pod: &Pod) -> Option<Finding> {
    match subject.index.device_claims.exist(pod) {
        Ok(()) => return None,
        Err(Obstacle::Rejects(why @ (Rejection::ClaimDeleted(_) | Rejection::NotOwner(_)))) => {
            return Some(told(&why, pod));
        }
        Err(_) => {}
    }
    let claims = template_of(subject, pod).value()["spec"]["resourceClaims"].as_array().filter(|it| !it.is_empty())?;
    let has_claim = |claim: &Value| pod.status.resource_claim_statuses.iter().any(|known| claim["name"] == known.name);
    if claims.iter().all(|claim| claim["resourceClaimTemplateName"].is_string() && has_claim(claim)) {
        return None;
    }
    let named = |field: &str| claims.iter().find_map(|claim| claim[field].as_str());
    let of_kind = |kind, resource, name: &str| {
        let list = Command::kubectl(&["get", resource]).namespace(&pod.metadata.namespace);
        (format!("create {kind} {name}, or correct its name in the template"), Origin::object(kind, name), list)
    };
    let controller = || {
        let list = Command::kubectl(&["get", "resourceclaims"]).namespace(&pod.metadata.namespace);
        (CONTROLLER.to_owned(), Origin::ControlPlane, list)
    };
    let events = subject.index.events_about("Pod", &pod.metadata);
    let failed = events.iter().find(|event| event.reason == "FailedResourceClaimCreation");
    let message = Sentence::from("the pod waits for its ResourceClaims, before which the scheduler does not try it");
    let (message, (advice, origin, command)) = match failed {
        Some(event) => {
            let missing =
                quoted_after(&event.message, "resource claim template").filter(|_| event.message.contains("not found"));
            let template = missing.map(|name| of_kind("ResourceClaimTemplate", "resourceclaimtemplates", name));
            (message.words(": ").event(event, subject.now()), template.unwrap_or_else(controller))
        }
        None => {
            let claim = named("resourceClaimName").filter(|_| named("resourceClaimTemplateName").is_none());
            (message, claim.map_or_else(controller, |name| of_kind("ResourceClaim", "resourceclaims", name)))
        }
    };
    let finding = Finding::new(ReasonCode::DeviceClaimUnsatisfied, message.apart(&advice), advice);
    let finding = finding.with_origin(origin).only_with(TemplatePart::Claims);
    Some(finding.with_passing(Passing::AtStart).with_command(command))
}

/// Finds that a node is rejected, and by what.
pub fn told(rejection: &Rejection, pod: &Pod) -> Finding {
    let namespace = &pod.metadata.namespace;
    let reason = rejection.reason(pod).unwrap_or_default();
    let message = Sentence::from(format!("devices: {}", without_nodes(&reason)));
    let finding = |message: Sentence, advice: &str| Finding::new(ReasonCode::DeviceClaimUnsatisfied, message, advice);
    let get = |resource: &str| Command::kubectl(&["get", resource]);
    let claims = || get("resourceclaims").namespace(namespace);
    match rejection {
        Rejection::AwaitsClaim => {
            let finding =
                finding(message, CONTROLLER).with_origin(Origin::ControlPlane).only_with(TemplatePart::Claims);
            finding.with_passing(Passing::AtStart)
        }
        Rejection::ClaimNotFound(claim) => {
            let advice = format!("create ResourceClaim {claim}, or correct its name in the template");
            finding(message, &advice).with_origin(Origin::object("ResourceClaim", claim)).with_command(claims())
        }
        Rejection::TemplateNotFound(template) => {
            let advice = format!("create ResourceClaimTemplate {template}, or correct its name in the template");
            let message = Sentence::from(format!("devices: resourceclaimtemplate {template:?} not found"));
            let list = get("resourceclaimtemplates").namespace(namespace);
            finding(message, &advice).with_origin(Origin::object("ResourceClaimTemplate", template)).with_command(list)
        }
        Rejection::ClaimDeleted(claim) => {
            let advice = "wait until it is gone, and create it again: it stays as long as a pod uses it";
            finding(message, advice).with_origin(Origin::object("ResourceClaim", claim)).with_command(claims())
        }
        Rejection::NotOwner(_) => {
            finding(message, "delete the claim if nothing needs it, so that one is created for the pod")
                .with_command(claims())
        }
        Rejection::ClassNotFound { .. } => missing_device_class(&reason).unwrap_or_else(|| finding(message, "")),
        Rejection::NotAvailable(claim) => {
            let message = message.words("; claim ").value(claim).words(" is allocated for other nodes");
            let advice = "use a ResourceClaimTemplate in the template, so that each pod gets a claim of its own";
            finding(message, advice).with_origin(Origin::object("ResourceClaim", claim)).with_command(claims())
        }
        Rejection::Full(claim) => {
            let message = Sentence::from("devices: resourceclaim ").value(claim).words(" is reserved for ");
            let message = message.number(256).words(" pods, which is the limit");
            let advice = "use a ResourceClaimTemplate in the template, so that each pod gets a claim of its own";
            finding(message, advice).with_origin(Origin::object("ResourceClaim", claim)).with_command(claims())
        }
        Rejection::TooFewDevices { requested, free, all } => {
            let message = message.words("; the pod requests ").number(int(*requested)).words(", and ");
            let message = message.number(int(*free)).words(" of ").number(int(*all)).words(" on the node are free");
            let advice = "free devices of the node, or see that its driver runs there and offers them";
            let finding = finding(message, advice).with_origin(Origin::Node).only_with(TemplatePart::Claims);
            finding.with_command(get("resourceslices"))
        }
    }
}

/// Returns what is not known, in words.
pub fn open_text(open: &Open) -> String {
    match open {
        Open::Unread(kind) => format!("{} were not read", kind.resource()),
        Open::NotAllocated(claim) => {
            format!("only the scheduler knows whether a node has devices that match claim {claim}")
        }
        Open::Resource(resource) => format!(
            "only the scheduler knows whether a node has devices for {resource}, which it does not offer itself"
        ),
        Open::Conditions(claim) => format!("claim {claim} waits for conditions of its devices"),
        Open::AllocatedAgain(claim) => {
            format!("claim {claim} will be allocated again once the pods that use it are replaced")
        }
        Open::NotCreated(name) => format!("{name} does not exist yet"),
    }
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
    let list = Command::kubectl(&["get", "deviceclasses"]);
    Some(finding.with_origin(Origin::object("DeviceClass", class)).with_command(list))
}

/// Finds that the kubelet cannot prepare the devices of a bound pod: `PrepareResources`, pkg/kubelet/cm/dra/manager.go, release 1.37.2.
pub fn preparation_failed(subject: &Subject, node: Option<&Node>, pod: &Pod, events: &[&Event]) -> Option<Finding> {
    let event = events
        .iter()
        .find(|event| event.reason == "FailedPrepareDynamicResources" && event.is_recent(subject.now()))?;
    let said = event.message.trim();
    let message = Sentence::from("the devices of the pod cannot be prepared: ").event(event, subject.now());
    let driver = said.split_once("DRA driver ").and_then(|(_, rest)| rest.split_once(" is not registered"));
    if let Some((driver, _)) = driver {
        let finding = Finding::new(ReasonCode::DeviceClaimUnsatisfied, message, "");
        return Some(
            node_plugin::without_driver(subject.index, node, driver, Lacks::Registration, finding)
                .with_origin(Origin::ControlPlane)
                .only_with(TemplatePart::Claims),
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
            Origin::object("ResourceClaim", claim),
        ),
        None => (
            "check the pod of the driver on the node, and its log".to_owned(),
            Origin::Template(TemplatePart::AskedOfNode),
        ),
    };
    let finding = Finding::new(ReasonCode::DeviceClaimUnsatisfied, message.apart(&advice), advice);
    Some(finding.with_origin(origin).with_command(claims))
}
