//! Warnings about ResourceQuotas that new pods would exceed even though the pods that they replace free their share:
//! the controller would stop in the middle of the rollout.

use std::collections::BTreeMap;

use super::replacement_warnings::Replacement;
use super::set;
use super::situation::Situation;
use crate::coverage::admitted;
use crate::facts::revisions::name_of;
use crate::model::amounts::{Exact, exact, is_hugepages, is_pod_level};
use crate::model::int_or_percent::IntOrPercent;
use crate::model::pod::{Pod, PodSpec, ResourceRequirements};
use crate::model::quantity::Quantity;
use crate::model::resource_quota::{ResourceQuota, ResourceQuotaStatus, ScopedRequirement};
use crate::plan::SpecFields;
use crate::report::fix::{Command, Fix};
use crate::report::plan::{Warning, WarningCode};
use crate::scheduling::resources::{exact_limits, exact_requests, format_amount};
use crate::scheduling::rolling_update::allows_surge;

/// The resource that counts all pods, including terminated ones.
const OBJECT_COUNT: &str = "count/pods";

/// One unit in exact amounts.
const ONE: i128 = 1_000_000_000;

/// Warns about the quota that allows the fewest of the pods to be replaced; nothing if the quotas were not read.
pub(super) fn quota_warning(
    situation: &Situation<'_>,
    replacement: &Replacement<'_>,
    replaced: &[(&str, &Pod)],
) -> Option<Warning> {
    let surges = replacement.by_controller && allows_surge(replacement.after);
    let shortage = shortage(own(situation), situation, replacement, replaced, surges)?;
    let Shortage { quota, resource, allowed, new, old } = &shortage;
    let after = match (allowed, replaced.len()) {
        (0, _) => String::new(),
        (allowed, all) => format!(" after {allowed} of {all}"),
    };
    let amount = |amount: &i128| {
        let base = resource.trim_start_matches("requests.").trim_start_matches("limits.");
        let unit = if base == "cpu" { ONE / 1_000 } else { ONE };
        format_amount(base, i64::try_from(amount / unit).unwrap_or(i64::MAX))
    };
    let gives_back = match (surges, old) {
        (true, _) => " beside the old one".to_owned(),
        (false, 0) => String::new(),
        (false, old) => format!(", and the old one gives back {}", amount(old)),
    };
    let text = |amounts: &BTreeMap<String, Quantity>| {
        amounts.get(resource.as_str()).map_or_else(|| "0".to_owned(), |quantity| quantity.text.to_string())
    };
    let message = format!(
        "quota {} would refuse new pods{after}: {} of {} {resource} are used; a new pod takes {}{gives_back}",
        quota.metadata.name,
        text(&quota.status.used),
        text(&quota.status.hard),
        amount(new)
    );
    let describe = Command::kubectl(&["describe", "resourcequota"]).namespace(&quota.metadata.namespace);
    let name = name_of(replacement.after);
    let fix = match surges && self::shortage(own(situation), situation, replacement, replaced, false).is_none() {
        true => {
            let fields = SpecFields { max_unavailable: Some(IntOrPercent::Int(1)), ..SpecFields::default() };
            Fix::new("to replace pods one by one instead", set::command(&name, fields))
        }
        false => Fix::new("raise it before, or free some of it", describe.name(&quota.metadata.name)),
    };
    Some(Warning { fix: Some(fix), ..Warning::new(WarningCode::QuotaExceeded, message) })
}

/// Returns whether a quota allows not even the first of the pods to be replaced; `false` if the quotas were not read.
pub(super) fn allows_none(situation: &Situation<'_>, replacement: &Replacement<'_>, replaced: &[(&str, &Pod)]) -> bool {
    let surges = replacement.by_controller && allows_surge(replacement.after);
    shortage(own(situation), situation, replacement, replaced, surges).is_some_and(|shortage| shortage.allowed == 0)
}

/// Returns whether the new pods take no more of any quota than the pods that they replace give back, whether quotas were read or not: one of
/// all that they take, of which nothing is left, would allow them.
pub(super) fn takes_no_more(
    situation: &Situation<'_>,
    replacement: &Replacement<'_>,
    replaced: &[(&str, &Pod)],
) -> bool {
    let (new, made) = (&replacement.after.spec.template.spec, admitted(situation.index.snapshot, replacement.after));
    let present = situation.nodes.iter().find_map(|node| node.updated).map(|pod| &pod.spec);
    let names = |spec| {
        let requests = exact_requests(spec, None).into_keys().map(|resource| format!("requests.{resource}"));
        requests.chain(exact_limits(spec).into_keys().map(|resource| format!("limits.{resource}"))).collect::<Vec<_>>()
    };
    let hard = [Some(&made.spec), present].into_iter().flatten().flat_map(names);
    let hard = hard.map(|resource| (resource, Quantity::new("0"))).collect();
    let status = ResourceQuotaStatus { hard, ..ResourceQuotaStatus::default() };
    let used_up = ResourceQuota { status, ..ResourceQuota::default() };
    // A class adds its overhead, and a quota may apply to pods with one priority.
    let is_of_class = |old: &PodSpec| {
        let is_priority = new.priority_class_name.is_empty() || new.priority_class_name == old.priority_class_name;
        is_priority && new.runtime_class_name == old.runtime_class_name
    };
    // What is added to the pods of a template that no pod has is not known.
    let takes_same = |old: &PodSpec| {
        exact_requests(&made.spec, None) == exact_requests(old, None) && exact_limits(&made.spec) == exact_limits(old)
    };
    let is_known = |old: &PodSpec| present.is_some() || takes_same(old);
    replaced.iter().all(|(_, pod)| is_of_class(&pod.spec) && is_known(&pod.spec))
        && shortage([&used_up].into_iter(), situation, replacement, replaced, false).is_none()
}

/// Returns the quotas of the namespace.
fn own<'a>(situation: &Situation<'a>) -> impl Iterator<Item = &'a ResourceQuota> {
    let namespace = &situation.daemon_set.metadata.namespace;
    situation.index.snapshot.resource_quotas.iter().filter(move |quota| quota.metadata.namespace == *namespace)
}

/// A quota that does not allow all pods to be replaced.
struct Shortage<'a> {
    quota: &'a ResourceQuota,
    resource: String,
    /// The number of pods that it allows.
    allowed: usize,
    /// How much of it a new pod uses.
    new: i128,
    /// How much the first old pod that is not replaced frees.
    old: i128,
}

/// What a pod takes, and what else a quota goes by.
struct Taken<'a> {
    requests: Exact<'a>,
    limits: Exact<'a>,
    is_best_effort: bool,
    class: &'a str,
}

impl<'a> Taken<'a> {
    /// Returns what a new pod takes, with all of the API server's defaults, or what one takes that exists.
    fn by(spec: &'a PodSpec, pod: Option<&'a Pod>) -> Self {
        Taken {
            requests: exact_requests(spec, pod),
            limits: exact_limits(spec),
            is_best_effort: is_best_effort(spec),
            class: &spec.priority_class_name,
        }
    }

    /// Returns how much of a resource of a quota; `None` if nothing, or the quota counts something else.
    ///
    /// Ported from `PodUsageFunc` and `podComputeUsageHelper`, pkg/quota/v1/evaluator/core/pods.go, release 1.37.2.
    fn of(&self, resource: &str) -> Option<i128> {
        match resource {
            "pods" | OBJECT_COUNT => Some(ONE),
            "cpu" | "memory" | "ephemeral-storage" => self.requests.get(resource).copied(),
            _ if is_hugepages(resource) => self.requests.get(resource).copied(),
            _ => match resource.split_once('.')? {
                ("requests", name) => self.requests.get(name).copied(),
                ("limits", name @ ("cpu" | "memory" | "ephemeral-storage")) => self.limits.get(name).copied(),
                _ => None,
            },
        }
    }
}

fn shortage<'q>(
    quotas: impl Iterator<Item = &'q ResourceQuota>,
    situation: &Situation<'_>,
    replacement: &Replacement<'_>,
    replaced: &[(&str, &Pod)],
    surges: bool,
) -> Option<Shortage<'q>> {
    let mut quotas = quotas.peekable();
    quotas.peek()?;
    let [live, after] = [situation.daemon_set, replacement.after].map(|it| admitted(situation.index.snapshot, it).spec);
    let (live, after) = (Taken::by(&live, None), Taken::by(&after, None));
    let pods: Vec<(Taken<'_>, bool)> =
        replaced.iter().map(|(_, pod)| (Taken::by(&pod.spec, Some(pod)), pod.is_terminal())).collect();
    // What a webhook has added to a pod of the present template, it adds to the new ones, too.
    let present = situation.nodes.iter().find_map(|node| node.updated).map(|pod| Taken::by(&pod.spec, None));
    let is_best_effort =
        after.is_best_effort && !present.as_ref().is_some_and(|present| live.is_best_effort && !present.is_best_effort);
    let of_quota = |quota: &'q ResourceQuota| {
        let of_resource = |(resource, hard): (&'q String, &'q Quantity)| {
            let used = quota.status.used.get(resource).and_then(Quantity::nanos).unwrap_or(0);
            let mut free = hard.nanos()? - used;
            for (allowed, (pod, is_terminal)) in pods.iter().enumerate() {
                let like = present.as_ref().unwrap_or(pod);
                let class = match after.class {
                    "" if live.class.is_empty() => like.class,
                    class => class,
                };
                // Nothing is known of what is added to the pods of a template that no pod has.
                let new = match present.as_ref().and_then(|present| present.of(resource)) {
                    None => after.of(resource)?,
                    Some(present) => {
                        (present + after.of(resource).unwrap_or(0) - live.of(resource).unwrap_or(0)).max(0)
                    }
                };
                let new = if is_in_scope(quota, is_best_effort, class) { new } else { 0 };
                let counts =
                    is_in_scope(quota, pod.is_best_effort, pod.class) && (!is_terminal || resource == OBJECT_COUNT);
                let old = if counts { pod.of(resource).unwrap_or(0) } else { 0 };
                let needed = if surges { new } else { new - old };
                if new > 0 && needed > free {
                    return Some(Shortage { quota, resource: resource.clone(), allowed, new, old });
                }
                free -= new - old;
            }
            None
        };
        quota.status.hard.iter().filter_map(of_resource).min_by_key(|shortage| shortage.allowed)
    };
    quotas.filter_map(of_quota).min_by_key(|shortage| shortage.allowed)
}

/// Returns whether a quota applies to a pod of this QoS class and priority class.
///
/// Ported from `podMatchesScopeFunc`, pkg/quota/v1/evaluator/core/pods.go, release 1.37.2. Scopes that depend on the
/// affinity of a pod to pods in other namespaces are unknown, and never match.
fn is_in_scope(quota: &ResourceQuota, is_best_effort: bool, class: &str) -> bool {
    let exists = |scope: &String| ScopedRequirement {
        scope_name: scope.clone(),
        operator: "Exists".to_owned(),
        values: Vec::new(),
    };
    let with_values = quota.spec.scope_selector.iter().flat_map(|selector| selector.match_expressions.iter().cloned());
    quota.spec.scopes.iter().map(exists).chain(with_values).all(|requirement| match requirement.scope_name.as_str() {
        // The API server does not allow activeDeadlineSeconds in the template of a DaemonSet.
        "NotTerminating" => true,
        "BestEffort" => is_best_effort,
        "NotBestEffort" => !is_best_effort,
        "PriorityClass" => {
            let is_listed = requirement.values.iter().any(|value| value == class);
            match requirement.operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => !class.is_empty(),
                "DoesNotExist" => class.is_empty(),
                _ => false,
            }
        }
        _ => false,
    })
}

/// Returns whether a pod has neither requests nor limits for cpu and memory; those of the whole pod count instead of those of containers.
///
/// Ported from `ComputePodQOS`, pkg/apis/core/v1/helper/qos/qos.go, release 1.37.2.
fn is_best_effort(spec: &PodSpec) -> bool {
    fn all(it: &ResourceRequirements) -> impl Iterator<Item = (&str, i128)> {
        exact(&it.requests).into_iter().chain(exact(&it.limits))
    }
    let has_none = |resources: &ResourceRequirements| {
        all(resources).all(|(resource, amount)| !matches!(resource, "cpu" | "memory") || amount == 0)
    };
    let of_pod = spec.resources.as_ref().filter(|it| all(it).any(|(resource, _)| is_pod_level(resource)));
    let mut containers = spec.all_containers();
    of_pod.map_or_else(|| containers.all(|container| has_none(&container.resources)), has_none)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use crate::coverage::test_support::{World, world};
    use crate::facts::index::Index;
    use crate::model::snapshot::Admission;
    use crate::report::plan::{Warning, WarningCode};
    use crate::rollout::replacement_warnings::{Replacement, replacement_warnings};
    use crate::rollout::situation::Situation;

    fn asking(resources: Value) -> Value {
        json!({"containers": [{"name": "agent", "image": "agent:2", "resources": resources}]})
    }

    fn cpu(request: &str) -> Value {
        asking(json!({"requests": {"cpu": request}}))
    }

    /// Four nodes with pods that request 100m.
    fn four() -> World {
        (0..4).fold(world().template(cpu("100m")), |world, number| {
            let (pod, node) = (format!("agent-{number}"), format!("n{number}"));
            world.node(&node, json!({})).pod(&pod, &node, json!({"spec": cpu("100m")}))
        })
    }

    /// Returns the warning for a quota with this usage, before another template is rolled out at a pace.
    fn told(spec: Value, hard: Value, used: Value, pace: Value, after: Value, most: usize) -> Option<Warning> {
        told_of(four(), spec, hard, used, pace, after, most)
    }

    fn told_of(
        mut held: World,
        spec: Value,
        hard: Value,
        used: Value,
        pace: Value,
        after: Value,
        most: usize,
    ) -> Option<Warning> {
        let quota = json!({"metadata": {"name": "few", "namespace": "default"}, "spec": spec,
            "status": {"hard": hard, "used": used}});
        held.snapshot.resource_quotas.push(from_value(quota).unwrap());
        let snapshot = held.daemon_set(json!({"spec": {"updateStrategy": {"rollingUpdate": pace}}})).finish();
        let index = Index::new(&snapshot);
        let before = Situation::new(&index, &snapshot.daemon_sets[0]);
        let after = world().template(after).finish().daemon_sets[0].template();
        let after = before.daemon_set.with_template(&after);
        let replacement = Replacement { most, ..Replacement::of_template(&after, "", false) };
        let warnings = replacement_warnings(&before, &replacement);
        warnings.into_iter().find(|warning| warning.code == WarningCode::QuotaExceeded)
    }

    #[test]
    fn a_refusal_is_certain_if_the_quota_has_no_room_even_with_what_the_first_pod_gives_back() {
        for (request, is_certain) in [("120m", true), ("100m", false)] {
            let mut held = four();
            let quota = json!({"metadata": {"name": "few", "namespace": "default"},
                "status": {"hard": {"requests.cpu": "400m"}, "used": {"requests.cpu": "400m"}}});
            held.snapshot.resource_quotas.push(from_value(quota).unwrap());
            held.snapshot.admissions.push(Admission {
                daemon_set_uid: "agent-uid".to_owned(),
                hash: "new".to_owned(),
                refusal: Some("pods \"agent-\" is forbidden: exceeded quota: few, requested: requests.cpu=1m, used: requests.cpu=400m, \
                               limited: requests.cpu=400m".to_owned()),
                lacks: Vec::new(),
            });
            let snapshot = held.finish();
            let index = Index::new(&snapshot);
            let before = Situation::new(&index, &snapshot.daemon_sets[0]);
            let after = world().template(cpu(request)).finish().daemon_sets[0].template();
            let after = before.daemon_set.with_template(&after);
            let warnings = replacement_warnings(&before, &Replacement::of_template(&after, "new", false));
            assert_eq!(warnings.iter().any(|warning| warning.is_certain), is_certain, "{request}: {warnings:?}");
        }
    }

    #[test]
    fn a_quota_that_new_pods_would_exceed_is_told_with_its_numbers() {
        let (no_surge, surge) = (|| json!({"maxUnavailable": 1}), || json!({"maxSurge": 1, "maxUnavailable": 0}));
        let requests = |used: &str, hard: &str| (json!({"requests.cpu": hard}), json!({"requests.cpu": used}));
        let pods = |used: &str, hard: &str| (json!({"pods": hard}), json!({"pods": used}));
        let class = |operator: &str| {
            json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": operator, "values": ["high"]}]}})
        };
        let any = usize::MAX;
        for (spec, (hard, used), pace, after, most, expected) in [
            // A deleted pod frees as much as its successor uses, even in a full quota.
            (json!({}), pods("4", "4"), no_surge(), cpu("100m"), any, None),
            (json!({}), requests("400m", "400m"), no_surge(), cpu("50m"), any, None),
            (
                json!({}),
                pods("5", "4"),
                no_surge(),
                cpu("100m"),
                any,
                Some("few would refuse new pods: 5 of 4 pods are used"),
            ),
            // A surge needs one more.
            (
                json!({}),
                pods("4", "4"),
                surge(),
                cpu("100m"),
                any,
                Some("4 of 4 pods are used; a new pod takes 1 beside"),
            ),
            (json!({}), pods("4", "5"), surge(), cpu("100m"), any, None),
            (
                json!({}),
                requests("400m", "600m"),
                no_surge(),
                cpu("200m"),
                any,
                Some(
                    "after 2 of 4: 400m of 600m requests.cpu are used; a new pod takes 200m, and the old one gives back 100m",
                ),
            ),
            (json!({}), requests("400m", "800m"), no_surge(), cpu("200m"), any, None),
            (json!({}), requests("400m", "600m"), no_surge(), cpu("200m"), 2, None),
            (
                json!({}),
                (json!({"count/pods": "4"}), json!({"count/pods": "4"})),
                surge(),
                cpu("100m"),
                any,
                Some("count/pods"),
            ),
            (
                json!({}),
                (json!({"limits.memory": "1Gi"}), json!({"limits.memory": "512Mi"})),
                no_surge(),
                asking(json!({"limits": {"memory": "256Mi"}})),
                any,
                Some("after 2 of 4: 512Mi of 1Gi limits.memory are used; a new pod takes 256Mi"),
            ),
            // Quotas for other resources and other pods.
            (json!({}), (json!({"services": "1"}), json!({"services": "1"})), surge(), cpu("1"), any, None),
            (json!({"scopes": ["BestEffort"]}), pods("4", "4"), surge(), cpu("100m"), any, None),
            (json!({"scopes": ["NotBestEffort"]}), pods("4", "4"), surge(), cpu("100m"), any, Some("4 of 4 pods")),
            (json!({"scopes": ["Terminating"]}), pods("4", "4"), surge(), cpu("100m"), any, None),
            (class("In"), pods("4", "4"), surge(), cpu("100m"), any, None),
            (class("NotIn"), pods("4", "4"), surge(), cpu("100m"), any, Some("4 of 4 pods")),
            // No old pod frees quota for pods that move into its scope.
            (
                class("In"),
                pods("0", "2"),
                no_surge(),
                json!({"priorityClassName": "high"}),
                any,
                Some("after 2 of 4: 0 of 2 pods are used; a new pod takes 1"),
            ),
        ] {
            let told = told(spec.clone(), hard.clone(), used, pace.clone(), after.clone(), most);
            let message = told.map(|warning| warning.message);
            let is_as_expected = match (expected, &message) {
                (None, None) => true,
                (Some(part), Some(message)) => message.contains(part),
                _ => false,
            };
            assert!(is_as_expected, "{spec} {hard} {pace} {after}: {message:?}, not {expected:?}");
        }
    }

    /// The template requests nothing, and a LimitRange adds a request to its pods, or a template of before did.
    #[test]
    fn scopes_and_amounts_are_those_of_a_pod_of_the_present_template() {
        let bare = || asking(json!({}));
        let told = |scope: &str, hashes: [&str; 2], requests: [&str; 2]| {
            let add = |world: World, number: usize| {
                let (pod, node) = (format!("agent-{number}"), format!("n{number}"));
                let generation = if hashes[number] == "hash2" { "2" } else { "1" };
                let labels = json!({"labels": {"controller-revision-hash": hashes[number],
                    "pod-template-generation": generation}});
                let spec = if requests[number].is_empty() { bare() } else { cpu(requests[number]) };
                world.node(&node, json!({})).pod(&pod, &node, json!({"metadata": labels, "spec": spec}))
            };
            let mut held = [0, 1].into_iter().fold(world().template(bare()), add);
            let quota = json!({"metadata": {"name": "few", "namespace": "default"}, "spec": {"scopes": [scope]},
                "status": {"hard": {"pods": "2"}, "used": {"pods": "2"}}});
            held.snapshot.resource_quotas.push(from_value(quota).unwrap());
            let pace = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
            let snapshot = held.daemon_set(json!({"spec": {"updateStrategy": pace}})).finish();
            let index = Index::new(&snapshot);
            let before = Situation::new(&index, &snapshot.daemon_sets[0]);
            let after = json!({"containers": [{"name": "agent", "image": "agent:3", "resources": {}}]});
            let after = world().template(after).finish().daemon_sets[0].template();
            let after = before.daemon_set.with_template(&after);
            let replacement = Replacement::of_template(&after, "", false);
            let warnings = replacement_warnings(&before, &replacement);
            warnings.iter().any(|warning| warning.code == WarningCode::QuotaExceeded)
        };
        let present = ["hash2", "hash2"];
        assert!(told("NotBestEffort", present, ["100m", "100m"]));
        assert!(!told("BestEffort", present, ["100m", "100m"]));
        assert!(told("BestEffort", present, ["", ""]));
        // The template of before requested something.
        let one_of_before = ["hash1", "hash2"];
        assert!(told("BestEffort", one_of_before, ["100m", ""]));
        assert!(!told("NotBestEffort", one_of_before, ["100m", ""]));
    }

    /// It takes what was allocated to it.
    #[test]
    fn a_pod_that_is_resized_gives_back_what_it_has() {
        for (allocated, is_refused) in [("100m", true), ("200m", false)] {
            let mut held = four();
            for pod in &mut held.snapshot.pods {
                let status = json!([{"name": "agent", "allocatedResources": {"cpu": allocated}}]);
                pod.status.container_statuses = from_value(status).unwrap();
            }
            let (hard, used) = (json!({"requests.cpu": "800m"}), json!({"requests.cpu": "800m"}));
            let warning = told_of(held, json!({}), hard, used, json!({"maxUnavailable": 1}), cpu("200m"), usize::MAX);
            assert_eq!(warning.is_some(), is_refused, "{warning:?}");
        }
    }

    #[test]
    fn pods_are_replaced_one_by_one_if_only_the_surge_exceeds_the_quota() {
        let command = |after: Value| {
            let pace = json!({"maxSurge": 1, "maxUnavailable": 0});
            let quota = (json!({"requests.cpu": "400m"}), json!({"requests.cpu": "400m"}));
            told(json!({}), quota.0, quota.1, pace, after, usize::MAX)
                .unwrap()
                .fix
                .unwrap()
                .command
                .unwrap()
                .to_string()
        };
        assert!(command(cpu("100m")).contains("--max-unavailable 1"));
        assert_eq!(command(cpu("200m")), "kubectl describe resourcequota -n default few");
    }
}
