//! What would change if a manifest were applied: which nodes gain, keep or lose a pod, and on which it does not fit.

use std::collections::BTreeMap;

use super::gaps;
use super::group::FindingGroups;
use super::verdict::admission::{self, service_account};
use super::verdict::create_failure;
use super::verdict::eligibility;
use super::verdict::finding::{Finding, edit};
use super::verdict::fit::{NodeRoom, port_conflicts};
use super::verdict::preemption::{Simulation, fits_by_preemption, is_of_room, reported};
use super::verdict::unscheduled_pod;
use crate::facts::Facts;
use crate::facts::index::Index;
use crate::model::daemon_set::{DaemonSet, UpdateStrategy};
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, Snapshot};
use crate::report::coverage::Incomplete;
use crate::report::node_map::by_value;
use crate::report::reason::ReasonCode;
use crate::report::what_if::{ChangesBy, ChangesByRow, NodeChange, NodePreemption, PodChange, Preview, WhatIfReport};
use crate::scheduling::daemon_pods;
use crate::scheduling::resources::{Amounts, template_requests};
use crate::scheduling::rolling_update::allows_surge;
use crate::scheduling::should_run::DaemonPod;

/// Whether an API server would admit the pods of a proposed DaemonSet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Admission {
    /// The message with which it would deny them.
    pub refusal: Option<String>,
    /// The kinds and names of objects that the pods mount and that do not exist.
    pub missing: Vec<(&'static str, String)>,
    /// What could not be checked, in sentences.
    pub unknown: Vec<String>,
    /// Whether no API server was asked: only the names of a dump were looked at.
    pub is_of_dump: bool,
}

/// Compares a proposed DaemonSet with the live one of the same namespace and name, if there is one; `admission` is absent
/// for a dump, and `by` is the label by whose values the nodes are counted.
pub fn what_if(
    snapshot: &Snapshot,
    proposed: &DaemonSet,
    preview: Preview,
    admission: Option<&Admission>,
    by: Option<&str>,
) -> WhatIfReport {
    let index = Index::new(snapshot);
    let proposal = ProposedDaemonSet::new(&index, proposed, admission);
    let mut report = WhatIfReport {
        now: snapshot.now,
        incomplete: Vec::new(),
        namespace: proposed.metadata.namespace.clone(),
        name: proposed.metadata.name.clone(),
        exists: proposal.live.is_some(),
        preview,
        nodes_total: index.nodes.len(),
        eligible_now: 0,
        eligible_then: 0,
        template_changes: proposal.template_changes,
        on_delete: proposed.spec.update_strategy == UpdateStrategy::OnDelete,
        admission_checked: admission.is_some_and(|admission| !admission.is_of_dump),
        warnings: Vec::new(),
        keeps: Vec::new(),
        missing: Vec::new(),
        gains: Vec::new(),
        loses: Vec::new(),
        fits_by_preemption: Vec::new(),
        does_not_fit: Vec::new(),
        does_not_start: Vec::new(),
        not_eligible: Vec::new(),
        by: None,
        nodes: Vec::new(),
    };
    let mut rows: BTreeMap<Option<&str>, ChangesByRow> = BTreeMap::new();
    let (mut loses, mut does_not_fit, mut does_not_start, mut preempts) =
        (FindingGroups::default(), FindingGroups::default(), FindingGroups::default(), FindingGroups::default());
    let (mut room_unknown, mut devices_unknown) = (0, BTreeMap::<String, usize>::new());
    let knows_pods = index.knows(Kind::Pods, &proposed.metadata.namespace);
    for (number, node) in index.nodes.iter().enumerate() {
        let name = &node.metadata.name;
        let live = proposal.live.as_ref().map(|live| &live.node_pods[number]);
        let has_pod = proposal.has_pod(number);
        let now = live.and_then(|live| live.decision);
        let runs_now = now.is_some_and(|now| now.should_run);
        let then = proposal.pod.decide(node);
        report.eligible_now += usize::from(runs_now);
        report.eligible_then += usize::from(then.should_run);
        let stays = now.is_some_and(|now| now.should_continue_running) && has_pod;
        // A pod that keeps running but would not be recreated can be lost too.
        let is_lost = runs_now || (stays && !then.should_continue_running);
        let refused = proposal.refused.clone().filter(|_| then.should_run);
        let (fits, obstacle, preemption) = match () {
            () if refused.is_some() => (Some(false), None, None),
            () if !then.should_run => (None, None, None),
            () if proposal.keeps_pod(number) => (Some(true), None, None),
            () => match proposal.fit(node, runs_now) {
                Some(Fit::Fits) => (Some(true), None, None),
                Some(Fit::ByPreemption(finding, preemption)) => (Some(true), None, Some((finding, preemption))),
                Some(Fit::Lacks(obstacle)) => (Some(false), Some(obstacle), None),
                Some(Fit::Unknown(resource)) => {
                    *devices_unknown.entry(resource).or_default() += 1;
                    (None, None, None)
                }
                None => {
                    room_unknown += 1;
                    (None, None, None)
                }
            },
        };
        let (by_preemption, preemption) = preemption.unzip();
        let (change, loss) = match (runs_now, then.should_run) {
            (true, true) if knows_pods && !has_pod => (PodChange::Missing, None),
            (true, true) => (PodChange::Keeps, None),
            (false, true) if fits == Some(false) => (PodChange::None, None),
            (false, true) => (PodChange::Gains, None),
            (_, false) => {
                let may_stay = runs_now && then.should_continue_running && has_pod;
                let mut loss = proposal.loss(node, may_stay);
                if let Some(loss) = loss.as_mut().filter(|_| is_lost) {
                    // The node is as it should be: the manifest is what excludes it.
                    loss.command = None;
                    loss.advice = "if the node should keep its pod, change the manifest".into();
                }
                (if is_lost { PodChange::Loses } else { PodChange::None }, loss)
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
        let reason = refused.as_ref().or(obstacle.as_ref()).or(by_preemption.as_ref()).or(loss.as_ref());
        let reason = reason.map(Finding::reason);
        report.nodes.push(NodeChange { name: name.clone(), change, fits, preemption, reason });
        match change {
            PodChange::Keeps => report.keeps.push(name.clone()),
            PodChange::Missing => report.missing.push(name.clone()),
            PodChange::Gains => report.gains.push(name.clone()),
            PodChange::Loses => loses.extend(name, loss),
            PodChange::None => {}
        }
        preempts.extend(name, by_preemption);
        does_not_fit.extend(name, obstacle);
        does_not_start.extend(name, refused);
    }
    report.fits_by_preemption = preempts.into_report();
    report.does_not_fit = does_not_fit.into_report();
    let needs_priority = report.does_not_fit.iter().any(|group| is_of_room(group.code));
    report.incomplete = gaps::incomplete_for_new_pods(snapshot, &proposed.spec.template.spec, needs_priority);
    if room_unknown > 0 && knows_pods {
        report.incomplete.push(Incomplete {
            resource: "pods".to_owned(),
            namespace: None,
            permission: None,
            message: format!("not every pod on {room_unknown} nodes was read: whether the pods fit is not known"),
            affects_counts: true,
        });
    }
    report.incomplete.extend(devices_unknown.into_iter().map(|(resource, nodes)| Incomplete {
        resource: "deviceclasses".to_owned(),
        namespace: None,
        permission: None,
        message: format!(
            "{resource} is not a resource of {nodes} nodes, and only the scheduler knows whether a device class has devices for it there"
        ),
        affects_counts: false,
    }));
    let unknown = admission.map_or(&[][..], |admission| &admission.unknown);
    report.incomplete.extend(unknown.iter().map(|message| Incomplete {
        resource: "pods".to_owned(),
        namespace: Some(proposed.metadata.namespace.clone()),
        permission: None,
        message: message.clone(),
        affects_counts: true,
    }));
    if report.eligible_then == 0 || !report.exists {
        let mut not_eligible = FindingGroups::default();
        for node in &index.nodes {
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

/// Whether a pod has room on a node.
pub(super) enum Fit {
    /// It has.
    Fits,
    /// The scheduler preempts other pods for it.
    ByPreemption(Finding, NodePreemption),
    /// Whether devices provide this resource, which the node does not offer, is not known.
    Unknown(String),
    /// It has not, or something else keeps it from running there.
    Lacks(Finding),
}

/// A proposed DaemonSet, and what it would replace.
pub(super) struct ProposedDaemonSet<'a> {
    index: &'a Index<'a>,
    proposed: &'a DaemonSet,
    /// The pod that the controller would create.
    pub(super) pod: DaemonPod,
    new_pod: Pod,
    requests: Amounts,
    live: Option<Facts<'a>>,
    /// Whether pods are replaced. The order of lists counts: the controller compares templates byte by byte.
    template_changes: Option<bool>,
    /// Why no pod would start on any node.
    refused: Option<Finding>,
}

impl<'a> ProposedDaemonSet<'a> {
    /// Compares a DaemonSet with the live one of the same namespace and name, which it may be itself.
    pub(super) fn new(index: &'a Index<'a>, proposed: &'a DaemonSet, admission: Option<&Admission>) -> Self {
        let same = |live: &&DaemonSet| {
            live.metadata.namespace == proposed.metadata.namespace && live.metadata.name == proposed.metadata.name
        };
        let live = index.snapshot.daemon_sets.iter().find(same);
        let new_pod = admission::admitted(index.snapshot, proposed);
        ProposedDaemonSet {
            index,
            proposed,
            pod: DaemonPod::new(&proposed.spec.template),
            requests: template_requests(&new_pod.spec),
            refused: refused(index.snapshot, proposed, live.is_some(), admission)
                .map(|refused| for_manifest(refused, proposed)),
            new_pod,
            live: live.map(|live| Facts::new(index, live)),
            template_changes: live.map(|live| live.template().normal() != proposed.template().normal()),
        }
    }

    /// Returns whether the node with this number has a pod of the live DaemonSet.
    pub(super) fn has_pod(&self, number: usize) -> bool {
        self.live.as_ref().is_some_and(|live| !live.node_pods[number].pods.is_empty())
    }

    /// Returns whether the node with this number has a bound pod that stays as it is.
    fn keeps_pod(&self, number: usize) -> bool {
        let is_bound = |pod: &&Pod| !pod.spec.node_name.is_empty() && !pod.metadata.is_terminating();
        let mut pods = self.live.iter().flat_map(|live| live.node_pods[number].pods.iter().copied());
        self.template_changes == Some(false) && pods.any(|pod| is_bound(&pod))
    }

    /// Finds why a node would lose its pod.
    pub(super) fn loss(&self, node: &Node, may_stay: bool) -> Option<Finding> {
        let why = eligibility::findings(self.index, self.proposed, node, &self.pod.explain(node));
        let mut finding = for_manifest(why.into_iter().next()?, self.proposed);
        if may_stay {
            finding.message = finding.message.words(" (the running pod may stay, but would not be recreated)");
        }
        Some(finding)
    }

    /// Tells whether a pod has room on an eligible node; `None` if not all pods of the node were read.
    pub(super) fn fit(&self, node: &Node, runs_now: bool) -> Option<Fit> {
        let injected = unscheduled_pod::injected_node_selector(
            self.index.snapshot,
            self.proposed,
            node,
            &self.new_pod.spec.node_selector,
        );
        if let Some(injected) = injected {
            return Some(Fit::Lacks(injected));
        }
        let own =
            |pod: &Pod| self.live.as_ref().is_some_and(|live| daemon_pods::claim(live.daemon_set, pod).is_claimed());
        // While surging, the old pod keeps its resources and ports until the new one is available.
        let beside = allows_surge(self.proposed) && self.template_changes == Some(true) && runs_now;
        let room = NodeRoom::without(self.index, node, &self.new_pod, |pod| !beside && own(pod))?.surging(beside, own);
        let ports = port_conflicts(&room.pods, &self.new_pod.spec, beside, own);
        let shortages = room.shortages(&self.requests).into_iter().map(|(_, finding)| finding);
        let Some(obstacle) = ports.into_iter().chain(shortages).next() else {
            let unknown = room.devices.of_requests(&self.requests, node).next();
            return Some(unknown.map_or(Fit::Fits, |resource| Fit::Unknown(resource.to_owned())));
        };
        let is_priority_known = self.new_pod.spec.priority.is_some();
        let simulation = is_priority_known.then(|| Simulation::new(self.index, &room, &self.new_pod, &self.requests));
        Some(match simulation.flatten() {
            None => Fit::Lacks(obstacle),
            Some(simulation) => match simulation.victims() {
                Some(victims) => Fit::ByPreemption(fits_by_preemption(victims), reported(victims)),
                None => Fit::Lacks(simulation.told(obstacle, &self.index.snapshot.priority_classes)),
            },
        })
    }
}

/// Drops a command that edits the live DaemonSet: what is to be edited is the manifest.
fn for_manifest(mut finding: Finding, proposed: &DaemonSet) -> Finding {
    finding.command = finding.command.filter(|command| *command != edit(proposed));
    finding
}

/// Returns what the API server says about a pod whose account does not exist.
pub fn account_is_missing(proposed: &DaemonSet) -> String {
    let (namespace, account) = (&proposed.metadata.namespace, service_account(proposed));
    format!("error looking up service account {namespace}/{account}: serviceaccount {account:?} not found")
}

/// Finds why no pod would start: what the API server says, or a class or an account that does not exist.
fn refused(snapshot: &Snapshot, proposed: &DaemonSet, exists: bool, admission: Option<&Admission>) -> Option<Finding> {
    if let Some(finding) = missing_class(snapshot, proposed).or_else(|| missing_account(snapshot, proposed)) {
        return Some(finding);
    }
    let Admission { refusal, missing, .. } = admission?;
    let refusal = refusal.as_ref().map(|message| create_failure::classify(snapshot, proposed, message));
    // The pods that are replaced give back their quota.
    let refusal = refusal.filter(|finding| !(exists && finding.code == ReasonCode::QuotaExceeded));
    refusal.or_else(|| {
        let (kind, _) = missing.first()?;
        let names: Vec<_> = missing.iter().map(|(kind, name)| format!("{} {name}", kind.to_lowercase())).collect();
        let namespace = &proposed.metadata.namespace;
        let code = match *kind {
            "PersistentVolumeClaim" => ReasonCode::VolumeUnsatisfiable,
            _ => ReasonCode::ContainerConfigError,
        };
        let message = format!("{} not found in namespace {namespace}", names.join(", "));
        Some(Finding::new(code, message, "create it before the DaemonSet, or correct its name in the template"))
    })
}

/// Finds an account that a dump does not have.
fn missing_account(snapshot: &Snapshot, proposed: &DaemonSet) -> Option<Finding> {
    let exists = |account: &str| snapshot.has_name("ServiceAccount", &proposed.metadata.namespace, account);
    // Every namespace has this one: without it, the dump does not have all of them.
    let is_missing = exists("default") && !exists(service_account(proposed));
    is_missing.then(|| create_failure::classify(snapshot, proposed, &account_is_missing(proposed)))
}

/// Finds a class that does not exist, because of which the API server would deny every pod.
fn missing_class(snapshot: &Snapshot, proposed: &DaemonSet) -> Option<Finding> {
    let spec = &proposed.spec.template.spec;
    let namespace = &proposed.metadata.namespace;
    let known = |kind| snapshot.gap(kind, namespace).is_none();
    let class = &spec.priority_class_name;
    let priority = snapshot.priority_classes.iter().any(|known| known.metadata.name == *class);
    // Every cluster has priority classes: none at all means that they were not read.
    if !class.is_empty() && !priority && !snapshot.priority_classes.is_empty() {
        let message = format!("no PriorityClass with name {class} was found");
        return Some(create_failure::classify(snapshot, proposed, &message));
    }
    let class = spec.runtime_class_name.as_ref().filter(|class| !class.is_empty())?;
    if known(Kind::RuntimeClasses) && admission::runtime_class(snapshot, spec).is_none() {
        let message = format!("pod rejected: RuntimeClass {class:?} not found");
        return Some(create_failure::classify(snapshot, proposed, &message));
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Admission;
    use crate::coverage::test_support::{World, world};
    use crate::model::daemon_set::DaemonSet;
    use crate::model::snapshot::{Gap, GapCause, Kind, PodsComplete, Snapshot};
    use crate::report::reason::ReasonCode;
    use crate::report::what_if::{PodChange, Preview, WhatIfReport};

    fn what_if(snapshot: &Snapshot, proposed: &DaemonSet) -> WhatIfReport {
        super::what_if(snapshot, proposed, Preview::ClientSideApply, None, None)
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

    fn proposed(template: serde_json::Value) -> DaemonSet {
        world().template(template).finish().daemon_sets.remove(0)
    }

    fn asking(cpu: &str) -> serde_json::Value {
        json!([{"name": "agent", "resources": {"requests": {"cpu": cpu}}}])
    }

    fn codes(report: &WhatIfReport) -> Vec<(ReasonCode, Vec<&str>)> {
        report.does_not_fit.iter().map(|group| (group.code, group.nodes.iter().map(String::as_str).collect())).collect()
    }

    fn refusals(report: &WhatIfReport) -> Vec<(ReasonCode, usize)> {
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
            // The old pods make room.
            (refused(quota), "agent", None),
            (missing("PersistentVolumeClaim"), "agent", Some(VolumeUnsatisfiable)),
            (missing("ConfigMap"), "agent", Some(ContainerConfigError)),
        ] {
            let mut then = proposed(json!({}));
            then.metadata.name = name.to_owned();
            let report =
                super::what_if(&live().finish(), &then, Preview::ClientSideApply, Some(&admission), Some("disk"));
            let expected: Vec<_> = expected.map(|code| (code, 3)).into_iter().collect();
            assert_eq!(refusals(&report), expected, "{admission:?}");
            let refused = if expected.is_empty() { 0 } else { 3 };
            assert_eq!(report.nodes.iter().filter(|node| node.fits == Some(false)).count(), refused);
            let rows = report.by.unwrap().rows;
            assert_eq!(rows.iter().map(|row| row.does_not_start).sum::<usize>(), refused);
            assert!(report.does_not_fit.is_empty() && report.admission_checked);
        }
        let unknown = Admission { unknown: vec!["it could not be asked".to_owned()], ..Admission::default() };
        let report =
            super::what_if(&live().finish(), &proposed(json!({})), Preview::ClientSideApply, Some(&unknown), None);
        assert_eq!((report.incomplete.len(), report.incomplete[0].affects_counts), (1, true));
    }

    #[test]
    fn another_environment_or_another_order_replaces_pods_and_so_takes_room_beside_the_old_ones() {
        let container = |env: serde_json::Value| json!([{"name": "agent", "env": env, "ports": [{"containerPort": 80, "hostPort": 80}]}]);
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
        assert_eq!((report.exists, report.nodes_total, report.eligible_now, report.eligible_then), (true, 3, 2, 2));
        assert_eq!(report.keeps, ["a"]);
        assert_eq!(report.gains, ["c"]);
        assert_eq!(report.loses.len(), 1);
        assert_eq!(report.loses[0].nodes, ["b"]);
        assert_eq!(report.loses[0].code, ReasonCode::NodeSelectorLabelMissing);
        assert_eq!(report.template_changes, Some(true));
        let same = live().finish();
        assert_eq!(what_if(&same, &same.daemon_sets[0]).template_changes, Some(false));
    }

    #[test]
    fn each_node_has_a_change_and_is_counted_by_the_value_of_a_label() {
        let template = json!({"nodeSelector": {"zone": "z1"}, "containers": asking("9")});
        let report =
            super::what_if(&live().finish(), &proposed(template), Preview::ClientSideApply, None, Some("disk"));
        let nodes: Vec<_> = report.nodes.iter().map(|node| (node.name.as_str(), node.change, node.fits)).collect();
        assert_eq!(
            nodes,
            [("a", PodChange::Keeps, Some(false)), ("b", PodChange::Loses, None), ("c", PodChange::None, Some(false))]
        );
        assert!(report.gains.is_empty());
        assert!(report.nodes.iter().all(|node| node.reason.is_some()));
        let rows = report.by.unwrap().rows;
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.value.as_deref(), row.eligible_now, row.eligible_then, row.does_not_fit))
            .collect();
        assert_eq!(rows, [(Some("ssd"), 2, 1, 1), (None, 0, 1, 1)]);
    }

    #[test]
    fn a_name_that_is_not_live_only_gains() {
        let mut proposed = proposed(json!({}));
        proposed.metadata.name = "new".to_owned();
        let report = what_if(&live().finish(), &proposed);
        assert_eq!((report.exists, report.eligible_now), (false, 0));
        assert_eq!(report.gains, ["a", "b", "c"]);
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
        // A pod that runs already does not get them.
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
        for (effect, stays) in [("NoExecute", false), ("NoSchedule", true)] {
            let report = what_if(&tainted(effect).finish(), &proposed(json!({})));
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
            report.incomplete[0].message,
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
        assert!(report.incomplete.is_empty(), "{:?}", report.incomplete);
        let mut without_pods = snapshot();
        without_pods.pods_complete = PodsComplete::On([].into());
        without_pods.gaps.push(Gap { kind: Kind::Pods, namespace: None, cause: GapCause::NotInDump });
        let report = what_if(&without_pods, &same);
        assert_eq!((report.keeps.len(), report.missing.len()), (3, 0));
        assert_eq!(report.incomplete.len(), 1, "that no pods were read says it all: {:?}", report.incomplete);
    }

    #[test]
    fn a_priority_class_that_does_not_exist_refuses_every_pod_if_the_classes_were_read() {
        for (class, known, refused) in [
            ("", "high", false),
            ("high", "high", false),
            ("higher", "high", true),
            // No cluster is without any.
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
    fn a_daemon_set_that_replaces_only_deleted_pods_says_so() {
        for (strategy, on_delete) in [("OnDelete", true), ("RollingUpdate", false)] {
            let mut then = proposed(json!({}));
            then.spec.update_strategy = serde_json::from_value(json!({"type": strategy})).unwrap();
            assert_eq!(what_if(&live().finish(), &then).on_delete, on_delete);
        }
    }
}
