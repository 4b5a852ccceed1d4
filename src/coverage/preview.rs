//! What would change if a manifest were applied, a DaemonSet edited, or nodes labeled and tainted: which nodes gain, keep or lose a
//! pod, and on which it does not fit.

use std::collections::BTreeMap;

use super::gaps;
use super::group::FindingGroups;
use super::overhead::startup_taint;
use super::proposed_daemon_set::{Admission, Fit, ProposedDaemonSet, Unknown};
use super::startup_taints::TaintRemovers;
use super::verdict::finding::Finding;
use super::verdict::former_pods::tolerated_for;
use super::verdict::preemption::is_of_room;
use crate::difference::difference;
use crate::difference::object::changes;
use crate::facts::index::Index;
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::hold::Hold;
use crate::model::int_or_percent::int;
use crate::model::node::Node;
use crate::model::node_edit::NodeEdit;
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::coverage::Incomplete;
use crate::report::node_map::by_value;
use crate::report::overhead::StartupTaintReport;
use crate::report::preview::{
    ChangesBy, ChangesByRow, DaemonSetPreview, EvictedPods, NodeChange, PodChange, Preview, PreviewReport, nodes_of,
};
use crate::scheduling::rolling_update::unavailable_count;
use crate::scheduling::should_run::DaemonPod;

/// A DaemonSet after the change.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposed {
    /// With the API server's defaults.
    pub daemon_set: DaemonSet,
    /// The change that leads to it.
    pub preview: Preview,
    /// Whether its pods would be admitted, if checked.
    pub admission: Option<Admission>,
}

/// The parts of a preview besides the DaemonSets.
#[derive(Debug, Clone, Default)]
pub struct PreviewOptions {
    /// The changes to the nodes.
    pub nodes: NodeEdit,
    /// The changes as they were given.
    pub changes: Vec<String>,
    /// The label by whose values the nodes are counted.
    pub by: Option<String>,
    /// Whether the nodes of the snapshot are all of the cluster.
    pub all_nodes: bool,
    /// Whether every node has a row, regardless of the number of DaemonSets.
    pub rows: bool,
}

/// Compares each DaemonSet with the live one of the same namespace and name, and the nodes before and after the change.
pub fn preview(snapshot: &Snapshot, proposed: &[Proposed], options: &PreviewOptions) -> PreviewReport {
    let index = Index::new(snapshot);
    let changes_nodes = !options.nodes.is_empty();
    let edited: Vec<Node> =
        if changes_nodes { index.nodes.iter().map(|node| options.nodes.applied(node)).collect() } else { Vec::new() };
    let nodes = if changes_nodes { edited.iter().collect() } else { index.nodes.clone() };
    let is_detailed = options.rows || !changes_nodes || proposed.len() == 1;
    let mut incomplete = Vec::new();
    let one = |one| preview_of(&index, one, &nodes, options, is_detailed, &mut incomplete);
    let mut daemon_sets: Vec<DaemonSetPreview> = proposed.iter().map(one).collect();
    let mut startup_taints = Vec::new();
    if changes_nodes {
        incomplete.extend(gaps::incomplete(snapshot).into_iter().filter(|gap| gap.affects_counts));
        daemon_sets.sort_by_key(|one| {
            let evicted = one.evicted.iter().map(|evicted| evicted.nodes.len()).sum::<usize>();
            let (stays, unfit) = (one.stays.len(), nodes_of(&one.does_not_fit));
            std::cmp::Reverse((nodes_of(&one.loses) - stays, evicted, stays, unfit, one.gains.len()))
        });
        startup_taints = left_startup_taints(proposed, &nodes);
    }
    let mut told: Vec<Incomplete> = Vec::new();
    for gap in incomplete {
        if !told.contains(&gap) {
            told.push(gap);
        }
    }
    PreviewReport {
        now: snapshot.now,
        incomplete: told,
        changes: options.changes.clone(),
        changes_nodes,
        nodes: nodes.iter().map(|node| node.metadata.name.clone()).collect(),
        daemon_sets,
        startup_taints,
    }
}

/// Returns the startup taints that a DaemonSet would remove once it runs, but does not because another taint keeps it away.
fn left_startup_taints(proposed: &[Proposed], nodes: &[&Node]) -> Vec<StartupTaintReport> {
    let daemon_sets: Vec<&DaemonSet> = proposed.iter().map(|one| &one.daemon_set).collect();
    let pods: Vec<(&DaemonSet, DaemonPod)> =
        daemon_sets.iter().map(|daemon_set| (*daemon_set, DaemonPod::new(&daemon_set.spec.template))).collect();
    let removers = TaintRemovers::new(&pods, nodes.iter().copied());
    let mut left = Vec::new();
    for node in nodes {
        let stays = removers.after_start(node).taints.into_iter().filter(|taint| taint.kept_by.is_some());
        for taint in stays.map(|taint| startup_taint(&taint, &daemon_sets)) {
            if !left.contains(&taint) {
                left.push(taint);
            }
        }
    }
    left
}

/// Compares a DaemonSet with the live one; `nodes` are those of the index after the change.
fn preview_of(
    index: &Index<'_>,
    proposed: &Proposed,
    nodes: &[&Node],
    options: &PreviewOptions,
    is_detailed: bool,
    incomplete: &mut Vec<Incomplete>,
) -> DaemonSetPreview {
    let Proposed { daemon_set, preview, admission } = proposed;
    let proposal = ProposedDaemonSet::new(index, daemon_set, admission.as_ref());
    let by = options.by.as_deref();
    let metadata = &daemon_set.metadata;
    let mut report = DaemonSetPreview {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        preview: *preview,
        template_changes: proposal.template_changes,
        differences: proposal.live.map_or_else(Vec::new, |live| difference(&live.template(), &daemon_set.template())),
        nothing_changes: proposal.live.is_some_and(|live| changes(&live.object, &daemon_set.object).is_empty()),
        on_delete: daemon_set.spec.update_strategy == UpdateStrategy::OnDelete,
        held: Hold::in_force(daemon_set).is_some(),
        admission_checked: admission.as_ref().is_some_and(|admission| !admission.is_of_dump),
        ..DaemonSetPreview::default()
    };
    let mut rows: BTreeMap<Option<&str>, ChangesByRow> = BTreeMap::new();
    let (mut loses, mut does_not_fit, mut does_not_start, mut preempts) =
        (FindingGroups::default(), FindingGroups::default(), FindingGroups::default(), FindingGroups::default());
    let mut unknown_fits = BTreeMap::<Unknown, usize>::new();
    let mut evicted = BTreeMap::<i64, Vec<String>>::new();
    let knows_pods = index.knows(Kind::Pods, &metadata.namespace);
    let changes_nodes = !options.nodes.is_empty();
    let mut creates_pods = !changes_nodes;
    for (number, node) in nodes.iter().enumerate() {
        let name = &node.metadata.name;
        let has_pod = proposal.has_pod(number);
        let now = proposal.live.and_then(|_| proposal.pods.node_pods[number].decision);
        let runs_now = now.is_some_and(|now| now.should_run);
        let then = proposal.pod.decide(node);
        report.eligible_now += usize::from(runs_now);
        report.eligible_then += usize::from(then.should_run);
        report.updated_already += usize::from(proposal.template_changes == Some(true) && proposal.keeps_pod(number));
        let stays = has_pod && now.is_none_or(|now| now.should_continue_running);
        // A pod that keeps running but would not be recreated can be lost, too.
        let is_lost = runs_now || (stays && !then.should_continue_running);
        // If a pod was already missing before, the change to the nodes is not the cause.
        let is_new = !(changes_nodes && runs_now && proposal.template_changes == Some(false));
        let refused = proposal.refused.clone().filter(|_| then.should_run && is_new);
        let (fits, obstacle, preemption) = match () {
            () if refused.is_some() => (Some(false), None, None),
            () if !then.should_run => (None, None, None),
            () if proposal.keeps_pod(number) => (Some(true), None, None),
            () if !is_new => (None, None, None),
            () => {
                creates_pods = true;
                match proposal.fit(node, runs_now) {
                    Fit::Fits => (Some(true), None, None),
                    Fit::ByPreemption(finding, preemption) => (Some(true), None, Some((finding, preemption))),
                    Fit::Lacks(obstacle) => (Some(false), Some(obstacle), None),
                    Fit::Unknown(why) => {
                        *unknown_fits.entry(why).or_default() += 1;
                        (None, None, None)
                    }
                }
            }
        };
        let (by_preemption, preemption) = preemption.unzip();
        let was_evicted =
            runs_now && tolerated_for(&proposal.pods.daemon_pod, &index.nodes[number].spec.taints).is_some();
        let is_evicted = then.should_run && !was_evicted;
        let evicted_after = tolerated_for(&proposal.pod, &node.spec.taints).filter(|_| is_evicted);
        let (change, loss) = match (runs_now, then.should_run) {
            (false, true) if fits == Some(false) => (PodChange::None, None),
            (_, true) if evicted_after.is_some() => (PodChange::Evicted, None),
            (true, true) if knows_pods && !has_pod => (PodChange::Missing, None),
            (true, true) => (PodChange::Keeps, None),
            // A misscheduled pod becomes a desired one.
            (false, true) if stays => (PodChange::Keeps, None),
            (false, true) => (PodChange::Gains, None),
            (_, false) => {
                // Without pods it is unknown whether one stays.
                let may_stay =
                    runs_now && then.should_continue_running && (has_pod || !knows_pods) && !proposal.replaces_pods();
                let mut loss = proposal.loss(node, may_stay);
                if let Some(loss) = loss.as_mut().filter(|_| is_lost) {
                    // The node is fine: the change excludes it.
                    loss.command = None;
                    let what = match preview {
                        Preview::Unchanged | Preview::Edit => "do not make this change",
                        _ => "change the manifest",
                    };
                    let should = if has_pod { "keep its pod" } else { "run a pod" };
                    loss.advice = format!("if the node should {should}, {what}").into();
                }
                let change = match (is_lost, may_stay) {
                    (false, _) => PodChange::None,
                    (true, true) => PodChange::Stays,
                    (true, false) if has_pod => PodChange::Loses,
                    (true, false) => PodChange::Excluded,
                };
                (change, loss)
            }
        };
        if let Some(label) = by {
            let value = node.metadata.labels.get(label).map(String::as_str);
            let row = rows.entry(value).or_default();
            row.eligible_now += usize::from(runs_now);
            row.eligible_then += usize::from(then.should_run);
            row.does_not_fit += usize::from(obstacle.is_some());
            row.does_not_start += usize::from(refused.is_some());
        }
        if is_detailed {
            let reason = refused.as_ref().or(obstacle.as_ref()).or(by_preemption.as_ref()).or(loss.as_ref());
            let reason = reason.map(Finding::reason);
            report.nodes.push(NodeChange { name: name.clone(), change, fits, preemption, reason });
        }
        match change {
            PodChange::Keeps => report.keeps.push(name.clone()),
            PodChange::Missing => report.missing.push(name.clone()),
            PodChange::Gains => report.gains.push(name.clone()),
            PodChange::Loses | PodChange::Excluded => loses.extend(name, loss),
            PodChange::Stays => {
                report.stays.push(name.clone());
                loses.extend(name, loss);
            }
            PodChange::Evicted => {
                evicted.entry(evicted_after.map_or(0, |(seconds, _)| seconds)).or_default().push(name.clone());
            }
            PodChange::None => {}
        }
        preempts.extend(name, by_preemption);
        report.does_not_fit_now += usize::from(obstacle.is_some() && proposal.waits_for_room(number));
        does_not_fit.extend(name, obstacle);
        does_not_start.extend(name, refused);
    }
    if options.all_nodes {
        let now = proposal.live.map(|live| unavailable_count(live, int(report.eligible_now)));
        let then = unavailable_count(daemon_set, int(report.eligible_then));
        (report.may_be_unavailable_now, report.may_be_unavailable_then) = (now, Some(then));
    }
    report.evicted = evicted.into_iter().map(|(after_seconds, nodes)| EvictedPods { after_seconds, nodes }).collect();
    report.fits_by_preemption = preempts.into_report();
    report.does_not_fit = does_not_fit.into_report();
    if creates_pods {
        let needs_priority = report.does_not_fit.iter().any(|group| is_of_room(group.code));
        let spec = &daemon_set.spec.template.spec;
        incomplete.extend(gaps::incomplete_for_new_pods(index.snapshot, spec, needs_priority));
    }
    // That no pods were read at all is told once.
    unknown_fits.retain(|why, _| knows_pods || *why != Unknown::Room);
    incomplete.extend(unknown_fits.into_iter().map(|(why, nodes)| why.incomplete(nodes)));
    let unasked = admission.iter().flat_map(|admission| &admission.unknown);
    incomplete.extend(unasked.map(|message| Incomplete {
        namespace: Some(metadata.namespace.clone()),
        ..Incomplete::new("pods", message.clone(), true)
    }));
    if is_detailed && (report.eligible_then == 0 || *preview == Preview::Create) {
        let mut not_eligible = FindingGroups::default();
        for node in nodes {
            if !proposal.pod.decide(node).should_run {
                not_eligible.extend(&node.metadata.name, proposal.loss(node, false));
            }
        }
        report.not_eligible = not_eligible.into_report();
    }
    let rows = by_value(rows).map(|(value, row)| ChangesByRow { value, ..row }).collect();
    report.by = by.map(|label| ChangesBy { label: label.to_owned(), rows });
    report.loses = loses.into_report();
    report.does_not_start = does_not_start.into_report();
    report
}

#[cfg(test)]
pub(super) mod tests {
    use std::ops::Deref;

    use serde_json::{Value, json};

    use super::{Admission, PreviewOptions, Proposed};
    use crate::coverage::test_support::{World, world};
    use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
    use crate::model::node_edit::{NodeEdit, TaintKey};
    use crate::model::snapshot::{Gap, GapCause, Kind, PodsComplete, Snapshot};
    use crate::report::coverage::Incomplete;
    use crate::report::preview::{DaemonSetPreview, PodChange, Preview, PreviewReport};
    use crate::report::reason::ReasonCode;

    /// A report with a single DaemonSet.
    #[derive(Debug)]
    pub(in crate::coverage) struct Alone(PreviewReport);

    impl Deref for Alone {
        type Target = DaemonSetPreview;

        fn deref(&self) -> &DaemonSetPreview {
            &self.0.daemon_sets[0]
        }
    }

    impl Alone {
        pub(in crate::coverage) fn passes(&self) -> bool {
            self.0.passes()
        }

        pub(in crate::coverage) fn incomplete(&self) -> &[Incomplete] {
            &self.0.incomplete
        }
    }

    /// What is not known of one node is not what fits, and a rule about pods of the same DaemonSet is not decided by those that it has now.
    #[test]
    fn rules_about_other_pods_decide_where_a_pod_fits() {
        let rule = |rule: &str, key: &str, app: &str| {
            let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}});
            json!({"affinity": {rule: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
        };
        let spread = |key: &str, policy: &str| {
            let selector = json!({"matchLabels": {"app": "agent"}});
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
                "nodeAffinityPolicy": policy, "labelSelector": selector}]})
        };
        let with_priority = |mut template: Value, policy: &str| {
            (template["priorityClassName"], template["preemptionPolicy"]) =
                ("system-node-critical".into(), policy.into());
            template
        };
        let (yes, no, unknown) = (Some(true), Some(false), None);
        for (template, everywhere, expected) in [
            (rule("podAntiAffinity", "zone", "other"), true, [no, no, yes]),
            // What is on another node is not preempted, nor what would have to be there.
            (with_priority(rule("podAntiAffinity", "zone", "other"), ""), true, [unknown, no, yes]),
            (with_priority(rule("podAntiAffinity", "zone", "other"), "Never"), true, [no, no, yes]),
            (with_priority(rule("podAffinity", "zone", "nobody"), ""), true, [no, no, no]),
            (rule("podAntiAffinity", "zone", "other"), false, [no, no, unknown]),
            (rule("podAntiAffinity", "kubernetes.io/hostname", "other"), true, [no, yes, yes]),
            (rule("podAntiAffinity", "kubernetes.io/hostname", "agent"), true, [yes, yes, yes]),
            (rule("podAntiAffinity", "zone", "agent"), true, [unknown, unknown, yes]),
            (rule("podAffinity", "zone", "other"), true, [yes, yes, no]),
            (rule("podAffinity", "zone", "nobody"), true, [no, no, no]),
            (rule("podAffinity", "zone", "agent"), true, [unknown, unknown, unknown]),
            (rule("podAffinity", "rack", "other"), false, [no, no, no]),
            (spread("zone", "Honor"), true, [yes, yes, yes]),
            (spread("zone", "Ignore"), true, [unknown, unknown, unknown]),
            (spread("rack", "Honor"), true, [no, no, no]),
        ] {
            let zone = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
            let world = world().node("a", zone("1")).node("b", zone("1")).node("c", zone("2"));
            let mut snapshot = world.other_pod("db-0", "a", json!({})).finish();
            let proposed =
                crate::coverage::test_support::world().template(template.clone()).finish().daemon_sets.remove(0);
            if !everywhere {
                snapshot.nodes_limited = true;
            }
            let preview = what_if(&snapshot, &proposed);
            let fits: Vec<Option<bool>> = preview.nodes.iter().map(|node| node.fits).collect();
            assert_eq!(fits, expected, "{template} {everywhere}");
            assert_eq!(!preview.incomplete().is_empty(), expected.contains(&unknown), "{template}");
        }
    }

    /// A claim that is for one pod, or not bound yet, goes to the pod that is first; one that is bound decides for all.
    #[test]
    fn volumes_decide_where_a_pod_fits() {
        let (yes, no, unknown) = (Some(true), Some(false), None);
        let metadata =
            json!({"name": "db", "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}});
        let claim = |spec: Value| json!([{"metadata": metadata, "spec": spec}]);
        let volume = |zone: &str| {
            let expression = json!({"key": "zone", "operator": "In", "values": [zone]});
            let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}});
            json!([{"metadata": {"name": "v"}, "spec": {"nodeAffinity": affinity}}])
        };
        let class = |mode: &str, provisioner: &str| {
            let topology = json!([{"matchLabelExpressions": [{"key": "zone", "values": ["1"]}]}]);
            json!([{"metadata": {"name": "c"}, "provisioner": provisioner, "volumeBindingMode": mode, "allowedTopologies": topology}])
        };
        let shared = json!({"volumes": [{"name": "db", "persistentVolumeClaim": {"claimName": "db"}}]});
        let spec = json!({"storageClassName": "c", "resources": {"requests": {"storage": "1Gi"}}});
        let ephemeral = json!({"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]});
        let bound = claim(json!({"volumeName": "v"}));
        let mut in_tree = volume("1");
        in_tree[0]["spec"]["awsElasticBlockStore"] = json!({"volumeID": "vol-1"});
        let annotations = json!({"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"});
        let migrated = json!([{"metadata": {"name": "a", "annotations": annotations}}]);
        let watches = json!([{"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": true}}]);
        let left = |capacity: &str| json!([{"metadata": {"name": "s"}, "storageClassName": "c", "capacity": capacity, "nodeTopology": {}}]);
        for (template, storage, expected) in [
            // That it lacks the claim is found for the manifest as a whole, which may create it.
            (&shared, json!({}), [yes, yes, yes]),
            (&shared, json!({"claims": bound, "volumes": volume("1")}), [yes, yes, no]),
            (&shared, json!({"claims": bound, "volumes": volume("2")}), [no, no, yes]),
            (&shared, json!({"claims": bound}), [no, no, no]),
            (&shared, json!({"claims": bound, "volumes": in_tree, "csiNodes": migrated}), [unknown, yes, no]),
            (
                &shared,
                json!({"claims": claim(json!({"volumeName": "v", "accessModes": ["ReadWriteOncePod"]})), "volumes": volume("1")}),
                [unknown, unknown, no],
            ),
            (
                &shared,
                json!({"claims": claim(spec.clone()), "classes": class("WaitForFirstConsumer", "csi.example.com")}),
                [unknown, unknown, no],
            ),
            (
                &shared,
                json!({"claims": claim(spec.clone()), "classes": class("Immediate", "csi.example.com")}),
                [no, no, no],
            ),
            (&ephemeral, json!({"classes": class("WaitForFirstConsumer", "csi.example.com")}), [yes, yes, no]),
            (
                &ephemeral,
                json!({"classes": class("WaitForFirstConsumer", "csi.example.com"), "csiDrivers": watches}),
                [no, no, no],
            ),
            (
                &ephemeral,
                json!({"classes": class("WaitForFirstConsumer", "csi.example.com"), "csiDrivers": watches,
                    "capacities": left("1Gi")}),
                [yes, yes, no],
            ),
            (
                &ephemeral,
                json!({"classes": class("WaitForFirstConsumer", "csi.example.com"), "csiDrivers": watches,
                    "capacities": left("1000Mi")}),
                [no, no, no],
            ),
            (
                &ephemeral,
                json!({"classes": class("WaitForFirstConsumer", "kubernetes.io/no-provisioner")}),
                [no, no, no],
            ),
            (&ephemeral, json!({"classes": class("Immediate", "csi.example.com")}), [unknown, unknown, unknown]),
        ] {
            let zone = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
            let cluster = || world().node("a", zone("1")).node("b", zone("1")).node("c", zone("2")).storage(&storage);
            let proposed = proposed(template.clone());
            let preview = what_if(&cluster().finish(), &proposed);
            let fits: Vec<Option<bool>> = preview.nodes.iter().map(|node| node.fits).collect();
            assert_eq!(fits, expected, "{template} {storage}");
            assert_eq!(!preview.incomplete().is_empty(), expected.contains(&unknown), "{template} {storage}");
            let mut unread = cluster();
            unread.snapshot.read_on_demand.clear();
            unread.snapshot.persistent_volume_claims.clear();
            let preview = what_if(&unread.finish(), &proposed);
            assert!(preview.nodes.iter().all(|node| node.fits.is_none()), "{template} {storage}");
            assert!(!preview.incomplete().is_empty(), "{template} {storage}");
        }
    }

    #[test]
    fn storage_that_is_left_decides_where_a_pod_fits() {
        let class =
            json!([{"metadata": {"name": "c"}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer"}]);
        let driver = json!([{"metadata": {"name": "d"}, "spec": {"storageCapacity": true}}]);
        let spec = json!({"storageClassName": "c", "resources": {"requests": {"storage": "1Gi"}}});
        let template = json!({"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]});
        let zone = json!({"matchLabels": {"zone": "1"}});
        for (left, expected) in [
            (json!({"capacity": "1Gi", "nodeTopology": zone}), [true, false]),
            (json!({"capacity": "1Gi"}), [false, false]),
            (json!({"capacity": "2Gi", "maximumVolumeSize": "1Mi", "nodeTopology": {}}), [false, false]),
            (json!({"capacity": "1Mi", "maximumVolumeSize": "1Gi", "nodeTopology": {}}), [true, true]),
            (json!({"capacity": "1Gi", "nodeTopology": {}, "storageClassName": "other"}), [false, false]),
        ] {
            let mut capacity = json!({"metadata": {"name": "s"}, "storageClassName": "c"});
            capacity.as_object_mut().unwrap().extend(left.as_object().unwrap().clone());
            let storage = json!({"classes": class, "csiDrivers": driver, "capacities": [capacity]});
            let node = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
            let snapshot = world().node("a", node("1")).node("b", node("2")).storage(&storage).finish();
            let fits = |snapshot: &Snapshot| -> Vec<Option<bool>> {
                what_if(snapshot, &proposed(template.clone())).nodes.iter().map(|node| node.fits).collect()
            };
            assert_eq!(fits(&snapshot), expected.map(Some), "{left}");
            // Drivers keep it in their own namespaces.
            let of_one = Snapshot { only_namespace: Some("default".to_owned()), ..snapshot.clone() };
            assert_eq!(fits(&of_one), expected.map(|fits| fits.then_some(true)), "{left}");
            let mut unread = snapshot;
            unread.read_on_demand.remove(&Kind::CsiStorageCapacities);
            unread.csi_storage_capacities.clear();
            assert_eq!(fits(&unread), [None, None], "{left}");
        }
    }

    /// What exactly a claim requests is written in CEL, so that only a node without devices is known, or an allocation.
    #[test]
    fn claims_to_devices_decide_where_a_pod_does_not_fit() {
        let (yes, no, unknown) = (Some(true), Some(false), None);
        let spec = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}});
        let named = |name: &str, spec: Value, status: Value| json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status});
        let of = |field: &str| json!({"resourceClaims": [{"name": "gpu", field: "gpu"}]});
        let (shared, own) = (of("resourceClaimName"), of("resourceClaimTemplateName"));
        let classes = json!([{"metadata": {"name": "gpu"}}]);
        let slice = |node: &str| {
            json!({"metadata": {"name": node},
                "spec": {"driver": "d", "pool": {"name": node}, "nodeName": node, "devices": [{"name": "d0"}]}})
        };
        let slices = json!([slice("a"), slice("b")]);
        let for_b = json!({"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]});
        let allocation =
            json!({"nodeSelector": for_b, "devices": {"results": [{"driver": "d", "pool": "b", "device": "d0"}]}});
        let used = |pod: &str| json!({"allocation": allocation, "reservedFor": [{"uid": pod}]});
        let templates = json!([named("gpu", json!({"spec": spec}), json!({}))]);
        for (template, devices, expected) in [
            // The manifest may create it.
            (&shared, json!({"classes": classes, "slices": slices}), [unknown, unknown, unknown]),
            (&own, json!({"classes": classes, "slices": slices}), [unknown, unknown, unknown]),
            (&own, json!({"templates": templates, "classes": classes, "slices": slices}), [unknown, unknown, no]),
            (&own, json!({"templates": templates, "slices": slices}), [no, no, no]),
            (
                &own,
                json!({"templates": templates, "classes": classes, "slices": slices,
                    "claims": [named("other", spec.clone(), used("job-0"))]}),
                [unknown, no, no],
            ),
            // The pod that has the device is replaced.
            (
                &own,
                json!({"templates": templates, "classes": classes, "slices": slices,
                    "claims": [named("other", spec.clone(), used("agent-b"))]}),
                [unknown, unknown, no],
            ),
            (&shared, json!({"claims": [named("gpu", spec.clone(), used("job-0"))]}), [no, yes, no]),
            (&shared, json!({"claims": [named("gpu", spec.clone(), used("agent-b"))]}), [unknown, unknown, unknown]),
        ] {
            let world = world().node("a", json!({})).node("b", json!({})).node("c", json!({}));
            let world = world.pod("agent-b", "b", json!({"metadata": {"uid": "agent-b"}}));
            let snapshot = world.devices(&devices).finish();
            let preview = what_if(&snapshot, &proposed(template.clone()));
            let fits: Vec<Option<bool>> = preview.nodes.iter().map(|node| node.fits).collect();
            assert_eq!(fits, expected, "{template} {devices}");
            assert_eq!(!preview.incomplete().is_empty(), expected.contains(&unknown), "{template} {devices}");
            let mut unread = snapshot.clone();
            unread.read_on_demand.clear();
            unread.resource_claims.clear();
            unread.resource_claim_templates.clear();
            let preview = what_if(&unread, &proposed(template.clone()));
            assert!(preview.nodes.iter().all(|node| node.fits.is_none()), "{template} {devices}");
        }
    }

    #[test]
    fn features_that_kubelets_do_not_declare_decide_where_a_pod_fits() {
        let restarts = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]);
        let template = json!({"containers": [{"name": "agent", "restartPolicyRules": restarts}]});
        let declares = |features: &[&str]| json!({"status": {"declaredFeatures": features}});
        for (one, other, expected) in [
            (&["RestartAllContainersOnContainerExits"][..], &[][..], [Some(true), Some(false)]),
            (&["Another"], &["RestartAllContainersOnContainerExits"], [Some(false), Some(true)]),
            // No node declares anything: the scheduler may be of an older release.
            (&[], &[], [None, None]),
        ] {
            let snapshot = world().node("a", declares(one)).node("b", declares(other)).finish();
            let preview = what_if(&snapshot, &proposed(template.clone()));
            let fits: Vec<Option<bool>> = preview.nodes.iter().map(|node| node.fits).collect();
            assert_eq!(fits, expected, "{one:?} {other:?}");
            assert_eq!(preview.incomplete().is_empty(), expected[0].is_some(), "{one:?} {other:?}");
        }
    }

    /// Previews applying a DaemonSet.
    pub(in crate::coverage) fn what_if(snapshot: &Snapshot, proposed: &DaemonSet) -> Alone {
        asked(snapshot, proposed, None, None)
    }

    fn asked(snapshot: &Snapshot, proposed: &DaemonSet, admission: Option<&Admission>, by: Option<&str>) -> Alone {
        let exists = snapshot.daemon_sets.iter().any(|live| live.metadata.name == proposed.metadata.name);
        let preview = if exists { Preview::ClientSideApply } else { Preview::Create };
        let proposed = Proposed { daemon_set: proposed.clone(), preview, admission: admission.cloned() };
        let options = PreviewOptions { by: by.map(str::to_owned), ..PreviewOptions::default() };
        Alone(super::preview(snapshot, &[proposed], &options))
    }

    /// Previews a change to the nodes.
    fn of_nodes(snapshot: &Snapshot, nodes: &NodeEdit) -> Alone {
        let existing = snapshot.daemon_sets.iter().cloned();
        let unchanged = |daemon_set| Proposed { daemon_set, preview: Preview::Unchanged, admission: None };
        let options = PreviewOptions { nodes: nodes.clone(), ..PreviewOptions::default() };
        Alone(super::preview(snapshot, &existing.map(unchanged).collect::<Vec<_>>(), &options))
    }

    /// Returns the live world: `a` and `b` with disk=ssd and a pod each, `c` without.
    fn live() -> World {
        world()
            .template(json!({"nodeSelector": {"disk": "ssd"}}))
            .node("a", json!({"metadata": {"labels": {"disk": "ssd", "zone": "z1"}}}))
            .node("b", json!({"metadata": {"labels": {"disk": "ssd"}}}))
            .node("c", json!({"metadata": {"labels": {"zone": "z1"}}}))
            .pod("agent-a", "a", json!({}))
            .pod("agent-b", "b", json!({}))
    }

    fn proposed(template: Value) -> DaemonSet {
        world().template(template).finish().daemon_sets.remove(0)
    }

    fn asking(cpu: &str) -> Value {
        json!([{"name": "agent", "resources": {"requests": {"cpu": cpu}}}])
    }

    fn codes(report: &DaemonSetPreview) -> Vec<(ReasonCode, Vec<&str>)> {
        report.does_not_fit.iter().map(|group| (group.code, group.nodes.iter().map(String::as_str).collect())).collect()
    }

    fn refusals(report: &DaemonSetPreview) -> Vec<(ReasonCode, usize)> {
        report.does_not_start.iter().map(|group| (group.code, group.count)).collect()
    }

    #[test]
    fn a_pod_that_stays_as_it_is_needs_no_room() {
        let container = json!({"name": "agent", "image": "agent:1", "resources": {"requests": {"cpu": "3"}}});
        let big = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
        let snapshot = world()
            .template(json!({"containers": [container]}))
            .node("n", json!({}))
            .pod("agent-n", "n", json!({}))
            .other_pod("big", "n", big)
            .finish();
        let same = snapshot.daemon_sets[0].clone();
        assert_eq!(what_if(&snapshot, &same).nodes[0].fits, Some(true));
        let mut changed = same;
        changed.object["spec"]["template"]["metadata"]["labels"]["version"] = "2".into();
        assert_eq!(what_if(&snapshot, &changed).nodes[0].fits, Some(false));
    }

    #[test]
    fn pods_that_the_server_refuses_or_whose_volumes_are_missing_does_not_start() {
        use ReasonCode::{
            ContainerConfigError, PodSecurityDenied, QuotaExceeded, ServiceAccountMissing, VolumeUnsatisfiable,
        };
        let account = "pods \"agent-x\" is forbidden: error looking up service account default/agent: serviceaccount \
                       \"agent\" not found";
        let security =
            "pods \"agent-x\" is forbidden: violates PodSecurity \"baseline:latest\": hostPath volumes (volume \"a\")";
        let quota =
            "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2";
        let refused = |message: &str| Admission { refusal: Some(message.to_owned()), ..Admission::default() };
        let missing = |kind| Admission { missing: vec![(kind, "data".to_owned())], ..Admission::default() };
        for (admission, name, expected) in [
            (Admission::default(), "agent", None),
            (refused(account), "agent", Some(ServiceAccountMissing)),
            (refused(security), "agent", Some(PodSecurityDenied)),
            (refused(quota), "new", Some(QuotaExceeded)),
            // The old pods free their resources.
            (refused(quota), "agent", None),
            (missing("PersistentVolumeClaim"), "agent", Some(VolumeUnsatisfiable)),
            (missing("ConfigMap"), "agent", Some(ContainerConfigError)),
        ] {
            let mut then = proposed(json!({}));
            then.metadata.name = name.to_owned();
            let report = asked(&live().finish(), &then, Some(&admission), Some("disk"));
            let expected: Vec<_> = expected.map(|code| (code, 3)).into_iter().collect();
            assert_eq!(refusals(&report), expected, "{admission:?}");
            let refused = if expected.is_empty() { 0 } else { 3 };
            assert_eq!(report.nodes.iter().filter(|node| node.fits == Some(false)).count(), refused);
            let rows = report.by.clone().unwrap().rows;
            assert_eq!(rows.iter().map(|row| row.does_not_start).sum::<usize>(), refused);
            assert!(report.does_not_fit.is_empty() && report.admission_checked);
        }
        let unknown = Admission { unknown: vec!["it could not be asked".to_owned()], ..Admission::default() };
        let report = asked(&live().finish(), &proposed(json!({})), Some(&unknown), None);
        assert_eq!((report.incomplete().len(), report.incomplete()[0].affects_counts), (1, true));
    }

    #[test]
    fn another_environment_or_another_order_replaces_pods_and_so_takes_room_beside_the_old_ones() {
        let container =
            |env: Value| json!([{"name": "agent", "env": env, "ports": [{"containerPort": 80, "hostPort": 80}]}]);
        let (a, b) = (json!({"name": "A", "value": "1"}), json!({"name": "B", "value": "2"}));
        let snapshot = world()
            .template(json!({"containers": container(json!([a, b]))}))
            .node("a", json!({}))
            .pod("agent-a", "a", json!({"spec": {"containers": container(json!([]))}}))
            .finish();
        for (env, changes) in [(json!([a, b]), false), (json!([a]), true), (json!([b, a]), true)] {
            let mut then = proposed(json!({"containers": container(env)}));
            then.spec.update_strategy =
                serde_json::from_value(json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})).unwrap();
            let report = what_if(&snapshot, &then);
            assert_eq!(report.template_changes, Some(changes));
            assert_eq!(report.does_not_fit.len(), usize::from(changes));
        }
    }

    #[test]
    fn another_node_selector_gains_keeps_and_loses_nodes() {
        let report = what_if(&live().finish(), &proposed(json!({"nodeSelector": {"zone": "z1"}})));
        assert_eq!(
            (report.preview, report.nodes.len(), report.eligible_now, report.eligible_then),
            (Preview::ClientSideApply, 3, 2, 2)
        );
        assert_eq!(report.keeps, ["a"]);
        assert_eq!(report.gains, ["c"]);
        assert_eq!(report.loses.len(), 1);
        assert_eq!(report.loses[0].nodes, ["b"]);
        assert_eq!(report.loses[0].code, ReasonCode::NodeSelectorLabelMissing);
        assert_eq!(report.template_changes, Some(true));
        let same = live().finish();
        let same = what_if(&same, &same.daemon_sets[0]);
        assert_eq!((same.template_changes, same.nothing_changes, report.nothing_changes), (Some(false), true, false));
    }

    #[test]
    fn each_node_has_a_change_and_is_counted_by_the_value_of_a_label() {
        let template = json!({"nodeSelector": {"zone": "z1"}, "containers": asking("9")});
        let report = asked(&live().finish(), &proposed(template), None, Some("disk"));
        let nodes: Vec<_> = report.nodes.iter().map(|node| (node.name.as_str(), node.change, node.fits)).collect();
        assert_eq!(
            nodes,
            [("a", PodChange::Keeps, Some(false)), ("b", PodChange::Loses, None), ("c", PodChange::None, Some(false))]
        );
        assert!(report.gains.is_empty());
        assert!(report.nodes.iter().all(|node| node.reason.is_some()));
        let rows = report.by.clone().unwrap().rows;
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.value.as_deref(), row.eligible_now, row.eligible_then, row.does_not_fit))
            .collect();
        assert_eq!(rows, [(Some("ssd"), 2, 1, 1), (None, 0, 1, 1)]);
    }

    /// A pod that is missing, as in the middle of a rollout, cannot be lost, and its node is still excluded.
    #[test]
    fn a_node_loses_only_a_pod_that_it_has() {
        let selector = json!({"nodeSelector": {"zone": "z1"}});
        let missing = live().node("d", json!({"metadata": {"labels": {"disk": "ssd"}}})).finish();
        let report = what_if(&missing, &proposed(selector));
        let nodes: Vec<_> = report.nodes.iter().map(|node| (node.name.as_str(), node.change)).collect();
        use PodChange::{Excluded, Gains, Keeps, Loses};
        assert_eq!(nodes, [("a", Keeps), ("b", Loses), ("c", Gains), ("d", Excluded)]);
        assert_eq!(report.loses[0].nodes, ["b", "d"]);
        let advice = |node: usize| report.nodes[node].reason.as_ref().unwrap().fix.advice.clone();
        assert_eq!([advice(1).contains("keep its pod"), advice(3).contains("run a pod")], [true, true]);
    }

    /// The nodes may have different taints.
    #[test]
    fn pods_that_are_evicted_after_different_times_are_told_apart() {
        let tainted = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}});
        let tolerated =
            |key: &str, seconds: i64| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let template = json!({"tolerations": [tolerated("x", 300), tolerated("y", 30)]});
        let snapshot = world().node("a", tainted("x")).node("b", tainted("y")).node("c", tainted("x")).finish();
        let report = what_if(&snapshot, &proposed(template));
        let evicted: Vec<_> = report.evicted.iter().map(|one| (one.after_seconds, one.nodes.join(""))).collect();
        assert_eq!(evicted, [(30, "b".to_owned()), (300, "ac".to_owned())]);
    }

    /// OpenShift adds it to every pod of the namespace; the plugin PodNodeSelector is off by default.
    #[test]
    fn the_node_selector_of_the_namespace_decides_where_a_pod_fits() {
        for (annotation, fits) in [
            (json!({}), [true, true]),
            (json!({"openshift.io/node-selector": "pool=a"}), [true, false]),
            (json!({"scheduler.alpha.kubernetes.io/node-selector": "pool=a"}), [true, true]),
            (json!({"openshift.io/node-selector": ""}), [true, true]),
        ] {
            let node = |pool: &str| json!({"metadata": {"labels": {"pool": pool}}});
            let mut snapshot = world().node("a", node("a")).node("b", node("b")).finish();
            let namespace = json!({"metadata": {"name": "default", "annotations": annotation}});
            snapshot.namespaces.push(serde_json::from_value(namespace).unwrap());
            let report = what_if(&snapshot, &proposed(json!({"containers": asking("1")})));
            let found: Vec<_> = report.nodes.iter().map(|node| node.fits).collect();
            assert_eq!(found, fits.map(Some), "{annotation}");
        }
    }

    #[test]
    fn a_name_that_is_not_live_only_gains() {
        let mut proposed = proposed(json!({}));
        proposed.metadata.name = "new".to_owned();
        let report = what_if(&live().finish(), &proposed);
        assert_eq!((report.preview, report.eligible_now), (Preview::Create, 0));
        assert_eq!(report.gains, ["a", "b", "c"]);
    }

    /// As after `kubectl delete --cascade=orphan`.
    #[test]
    fn pods_that_belong_to_nobody_are_adopted_and_give_back_their_room() {
        let orphan = json!({"metadata": {"ownerReferences": []}, "spec": {"containers": asking("3")}});
        let mut snapshot = live().pod("orphan", "b", orphan).finish();
        let mut proposed = proposed(json!({"containers": asking("3")}));
        // The API server gives it one.
        proposed.metadata.uid = String::new();
        snapshot.daemon_sets.clear();
        let report = what_if(&snapshot, &proposed);
        assert_eq!((report.preview, report.keeps.join(",")), (Preview::Create, "b".to_owned()), "{report:?}");
        assert!(report.does_not_fit.is_empty(), "{report:?}");
        proposed.spec.selector = serde_json::from_value(json!({"matchLabels": {"app": "other"}})).unwrap();
        let report = what_if(&snapshot, &proposed);
        assert!(report.keeps.is_empty() && report.does_not_fit[0].nodes.contains(&"b".to_owned()), "{report:?}");
    }

    #[test]
    fn room_is_counted_without_the_pods_that_are_replaced() {
        let big = json!({"spec": {"containers": asking("3")}});
        let snapshot =
            || -> Snapshot { live().pod("agent-a2", "a", big.clone()).other_pod("other-b", "b", big.clone()).finish() };
        let template = json!({"nodeSelector": {"disk": "ssd"}, "containers": asking("2")});
        let report = what_if(&snapshot(), &proposed(template));
        assert_eq!(codes(&report), [(ReasonCode::InsufficientResource, vec!["b"])]);
    }

    #[test]
    fn while_surging_the_old_pods_keep_their_room() {
        let template = json!({"containers": asking("3")});
        let mut then = proposed(template.clone());
        let snapshot =
            world().node("a", json!({})).pod("agent-a", "a", json!({"spec": {"containers": asking("2")}})).finish();
        assert!(codes(&what_if(&snapshot, &then)).is_empty());
        then.spec.update_strategy =
            serde_json::from_value(json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}})).unwrap();
        assert_eq!(codes(&what_if(&snapshot, &then)), [(ReasonCode::InsufficientResource, vec!["a"])]);
    }

    #[test]
    fn a_variable_alone_brings_a_second_pod_that_needs_the_same_host_port() {
        let surging = |variable: Option<&str>| {
            let env: Vec<_> = variable.map(|value| json!({"name": "LEVEL", "value": value})).into_iter().collect();
            let ports = json!([{"containerPort": 9100, "hostPort": 9100}]);
            let template = json!({"containers": [{"name": "agent", "image": "agent:2", "ports": ports, "env": env}]});
            let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
            world().template(template).daemon_set(json!({"spec": {"updateStrategy": strategy}}))
        };
        let ports = json!({"spec": {"containers": [{"name": "agent", "ports": [{"hostPort": 9100}]}]}});
        let live = surging(None).node("a", json!({})).pod("agent-a", "a", ports).finish();
        let codes_after = |variable| -> Vec<ReasonCode> {
            let report = what_if(&live, &surging(variable).finish().daemon_sets[0]);
            report.does_not_fit.iter().map(|group| group.code).collect()
        };
        assert_eq!(codes_after(None), []);
        assert_eq!(codes_after(Some("debug")), [ReasonCode::SurgeHostPortDeadlock]);
    }

    #[test]
    fn limits_of_the_whole_pod_count_as_its_requests() {
        let snapshot = world().node("a", json!({"status": {"allocatable": {"memory": "4Gi"}}})).finish();
        let report = what_if(&snapshot, &proposed(json!({"resources": {"limits": {"memory": "8Gi"}}})));
        assert_eq!(codes(&report), [(ReasonCode::NeverFits, vec!["a"])]);
    }

    #[test]
    fn requests_that_a_limit_range_adds_are_counted() {
        let mut snapshot = live().finish();
        let limits = json!({"metadata": {"name": "l", "namespace": "default"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "5"}}]}});
        snapshot.limit_ranges.push(serde_json::from_value(limits).unwrap());
        // An existing pod does not get them.
        let report = what_if(&snapshot, &proposed(json!({"nodeSelector": {"disk": "ssd"}})));
        assert_eq!(codes(&report), []);
        let report = what_if(&snapshot, &proposed(json!({"nodeSelector": {"disk": "ssd"}, "hostPID": true})));
        assert_eq!(codes(&report), [(ReasonCode::NeverFits, vec!["a", "b"])]);
    }

    #[test]
    fn a_runtime_class_that_does_not_exist_refuses_every_pod() {
        let report = what_if(&live().finish(), &proposed(json!({"runtimeClassName": "kata"})));
        assert_eq!(refusals(&report), [(ReasonCode::RuntimeClassMissing, 3)]);
        assert!(report.does_not_start[0].fix.command.is_none(), "the manifest is to be edited, not the live object");
    }

    #[test]
    fn if_no_node_is_eligible_it_is_said_why() {
        let report = what_if(&live().finish(), &proposed(json!({"nodeSelector": {"dsik": "ssd"}})));
        assert_eq!(report.eligible_then, 0);
        let groups: Vec<_> = report.not_eligible.iter().map(|group| (group.code, group.count)).collect();
        assert_eq!(groups.iter().map(|(_, count)| count).sum::<usize>(), 3);
        assert!(groups.iter().all(|(code, _)| *code == ReasonCode::NodeSelectorLabelMissing), "{groups:?}");
        assert!(report.not_eligible.iter().any(|group| group.message.contains("label disk")), "a near miss is named");
        let report = what_if(&live().finish(), &proposed(json!({"nodeSelector": {"disk": "ssd"}})));
        assert!(report.not_eligible.is_empty());
    }

    #[test]
    fn a_no_execute_taint_takes_the_pod_that_is_there_and_a_no_schedule_taint_does_not() {
        let tainted = |effect: &str| {
            let taints = json!({"spec": {"taints": [{"key": "k", "effect": effect}]}});
            world().template(json!({"tolerations": [{"key": "k", "operator": "Exists"}]})).node("n", taints).pod(
                "agent-n",
                "n",
                json!({}),
            )
        };
        let on_delete = UpdateStrategy::OnDelete;
        for (effect, strategy, stays) in [
            ("NoExecute", UpdateStrategy::default(), false),
            ("NoExecute", on_delete.clone(), false),
            ("NoSchedule", on_delete, true),
            // A rolling update deletes the old pods of all nodes.
            ("NoSchedule", UpdateStrategy::default(), false),
        ] {
            let mut proposed = proposed(json!({}));
            proposed.spec.update_strategy = strategy;
            let report = what_if(&tainted(effect).finish(), &proposed);
            assert_eq!((report.eligible_now, report.eligible_then), (1, 0));
            assert_eq!(report.loses.len(), 1);
            assert_eq!(report.loses[0].message.contains("may stay"), stays, "{}", report.loses[0].message);
        }
    }

    #[test]
    fn a_pod_that_only_keeps_running_can_be_lost() {
        let taints = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let snapshot = || world().node("n", taints.clone()).pod("agent-n", "n", json!({})).finish();
        let report = what_if(&snapshot(), &proposed(json!({"nodeSelector": {"disk": "ssd"}})));
        assert_eq!((report.eligible_now, report.loses.len()), (0, 1));
        assert_eq!(report.loses[0].nodes, ["n"]);
        assert!(what_if(&snapshot(), &proposed(json!({}))).loses.is_empty(), "it keeps running as before");
        let without_pod = world().node("n", taints).finish();
        assert!(what_if(&without_pod, &proposed(json!({"nodeSelector": {"disk": "ssd"}}))).loses.is_empty());
    }

    #[test]
    fn room_that_is_not_known_is_left_open() {
        let mut snapshot = live().finish();
        snapshot.pods_complete = PodsComplete::On(["a".to_owned()].into());
        let report = what_if(&snapshot, &proposed(json!({"containers": asking("9")})));
        assert_eq!(codes(&report), [(ReasonCode::NeverFits, vec!["a"])]);
        assert_eq!(
            report.incomplete()[0].message,
            "not every pod on 2 nodes was read: whether the pods fit is not known"
        );
    }

    #[test]
    fn an_eligible_node_without_a_pod_is_missing_one_as_far_as_the_pods_are_known() {
        let snapshot = || live().node("d", json!({"metadata": {"labels": {"disk": "ssd"}}})).finish();
        let same = proposed(json!({"nodeSelector": {"disk": "ssd"}}));
        let report = what_if(&snapshot(), &same);
        assert_eq!(report.keeps, ["a", "b"]);
        assert_eq!(report.missing, ["d"]);
        assert!(report.incomplete().is_empty(), "{:?}", report.incomplete());
        let mut without_pods = snapshot();
        without_pods.pods_complete = PodsComplete::On([].into());
        without_pods.gaps.push(Gap { kind: Kind::Pods, namespace: None, cause: GapCause::NotInDump });
        let report = what_if(&without_pods, &same);
        assert_eq!((report.keeps.len(), report.missing.len()), (3, 0));
        assert_eq!(report.incomplete().len(), 1, "that no pods were read says it all: {:?}", report.incomplete());
    }

    #[test]
    fn a_priority_class_that_does_not_exist_refuses_every_pod_if_the_classes_were_read() {
        for (class, known, refused) in [
            ("", "high", false),
            ("high", "high", false),
            ("higher", "high", true),
            // Every cluster has some.
            ("high", "", false),
        ] {
            let mut snapshot = world().node("a", json!({})).finish();
            for name in known.split_terminator(' ') {
                let class = json!({"metadata": {"name": name}, "value": 1});
                snapshot.priority_classes.push(serde_json::from_value(class).unwrap());
            }
            let report = what_if(&snapshot, &proposed(json!({"priorityClassName": class})));
            let expected = if refused { vec![(ReasonCode::PriorityClassMissing, 1)] } else { vec![] };
            assert_eq!(refusals(&report), expected, "{class:?} of {known:?}");
        }
    }

    #[test]
    fn a_runtime_class_is_not_held_against_the_pods_if_it_exists_or_the_classes_are_not_known() {
        let same = || live().finish();
        let mut known = same();
        known.runtime_classes.push(serde_json::from_value(json!({"metadata": {"name": "kata"}})).unwrap());
        let mut unknown = same();
        unknown.gaps.push(Gap { kind: Kind::RuntimeClasses, namespace: None, cause: GapCause::NotInDump });
        for (snapshot, class) in [(known, "kata"), (unknown, "kata"), (same(), "")] {
            assert_eq!(refusals(&what_if(&snapshot, &proposed(json!({"runtimeClassName": class})))), []);
        }
    }

    #[test]
    fn no_pod_starts_with_an_image_whose_name_no_kubelet_takes() {
        for (image, refused) in [("Agent:2", 1), ("https://host/agent", 1), ("agent:2", 0), ("Host/agent", 0)] {
            let then = proposed(json!({"containers": [{"name": "agent", "image": image}]}));
            let report = what_if(&live().finish(), &then);
            assert_eq!(report.does_not_start.len(), refused, "{image}");
        }
    }

    #[test]
    fn a_daemon_set_that_replaces_only_deleted_pods_says_so() {
        for (strategy, on_delete) in [("OnDelete", true), ("RollingUpdate", false)] {
            let mut then = proposed(json!({}));
            then.spec.update_strategy = serde_json::from_value(json!({"type": strategy})).unwrap();
            let report = what_if(&live().finish(), &then);
            assert_eq!((report.on_delete, report.held), (on_delete, false));
            // During a hold it is not what the owner has chosen, unless somebody has restored the strategy.
            then.annotations.insert("kubectl-ds/original-update-strategy".to_owned(), "{}".to_owned());
            assert_eq!(what_if(&live().finish(), &then).held, on_delete);
        }
    }

    fn taint(effect: &str) -> NodeEdit {
        let taint = json!({"key": "team", "value": "ml", "effect": effect});
        NodeEdit { taints: vec![serde_json::from_value(taint).unwrap()], ..NodeEdit::default() }
    }

    /// Returns the preview for an agent with these tolerations and node selector on `on`, which runs it, and `off`.
    fn changed(template: Value, edit: &NodeEdit) -> Alone {
        let snapshot = world()
            .template(template)
            .node("on", json!({"metadata": {"labels": {"pool": "a"}}}))
            .pod("agent-on", "on", json!({}))
            .node("off", json!({"metadata": {"labels": {"pool": "b"}}}))
            .finish();
        of_nodes(&snapshot, edit)
    }

    #[test]
    fn pods_are_kept_lost_gained_and_left_by_what_a_taint_or_label_decides() {
        let of_pool = || json!({"nodeSelector": {"pool": "a"}});
        let tolerating = |seconds: Value| {
            let toleration = json!({"key": "team", "operator": "Exists", "tolerationSeconds": seconds});
            json!({"nodeSelector": {"pool": "a"}, "tolerations": [toleration]})
        };
        let said = |template: Value, edit: &NodeEdit| {
            let one = changed(template, edit);
            let lost = one.loses.iter().flat_map(|group| &group.nodes).filter(|node| !one.stays.contains(node));
            let lost: Vec<&str> = lost.map(String::as_str).collect();
            let evicted = one.evicted.first().map(|evicted| format!("{}s", evicted.after_seconds));
            let evicted = evicted.unwrap_or_default();
            [one.keeps.join(""), one.gains.join(""), lost.join(""), one.stays.join(""), evicted].join("/")
        };
        assert_eq!(said(of_pool(), &taint("NoExecute")), "//on//");
        assert_eq!(said(of_pool(), &taint("NoSchedule")), "///on/");
        assert_eq!(said(of_pool(), &taint("PreferNoSchedule")), "on////");
        assert_eq!(said(tolerating(Value::Null), &taint("NoExecute")), "on////");
        assert_eq!(said(tolerating(json!(300)), &taint("NoExecute")), "////300s");
        let label = |value: Option<&str>| NodeEdit {
            labels: [("pool".to_owned(), value.map(str::to_owned))].into(),
            ..NodeEdit::default()
        };
        assert_eq!(said(of_pool(), &label(None)), "//on//");
        assert_eq!(said(of_pool(), &label(Some("a"))), "on/off///");
        for effect in ["NoExecute", "NoSchedule"] {
            let report = changed(of_pool(), &taint(effect));
            assert!(!report.passes());
            assert!(report.loses[0].message.contains(&format!("team=ml:{effect}")));
        }
    }

    /// The taint may be there already, and only the template change; it is no news of a pod that it evicts already.
    #[test]
    fn a_pod_that_tolerates_a_taint_for_some_time_is_evicted_whatever_changes() {
        let tainted = json!({"spec": {"taints": [{"key": "team", "effect": "NoExecute"}]}});
        let tolerating = |seconds: i64| json!({"tolerations": [{"key": "team", "operator": "Exists", "tolerationSeconds": seconds}]});
        for (template, evicts) in [(json!({}), true), (tolerating(60), false)] {
            let snapshot = world().template(template).node("n", tainted.clone()).finish();
            let report = what_if(&snapshot, &proposed(tolerating(30)));
            let evicted = report.evicted.first().map(|evicted| (evicted.after_seconds, evicted.nodes.len()));
            assert_eq!(evicted, evicts.then_some((30, 1)));
            assert_eq!(report.gains.len(), 0);
        }
    }

    #[test]
    fn a_taint_that_is_removed_lets_pods_in_if_they_fit() {
        let removed = TaintKey { key: "team".to_owned(), effect: None };
        let edit = NodeEdit { removed_taints: vec![removed], ..NodeEdit::default() };
        let tainted = json!({"spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]}});
        for (cpu, gains, does_not_fit) in [("1", 1, 0), ("9", 0, 1)] {
            let container = json!({"name": "agent", "resources": {"requests": {"cpu": cpu}}});
            let snapshot = world().template(json!({"containers": [container]})).node("n", tainted.clone()).finish();
            let one = of_nodes(&snapshot, &edit);
            assert_eq!((one.gains.len(), one.does_not_fit.len()), (gains, does_not_fit), "{one:?}");
        }
    }

    #[test]
    fn what_a_change_of_nodes_has_nothing_to_do_with_is_not_held_against_it() {
        let big = json!([{"name": "agent", "resources": {"requests": {"cpu": "9"}}}]);
        let snapshot = || world().template(json!({"containers": big})).node("n", json!({}));
        let label = NodeEdit { labels: [("a".to_owned(), Some("b".to_owned()))].into(), ..NodeEdit::default() };
        // The pod is missing and does not fit, before and after.
        let report = of_nodes(&snapshot().finish(), &label);
        assert_eq!((report.missing.len(), report.does_not_fit.len(), report.passes()), (1, 0, true), "{report:?}");
        assert!(report.incomplete().is_empty());
        // A pod that stays although it would not be recreated was in that state before.
        let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let report =
            of_nodes(&world().node("n", tainted).pod("agent-n", "n", json!({})).finish(), &taint("NoSchedule"));
        assert!(report.passes() && report.stays.is_empty() && report.loses.is_empty(), "{report:?}");
    }

    #[test]
    fn a_daemon_set_and_its_nodes_can_change_together() {
        let snapshot = live().finish();
        let selector = |value: &str| json!({"nodeSelector": {"disk": value}});
        let daemon_set = proposed(selector("hdd"));
        let nodes = NodeEdit { labels: [("disk".to_owned(), Some("hdd".to_owned()))].into(), ..NodeEdit::default() };
        let proposed = Proposed { daemon_set, preview: Preview::Edit, admission: None };
        let options = PreviewOptions { nodes, ..PreviewOptions::default() };
        let report = Alone(super::preview(&snapshot, &[proposed], &options));
        assert_eq!(
            (report.keeps.as_slice(), report.gains.as_slice()),
            (&["a".to_owned(), "b".to_owned()][..], &["c".to_owned()][..])
        );
        assert_eq!((report.template_changes, report.loses.len()), (Some(true), 0));
    }

    #[test]
    fn the_daemon_sets_that_lose_most_come_first_if_nodes_change() {
        let mut snapshot = live().finish();
        let mut other = proposed(json!({"tolerations": [{"operator": "Exists"}]}));
        other.metadata.name = "a-tolerant".to_owned();
        snapshot.daemon_sets.insert(0, other);
        let report = of_nodes(&snapshot, &taint("NoExecute")).0;
        let names: Vec<&str> = report.daemon_sets.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["agent", "a-tolerant"]);
        assert!(report.changes_nodes && report.nodes == ["a", "b", "c"] && report.daemon_sets[0].nodes.is_empty());
    }
}
