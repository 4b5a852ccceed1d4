//! Whether the pods of another template fit where they replace those of a DaemonSet, next to the other pods of the nodes.

use std::collections::{BTreeMap, BTreeSet};

use super::forecast::AT_ONCE;
use super::set;
use crate::coverage::gaps::incomplete_for_room;
use crate::coverage::preview::{PreviewOptions, Proposed, preview};
use crate::coverage::{admitted, fits_after, fits_now};
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::facts::revisions::name_of;
use crate::model::daemon_set::{DaemonSet, Flavor, UpdateStrategy};
use crate::model::int_or_percent::{IntOrPercent, int};
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::{Pod, PodSpec};
use crate::model::snapshot::{PodsComplete, Snapshot};
use crate::model::template::Template;
use crate::plan::SpecFields;
use crate::report::coverage::Incomplete;
use crate::report::fix::Fix;
use crate::report::plan::{Warning, WarningCode};
use crate::report::preview::{NodeChange, PodChange, PreemptedPod, Preview};
use crate::report::{count, count_and};
use crate::scheduling::affinity::RequiredNodeAffinity;
use crate::scheduling::daemon_pods;
use crate::scheduling::ports::needs_more_ports;
use crate::scheduling::preemption::priority;
use crate::scheduling::resources::{NodeUsage, fits, requests_more, template_requests};
use crate::scheduling::rolling_update::{allows_surge, limits};
use crate::scheduling::taints::repels;

/// A replacement of pods whose new ones may not fit.
#[derive(Debug, Clone)]
pub(crate) struct NewPods {
    /// The DaemonSet with them.
    pub(crate) after: DaemonSet,
    /// The nodes where the new pods request more than the pods they replace or than the node has now, follow other rules, exclude the old
    /// ones beside which a surge creates them, or replace a pod that was never scheduled.
    pub(crate) grown: BTreeSet<String>,
    /// The nodes whose old pods are deleted first, so that others may take their room.
    pub(crate) vacated: BTreeSet<String>,
    /// Their priority, if known.
    priority: Option<i32>,
    /// The nodes whose old pod was never scheduled, so that nothing is lost there.
    unplaced: BTreeSet<String>,
    /// How many nodes without an available pod stop the controller; `None` if it does not replace the pods, or surges.
    allowed: Option<i64>,
}

impl NewPods {
    /// Finds the nodes on which pods of a template may not fit: all, or those of a stage, which deletes the old pods first.
    pub(crate) fn of(before: &Facts<'_>, template: &Template, stage: Option<&[String]>) -> Self {
        let mut after = before.daemon_set.with_template(template);
        if stage.is_some() {
            after.spec.update_strategy = UpdateStrategy::OnDelete;
        }
        let (new, made) = (&after.spec.template.spec, admitted(before.index.snapshot, &after).spec);
        // Whether pods of a revision are replaced, and whether the new ones may not fit where they are.
        let replaced = |pod: &Pod| match before.revisions.template_of_pod(pod) {
            Some(old) if old.same_meaning(template) => (false, false),
            Some(old) => (true, takes_more(new, &before.daemon_set.with_template(old).spec.template.spec)),
            None => (true, true),
        };
        let stage = stage.map(|nodes| nodes.iter().map(String::as_str).collect::<BTreeSet<_>>());
        // OpenKruise may update pods where they are.
        let replaces = before.daemon_set.flavor() == Flavor::Apps;
        let all = before.node_pods.iter().filter(|_| replaces);
        let nodes = all.filter(|node| stage.as_ref().is_none_or(|stage| stage.contains(node.node)));
        let (mut grown, mut vacated, mut unplaced) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut of_hash = BTreeMap::new();
        let mut of_old = None;
        for (node, pod) in nodes.flat_map(|node| node.pods.iter().map(|pod| (node.node, *pod))) {
            let (is_replaced, takes_more) = *of_hash.entry(pod.revision_hash()).or_insert_with(|| replaced(pod));
            // Admission may add more than it did when the pod was created.
            let takes_more = takes_more || is_replaced && requests_more(&made, &pod.spec);
            // A pod that was not scheduled leaves no room behind.
            let is_unplaced = is_replaced && pod.spec.node_name.is_empty();
            let is_too_small = || before.index.node(node).is_some_and(|node| !fits_alone(before.index, &made, node));
            let excludes_old = allows_surge(&after) && !new.required_pod_anti_affinity().is_empty();
            if takes_more || is_unplaced || (is_replaced && (excludes_old || is_too_small())) {
                grown.insert(node.to_owned());
            }
            if is_unplaced {
                unplaced.insert(node.to_owned());
            }
            if is_replaced && !allows_surge(&after) {
                vacated.insert(node.to_owned());
                of_old = of_old.max(pod.spec.priority);
            }
        }
        let class = &before.daemon_set.spec.template.spec.priority_class_name;
        let priority = made.priority.or(of_old.filter(|_| *class == new.priority_class_name));
        let desired = int(before.node_pods.iter().filter(|node| node.should_run()).count());
        let is_rolling = matches!(after.spec.update_strategy, UpdateStrategy::RollingUpdate(_));
        let allowed =
            (replaces && is_rolling && !allows_surge(&after)).then(|| limits(&after, desired).max_unavailable);
        NewPods { after, grown, vacated, priority, unplaced, allowed }
    }

    /// Returns whether the new pods have to fit beside the old ones.
    pub(crate) fn surges(&self) -> bool {
        allows_surge(&self.after)
    }

    /// Returns whether the scheduler may place a pod that waits for room before a new pod.
    pub(crate) fn may_lose_to(&self, pending: &Pod) -> bool {
        let is_own = daemon_pods::claim(&self.after, pending).is_claimed();
        let is_tried = pending.condition("PodScheduled").is_some_and(|scheduled| scheduled.reason == "Unschedulable");
        let waits = is_tried && pending.waits_for_node();
        !is_own && waits && self.priority.is_some_and(|own| priority(pending) >= own)
    }

    /// Warns about new pods that would not fit, and reports nodes for which that is unknown. The snapshot contains the other pods on the
    /// nodes that could be read; `pending` are those that may be scheduled before a new pod.
    pub(crate) fn warnings(&self, snapshot: &Snapshot, pending: &[Pod]) -> (Vec<Warning>, Vec<Incomplete>) {
        let taken = self.room_taken(snapshot, pending);
        if self.grown.is_empty() {
            return (taken.into_iter().collect(), Vec::new());
        }
        let proposed = Proposed { daemon_set: self.after.clone(), preview: Preview::Edit, admission: None };
        // The pods of other nodes were not requested: what may follow from them is left out, as for nodes that a user chooses.
        let limited = (snapshot.pods_complete != PodsComplete::Everywhere).then(|| {
            let mut limited = Snapshot { nodes_limited: true, ..snapshot.clone() };
            limited.nodes.retain(|node| self.grown.contains(&node.metadata.name));
            limited
        });
        let options = PreviewOptions { rows: true, ..PreviewOptions::default() };
        let mut report = preview(limited.as_ref().unwrap_or(snapshot), &[proposed], &options);
        let other_reasons = std::mem::take(&mut report.incomplete);
        let rows = report.daemon_sets.into_iter().flat_map(|one| one.nodes);
        let rows: Vec<NodeChange> = rows.filter(|row| self.grown.contains(&row.name)).collect();
        let lacking: Vec<_> = rows.iter().filter(|row| row.fits == Some(false)).collect();
        let unknown = rows.iter().filter(|row| row.fits.is_none() && row.change == PodChange::Keeps).count();
        let grown = lacking.first().map(|first| {
            let nodes = count_and(lacking.len(), "node", ["has", "have"]);
            let why = first.reason.as_ref().map_or(String::new(), |reason| format!(": {}", reason.message));
            let message = format!("{nodes} no room for the new pod, such as {}{why}", first.name);
            // Where a pod runs, more of them would be deleted for none.
            let loses_none = lacking.len() <= AT_ONCE && lacking.iter().all(|row| self.unplaced.contains(&row.name));
            let is_stopped = loses_none && self.allowed.is_some_and(|allowed| int(lacking.len()) >= allowed);
            let enough = IntOrPercent::Int(int(lacking.len()) + 1);
            let fields = SpecFields { max_unavailable: Some(enough), ..SpecFields::default() };
            let advice = format!(
                "the rollout stops at {}; to let it finish on the others",
                if lacking.len() == 1 { "it" } else { "them" }
            );
            let fix = is_stopped.then(|| Fix::new(advice, set::command(&name_of(&self.after), fields)));
            Warning { fix, ..Warning::new(WarningCode::NoRoom, message) }
        });
        let preempting: Vec<_> = rows.iter().filter_map(|row| row.preemption.as_ref()).collect();
        let preempted =
            preempting.first().and_then(|on| on.pods.iter().chain(on.some_of.iter().flat_map(|of| &of.pods)).next());
        let preempts = preempted.map(|PreemptedPod { namespace, name, priority, .. }| {
            let all: usize = preempting.iter().map(|on| on.pods.len() + on.some_of.iter().map(|of| of.at_least).sum::<usize>()).sum();
            let (pods, nodes) = (count(all, "pod"), count(preempting.len(), "node"));
            let message = format!(
                "on {nodes}, the scheduler preempts {pods} to make room for the new pods, such as {namespace}/{name} (priority {priority})"
            );
            Warning::new(WarningCode::Preempts, message)
        });
        let left_open = format!("whether the new pods fit on {} is not known", count(unknown, "node"));
        let mut unread = if unknown > 0 { incomplete_for_room(snapshot, &left_open) } else { Vec::new() };
        if unknown > 0 && unread.is_empty() {
            unread = other_reasons.into_iter().map(|why| Incomplete { affects_counts: false, ..why }).collect();
        }
        (grown.into_iter().chain(preempts).chain(taken).collect(), unread)
    }

    /// Warns about Pending pods that may be scheduled in the place of deleted pods, so that the new pods would not fit.
    fn room_taken(&self, snapshot: &Snapshot, pending: &[Pod]) -> Option<Warning> {
        let index = Index::new(snapshot);
        let spec = PodSpec { priority: self.priority, ..admitted(snapshot, &self.after).spec };
        // A pod is told from the others by its UID.
        let new =
            Pod { spec, metadata: ObjectMeta { uid: "new".to_owned(), ..ObjectMeta::default() }, ..Pod::default() };
        // There may be thousands of the same workload, which are listed one after the other.
        let kinds: Vec<&[Pod]> = pending.chunk_by(|one, next| one.spec == next.spec).collect();
        let takes = |node: &'_ Node| {
            let own = |pod: &Pod| daemon_pods::claim(&self.after, pod).is_claimed();
            let fits = |pod: &Pod, added: Option<&Pod>| fits_after(&index, node, pod, own, added) == Some(true);
            let comes_first = |pod: &&Pod| {
                is_allowed(pod, node)
                    && fits_now(&index, node, pod) == Some(false)
                    && fits(pod, None)
                    && !fits(&new, Some(pod))
            };
            let places = |pods: &&&[Pod]| pods.first().as_ref().is_some_and(comes_first);
            if fits(&new, None) { kinds.iter().filter(places).copied().collect() } else { Vec::new() }
        };
        let vacated = self.vacated.iter().filter(|name| snapshot.knows_all_pods_on(name));
        let taken = vacated.filter_map(|name| index.node(name)).map(|node| (node, takes(node)));
        let taken: Vec<(&Node, Vec<&[Pod]>)> = taken.filter(|(_, kinds)| !kinds.is_empty()).collect();
        let (node, pod) = taken.first().and_then(|(node, kinds)| Some((node, kinds.first()?.first()?)))?;
        // Each of them takes one of the nodes.
        let that_take: BTreeMap<_, _> =
            taken.iter().flat_map(|(_, kinds)| kinds).map(|pods| (pods.as_ptr(), pods.len())).collect();
        let pods: usize = that_take.values().sum();
        let nodes = match pods < taken.len() {
            true => format!("{pods} of {}", count(taken.len(), "node")),
            false => count(taken.len(), "node"),
        };
        let message = format!(
            "on {nodes}, a Pending pod may be scheduled in the place of the deleted pod, and the new pod would not fit: such as {} on {} \
             (priority {}; the new pod has {})",
            pod.metadata.full_name(),
            node.metadata.name,
            priority(pod),
            priority(&new),
        );
        Some(Warning::new(WarningCode::NoRoom, message))
    }
}

/// Returns whether the node selector, node affinity and tolerations of a pod allow a node.
fn is_allowed(pod: &Pod, node: &Node) -> bool {
    RequiredNodeAffinity::new(&pod.spec).matches(node)
        && !node.spec.taints.iter().any(|taint| repels(taint, &pod.spec.tolerations))
}

/// Returns whether a node has what a pod, as it is admitted, requests, whatever else runs there.
pub(super) fn fits_alone(index: &Index<'_>, spec: &PodSpec, node: &Node) -> bool {
    fits(&index.device_claims.classes.without(&template_requests(spec), node), node, &NodeUsage::default()).is_empty()
}

/// Returns whether a pod may not fit where one with another spec did: it requests more, needs other host ports or volumes, or other
/// rules about pods apply to it.
fn takes_more(new: &PodSpec, old: &PodSpec) -> bool {
    requests_more(new, old)
        || needs_more_ports(new, old)
        || new.volumes != old.volumes
        || new.affinity != old.affinity
        || new.topology_spread_constraints != old.topology_spread_constraints
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::NewPods;
    use crate::coverage::test_support::{World, merge, world};
    use crate::facts::Facts;
    use crate::facts::index::Index;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::pod::Pod;
    use crate::model::snapshot::{PodsComplete, Snapshot};

    fn requesting(cpu: &str) -> Value {
        json!({"containers": [{"name": "agent", "image": "agent:3", "resources": {"requests": {"cpu": cpu}}}]})
    }

    fn with_another_image(cpu: &str) -> Value {
        let mut spec = requesting(cpu);
        spec["containers"][0]["image"] = json!("agent:4");
        spec
    }

    /// Nodes n0 and n1 of 2 cpus with a pod that requests half a cpu; another one on n0 requests one.
    fn nodes(strategy: &Value) -> World {
        let strategy = json!({"spec": {"updateStrategy": strategy}});
        let mut world = world().template(requesting("500m")).daemon_set(strategy).revision_of_template("own", 3);
        for node in ["n0", "n1"] {
            let allocatable = json!({"status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}});
            world = world.node(node, allocatable).pod(
                &format!("agent-{node}"),
                node,
                json!({"metadata": {"labels": {"controller-revision-hash": "own"}}, "spec": requesting("500m")}),
            );
        }
        let other = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
        world.other_pod("other", "n0", other)
    }

    fn new_pods(snapshot: &Snapshot, spec: &Value, stage: Option<&[String]>) -> NewPods {
        let daemon_set = &snapshot.daemon_sets[0];
        let mut object = daemon_set.object.clone();
        object["spec"]["template"]["spec"] = spec.clone();
        let template = DaemonSet::from_object(object).unwrap().template();
        NewPods::of(&Facts::new(&Index::new(snapshot), daemon_set), &template, stage)
    }

    /// Returns the number of nodes to look at, the warning, and how much is said to be unknown.
    fn found(snapshot: &Snapshot, spec: &Value, stage: Option<&[String]>) -> (usize, Option<String>, usize) {
        let pods = new_pods(snapshot, spec, stage);
        let (mut warnings, unknown) = pods.warnings(snapshot, &[]);
        (pods.grown.len(), warnings.pop().map(|warning| warning.message), unknown.len())
    }

    #[test]
    fn the_pods_of_the_nodes_of_a_stage_are_enough_unless_a_rule_goes_by_those_of_others() {
        let on_own_node = |key: &str| {
            let mut spec = requesting("1");
            let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": "other"}}});
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
            spec
        };
        let n1 = "1 node has no room for the new pod, such as n1: ";
        for (spec, expected, unknown) in [
            (requesting("1"), None, 0),
            (requesting("3"), Some(n1), 0),
            (on_own_node("kubernetes.io/hostname"), None, 0),
            (on_own_node("zone"), None, 1),
        ] {
            let mut snapshot = nodes(&json!({"rollingUpdate": {"maxUnavailable": 1}})).finish();
            for node in &mut snapshot.nodes {
                node.metadata.labels.insert("zone".to_owned(), "a".to_owned());
            }
            snapshot.pods_complete = PodsComplete::On(["n1".to_owned()].into());
            let (_, warning, unread) = found(&snapshot, &spec, Some(&["n1".to_owned()]));
            assert_eq!(
                warning.as_deref().map(|it| it.starts_with(expected.unwrap())),
                expected.map(|_| true),
                "{spec}"
            );
            assert_eq!(unread, unknown, "{spec}");
        }
    }

    #[test]
    fn pods_that_do_not_fit_are_known_before_they_are_replaced() {
        let at_once = json!({"rollingUpdate": {"maxUnavailable": 1}});
        let surge = json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
        let with_port = || {
            let mut spec = requesting("500m");
            spec["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
            spec
        };
        let n0 = Some("1 node has no room for the new pod, such as n0: ");
        for (strategy, spec, all_read, looked_at, expected, unknown) in [
            // Those that take no more fit where they are.
            (&at_once, requesting("500m"), true, 0, None, 0),
            (&at_once, requesting("100m"), false, 0, None, 0),
            (&at_once, requesting("1"), true, 2, None, 0),
            (&at_once, requesting("1500m"), true, 2, n0, 0),
            (&at_once, requesting("3"), true, 2, Some("2 nodes have no room for the new pod, such as n0: "), 0),
            (&at_once, with_port(), true, 2, None, 0),
            // The old pod keeps its room until the new one is available.
            (&surge, requesting("600m"), true, 2, n0, 0),
            (&at_once, requesting("600m"), true, 2, None, 0),
            // Only what is known is said.
            (&at_once, requesting("1500m"), false, 2, None, 1),
        ] {
            let mut snapshot = nodes(strategy).finish();
            if !all_read {
                snapshot.pods_complete = PodsComplete::default();
            }
            let (nodes, message, gaps) = found(&snapshot, &spec, None);
            assert_eq!((nodes, gaps), (looked_at, unknown), "{strategy} {spec} {message:?}");
            assert_eq!(message.is_some(), expected.is_some(), "{strategy} {spec} {message:?}");
            assert!(message.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{strategy} {spec}");
        }
        // A stage deletes the old pods first, and looks at its own nodes.
        let snapshot = nodes(&surge).finish();
        let stage = |name: &str| found(&snapshot, &requesting("1500m"), Some(&[name.to_owned()]));
        assert!(matches!(stage("n0"), (1, Some(_), 0)));
        assert_eq!(stage("n1"), (1, None, 0));
        assert_eq!(found(&snapshot, &requesting("600m"), Some(&["n0".to_owned()])).1, None);
    }

    /// What it would replace holds no room, though it requests more.
    #[test]
    fn a_pod_that_was_not_scheduled_leaves_no_room_behind() {
        for (other, maximum, expected, fix) in [
            ("1800m", 1, Some("1 node has no room for the new pod, such as n0: "), Some("--max-unavailable 2")),
            ("1800m", 2, Some("1 node has no room for the new pod, such as n0: "), None),
            ("1400m", 1, None, None),
        ] {
            let strategy = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": maximum}}}});
            let mut world = world().template(requesting("3")).daemon_set(strategy).revision_of_template("own", 3);
            for node in ["n0", "n1"] {
                let cpus = if node == "n0" { "2" } else { "4" };
                world =
                    world.node(node, json!({"status": {"allocatable": {"cpu": cpus, "memory": "4Gi", "pods": "10"}}}));
            }
            let own = || json!({"metadata": {"labels": {"controller-revision-hash": "own"}}, "spec": requesting("3")});
            let world = world.pending_pod("agent-n0", "n0", "", own()).pod("agent-n1", "n1", own());
            let other = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": other}}}]}});
            let snapshot = world.other_pod("other", "n0", other).finish();
            let pods = new_pods(&snapshot, &requesting("500m"), None);
            let warning = pods.warnings(&snapshot, &[]).0.pop();
            let message = warning.as_ref().map(|warning| warning.message.clone());
            assert_eq!(pods.grown.iter().collect::<Vec<_>>(), ["n0"]);
            assert_eq!(message.is_some(), expected.is_some(), "{maximum} {message:?}");
            assert!(message.unwrap_or_default().starts_with(expected.unwrap_or_default()));
            let command = warning.and_then(|warning| warning.fix).and_then(|fix| fix.command).map(|it| it.to_string());
            assert_eq!(command.is_some(), fix.is_some(), "{maximum} {command:?}");
            assert!(command.unwrap_or_default().contains(fix.unwrap_or_default()));
        }
        // Where a pod runs, a higher limit would delete it for none.
        let snapshot = nodes(&json!({"rollingUpdate": {"maxUnavailable": 1}})).finish();
        let warning = new_pods(&snapshot, &requesting("1500m"), None).warnings(&snapshot, &[]).0.pop().unwrap();
        assert!(warning.message.starts_with("1 node has no room") && warning.fix.is_none(), "{warning:?}");
    }

    #[test]
    fn a_pod_requests_what_a_limit_range_adds() {
        let of = |image: &str| json!({"containers": [{"name": "agent", "image": image}]});
        let limits = json!({"metadata": {"name": "limits", "namespace": "default"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]}});
        let mut world = world().template(of("agent:3")).revision_of_template("own", 3);
        for (node, cpus) in [("n0", "2"), ("n1", "4")] {
            let allocatable = json!({"status": {"allocatable": {"cpu": cpus, "memory": "4Gi", "pods": "10"}}});
            let own = json!({"metadata": {"labels": {"controller-revision-hash": "own"}}, "spec": of("agent:3")});
            world = world.node(node, allocatable).pod(&format!("agent-{node}"), node, own);
        }
        world.snapshot.limit_ranges.push(serde_json::from_value(limits).unwrap());
        // Whether the second one has room for it depends on its other pods.
        let pods = new_pods(&world.finish(), &of("agent:4"), None);
        assert_eq!(pods.grown.iter().collect::<Vec<_>>(), ["n0", "n1"]);
    }

    /// A restart makes pods of the same size, which run on because nobody has asked whether they still fit.
    #[test]
    fn pods_of_the_same_size_do_not_fit_where_the_node_has_become_smaller_or_beside_those_that_they_exclude() {
        let anti = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "agent"}}, "topologyKey": "kubernetes.io/hostname"}]}});
        let surge = json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
        for (cpus, strategy, affinity, expected) in [
            ("2", json!({}), json!({}), vec![]),
            ("250m", json!({}), json!({}), vec!["n1"]),
            ("2", json!({}), anti.clone(), vec![]),
            ("2", surge.clone(), anti, vec!["n0", "n1"]),
            ("2", surge, json!({}), vec![]),
        ] {
            let mut old = requesting("500m");
            old["affinity"] = affinity;
            let mut new = old.clone();
            new["containers"][0]["image"] = json!("agent:4");
            let strategy = json!({"spec": {"updateStrategy": strategy}});
            let mut world = world().template(old.clone()).daemon_set(strategy).revision_of_template("own", 3);
            for (node, cpus) in [("n0", "2"), ("n1", cpus)] {
                let labels = json!({"kubernetes.io/hostname": node});
                let allocatable = json!({"cpu": cpus, "memory": "4Gi", "pods": "10"});
                world =
                    world.node(node, json!({"metadata": {"labels": labels}, "status": {"allocatable": allocatable}}));
                let own = json!({"metadata": {"labels": {"controller-revision-hash": "own"}}, "spec": old});
                world = world.pod(&format!("agent-{node}"), node, own);
            }
            let snapshot = world.finish();
            let pods = new_pods(&snapshot, &new, None);
            assert_eq!(pods.grown.iter().collect::<Vec<_>>(), expected, "{cpus}");
            let told = pods.warnings(&snapshot, &[]).0.pop().is_some_and(|warning| warning.message.contains("no room"));
            assert_eq!(told, !expected.is_empty(), "{cpus}");
        }
    }

    #[test]
    fn a_pod_that_waits_for_room_may_take_that_of_a_deleted_one() {
        let at_once = json!({"rollingUpdate": {"maxUnavailable": 1}});
        let surge = json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
        let pending = |cpu: &str, spec: Value| {
            let mut pod = json!({"metadata": {"name": "db-0", "namespace": "shop", "uid": "db-0"}, "spec": requesting(cpu),
                "status": {"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
            merge(&mut pod["spec"], spec);
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        // n0 has half a cpu left, n1 one and a half.
        for (strategy, spec, pod, expected) in [
            (&at_once, requesting("500m"), pending("1", json!({})), None),
            (&at_once, requesting("501m"), pending("600m", json!({})), Some("on 1 node, ")),
            // A restart makes pods of the same size.
            (&at_once, with_another_image("500m"), pending("600m", json!({})), Some("shop/db-0 on n0 (priority 0; ")),
            (&at_once, with_another_image("500m"), pending("1800m", json!({})), Some("shop/db-0 on n1")),
            (&surge, with_another_image("500m"), pending("600m", json!({})), None),
            // It fits beside the old pod, or does not fit without it, or both fit.
            (&at_once, with_another_image("500m"), pending("400m", json!({})), None),
            (&at_once, with_another_image("500m"), pending("2500m", json!({})), None),
            (&at_once, with_another_image("100m"), pending("600m", json!({})), None),
            (&at_once, with_another_image("500m"), pending("600m", json!({"nodeSelector": {"a": "b"}})), None),
            (&at_once, with_another_image("500m"), pending("600m", json!({"priority": -1})), None),
            (
                &at_once,
                with_another_image("500m"),
                pending("600m", json!({"priority": 5})),
                Some("(priority 5; the new pod has 0)"),
            ),
        ] {
            // What has ended takes nothing.
            let ended = json!({"spec": requesting("2"), "status": {"phase": "Failed"}});
            let mut snapshot = nodes(strategy).other_pod("ended", "n0", ended).finish();
            snapshot
                .priority_classes
                .push(serde_json::from_value(json!({"metadata": {"name": "x"}, "value": 9})).unwrap());
            let pods = new_pods(&snapshot, &spec, None);
            let pending: Vec<Pod> = [pod].into_iter().filter(|pod| pods.may_lose_to(pod)).collect();
            let warning = pods.warnings(&snapshot, &pending).0.pop().map(|warning| warning.message);
            assert_eq!(warning.is_some(), expected.is_some(), "{strategy} {spec} {warning:?} {pending:?}");
            assert!(warning.unwrap_or_default().contains(expected.unwrap_or_default()), "{strategy} {spec}");
        }
    }
}
