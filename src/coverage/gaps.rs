//! What could not be read, and what is therefore unknown.

use std::collections::BTreeSet;

use crate::facts::index::owners_of_failing_pods;
use crate::model::daemon_set::DaemonSet;
use crate::model::pod::PodSpec;
use crate::model::snapshot::{Gap, GapCause, Kind, Snapshot};
use crate::report::coverage::Incomplete;

/// Returns what could not be read and affects the existing pods of the snapshot's DaemonSets.
pub fn incomplete(snapshot: &Snapshot) -> Vec<Incomplete> {
    incomplete_with(snapshot, |gap| left_open(snapshot, gap))
}

/// Returns which of these kinds, ConfigMaps and Secrets that pods use, could not be read. It is normal that a dump has
/// none, and that Secrets are forbidden.
pub fn incomplete_for_config(snapshot: &Snapshot, unknown: &BTreeSet<&str>) -> Vec<Incomplete> {
    let is_usual = |gap: &Gap| match gap.cause {
        GapCause::NotInDump => true,
        GapCause::Forbidden(_) => gap.kind == Kind::Secrets,
        _ => false,
    };
    let is_config = |gap: &Gap| matches!(gap.kind, Kind::ConfigMaps | Kind::Secrets);
    let matters = |gap: &Gap| is_config(gap) && !is_usual(gap) && unknown.contains(gap.kind.api_names().1);
    incomplete_with(snapshot, |gap| matters(gap).then_some("whether pods are older is not known"))
}

/// Returns what could not be read and affects the recent changes.
pub fn incomplete_for_changes(snapshot: &Snapshot) -> Vec<Incomplete> {
    let mut incomplete = incomplete_with(snapshot, |gap| match gap.kind {
        Kind::DaemonSets if matches!(gap.cause, GapCause::ForbiddenElsewhere(_) | GapCause::Failed(_)) => {
            Some("whether they have changed, too, is not known")
        }
        Kind::DaemonSets | Kind::AdvancedDaemonSets => left_open(snapshot, gap),
        Kind::ControllerRevisions => Some("which rollouts there were is not known"),
        Kind::Nodes => Some("changes of nodes are not known"),
        _ => None,
    });
    // Events about nodes are in this namespace, regardless of the DaemonSets' namespaces.
    let events = snapshot.gap(Kind::Events, "default");
    incomplete.extend(events.map(|gap| sentence(gap, "which nodes were deleted is not known")));
    // A dump does not say that it lacks them.
    let is_written = |gap: &&Gap| Kind::WRITTEN.contains(&gap.kind) && gap.cause != GapCause::NotInDump;
    let written = snapshot.gaps.iter().filter(is_written);
    incomplete.extend(written.map(|gap| sentence(gap, "their changes are not known")));
    // They are usually forbidden together.
    let admission = snapshot.gaps.iter().find(|gap| Kind::ADMISSION.contains(&gap.kind));
    incomplete.extend(admission.map(|gap| sentence(gap, "not all changes of admission are known")));
    incomplete
}

fn incomplete_with(snapshot: &Snapshot, left_open: impl Fn(&Gap) -> Option<&'static str>) -> Vec<Incomplete> {
    let namespaces: BTreeSet<&str> =
        snapshot.daemon_sets_of_any_flavor().map(|daemon_set| daemon_set.metadata.namespace.as_str()).collect();
    let matters = |gap: &&Gap| match gap.kind {
        Kind::LimitRanges | Kind::RuntimeClasses | Kind::PriorityClasses => false,
        Kind::DaemonSets => true,
        _ => gap.namespace.as_deref().is_none_or(|namespace| namespaces.contains(namespace)),
    };
    snapshot.gaps.iter().filter(matters).filter_map(|gap| Some(sentence(gap, left_open(gap)?))).collect()
}

/// Returns what could not be read and affects the revisions of the DaemonSets in a namespace.
pub fn incomplete_for_history(snapshot: &Snapshot, namespace: &str) -> Vec<Incomplete> {
    const PODS: &str = "which pods are on which revision is not known";
    // If a node or one of its pods is skipped, so are all of its pods.
    let left_out = snapshot.gaps.iter().filter(|gap| gap.kind == Kind::Nodes);
    let left_out = left_out.filter(|gap| matches!(gap.cause, GapCause::Unreadable { .. }));
    let lists = [(Kind::Pods, PODS), (Kind::ControllerRevisions, "no revision is known")];
    let incomplete = incomplete_in(snapshot, namespace, &lists).into_iter();
    incomplete.chain(left_out.map(|gap| sentence(gap, "pods of its node are not counted"))).collect()
}

fn incomplete_in(snapshot: &Snapshot, namespace: &str, left_open: &[(Kind, &str)]) -> Vec<Incomplete> {
    let gaps = left_open.iter().filter_map(|(kind, left_open)| Some((snapshot.gap(*kind, namespace)?, left_open)));
    gaps.map(|(gap, left_open)| sentence(gap, left_open)).collect()
}

/// Returns a sentence for everything that could not be read and that affects future pods with this spec;
/// `needs_priority` tells whether they do not fit, so that it depends on their priority.
pub fn incomplete_for_new_pods(snapshot: &Snapshot, spec: &PodSpec, needs_priority: bool) -> Vec<Incomplete> {
    let matters = |gap: &&Gap| match gap.kind {
        Kind::Events | Kind::ControllerRevisions | Kind::ConfigMaps => false,
        Kind::RuntimeClasses => spec.runtime_class_name.is_some(),
        Kind::PriorityClasses => needs_priority || !spec.priority_class_name.is_empty(),
        _ => true,
    };
    snapshot.gaps.iter().filter(matters).filter_map(|gap| Some(sentence(gap, left_open(snapshot, gap)?))).collect()
}

/// Returns sentences for what could not be read and that decides where new pods fit.
pub fn incomplete_for_room(snapshot: &Snapshot, left_open: &str) -> Vec<Incomplete> {
    let decides = |kind: Kind| matches!(kind, Kind::Pods | Kind::Namespaces) || Kind::ON_DEMAND.contains(&kind);
    snapshot.gaps.iter().filter(|gap| decides(gap.kind)).map(|gap| sentence(gap, left_open)).collect()
}

/// Returns a sentence for everything that could not be read and that affects a change to a DaemonSet's update strategy;
/// PodDisruptionBudgets matter only if it causes pods to be deleted.
pub fn incomplete_for_update_strategy(snapshot: &Snapshot, namespace: &str, deletes_pods: bool) -> Vec<Incomplete> {
    const EFFECT: &str = "the effect is computed from the status alone";
    let kinds = [
        (Kind::Nodes, EFFECT),
        (Kind::Pods, EFFECT),
        (Kind::ControllerRevisions, EFFECT),
        (Kind::PodDisruptionBudgets, "whether one matches the pods is unknown"),
    ];
    incomplete_in(snapshot, namespace, if deletes_pods { &kinds } else { &kinds[..3] })
}

/// Returns a sentence for everything that could not be read and that may tell that the API server refuses new pods of a DaemonSet. A
/// quota is not expected to matter to pods that neither request nor limit anything.
pub fn unread_refusals(snapshot: &Snapshot, daemon_set: &DaemonSet) -> impl Iterator<Item = Incomplete> {
    let (namespace, spec) = (&daemon_set.metadata.namespace, &daemon_set.spec.template.spec);
    let containers = spec.all_containers().map(|container| &container.resources);
    let mut resources = containers.chain(&spec.resources);
    let takes_some = resources.any(|resources| !resources.requests.is_empty() || !resources.limits.is_empty());
    let quotas = snapshot.gap(Kind::ResourceQuotas, namespace).filter(|_| takes_some);
    let quotas = quotas.map(|gap| sentence(gap, "whether a quota refuses new pods is unknown"));
    unread_events(snapshot, namespace).into_iter().chain(quotas)
}

/// Returns a sentence if the events of a namespace could not be read, which matters before pods are replaced. It does
/// not matter in a dump: nothing is replaced there.
fn unread_events(snapshot: &Snapshot, namespace: &str) -> Option<Incomplete> {
    let gap = snapshot.gap(Kind::Events, namespace).filter(|gap| gap.cause != GapCause::NotInDump)?;
    let unknown = "whether the API server refuses new pods is unknown";
    let incomplete = sentence(gap, unknown);
    Some(match &gap.cause {
        GapCause::Unreadable { problem, .. } => {
            Incomplete { message: format!("events could not be read ({problem}): {unknown}"), ..incomplete }
        }
        _ => incomplete,
    })
}

fn sentence(gap: &Gap, left_open: &str) -> Incomplete {
    let resource = gap.kind.resource();
    let place = match &gap.namespace {
        Some(namespace) => format!(" in namespace {namespace}"),
        None => String::new(),
    };
    let (permission, message) = match &gap.cause {
        GapCause::Forbidden(permission) => (
            Some(permission.clone()),
            format!("{resource}{place} could not be read ({permission} is forbidden): {left_open}"),
        ),
        GapCause::ForbiddenElsewhere(permission) => (
            Some(permission.clone()),
            format!("{resource} of other namespaces could not be read ({permission} is forbidden): {left_open}"),
        ),
        GapCause::NotInDump => (None, format!("the dump has no {resource}{place}: {left_open}")),
        GapCause::Failed(problem) => (None, format!("{resource}{place} could not be read ({problem}): {left_open}")),
        GapCause::NoneReturned => {
            (None, format!("there are no {resource}, although the status of a DaemonSet counts some: {left_open}"))
        }
        GapCause::LessThanStatus { of, status } => {
            let status = match gap.kind {
                Kind::ControllerRevisions => format!("has observed generation {status}, whose revision is not in it"),
                Kind::Nodes => format!("counts {status} eligible nodes, more than are in it"),
                _ => format!("counts {status} nodes with a pod, more than are in it"),
            };
            (None, format!("the list of {resource}{place} is incomplete (the status of {of} {status}): {left_open}"))
        }
        GapCause::Unreadable { object, problem } => (None, format!("skipped {object}: {problem}: {left_open}")),
    };
    let elsewhere = matches!(gap.cause, GapCause::ForbiddenElsewhere(_));
    let affects_counts = matches!(gap.kind, Kind::DaemonSets | Kind::Nodes | Kind::Pods) && !elsewhere;
    let (namespace, left_open) = (gap.namespace.clone(), left_open.to_owned());
    Incomplete { resource: resource.to_owned(), namespace, permission, message, left_open, affects_counts }
}

/// Returns what a gap leaves unknown; `None` if no answer depends on it.
fn left_open(snapshot: &Snapshot, gap: &Gap) -> Option<&'static str> {
    let elsewhere = matches!(gap.cause, GapCause::ForbiddenElsewhere(_));
    let unreadable = matches!(gap.cause, GapCause::Unreadable { .. });
    Some(match gap.kind {
        Kind::Nodes if unreadable => "its node is left out",
        Kind::DaemonSets if unreadable => "it is left out",
        Kind::Pods if unreadable && gap.namespace.is_none() => "the free resources of its node are unknown",
        Kind::Pods if elsewhere => "free resources and used host ports are known only from scheduler messages",
        Kind::Pods => "pod counts are those of each status",
        Kind::DaemonSets => "its DaemonSets are left out",
        Kind::ControllerRevisions => "which pods are updated is known only by their template generation",
        Kind::Nodes if snapshot.nodes.is_empty() => {
            "numbers of eligible nodes are those of each status, and only nodes with a pod are named"
        }
        Kind::Nodes => "other nodes are left out",
        Kind::Events if elsewhere => return None,
        Kind::Events => "why pods were not created, scheduled or started may be unknown",
        Kind::Leases if matches!(gap.cause, GapCause::Failed(_)) => "whether the controller runs is not known",
        // Whether there is none or it could not be read, a lease only adds to an answer.
        Kind::Leases => return None,
        Kind::ConfigMaps if gap.cause != GapCause::NotInDump && !owners_of_failing_pods(snapshot).is_empty() => {
            "whether one was changed before pods failed is not known"
        }
        Kind::ConfigMaps
        | Kind::Secrets
        | Kind::ResourceQuotas
        | Kind::Namespaces
        | Kind::ValidatingAdmissionPolicies
        | Kind::ValidatingAdmissionPolicyBindings
        | Kind::MutatingAdmissionPolicies
        | Kind::MutatingAdmissionPolicyBindings
        | Kind::ValidatingWebhookConfigurations
        | Kind::MutatingWebhookConfigurations => return None,
        Kind::DeviceClasses => "whether device classes provide extended resources that nodes do not offer is not known",
        Kind::ResourceClaims | Kind::ResourceClaimTemplates | Kind::ResourceSlices => {
            "which nodes have the devices of pods is known only from scheduler messages"
        }
        Kind::PersistentVolumeClaims
        | Kind::PersistentVolumes
        | Kind::StorageClasses
        | Kind::CsiNodes
        | Kind::CsiDrivers
        | Kind::CsiStorageCapacities
        | Kind::VolumeAttachments => "on which nodes pods can have their volumes is known only from scheduler messages",
        Kind::PodDisruptionBudgets => "what limits the preemption and eviction of pods is not known",
        Kind::AdvancedDaemonSets => "Advanced DaemonSets of OpenKruise are left out",
        Kind::LimitRanges => "requests that a LimitRange would add are not counted",
        Kind::RuntimeClasses => "what a runtime class would add to pods is not counted",
        Kind::PriorityClasses => "priorities are not known",
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::{
        incomplete_for_history, incomplete_for_new_pods, incomplete_for_update_strategy, unread_events, unread_refusals,
    };
    use crate::coverage::options::{Detail, Options};
    use crate::coverage::test_support::{World, world};
    use crate::coverage::walk::coverage;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::coverage::{CoverageReport, Incomplete};
    use crate::report::node_coverage::NodeState;
    use crate::report::reason::ReasonCode;

    fn without(mut world: World, kind: Kind) -> CoverageReport {
        let cause = GapCause::Forbidden(format!("list {}", kind.resource()));
        world.snapshot.gaps.push(Gap { kind, namespace: None, cause });
        coverage(&world.finish(), &Options { detail: Detail::Nodes, ..Options::default() })
    }

    fn status() -> serde_json::Value {
        json!({"status": {"desiredNumberScheduled": 3, "currentNumberScheduled": 2, "numberReady": 2,
            "numberAvailable": 2, "updatedNumberScheduled": 1, "numberMisscheduled": 1}})
    }

    #[test]
    fn without_nodes_the_pods_still_speak_and_the_status_tells_how_many_are_wanted() {
        let world = world()
            .daemon_set(status())
            .refusal(
                "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2",
            )
            .pod("agent-a", "a", json!({}))
            .unready_pod("agent-b", "b", json!({"state": {"waiting": {"reason": "ErrImagePull"}}}), json!({}));
        let report = without(world, Kind::Nodes);
        assert_eq!(
            report.incomplete[0].message,
            "nodes could not be read (list nodes is forbidden): numbers of eligible nodes are those of each status, and \
             only nodes with a pod are named"
        );
        let daemon_set = &report.daemon_sets[0];
        let counts = &daemon_set.counts;
        assert!(counts.from_status);
        let numbers = (counts.eligible, counts.current, counts.available, counts.missing);
        assert_eq!(numbers, (Some(3), Some(2), Some(2), Some(1)));
        assert_eq!((counts.nodes_total, counts.not_eligible), (None, None));
        assert_eq!(daemon_set.counters.agrees, None);
        let groups: Vec<_> =
            daemon_set.problems.iter().map(|group| (group.code, group.count, group.nodes.len())).collect();
        assert_eq!(groups, [(ReasonCode::QuotaExceeded, 1, 0), (ReasonCode::ImagePullFailed, 1, 1)]);
        assert!(daemon_set.nodes.iter().all(|node| node.eligibility_unknown));
    }

    #[test]
    fn without_nodes_a_pending_pod_has_the_schedulers_words_and_no_arithmetic() {
        let says = "0/9 nodes are available: 1 Insufficient cpu, 8 node(s) didn't satisfy plugin(s) [NodeAffinity].";
        let report = without(world().daemon_set(status()).pending_pod("agent-a", "a", says, json!({})), Kind::Nodes);
        let node = &report.daemon_sets[0].nodes[0];
        assert_eq!(node.reasons.len(), 1, "{:?}", node.reasons);
        assert_eq!(node.reasons[0].code, ReasonCode::InsufficientResource);
        assert!(node.reasons[0].message.contains("\"Insufficient cpu\""), "{}", node.reasons[0].message);
    }

    #[test]
    fn without_pods_no_node_is_called_missing() {
        let world = world().daemon_set(status()).node("a", json!({})).node("b", json!({})).node("c", json!({}));
        let report = without(world, Kind::Pods);
        let daemon_set = &report.daemon_sets[0];
        assert!(daemon_set.nodes.iter().all(|node| node.state == NodeState::Unknown));
        let counts = &daemon_set.counts;
        assert!(counts.from_status && daemon_set.problems.is_empty());
        let numbers = (counts.eligible, counts.current, counts.available, counts.missing);
        assert_eq!(numbers, (Some(3), Some(2), Some(2), Some(1)));
        assert_eq!(daemon_set.counters.agrees, None);
    }

    #[test]
    fn pods_hidden_in_other_namespaces_leave_only_the_arithmetic_open() {
        let mut world = world().node("a", json!({})).pod("agent-a", "a", json!({}));
        let cause = GapCause::ForbiddenElsewhere("list pods".to_owned());
        world.snapshot.gaps.push(Gap { kind: Kind::Pods, namespace: None, cause });
        let report = coverage(&world.finish(), &Options::default());
        assert_eq!(report.daemon_sets[0].counts.available, Some(1));
        assert_eq!(
            report.incomplete[0].message,
            "pods of other namespaces could not be read (list pods is forbidden): free resources and used host ports are known \
             only from scheduler messages"
        );
    }

    #[test]
    fn gaps_in_namespaces_without_a_reported_daemon_set_do_not_matter() {
        let mut world = world().node("a", json!({})).pod("agent-a", "a", json!({}));
        world.snapshot.gaps.push(Gap {
            kind: Kind::Pods,
            namespace: Some("other".to_owned()),
            cause: GapCause::NotInDump,
        });
        assert!(coverage(&world.finish(), &Options::default()).incomplete.is_empty());
    }

    #[test]
    fn without_nodes_or_pods_the_numbers_are_those_of_the_status() {
        let mut world = world().daemon_set(status());
        for kind in [Kind::Nodes, Kind::Pods] {
            world.snapshot.gaps.push(Gap { kind, namespace: None, cause: GapCause::NotInDump });
        }
        let counts = &coverage(&world.finish(), &Options::default()).daemon_sets[0].counts;
        assert_eq!((counts.eligible, counts.available, counts.missing), (Some(3), Some(2), Some(1)));
        assert_eq!((counts.all_available(), counts.nodes_total), (None, None));
    }

    #[test]
    fn without_pods_the_numbers_of_some_nodes_are_unknown() {
        let mut world = world().daemon_set(status()).node("a", json!({})).node("b", json!({}));
        world.snapshot.gaps.push(Gap { kind: Kind::Pods, namespace: None, cause: GapCause::NotInDump });
        let options = Options { node: Some("a".to_owned()), ..Options::default() };
        let counts = &coverage(&world.finish(), &options).daemon_sets[0].counts;
        assert_eq!((counts.eligible, counts.available, counts.missing), (Some(1), None, None));
        assert_eq!(counts.all_available(), None);
    }

    #[test]
    fn without_revisions_a_pod_of_another_template_number_is_neither_updated_nor_outdated() {
        let mut world = world().node("a", json!({})).node("b", json!({})).pod("agent-a", "a", json!({})).pod(
            "agent-b",
            "b",
            json!({"metadata": {"labels": {"pod-template-generation": "1"}}}),
        );
        world.snapshot.controller_revisions.clear();
        let report = without(world, Kind::ControllerRevisions);
        let counts = &report.daemon_sets[0].counts;
        assert_eq!((counts.updated, counts.outdated), (None, None));
    }

    fn forbidden(kind: Kind) -> Gap {
        Gap { kind, namespace: None, cause: GapCause::Forbidden(format!("list {}", kind.resource())) }
    }

    fn elsewhere(kind: Kind) -> Gap {
        Gap { kind, namespace: None, cause: GapCause::ForbiddenElsewhere(format!("list {}", kind.resource())) }
    }

    fn unreadable(kind: Kind, namespace: Option<&str>) -> Gap {
        let cause = GapCause::Unreadable { object: "x".to_owned(), problem: "y".to_owned() };
        Gap { kind, namespace: namespace.map(str::to_owned), cause }
    }

    fn resources(incomplete: &[Incomplete]) -> Vec<&str> {
        incomplete.iter().map(|incomplete| incomplete.resource.as_str()).collect()
    }

    #[test]
    fn for_new_pods_matters_what_they_are_made_of_and_where_they_may_run() {
        let mut snapshot = world().snapshot;
        snapshot.gaps = Kind::ALL.map(forbidden).into();
        let always = ["daemonsets", "nodes", "pods", "limitranges"];
        for (spec, more) in [
            (json!({}), None),
            (json!({"runtimeClassName": "kata"}), Some("runtimeclasses")),
            (json!({"priorityClassName": "high"}), Some("priorityclasses")),
        ] {
            let unread = incomplete_for_new_pods(&snapshot, &serde_json::from_value(spec).unwrap(), false);
            assert_eq!(resources(&unread), always.into_iter().chain(more).collect::<Vec<_>>());
        }
    }

    #[test]
    fn for_a_history_matter_revisions_and_pods_and_for_a_strategy_budgets_only_if_pods_are_deleted() {
        let mut snapshot = world().snapshot;
        snapshot.gaps = Kind::ALL.into_iter().chain([Kind::PodDisruptionBudgets]).map(forbidden).collect();
        assert_eq!(resources(&incomplete_for_history(&snapshot, "default")), ["pods", "controllerrevisions"]);
        let strategy = |deletes_pods| incomplete_for_update_strategy(&snapshot, "default", deletes_pods);
        assert_eq!(resources(&strategy(false)), ["nodes", "pods", "controllerrevisions"]);
        assert_eq!(resources(&strategy(true)), ["nodes", "pods", "controllerrevisions", "poddisruptionbudgets"]);
    }

    #[test]
    fn events_that_a_dump_does_not_have_do_not_stop_a_change_and_events_that_could_not_be_read_may() {
        for (cause, is_told) in [
            (GapCause::NotInDump, false),
            (GapCause::Forbidden("list events".to_owned()), true),
            (GapCause::Unreadable { object: "Event x".to_owned(), problem: "y".to_owned() }, true),
        ] {
            let mut snapshot = world().snapshot;
            snapshot.gaps.push(Gap { kind: Kind::Events, namespace: None, cause });
            assert_eq!(unread_events(&snapshot, "default").is_some(), is_told);
        }
    }

    #[test]
    fn quotas_that_could_not_be_read_are_named_if_pods_request_something() {
        for (resources, is_named) in [
            (json!({}), false),
            (json!({"requests": {"cpu": "100m"}}), true),
            (json!({"limits": {"memory": "1Gi"}}), true),
        ] {
            let containers = json!([{"name": "agent", "image": "agent:2", "resources": resources}]);
            let mut snapshot = world().template(json!({"containers": containers})).finish();
            let gap = Gap { namespace: Some("default".to_owned()), ..forbidden(Kind::ResourceQuotas) };
            snapshot.gaps.push(gap);
            let unread: Vec<_> = unread_refusals(&snapshot, &snapshot.daemon_sets[0]).collect();
            let expected = "resourcequotas in namespace default could not be read (list resourcequotas is forbidden): whether a quota \
                            refuses new pods is unknown";
            let messages: Vec<_> = unread.iter().map(|unread| unread.message.as_str()).collect();
            assert_eq!(messages, if is_named { vec![expected] } else { Vec::new() });
            assert!(unread.iter().all(|unread| !unread.affects_counts));
        }
    }

    #[test]
    fn only_nodes_daemon_sets_and_their_own_pods_affect_the_counts() {
        for (gap, expected) in [
            (forbidden(Kind::DaemonSets), Some(true)),
            (forbidden(Kind::Nodes), Some(true)),
            (forbidden(Kind::Pods), Some(true)),
            (elsewhere(Kind::Pods), Some(false)),
            (forbidden(Kind::Events), Some(false)),
            (forbidden(Kind::ControllerRevisions), Some(false)),
            // Events of the DaemonSets' own namespaces were read.
            (elsewhere(Kind::Events), None),
            (forbidden(Kind::Leases), None),
            (forbidden(Kind::LimitRanges), None),
        ] {
            let mut world = world();
            world.snapshot.gaps.push(gap.clone());
            let unread = coverage(&world.finish(), &Options::default()).incomplete;
            assert_eq!(unread.first().map(|unread| unread.affects_counts), expected, "{gap:?}");
        }
    }

    #[test]
    fn what_is_left_open_depends_on_what_is_missing() {
        let left_open = |world: World, gap: Gap| {
            let mut world = world;
            world.snapshot.gaps.push(gap);
            let unread = coverage(&world.finish(), &Options::default()).incomplete;
            unread[0].message.rsplit_once(": ").unwrap().1.to_owned()
        };
        let with_node = || world().node("a", json!({}));
        let open = [
            left_open(world(), forbidden(Kind::Nodes)),
            left_open(with_node(), forbidden(Kind::Nodes)),
            left_open(with_node(), unreadable(Kind::Nodes, None)),
            left_open(with_node(), forbidden(Kind::Pods)),
            left_open(with_node(), elsewhere(Kind::Pods)),
            left_open(with_node(), unreadable(Kind::Pods, None)),
            left_open(with_node(), forbidden(Kind::DaemonSets)),
            left_open(with_node(), unreadable(Kind::DaemonSets, None)),
        ];
        assert_eq!(BTreeSet::from_iter(&open).len(), open.len(), "{open:#?}");
        assert_eq!(left_open(with_node(), unreadable(Kind::Pods, Some("default"))), open[3]);
    }

    #[test]
    fn daemon_sets_that_could_not_be_read_matter_whatever_the_namespace() {
        let mut world = world();
        world.snapshot.gaps.push(Gap { namespace: Some("other".to_owned()), ..forbidden(Kind::DaemonSets) });
        assert_eq!(resources(&coverage(&world.finish(), &Options::default()).incomplete), ["daemonsets"]);
    }

    #[test]
    fn without_nodes_no_node_is_called_missing_if_the_status_counts_none() {
        let status =
            json!({"status": {"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberAvailable": 2}});
        let report = without(world().daemon_set(status), Kind::Nodes);
        assert_eq!(report.daemon_sets[0].counts.missing, Some(0));
        assert!(report.daemon_sets[0].problems.is_empty());
    }
}
