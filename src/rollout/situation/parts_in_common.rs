//! Causes unrelated to the current revision: the part of the template in question is the same in the revision to roll back to,
//! whose pods would fail in the same way if they started now, although those that started earlier are available.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{RolloutNode, Situation};
use crate::coverage::stale_config::last_changes;
use crate::coverage::{Origin, Step, TemplatePart, admitted, registry};
use crate::difference::{self, difference, is_restart};
use crate::model::config_object::ConfigUse;
use crate::model::mounted_paths::Mounted;
use crate::model::pod::PodSpec;
use crate::model::quantity::Quantity;
use crate::model::template::Template;
use crate::model::template_parts::{containers, items, volumes};
use crate::report::change::{Change, PathStep};
use crate::report::reason::ReasonCode;
use crate::scheduling::critical::{SYSTEM_CRITICAL, has_priority};
use crate::scheduling::ports::needs_more_ports;
use crate::scheduling::resources::{exact_limits, template_requests};
use crate::scheduling::should_run::DaemonPod;

/// The fields that affect the pulling of an image, besides its name.
const PULL: [&str; 3] = ["imagePullPolicy", "imagePullSecrets", "serviceAccountName"];

/// The fields of a container on which its sandbox does not depend.
const INSIDE: [&str; 11] = [
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "env",
    "envFrom",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "volumeMounts",
];

/// The fields of a container that do not matter before it runs.
const RUNNING: [&str; 7] =
    ["imagePullPolicy", "env", "envFrom", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];

/// The fields of a container that tell its program what to do.
const TOLD: [&str; 4] = ["command", "args", "env", "envFrom"];

/// The fields of a pod of which its containers notice nothing.
const UNNOTICED: [&str; 5] = [
    "imagePullSecrets",
    "preemptionPolicy",
    "schedulerName",
    "terminationGracePeriodSeconds",
    "topologySpreadConstraints",
];

/// The fields that decide which nodes get a pod.
const PLACES: [&str; 3] = ["affinity", "nodeSelector", "tolerations"];

/// How the keys of annotations begin that repeat what is elsewhere, or are read by monitoring alone.
const NOTES: [&str; 2] = ["checksum/", "prometheus.io/"];

/// The fields of a volume that is attached to its node.
const ATTACHED: [&str; 3] = ["persistentVolumeClaim", "ephemeral", "csi"];

/// The fields that decide for which account a pod has a token.
const ACCOUNT: [&str; 3] = ["serviceAccountName", "serviceAccount", "automountServiceAccountToken"];

/// The fields on which rules about other pods depend: the nodes that they count follow from the pod's own.
const OF_OTHER_PODS: [&str; 5] = ["affinity", "topologySpreadConstraints", "labels", "nodeSelector", "tolerations"];

/// Returns whether a part of the template is the same in the revision to roll back to; `false` if there is none.
pub(super) fn is_in_common(situation: &Situation<'_>, part: &TemplatePart) -> bool {
    let Some((_, template)) = situation.revisions.target() else { return false };
    let changes = || difference(template, &situation.revisions.live);
    match part {
        TemplatePart::Image(image) => {
            images(template.value()).any(|one| one == image) && !changes().iter().any(|it| has_field(it, &PULL))
        }
        TemplatePart::Registry(host) => images(template.value()).any(|image| registry(image) == host),
        TemplatePart::AskedOfNode => changes().iter().all(is_of_program),
        // No template names it.
        TemplatePart::Object { kind: "DeviceClass", .. } => is_in_common(situation, &TemplatePart::Claims),
        TemplatePart::Object { kind, name, key } => template.needs(kind, name, key.as_deref()),
        TemplatePart::Requests => !changes().iter().any(|it| has_field(it, &["resources"])),
        TemplatePart::Requested { resource, free } => {
            let fits = |free: i64| {
                let amounts = template_requests(&admitted_as(situation, template));
                amounts.get(resource).is_none_or(|amount| *amount <= free)
            };
            !asks_more(situation, template, |it| it == resource) || !free.is_none_or(fits)
        }
        TemplatePart::Devices => !asks_more(situation, template, |it| it.contains('/')),
        TemplatePart::SchedulingGates => !changes().iter().any(|it| has_field(it, &["schedulingGates"])),
        TemplatePart::Claims => !changes().iter().any(|it| has_field(it, &["resourceClaims", "claims"])),
        TemplatePart::HostPorts => {
            let other = situation.daemon_set.with_template(template).spec.template.spec;
            !needs_more_ports(&situation.daemon_set.spec.template.spec, &other)
        }
        TemplatePart::AttachedVolumes => {
            let attached = |template: &'_ Template| -> BTreeSet<String> {
                let all =
                    volumes(template.value()).filter(|volume| ATTACHED.iter().any(|kind| volume[kind].is_object()));
                all.map(Value::to_string).collect()
            };
            attached(&situation.revisions.live).is_subset(&attached(template))
        }
        TemplatePart::ServiceAccount => !changes().iter().any(|it| has_field(it, &ACCOUNT)),
        TemplatePart::CriticalPriority => {
            let is_critical = |spec: &PodSpec| has_priority(spec, SYSTEM_CRITICAL);
            is_critical(&situation.daemon_set.spec.template.spec) || !is_critical(&admitted_as(situation, template))
        }
        TemplatePart::HostNetwork => {
            let has = |template: &Template| template.value()["spec"]["hostNetwork"] == true;
            has(&situation.revisions.live) || !has(template)
        }
        TemplatePart::Profiles => !changes().iter().any(is_of_profile),
        TemplatePart::NodeSelection => {
            let is_new = |it: &Change| it.to.is_some() && has_field(it, &["affinity", "nodeSelector"]);
            !changes().iter().any(is_new) || !runs_on_the_same(situation, template)
        }
        TemplatePart::Volume(name) => {
            let is_of_volume = |change: &Change| entry_of(change) == Some(("volumes", name.as_str()));
            volumes(template.value()).any(|volume| volume["name"] == *name) && !changes().iter().any(is_of_volume)
        }
        TemplatePart::Sandbox => {
            // A program may be told with whom it is to connect.
            let is_crash = |node: &RolloutNode<'_>| {
                node.code() == Some(ReasonCode::CrashLooping) && node.origin() == Some(&Origin::Template(part.clone()))
            };
            let of_program = situation.nodes.iter().any(is_crash);
            changes().iter().all(|it| is_inside_container(it) && !(of_program && has_field(it, &TOLD)))
        }
        // Besides the runtime class, the namespace adds a nodeSelector.
        TemplatePart::RuntimeClass => !changes().iter().any(|it| has_field(it, &["runtimeClassName"])),
        // One more container may have taken it, or one that is told to use the same.
        TemplatePart::Port(address)
            if [template, &situation.revisions.live].iter().all(|it| listens_on(it, address)) =>
        {
            let port = address.rsplit_once(':').map_or(address.as_str(), |(_, port)| port);
            let names_it = |it: &Change| it.to.as_ref().is_some_and(|to| names_number(&to.to_string(), port));
            let is_beside = |it: &Change| is_inside_container(it) || is_unnoticed(situation, template, it);
            changes().iter().all(|it| is_beside(it) && !(has_field(it, &TOLD) && names_it(it)))
        }
        TemplatePart::BesideImage => {
            let is_told = |it: &Change| has_field(it, &TOLD) || has_field(it, &["volumeMounts"]);
            let changes = changes();
            let is_beside = |it: &Change| is_inside_container(it) || is_unnoticed(situation, template, it);
            changes.iter().all(|it| !is_told(it) && is_beside(it))
        }
        TemplatePart::Mounted { container, path, exists } => {
            let mut init = items(&situation.revisions.live.value()["spec"], "initContainers");
            let is_init = init.any(|it| it["name"] == *container);
            let part = match is_init {
                true => TemplatePart::Container(container.clone(), Step::First),
                false => TemplatePart::Anything,
            };
            // A program may serve a socket itself.
            let is_of_image =
                |it: &Change| entry_of(it).is_some_and(|(_, name)| name == container) && has_field(it, &["image"]);
            let may_serve = *exists && difference(template, &situation.revisions.live).iter().any(is_of_image);
            (!may_serve && finds_the_same(situation, template, container, path)) || is_in_common(situation, &part)
        }
        TemplatePart::OtherPods => !changes().iter().any(|it| has_field(it, &OF_OTHER_PODS)),
        TemplatePart::Scheduler => situation.raised().scheduler != Some(true),
        TemplatePart::Port(_) | TemplatePart::Container(..) | TemplatePart::Anything => {
            let changes = changes();
            let is_apart = |change: &Change| match part {
                TemplatePart::Container(name, step) => is_apart(situation, change, name, *step),
                _ => false,
            };
            let starts = matches!(part, TemplatePart::Container(_, Step::Pull | Step::Start));
            // What a restart shows is told on its own.
            (starts || !changes.iter().all(is_restart))
                && changes.iter().all(|it| is_apart(it) || is_unnoticed(situation, template, it))
        }
    }
}

/// Returns whether a container of either revision is to use a path by its template, where the same is mounted: whether that is there does not
/// depend on the revision.
fn finds_the_same(situation: &Situation<'_>, template: &Template, container: &str, path: &str) -> bool {
    let live = situation.revisions.live.value();
    let both = Mounted::at(template.value(), container, path).zip(Mounted::at(live, container, path));
    let Some((before, now)) = both.filter(|(before, now)| before.is_same(now)) else { return false };
    let changes = difference(template, &situation.revisions.live);
    // Pods of the other revision may not run on these nodes.
    let is_place = |change: &Change| has_field(change, &PLACES);
    if changes.iter().any(is_place) && !runs_on_the_same(situation, template) {
        return false;
    }
    // Another container may provide it, also one that only the other revision has.
    let uses_it = |name: &str| {
        containers(live)
            .chain(containers(template.value()))
            .any(|it| it["name"] == name && items(it, "volumeMounts").any(|mount| mount["name"] == now.volume()))
    };
    let may_matter = |change: &Change| match entry_of(change) {
        Some(("volumes", name)) => name == now.volume(),
        Some((_, name)) => name != container && uses_it(name),
        None => false,
    };
    if changes.iter().any(may_matter) {
        return false;
    }
    let is_told = |change: &Change| has_field(change, &TOLD);
    let both_name = |is_named: &dyn Fn(&Mounted<'_>) -> bool| is_named(&before) && is_named(&now);
    // A new program may look for another file there, unless it is the object that is new.
    let is_new = |(kind, name)| may_be_newer(situation, kind, name);
    both_name(&|it| it.is_named(path))
        || (both_name(&|it| it.is_directory_named(path))
            && !changes.iter().any(is_told)
            && now.of_object().is_some_and(is_new))
}

/// Returns whether an object was changed since the older pods that work were created; `false` if it was not read.
fn may_be_newer(situation: &Situation<'_>, kind: &str, name: &str) -> bool {
    let is_it = |(used, _): &&(ConfigUse, Timestamp)| used.kind.api_names().1 == kind && used.name == name;
    let changes = last_changes(situation);
    let Some((_, changed)) = changes.iter().find(is_it) else { return false };
    let working = situation.nodes.iter().filter(|node| node.old_is_available).filter_map(|node| node.old);
    let mut created = working.filter_map(|pod| pod.metadata.creation_timestamp.get());
    created.all(|created| created < *changed)
}

/// Returns the list of the pod's spec in which a change is, and the name of its entry.
fn entry_of(change: &Change) -> Option<(&str, &str)> {
    let [_, PathStep::Field(list), PathStep::Entry(entry), ..] = change.path.0.as_slice() else { return None };
    Some((list, entry))
}

/// Returns whether pods are on the network of their nodes, and have the port of an address in the template: declared, or in an argument or
/// a variable; or probed at that address, at which they must have listened to become ready.
fn listens_on(template: &Template, address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let Ok(number) = port.parse::<u64>() else { return false };
    let has = |value: &Value| value.as_u64() == Some(number);
    let at_home = |host: &str| match host.trim_matches(['[', ']']) {
        "localhost" | "::1" => "127.0.0.1".to_owned(),
        other => other.to_owned(),
    };
    let is_host = |probed: &Value| probed.as_str().is_some_and(|probed| at_home(probed) == at_home(host));
    let is_declared = |entry: &Value| ["containerPort", "hostPort"].iter().any(|name| has(&entry[name]));
    let mut ports = containers(template.value()).flat_map(|container| items(container, "ports"));
    let is_probed = |container: &Value| {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].iter().map(|probe| &container[probe]);
        let mut by = probes.flat_map(|probe| ["httpGet", "tcpSocket"].map(|by| &probe[by]));
        by.any(|by| has(&by["port"]) && is_host(&by["host"]))
    };
    template.value()["spec"]["hostNetwork"] == true
        && (ports.any(is_declared)
            || containers(template.value()).any(is_probed)
            || template.texts().into_iter().any(|text| names_number(text, port)))
}

/// Returns whether a text has a number, and not only its digits in another one.
fn names_number(text: &str, number: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit()).any(|one| one == number)
}

/// Returns whether a container is given annotations of its pod. Without a prefix, their keys are private to users: no other program reads
/// them.
fn reads_annotations(template: &Template) -> bool {
    template.texts().into_iter().any(|text| text.starts_with("metadata.annotations"))
}

/// Returns the spec of a pod of another template once it is admitted.
fn admitted_as(situation: &Situation<'_>, template: &Template) -> PodSpec {
    admitted(situation.index.snapshot, &situation.daemon_set.with_template(template)).spec
}

/// Returns whether the current revision requests more of such resources, or has limits of them that are higher or that the other one lacks,
/// as guaranteed pods have.
fn asks_more(situation: &Situation<'_>, template: &Template, is_it: impl Fn(&str) -> bool) -> bool {
    let (live, other) = (admitted_as(situation, &situation.revisions.live), admitted_as(situation, template));
    let (requests, had) = (template_requests(&live), template_requests(&other));
    let (limits, limited) = (exact_limits(&live), exact_limits(&other));
    requests.iter().any(|(resource, amount)| is_it(resource) && had.get(resource).is_none_or(|had| amount > had))
        || limits.iter().any(|(resource, limit)| is_it(resource) && limited.get(resource).is_none_or(|had| limit > had))
}

/// Returns whether a change is to a profile, in the fields or in the annotations that they have replaced.
fn is_of_profile(change: &Change) -> bool {
    let is_key = |step: &PathStep| {
        matches!(step, PathStep::Entry(key) | PathStep::Field(key)
            if ["apparmor.security.", "seccomp.security."].iter().any(|words| key.contains(words)))
    };
    const FIELDS: [&str; 2] = ["appArmorProfile", "seccompProfile"];
    // The whole security context may be new.
    let holds =
        |value: &Option<Value>| value.as_ref().is_some_and(|it| FIELDS.iter().any(|name| it.get(name).is_some()));
    has_field(change, &FIELDS) || change.path.0.iter().any(is_key) || holds(&change.from) || holds(&change.to)
}

/// Returns whether a change is inside another container than one with this name, and the two share no volume. What an init container changes,
/// such as routes, the later ones find.
fn is_of_another(situation: &Situation<'_>, change: &Change, name: &str) -> bool {
    let live = situation.revisions.live.value();
    let mounted = |name: &str| -> BTreeSet<&str> {
        let own = containers(live).filter(|it| it["name"] == name).flat_map(|it| items(it, "volumeMounts"));
        own.filter_map(|mount| mount["name"].as_str()).collect()
    };
    let is_alone = |other: &str| other != name && mounted(other).is_disjoint(&mounted(name));
    is_inside_container(change)
        && !has_field(change, &["volumeMounts"])
        && entry_of(change).is_some_and(|(list, other)| list == "containers" && is_alone(other))
}

/// Returns whether a change is inside a container and does not matter to another one, or to the same, at a step.
fn is_apart(situation: &Situation<'_>, change: &Change, name: &str, step: Step) -> bool {
    let spec = &situation.revisions.live.value()["spec"];
    let mut order = items(spec, "initContainers").chain(items(spec, "containers")).map(|it| &it["name"]);
    let Some((list, other)) = entry_of(change).filter(|_| is_inside_container(change)) else { return false };
    let mut is_before = |other: &str| order.find(|it| **it == name || **it == other).is_some_and(|it| it == other);
    match step {
        Step::Pull => other != name || !(has_field(change, &["image"]) || has_field(change, &PULL)),
        Step::Start if is_beside_start(change) => true,
        Step::Start => other != name && (list == "containers" || !is_before(other)),
        Step::First => other != name && !is_before(other),
        Step::Alone => is_of_another(situation, change, name),
    }
}

/// Returns whether pods of the revision to roll back to are the same: the current one only restarts them.
pub(super) fn only_restarts(situation: &Situation<'_>) -> bool {
    let Some((_, template)) = situation.revisions.target() else { return false };
    difference::only_restarts(template, &situation.revisions.live)
}

/// Returns the images of the containers and volumes of a template.
fn images(template: &Value) -> impl Iterator<Item = &str> {
    let of_containers = containers(template).map(|container| &container["image"]);
    let of_volumes = volumes(template).map(|volume| &volume["image"]["reference"]);
    of_containers.chain(of_volumes).filter_map(Value::as_str)
}

fn has_field(change: &Change, names: &[&str]) -> bool {
    change.path.0.iter().any(|step| matches!(step, PathStep::Field(name) if names.contains(&name.as_str())))
}

/// Returns whether a change is to what a container runs, which needs nothing from its node.
fn is_of_program(change: &Change) -> bool {
    is_inside_container(change) && !has_field(change, &["volumeMounts"]) && !is_read_before(change)
}

/// Returns whether a change is to what a container has beside what it is started from.
fn is_beside_start(change: &Change) -> bool {
    let is_of_program = is_inside_container(change) && has_field(change, &RUNNING);
    (is_of_program && !is_read_before(change)) || is_restart(change)
}

/// Returns whether the containers of a pod notice nothing of a change, on the nodes where they run.
fn is_unnoticed(situation: &Situation<'_>, template: &Template, change: &Change) -> bool {
    let field = |step: &PathStep| match step {
        PathStep::Field(name) | PathStep::Entry(name) => name.clone(),
        _ => String::new(),
    };
    let path: Vec<String> = change.path.0.iter().map(field).collect();
    let mut values = [&change.from, &change.to].into_iter().flatten();
    if path.last().is_some_and(|name| values.all(|value| is_default(name, value))) {
        return true;
    }
    match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["spec", "containers" | "initContainers", _, field @ ..] if gives_more(field, change) => true,
        ["spec", field, ..] if UNNOTICED.contains(field) => true,
        ["spec", field, ..] if PLACES.contains(field) => runs_on_the_same(situation, template),
        ["spec", "containers" | "initContainers", _, "terminationMessagePath" | "terminationMessagePolicy"] => true,
        ["metadata", "annotations", key] => {
            let is_private =
                !key.contains('/') && !reads_annotations(template) && !reads_annotations(&situation.revisions.live);
            is_private || NOTES.iter().any(|begin| key.starts_with(begin)) || is_restart(change)
        }
        _ => false,
    }
}

/// Returns whether a container only gets more by a change to one of its fields: resources, or time to pass its probes.
fn gives_more(field: &[&str], change: &Change) -> bool {
    let (from, to) = (change.from.as_ref(), change.to.as_ref());
    let amount = |value: Option<&Value>| match value {
        Some(Value::String(text)) => Quantity::new(text.as_str()).nanos(),
        Some(value) => Quantity::new(value.to_string()).nanos(),
        None => None,
    };
    let is_more = || amount(from).zip(amount(to)).is_some_and(|(from, to)| from < to);
    match field {
        ["resources", "limits", "cpu" | "memory"] if to.is_none() => true,
        ["resources", "requests"] | ["resources", "requests", "cpu" | "memory"] if from.is_none() => true,
        ["resources", "limits" | "requests", "cpu" | "memory" | "ephemeral-storage"] => is_more(),
        ["livenessProbe" | "readinessProbe"] => to.is_none(),
        // A pod waits for the others to pass.
        ["livenessProbe", "initialDelaySeconds" | "periodSeconds"] => from.is_none() || is_more(),
        ["livenessProbe" | "readinessProbe" | "startupProbe", "timeoutSeconds" | "failureThreshold"] => is_more(),
        _ => false,
    }
}

/// Returns whether a value is what containers have without it: releases differ in whether they set it in templates.
fn is_default(name: &str, value: &Value) -> bool {
    match (name, value) {
        (_, Value::Object(fields)) => fields.iter().all(|(name, value)| is_default(name, value)),
        (_, Value::Array(items)) => items.iter().all(|item| is_default(name, item)),
        ("enableServiceLinks", value) => *value == true,
        ("procMount", value) => value == "Default",
        // Of a `resizePolicy`.
        ("resourceName", _) => true,
        ("restartPolicy", value) => value == "NotRequired",
        _ => false,
    }
}

/// Returns whether another template would run on each node that has a pod of the current one.
fn runs_on_the_same(situation: &Situation<'_>, template: &Template) -> bool {
    let before = situation.daemon_set.with_template(template);
    let pod = DaemonPod::new(&before.spec.template);
    let mut updated = situation.nodes.iter().filter(|node| node.updated.is_some());
    updated.all(|node| node.object.is_some_and(|node| pod.decide(node).should_run))
}

/// Returns whether a change is to variables that the kubelet has to resolve, or by which a container may request devices of its runtime.
fn is_read_before(change: &Change) -> bool {
    let requests = |name: &str| ["DEVICE", "GPU", "NVIDIA", "CUDA"].iter().any(|words| name.contains(words));
    let is_variable = |step: &PathStep| matches!(step, PathStep::Entry(name) if requests(name));
    let is_resolved = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value["valueFrom"].is_null());
    let is_whole = matches!(change.path.0.last(), Some(PathStep::Field(name)) if name == "env");
    is_whole
        || is_resolved(&change.from)
        || is_resolved(&change.to)
        || has_field(change, &["envFrom", "valueFrom"])
        || change.path.0.iter().any(is_variable)
}

/// Returns whether a change is inside a container, or to metadata that no network plugin reads.
fn is_inside_container(change: &Change) -> bool {
    match change.path.0.as_slice() {
        [_, PathStep::Field(list), PathStep::Entry(_), PathStep::Field(name), ..] => {
            matches!(list.as_str(), "containers" | "initContainers") && INSIDE.contains(&name.as_str())
        }
        _ => is_restart(change),
    }
}
