//! What admission has made of a pod that its template does not have, or has otherwise. To edit the template is no help then, and no revision
//! is to blame: every rule about a part of a pod says so through [`Change`].

use std::collections::BTreeMap;

use super::admission;
use super::creation_errors::{other_nodes, same_elsewhere};
use super::daemon_set_context::Subject;
use super::finding::{Finding, Lack, Origin, TemplatePart, delete_pod, describe_pod, edit, logs};
use super::fit::NodeRoom;
use super::roles::{has_started, walk};
use super::sentence::Sentence;
use super::webhook;
use crate::facts::controller::DEFAULT_SCHEDULER;
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::{Container, Pod};
use crate::model::quantity::Quantity;
use crate::model::snapshot::{
    LimitRange, LimitRangeItem, NODE_SELECTOR_ANNOTATIONS, Namespace, RuntimeClass, Snapshot,
};
use crate::model::template::Template;
use crate::model::template_parts::{containers, items, references, volumes};
use crate::report::fix::Command;
use crate::report::reason::ReasonCode;
use crate::scheduling::resources::{amount, pod_requests, template_requests};

/// What admission has made of a part of a pod.
struct Change {
    /// The part as the template has it, or that it does not have it, and what admission did.
    words: String,
    /// What to do if the template would be to blame otherwise.
    advice: String,
}

impl Change {
    /// Something that the template does not have, such as `container istio-proxy`.
    fn added(what: &str) -> Self {
        Change {
            words: format!("the template has no {what}: admission adds it"),
            advice: "fix what adds it to pods (a mutating webhook or policy, such as that of a service mesh), or exempt these pods from it: \
                     a rollback does not remove it"
                .to_owned(),
        }
    }

    /// Something that the template has, and what it has become.
    fn made(own: &str, made: &str, advice: &str) -> Self {
        Change { words: format!("the template has {own}: admission made it {made}"), advice: advice.to_owned() }
    }

    /// Adds it to a finding about the part, and replaces advice that would change the template.
    fn applied_to(self, finding: Finding) -> Finding {
        let finding = finding.and(format!("; {}", self.words));
        match finding.origin {
            Origin::Template(TemplatePart::Registry(_)) => finding.with_origin(Origin::ControlPlane),
            Origin::Node | Origin::ControlPlane => finding,
            _ => Finding::new(finding.code, finding.message, self.advice)
                .with_origin(Origin::Admission)
                .with_command(webhook::mutating()),
        }
    }
}

/// Returns the template that a pod was created from, if that is known.
fn template_of<'s>(subject: &'s Subject, pod: &Pod) -> Option<&'s Template> {
    subject.revisions.template_of_pod(pod).filter(|template| template.value()["spec"]["containers"].is_array())
}

/// Adds to a finding about a container whether admission has added the container, or has changed what the finding is about.
pub fn of_container(subject: &Subject, pod: &Pod, container: &Container, finding: Finding) -> Finding {
    let Some(template) = template_of(subject, pod) else { return finding };
    let Some(own) = containers(template.value()).find(|own| own["name"] == container.name) else {
        return of_added_container(subject, pod, &container.name, finding);
    };
    match finding.code {
        ReasonCode::ImagePullFailed => of_image(subject, pod, container, own["image"].as_str(), finding),
        ReasonCode::OOMKilled => of_limit(subject, container, own["resources"]["limits"]["memory"].as_str(), finding),
        _ => finding,
    }
}

/// Adds to a finding about an image that cannot be pulled which image the template has. A webhook may only have put a mirror before a
/// name that is wrong itself, unless it has made another image of it on nodes where the same revision runs.
fn of_image(subject: &Subject, pod: &Pod, container: &Container, own: Option<&str>, finding: Finding) -> Finding {
    let made = container.image.as_str();
    let Some(own) = own.filter(|own| *own != made && finding.message.to_string().contains(made)) else {
        return finding;
    };
    let has_another = |other: &Pod| {
        let mut containers = other.spec.all_containers();
        containers.any(|it| it.name == container.name && it.image != made)
    };
    let works = |other: &Pod| other.is_ready() && other.revision_hash() == pod.revision_hash();
    let advice = "correct what changes it as pods are created (a mutating webhook or policy), then delete the pod: the template is not at \
                  fault, and to edit it replaces all pods";
    let change = Change::made(&format!("image {own}"), made, advice);
    if subject.pods().any(|other| works(other) && has_another(other)) || finding.origin == Origin::Node {
        return change.applied_to(finding);
    }
    let is_of_image = matches!(finding.origin, Origin::Template(TemplatePart::Image(_)));
    let advice =
        finding.advice.clone().words("; or correct what changes it as pods are created (a mutating webhook or policy)");
    let told = finding.and(format!("; {}", change.words)).with_advice(advice);
    if is_of_image { told.with_origin(Origin::Template(TemplatePart::Image(own.to_owned()))) } else { told }
}

/// Adds to a finding about a memory limit what has set it, if that is not the template.
fn of_limit(subject: &Subject, container: &Container, own: Option<&str>, finding: Finding) -> Finding {
    let Some(limit) = container.resources.limits.get("memory") else { return finding };
    let of_range =
        || limit_range(subject, |item| item.default.get("memory"), |default| default.nanos() == limit.nanos());
    let change = match own {
        Some(own) if Quantity::new(own).nanos() == limit.nanos() => return finding,
        Some(own) => Change::made(
            &format!("memory limit {own}"),
            &limit.text,
            "change what sets it when pods are created (a VerticalPodAutoscaler or another mutating webhook): editing the template has no \
             effect",
        ),
        None => match of_range() {
            Some(range) => {
                let name = &range.name;
                return finding
                    .and(format!("; the template has none: limitrange {name} sets this by default"))
                    .with_advice(format!(
                        "set the memory limit that the container needs in the template, or change limitrange {name}"
                    ));
            }
            None => Change::added("memory limit"),
        },
    };
    change.applied_to(finding)
}

/// Returns the LimitRange of the namespace one of whose defaults for containers is that.
fn limit_range<'s>(
    subject: &'s Subject,
    default: impl Fn(&LimitRangeItem) -> Option<&Quantity>,
    is_it: impl Fn(&Quantity) -> bool,
) -> Option<&'s ObjectMeta> {
    let sets = |range: &&LimitRange| {
        let mut items = range.spec.limits.iter().filter(|item| item.type_ == "Container");
        range.metadata.namespace == subject.daemon_set.metadata.namespace
            && items.any(|item| default(item).is_some_and(&is_it))
    };
    subject.index.snapshot.limit_ranges.iter().find(sets).map(|range| &range.metadata)
}

/// Adds to a finding that admission has added its container: the same pod may run with it on other nodes.
fn of_added_container(subject: &Subject, pod: &Pod, container: &str, finding: Finding) -> Finding {
    let is_of_container =
        !matches!(finding.origin, Origin::Node | Origin::ControlPlane | Origin::Template(TemplatePart::Registry(_)));
    let told = Change::added(&format!("container {container}")).applied_to(finding);
    let runs = |other: &&Pod| walk(other).any(|(_, it, status)| it.name == container && status.is_none_or(has_started));
    let nodes = match told.code {
        _ if !is_of_container => return told,
        // A new pod has the same limit.
        ReasonCode::OOMKilled => 0,
        _ => same_elsewhere(subject, pod).filter(runs).count(),
    };
    if nodes > 0 {
        let advice = format!(
            "delete the pod, so that it is created again: on {} the same pod runs with this container; if it fails again, compare the \
             node with those",
            other_nodes(nodes)
        );
        return told.with_advice(advice).with_origin(Origin::Node).with_command(delete_pod(pod));
    }
    let has_log = matches!(told.code, ReasonCode::CrashLooping | ReasonCode::ReadinessFailing);
    told.with_command(if has_log { logs(subject, pod, container, false) } else { describe_pod(pod) })
}

/// Volumes whose messages name a PersistentVolume, or one that the kubelet makes up, instead of the volume.
const NAMED_OTHERWISE: [&str; 9] = [
    "persistentVolumeClaim",
    "ephemeral",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cinder",
    "gcePersistentDisk",
    "portworxVolume",
    "vsphereVolume",
];

/// Adds to a finding about a volume whether admission has added it to the pod. The admission plugin of service accounts adds one to every pod.
pub fn of_volume(subject: &Subject, pod: &Pod, volume: &str, finding: Finding) -> Finding {
    let Some(template) = template_of(subject, pod) else { return finding };
    let is_own = volumes(template.value())
        .any(|own| own["name"] == volume || NAMED_OTHERWISE.iter().any(|kind| own[kind].is_object()));
    match is_own || volume.starts_with("kube-api-access-") {
        true => finding,
        false => Change::added(&format!("volume {volume}")).applied_to(finding),
    }
}

/// Adds to a finding about a profile of the node that admission has added it to the pod.
pub fn of_profile(finding: Finding) -> Finding {
    Change::added("profile of type Localhost").applied_to(finding.with_origin(Origin::Admission))
}

/// A list in the spec of a pod, the field by which its entries are told apart, and what they are called.
pub type EntriesOf = (&'static str, &'static str, &'static str);

pub const SCHEDULING_GATES: EntriesOf = ("schedulingGates", "name", "scheduling gate");
pub const READINESS_GATES: EntriesOf = ("readinessGates", "conditionType", "readiness gate");

/// Adds to a finding about a gate of a pod whether admission has added it.
pub fn of_gate(subject: &Subject, pod: &Pod, (list, key, noun): EntriesOf, gate: &str, finding: Finding) -> Finding {
    let Some(template) = template_of(subject, pod) else { return finding };
    match items(&template.value()["spec"], list).any(|own| own[key] == gate) {
        true => finding,
        false => Change::added(&format!("{noun} {gate}")).applied_to(finding),
    }
}

/// Adds to a finding about the scheduler of a pod whether admission has changed it.
pub fn of_scheduler(subject: &Subject, pod: &Pod, finding: Finding) -> Finding {
    let Some(template) = template_of(subject, pod) else { return finding };
    let own = template.value()["spec"]["schedulerName"].as_str().unwrap_or(DEFAULT_SCHEDULER);
    match own == pod.spec.scheduler_name || pod.spec.scheduler_name.is_empty() {
        true => finding,
        false => {
            let advice =
                "start that scheduler, or correct what sets it as pods are created (a mutating webhook or policy)";
            Change::made(&format!("schedulerName {own}"), &pod.spec.scheduler_name, advice).applied_to(finding)
        }
    }
}

/// Adds to a finding about the RuntimeClass of a pod whether admission has added it.
pub fn of_runtime_class(subject: &Subject, pod: &Pod, finding: Finding) -> Finding {
    let own = template_of(subject, pod).map(|template| template.value()["spec"]["runtimeClassName"].as_str());
    match (own, &pod.spec.runtime_class_name) {
        (Some(None), Some(class)) => Change::added(&format!("runtimeClassName {class}")).applied_to(finding),
        _ => finding,
    }
}

/// Adds to a finding about a missing ConfigMap or Secret that the template does not name it, if so.
pub fn of_object(subject: &Subject, pod: &Pod, (kind, name): (&str, &str), finding: Finding) -> Finding {
    let names = |template: &Template| {
        let of_kind = |of: &str| of.eq_ignore_ascii_case(kind);
        references(template.value()).iter().any(|it| of_kind(it.kind) && it.name == name)
    };
    match template_of(subject, pod) {
        Some(template) if !names(template) => Change::added(&format!("reference to {kind} {name}")).applied_to(finding),
        _ => finding,
    }
}

/// Adds to a finding about a pod that requests more of a resource than its template that admission has raised it, if there is room for
/// what the template requests.
pub fn raised_request(subject: &Subject, room: &NodeRoom<'_>, pod: &Pod, resource: &str, finding: Finding) -> Finding {
    let Some(template) = subject.revisions.template_of_pod(pod) else { return finding };
    let of_template = template_requests(&subject.daemon_set.with_template(template).spec.template.spec);
    let own = of_template.get(resource).copied().unwrap_or(0);
    let overhead = pod.spec.overhead.get(resource).map_or(0, |quantity| amount(resource, quantity));
    let requested = pod_requests(pod).get(resource).copied().unwrap_or(0).saturating_sub(overhead);
    // What the template asks for may be too much by itself.
    let is_too_much = || room.shortages(&of_template).iter().any(|(short, _)| short == resource);
    // There will be room for what it requests.
    let is_other = finding.waits_for_leaving || finding.origin == Origin::Room(Lack::BesideOldPod);
    if requested <= own || is_other || (own > 0 && is_too_much()) {
        return finding;
    }
    let of_containers = |default: &Quantity| {
        let mut own = pod.spec.containers.iter().filter_map(|container| container.resources.requests.get(resource));
        own.any(|own| own.nanos() == default.nanos())
    };
    let range = limit_range(subject, |item| item.default_request.get(resource), of_containers).filter(|_| own == 0);
    let message = match own {
        0 => finding.message.words("; the template requests none: "),
        _ => finding.message.words("; the template requests ").amount(resource, own).words(": "),
    };
    let (by, advice, origin) = match range {
        // A template with a request of its own may fit.
        Some(range) => (
            format!("limitrange {} sets this by default", range.name),
            format!(
                "set the {resource} request that the pods need in the template, or change limitrange {} and delete the pod, which keeps its request",
                range.name
            ),
            finding.origin,
        ),
        None if own > 0 => (
            "admission made it more".to_owned(),
            "limit what raises the request as pods are created (maxAllowed of a VerticalPodAutoscaler, or another mutating webhook), and delete the \
             pod, which keeps its request"
                .to_owned(),
            Origin::Admission,
        ),
        None => {
            let adds = match resource {
                "vpc.amazonaws.com/pod-eni" => "the SecurityGroupPolicy that selects them",
                _ => "what adds it (a mutating webhook, or a LimitRange, whose default a request in the template replaces)",
            };
            ("admission adds this".to_owned(), format!("exempt these pods from {adds}, and delete the pod, which keeps its request"), Origin::Admission)
        }
    };
    let advice = Sentence::from(advice);
    let advice = match finding.code {
        ReasonCode::NeverFits => {
            advice.words(", or ").then(room.exclude_or_add(resource, requested.saturating_add(overhead)))
        }
        _ => advice.words(format!(", or free {resource} on the node")),
    };
    let describe = Command::kubectl(&["describe", "limitrange"]);
    let describe = range.map(|range| describe.namespace(&range.namespace).name(&range.name));
    Finding::new(finding.code, message.words(by), advice).with_origin(origin).with_command(describe)
}

/// Finds a node selector that the pod has, its template does not have, and the node does not match.
pub fn injected_node_selector(
    snapshot: &Snapshot,
    daemon_set: &DaemonSet,
    node: &Node,
    node_selector: &BTreeMap<String, String>,
) -> Option<Finding> {
    let template = &daemon_set.spec.template.spec;
    let injected: Vec<(&str, &str)> = node_selector
        .iter()
        .filter(|(key, value)| node.metadata.labels.get(*key) != Some(value))
        .filter(|(key, value)| template.node_selector.get(*key) != Some(value))
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    if injected.is_empty() {
        return None;
    }
    let pairs: Vec<String> = injected.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let adds = |class: &&RuntimeClass| {
        let added = class.scheduling.as_ref().map(|scheduling| &scheduling.node_selector);
        added.is_some_and(|added| injected.iter().any(|(key, _)| added.contains_key(*key)))
    };
    let class = admission::runtime_class(snapshot, template).filter(adds).map(|class| &class.metadata.name);
    // Where no class was read, the one that the template names is the first to look at.
    let unread = template.runtime_class_name.as_ref().filter(|_| snapshot.runtime_classes.is_empty());
    let namespace = &daemon_set.metadata.namespace;
    let (by, advice, command) = match (class, unread.filter(|_| !is_of_namespace(snapshot, namespace, &pairs))) {
        (Some(class), _) => (
            format!("runtime class {class}"),
            "add the same nodeSelector to the template, so that the node is not eligible".to_owned(),
            edit(daemon_set),
        ),
        (None, Some(class)) => (
            format!("admission (runtime class {class}, or the namespace)"),
            format!(
                "see whether runtime class {class}, which the template names, adds it (scheduling.nodeSelector): if so, add the same \
                 nodeSelector to the template, so that the node is not eligible"
            ),
            Command::kubectl(&["get", "runtimeclass", "-o", "yaml"]).name(class),
        ),
        (None, None) => (
            "admission".to_owned(),
            selector_of_namespace(snapshot, namespace, &pairs),
            Command::kubectl(&["get", "namespace", "-o", "yaml"]).name(namespace),
        ),
    };
    let message = format!("{by} added nodeSelector {} to the pod, which the node does not match", pairs.join(","));
    Some(Finding::new(ReasonCode::InjectedNodeSelector, message, advice).with_command(command))
}

/// Returns what helps with a node selector that a namespace adds to its pods: OpenShift takes its own annotation or the cluster's
/// default, and the plugin PodNodeSelector the other one or its configuration.
fn selector_of_namespace(snapshot: &Snapshot, namespace: &str, pairs: &[String]) -> String {
    const IN_TEMPLATE: &str = "put the selector into the template, so that the node is not eligible";
    let [of_openshift, of_plugin] = NODE_SELECTOR_ANNOTATIONS;
    let anywhere =
        format!("if the DaemonSet is to run anywhere, set {of_openshift} to \"\" there and delete the pending pods");
    let Some(found) = snapshot.namespaces.iter().find(|it| it.metadata.name == namespace) else {
        return format!(
            "see which annotation of the namespace has it: {of_openshift}, which may be set to \"\", or {of_plugin}; or {IN_TEMPLATE}"
        );
    };
    match NODE_SELECTOR_ANNOTATIONS.into_iter().find(|annotation| has_selector(found, annotation, pairs)) {
        Some(annotation) if annotation == of_openshift => {
            format!("annotation {of_openshift} of namespace {namespace} has it: {IN_TEMPLATE}; {anywhere}")
        }
        Some(_) => format!(
            "annotation {of_plugin} of namespace {namespace} has it: {IN_TEMPLATE}; if the DaemonSet is to run anywhere, move it \
             to a namespace without it"
        ),
        // Both are read when a pod is created, and OpenShift's own one replaces its default.
        None if found.metadata.annotations.contains_key(of_openshift) => format!(
            "no annotation of namespace {namespace} has it now: delete the pending pod, which may be older than the annotation; if the \
             new one has it, too, a mutating webhook or the configuration of the API server adds it"
        ),
        None => format!(
            "no annotation of namespace {namespace} has it, so the default of the cluster or a mutating webhook adds it: \
             {IN_TEMPLATE}; on OpenShift, {anywhere}"
        ),
    }
}

/// Returns whether an annotation of a namespace is known to have one of these selectors.
fn is_of_namespace(snapshot: &Snapshot, namespace: &str, pairs: &[String]) -> bool {
    let found = snapshot.namespaces.iter().find(|it| it.metadata.name == namespace);
    found.is_some_and(|found| NODE_SELECTOR_ANNOTATIONS.iter().any(|annotation| has_selector(found, annotation, pairs)))
}

fn has_selector(namespace: &Namespace, annotation: &str, pairs: &[String]) -> bool {
    let selector = namespace.metadata.annotations.get(annotation);
    selector.is_some_and(|selector| selector.split(',').any(|pair| pairs.iter().any(|added| added == pair.trim())))
}
