//! What a change may break, as sentences for the confirmation prompt.

use super::effect::nodes_gained_and_lost;
use crate::coverage::NodePlugin;
use crate::facts::Facts;
use crate::model::daemon_set::DaemonSet;
use crate::model::snapshot::Snapshot;
use crate::report::count;
use crate::report::partition::PartitionReport;
use crate::report::plan::{ChangePlan, WarningCode};
use crate::scheduling::critical::{SYSTEM_CLASSES, has_priority};
use crate::scheduling::daemon_pods::is_counted;

/// Returns what a change may break.
pub(crate) fn risks(report: &ChangePlan, after: &DaemonSet, snapshot: &Snapshot) -> Vec<String> {
    let is_risk = |code| {
        use WarningCode as W;
        matches!(
            code,
            W::Blocks
                | W::MissingObjects
                | W::ReadyPodsDeleted
                | W::BecomeUnavailable
                | W::ReplacedRegardless
                | W::ServerChangesMore
                | W::AnotherTemplate
        )
    };
    let warnings = report.warnings.iter().filter(|warning| is_risk(warning.code));
    let mut risks: Vec<String> = warnings.map(|warning| warning.message.clone()).collect();
    if let Some(effect) = &report.effect {
        let allowed = effect.after.filter(|pace| !pace.surges).map_or(0, |pace| pace.allowed);
        risks.extend(nodes_lost(&effect.nodes_lost, allowed));
        let is_replaced = effect.outdated.is_none_or(|outdated| outdated > 0);
        risks.extend(critical(after, snapshot, effect.desired, allowed).filter(|_| is_replaced));
    }
    risks
}

/// Returns what a stage of a partition may break.
pub(crate) fn risks_of_stage(report: &PartitionReport, after: &DaemonSet, snapshot: &Snapshot) -> Vec<String> {
    let allowed = report.max_unavailable;
    let lost = nodes_lost(&report.nodes_lost, allowed);
    // What is confirmed is the first stage, and the others follow.
    let is_all = report.staged.is_some() || report.update >= report.desired;
    let critical = critical(after, snapshot, report.desired, allowed).filter(|_| is_all);
    let message = |code| Some(report.warnings.iter().find(|warning| warning.code == code)?.message.clone());
    let another = message(WarningCode::AnotherTemplate);
    lost.into_iter().chain(another).chain(critical.or_else(|| message(WarningCode::AllAtOnce))).collect()
}

/// Returns the sentence that nodes lose their pods, or get one, because the API server has made another DaemonSet of what was planned.
pub(crate) fn nodes_changed_by_server(before: &Facts<'_>, planned: &DaemonSet, made: &DaemonSet) -> Option<String> {
    let (planned, made) = (Facts::new(before.index, planned), Facts::new(before.index, made));
    let (gained, lost) = nodes_gained_and_lost(&planned, &made);
    nodes_lost(&lost, 0)
        .or_else(|| (!gained.is_empty()).then(|| format!("{} get a pod, too", count(gained.len(), "node"))))
}

/// Returns the sentence that more nodes lose their pods at once than may be unavailable.
fn nodes_lost(nodes: &[String], allowed: i64) -> Option<String> {
    let loses = if nodes.len() == 1 { "loses its pod" } else { "lose their pods" };
    let is_more = i64::try_from(nodes.len()).is_ok_and(|nodes| nodes > allowed);
    is_more.then(|| {
        let limit = if allowed > 0 { format!("; maxUnavailable allows {allowed} at a time") } else { String::new() };
        format!("{} {loses} immediately{limit}", count(nodes.len(), "node"))
    })
}

/// Returns the sentence that the pods of a node-critical DaemonSet are replaced on all nodes at once.
fn critical(daemon_set: &DaemonSet, snapshot: &Snapshot, desired: i64, allowed: i64) -> Option<String> {
    let spec = &daemon_set.spec.template.spec;
    let [_, (class, priority)] = SYSTEM_CLASSES;
    let is_kube_proxy = || {
        let mut names = spec.containers.iter().map(|container| container.name.as_str());
        daemon_set.metadata.name == "kube-proxy" || names.any(|name| name == "kube-proxy")
    };
    // Admission may have given the pods a class that the template does not name.
    let pods = snapshot.pods.iter().filter(|pod| is_counted(daemon_set, pod)).map(|pod| &pod.spec);
    let is_node_critical = pods.chain([spec]).any(|spec| has_priority(spec, priority));
    let what = match () {
        () if NodePlugin::of(daemon_set) == Some(NodePlugin::Network) => NodePlugin::Network.noun().to_owned(),
        () if is_kube_proxy() => "kube-proxy".to_owned(),
        () if is_node_critical => format!("a DaemonSet of priority class {class}"),
        () => return None,
    };
    (desired > 1 && allowed >= desired).then(|| format!("{what} is replaced on all {desired} nodes at once"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::critical;
    use crate::coverage::test_support::world;

    #[test]
    fn a_daemon_set_is_node_critical_by_its_template_or_by_what_admission_has_made_of_its_pods() {
        for (class, priority, is_told) in [
            ("", 0, false),
            ("system-cluster-critical", 2_000_000_000, false),
            ("system-node-critical", 0, true),
            ("", 2_000_001_000, true),
        ] {
            let world = world().template(json!({"priorityClassName": class})).node("a", json!({}));
            let snapshot = world.pod("agent-a", "a", json!({"spec": {"priority": priority}})).finish();
            let told = critical(&snapshot.daemon_sets[0], &snapshot, 2, 2);
            let expected = "a DaemonSet of priority class system-node-critical is replaced on all 2 nodes at once";
            assert_eq!(told.as_deref(), is_told.then_some(expected), "{class} {priority}");
        }
    }
}
