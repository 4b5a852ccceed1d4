//! Changes to a DaemonSet's spec besides its template: what the API server would reject, the effect on the cluster, and
//! what may break.

use super::change_warnings::{self, Written};
use super::effect::SurgePods;
use super::proposal::{Planned, Proposal};
use super::situation::Situation;
use super::situation::verdict::verdict_of;
use crate::facts::revisions::name_of;
use crate::model::daemon_set::DaemonSet;
use crate::model::hold::Hold;
use crate::model::int_or_percent::IntOrPercent;
use crate::model::raised_pace::{Limit, RaisedPace};
use crate::model::update_strategy::Problem;
use crate::plan::{Plan, SpecFields, StrategyType};
use crate::report::fix::{Command, Fix};
use crate::report::history::DaemonSetName;
use crate::report::plan::{ChangePlan, Effect, PlanKind, Warning, WarningCode};
use crate::report::rollout_status::Verdict;
use crate::scheduling::{ports, rolling_update};

/// The requested change.
#[derive(Debug, Clone, Copy, Default)]
pub struct SetRequest {
    /// The values.
    pub fields: SpecFields,
    /// Whether to set the values even if they make things worse, or `maxSurge` even if the pods have host ports.
    pub force: bool,
    /// Whether the newer pod of nodes with two may be deleted.
    pub delete_surge_pods: bool,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetRefusal {
    /// The API server would reject the result, with these messages.
    Invalid(Vec<Problem>),
    /// The pace of a rolling update was requested, but the update strategy is a different one.
    NotRollingUpdate,
    /// The update strategy is suspended by `pause` or `partition`.
    OnHold,
    /// The pods have these host ports, which two pods on a node cannot share.
    HostPorts(Vec<String>),
    /// Nodes have two pods, of which the controller would delete these, the newer ones.
    SurgePods(SurgePods),
    /// It would make things worse, as the warnings say.
    Worse(Vec<Warning>),
}

/// Plans to set fields of a DaemonSet's spec besides its template.
///
/// # Errors
///
/// Fails if the result would be invalid, or would do harm that was not allowed.
pub fn set(before: &Situation<'_>, request: &SetRequest) -> Result<Planned, SetRefusal> {
    let mut planned = checked(before, request)?;
    if let Some(revert) = planned.report.revert.as_mut() {
        let current = SpecFields::of(before.daemon_set);
        let fields = reverted(current, request.fields.with_other_zero().different_from(current));
        let request = SetRequest { fields, force: false, delete_surge_pods: true };
        let refusal = checked(&Situation::new(before.index, &planned.after), &request).err();
        if matches!(refusal, Some(SetRefusal::Worse(_))) {
            revert.advice.push_str(", once new pods become available");
        }
    }
    Ok(planned)
}

/// Plans a change, unless it makes things worse.
fn checked(before: &Situation<'_>, request: &SetRequest) -> Result<Planned, SetRefusal> {
    let (proposal, mut report) = propose(before, request)?;
    if report.effect.as_ref().is_some_and(is_faster)
        && let Some(warnings) = proposal.replacement_warnings()
    {
        report.warnings.extend(warnings);
        report.incomplete.extend(proposal.unread_refusals());
    }
    // A surge does not delete available pods.
    let surges = report.effect.as_ref().and_then(|effect| effect.after).is_none_or(|pace| pace.surges);
    let worse: Vec<Warning> = report.warnings.iter().filter(|warning| makes_worse(warning.code)).cloned().collect();
    if !worse.is_empty() && !surges && !request.force {
        return Err(SetRefusal::Worse(worse));
    }
    Ok(proposal.planned(report))
}

/// Returns whether a warning is about more pods that become unavailable, and stay so.
fn makes_worse(code: WarningCode) -> bool {
    matches!(
        code,
        WarningCode::RevisionFails
            | WarningCode::CreationRefused
            | WarningCode::MissingObjects
            | WarningCode::NotByNodes
            | WarningCode::ReplacedRegardless
    )
}

/// Returns whether pods are replaced sooner than before the change, or by the controller at all.
fn is_faster(effect: &Effect) -> bool {
    let (Some(before), Some(after)) = (effect.before, effect.after) else { return effect.after.is_some() };
    before.surges != after.surges || after.allowed > before.allowed || after.replaced_now > before.replaced_now
}

/// Proposes the same without the problems of the pods.
pub(super) fn propose<'s, 'a>(
    before: &'s Situation<'a>,
    request: &SetRequest,
) -> Result<(Proposal<'s, 'a>, ChangePlan), SetRefusal> {
    let daemon_set = before.daemon_set;
    let current = SpecFields::of(daemon_set);
    let requested = request.fields.with_other_zero();
    let strategy_type = requested.strategy_type.or(current.strategy_type);
    let sets_pace = requested.max_surge.is_some() || requested.max_unavailable.is_some();
    let is_held = Hold::in_force(daemon_set).is_some();
    // A value that is set now would be lost when the hold ends.
    if is_held && (sets_pace || requested.strategy_type.is_some()) {
        return Err(SetRefusal::OnHold);
    }
    if sets_pace && strategy_type == Some(StrategyType::OnDelete) {
        return Err(SetRefusal::NotRollingUpdate);
    }
    let mut proposal = Proposal::new(before, Plan::set(daemon_set, requested, false));
    let after = &proposal.after;
    if sets_pace || requested.strategy_type.is_some() {
        let problems = after.spec.update_strategy.problems(daemon_set.flavor());
        if !problems.is_empty() {
            return Err(SetRefusal::Invalid(problems));
        }
    }
    let changed = requested.different_from(current);
    let mut warnings = Vec::new();
    let ports = host_ports(after);
    let has_port_conflict = rolling_update::allows_surge(after) && !ports.is_empty();
    if proposal.changes_strategy() && has_port_conflict {
        if !request.force {
            return Err(SetRefusal::HostPorts(ports));
        }
        let message = format!(
            "with maxSurge a node runs two pods, which both need host port {}: no new pod can start",
            ports.join(", ")
        );
        warnings.push(Warning::new(WarningCode::HostPort, message));
    }
    let effect = proposal.effect();
    SurgePods::check(&effect, request.delete_surge_pods, before).map_err(SetRefusal::SurgePods)?;
    if is_raised(&effect) && verdict_of(before) == Verdict::Blocked {
        proposal = Proposal::new(before, Plan::set(daemon_set, requested, true));
    }
    if changed != SpecFields::default() {
        let values = changed.entries();
        let paths: Vec<_> = values.iter().map(|(path, _)| *path).collect();
        warnings.extend(proposal.pace_warnings(&effect));
        warnings.extend(change_warnings::managers(daemon_set, Written::Fields(&paths)));
        warnings.extend(change_warnings::last_applied_fields(daemon_set, &values));
        warnings.extend(change_warnings::down_warnings(before));
        warnings.extend(changed.revision_history_limit.and_then(|_| change_warnings::no_history(&proposal.after)));
    }
    let mut report = ChangePlan { why: why(request.fields, changed), warnings, ..proposal.report(PlanKind::SetPlan) };
    if report.needed {
        let budgets_matter = proposal.changes_strategy() && effect.after.is_some_and(|pace| !pace.surges);
        report.incomplete = proposal.unread(budgets_matter);
        let keeps_pace = current.strategy_type == Some(StrategyType::OnDelete)
            && changed.strategy_type.is_some()
            && (changed.max_surge.is_some() || changed.max_unavailable.is_some());
        let advice = match keeps_pace {
            true => "to undo, except for maxSurge and maxUnavailable, which OnDelete does not use",
            false => "to undo",
        };
        report.revert = Some(Fix::new(advice, revert(&report.daemon_set, current, changed, daemon_set)));
        report.effect = Some(effect).filter(|_| !daemon_set.metadata.is_terminating());
    }
    Ok((proposal, report))
}

/// Returns whether more nodes may be without an available pod at a time while pods are replaced.
fn is_raised(effect: &Effect) -> bool {
    let (Some(before), Some(after)) = (effect.before, effect.after) else { return false };
    effect.outdated != Some(0) && !after.surges && (before.surges || after.allowed > before.allowed)
}

/// Returns the command that restores the pace of a DaemonSet from before it was raised, and that pace; `None` if it was not raised.
pub(super) fn restore_pace(daemon_set: &DaemonSet) -> Option<(RaisedPace, Command)> {
    let raised = RaisedPace::of(daemon_set)?;
    let fields = match raised.before {
        // A surge with host ports cannot work.
        Limit::MaxSurge(_) if !host_ports(daemon_set).is_empty() => return None,
        Limit::MaxSurge(amount) => SpecFields { max_surge: Some(amount), ..SpecFields::default() },
        Limit::MaxUnavailable(amount) => SpecFields { max_unavailable: Some(amount), ..SpecFields::default() },
    };
    Some((raised, command(&name_of(daemon_set), fields)))
}

/// Returns the command that sets fields of a DaemonSet.
pub(crate) fn command(daemon_set: &DaemonSetName, fields: SpecFields) -> Command {
    let SpecFields { strategy_type, max_surge, max_unavailable, min_ready_seconds, revision_history_limit } = fields;
    let flags = [
        ("--type", strategy_type.map(|strategy| strategy.name().to_owned())),
        ("--max-surge", max_surge.map(|amount| amount.to_string())),
        ("--max-unavailable", max_unavailable.map(|amount| amount.to_string())),
        ("--min-ready-seconds", min_ready_seconds.map(|seconds| seconds.to_string())),
        ("--revision-history-limit", revision_history_limit.map(|limit| limit.to_string())),
    ];
    let command = flags.into_iter().fold(Command::kubectl(&["ds", "set"]), |command, (flag, value)| match value {
        Some(value) => command.flag(flag, value),
        None => command,
    });
    command.namespace(&daemon_set.namespace).name(daemon_set.short())
}

/// Returns the command that restores the values before a change.
fn revert(name: &DaemonSetName, before: SpecFields, changed: SpecFields, daemon_set: &DaemonSet) -> Command {
    let mut command = command(name, reverted(before, changed));
    let limits = changed.max_surge.is_some_and(|amount| amount.value() != 0);
    if limits && !rolling_update::allows_surge(daemon_set) {
        // By then, nodes may have two pods.
        command = command.switch("--delete-surge-pods");
    }
    let surges_again = changed.max_surge.is_some() || changed.strategy_type.is_some();
    if surges_again && rolling_update::allows_surge(daemon_set) && !host_ports(daemon_set).is_empty() {
        return command.switch("--force");
    }
    command
}

/// Returns the values before a change.
fn reverted(before: SpecFields, changed: SpecFields) -> SpecFields {
    let mut fields = before.of_fields(changed);
    if fields.strategy_type == Some(StrategyType::OnDelete) {
        // Under OnDelete there is no pace to restore.
        (fields.max_surge, fields.max_unavailable) = (None, None);
    }
    let zero = |amount: Option<IntOrPercent>| amount.is_some_and(|amount| amount.value() == 0);
    match (fields.max_surge, fields.max_unavailable) {
        // The other one is set to 0 automatically.
        (surge, Some(_)) if zero(surge) => fields.max_surge = None,
        (Some(_), unavailable) if zero(unavailable) => fields.max_unavailable = None,
        _ => {}
    }
    fields
}

/// Explains the changes beyond the request.
fn why(requested: SpecFields, changed: SpecFields) -> Option<String> {
    let (other, given) = match (requested.max_surge, requested.max_unavailable) {
        (None, Some(_)) if changed.max_surge.is_some() => ("maxSurge", "maxUnavailable"),
        (Some(_), None) if changed.max_unavailable.is_some() => ("maxUnavailable", "maxSurge"),
        _ => return None,
    };
    Some(format!("{other} becomes 0: only one of {other} and {given} may be nonzero"))
}

/// Returns the host ports of a DaemonSet's pods, such as `9100/TCP`.
fn host_ports(daemon_set: &DaemonSet) -> Vec<String> {
    let ports = ports::host_ports(&daemon_set.spec.template.spec);
    ports.map(|port| format!("{}/{}", port.host_port, port.protocol)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{SetRefusal, SetRequest, SurgePods, set};
    use crate::coverage::test_support::{World, at, world};
    use crate::facts::index::Index;
    use crate::model::int_or_percent::IntOrPercent;
    use crate::model::pod_disruption_budget::PodDisruptionBudget;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::plan::{SpecFields, StrategyType};
    use crate::report::plan::{ChangePlan, WarningCode};
    use crate::rollout::situation::Situation;

    fn unavailable(amount: &str) -> SetRequest {
        request(SpecFields { max_unavailable: Some(amount.parse().unwrap()), ..SpecFields::default() })
    }

    fn surge(amount: &str) -> SetRequest {
        request(SpecFields { max_surge: Some(amount.parse().unwrap()), ..SpecFields::default() })
    }

    fn on_delete() -> SetRequest {
        request(SpecFields { strategy_type: Some(StrategyType::OnDelete), ..SpecFields::default() })
    }

    fn request(fields: SpecFields) -> SetRequest {
        SetRequest { fields, ..SetRequest::default() }
    }

    /// A cluster in the middle of a rollout: 8 nodes, of which `old` have an available pod of the older revision, `old unready` one
    /// that is not ready, `new` and `new unready` those of the current one, and `pair` both, the new one not ready.
    fn rollout(rolling_update: &Value, nodes: [&str; 8]) -> World {
        let old = || {
            json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"},
            "creationTimestamp": "2026-03-01T11:10:00Z"}})
        };
        let waiting = || json!({"state": {"waiting": {"reason": "ContainerCreating"}}});
        let mut world = world().daemon_set(
            json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling_update}}}),
        );
        for (number, state) in nodes.into_iter().enumerate() {
            let (node, pod, second) = (format!("n{number}"), format!("agent-{number}"), format!("agent-{number}-new"));
            world = world.node(&node, json!({}));
            world = match state {
                "old" => world.pod(&pod, &node, old()),
                "old unready" => world.unready_pod(&pod, &node, waiting(), old()),
                "new" => world.pod(&pod, &node, json!({})),
                "new unready" => world.unready_pod(&pod, &node, waiting(), json!({})),
                "pair" => world.pod(&pod, &node, old()).unready_pod(&second, &node, waiting(), json!({})),
                _ => world,
            };
        }
        world
    }

    fn planned(world: World, request: &SetRequest) -> Result<ChangePlan, SetRefusal> {
        let snapshot = world.finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        set(&situation, request).map(|planned| planned.report)
    }

    /// Returns how many nodes count against the limit now, and how many pods are replaced now, before and after.
    type Numbers = [Option<(i64, Option<i64>, Option<i64>)>; 2];

    fn numbers(plan: &ChangePlan) -> Numbers {
        let effect = plan.effect.as_ref().unwrap();
        [effect.before, effect.after].map(|pace| pace.map(|pace| (pace.allowed, pace.in_use, pace.replaced_now)))
    }

    fn codes(plan: &ChangePlan) -> Vec<WarningCode> {
        plan.warnings.iter().map(|warning| warning.code).collect()
    }

    /// Returns why a change would make things worse.
    fn worse(refused: Result<ChangePlan, SetRefusal>) -> Vec<WarningCode> {
        let Err(SetRefusal::Worse(warnings)) = refused else { panic!("not refused: {refused:?}") };
        warnings.iter().map(|warning| warning.code).collect()
    }

    /// Four nodes, one of which has a new pod in this state, which may or may not depend on the node.
    fn blocked(state: &str) -> World {
        let world = rollout(&json!({"maxUnavailable": 1}), ["old", "old", "old", "new", "new", "new", "new", "none"]);
        let crashes = || json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let since = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-03-01T11:50:00Z"}]);
        match state {
            "not scheduled" => world.pending_pod("agent-7", "n7", "", json!({})),
            "crashing" => world.unready_pod("agent-7", "n7", crashes(), json!({})),
            "unreachable" => world
                .node("n8", json!({"status": {"conditions": since}}))
                .unready_pod("agent-8", "n8", json!({}), json!({}))
                .pod("agent-7", "n7", json!({})),
            _ => world.refusal("pods \"agent-x\" is forbidden: exceeded quota: few"),
        }
    }

    #[test]
    fn more_budget_that_would_be_spent_on_the_same_cause_needs_force() {
        for (state, expected) in [
            ("not scheduled", Some(WarningCode::NotByNodes)),
            ("refused", Some(WarningCode::CreationRefused)),
            // Most new pods are available: the node is to blame.
            ("crashing", None),
            ("unreachable", None),
        ] {
            let plan = planned(blocked(state), &unavailable("2"));
            let Some(expected) = expected else {
                assert!(plan.is_ok(), "{state}: {plan:?}");
                continue;
            };
            assert_eq!(worse(plan), [expected], "{state}");
            let forced = planned(blocked(state), &SetRequest { force: true, ..unavailable("2") }).unwrap();
            assert!(codes(&forced).contains(&expected), "{state}");
            // A smaller budget does no harm.
            assert!(planned(blocked(state), &on_delete()).is_ok(), "{state}");
        }
    }

    #[test]
    fn the_pace_before_it_was_raised_is_noted_if_the_rollout_was_blocked() {
        let noted = |world: World, request: &SetRequest| {
            let plan = planned(world, request).unwrap();
            let key = "metadata.annotations[kubectl-ds/raised-pace]";
            let change = plan.changes.into_iter().find(|change| change.path.to_string() == key)?;
            Some(change.to.unwrap_or_default().as_str().unwrap_or_default().to_owned())
        };
        let of = |before: i64, after: i64| format!("maxUnavailable={before} -> maxUnavailable={after}");
        let since = json!([{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-03-01T11:50:00Z"}]);
        let annotated = |before: i64, after: i64| {
            let annotations = json!({"kubectl-ds/raised-pace": of(before, after)});
            blocked("unreachable").daemon_set(json!({"metadata": {"annotations": annotations}}))
        };
        assert_eq!(noted(blocked("unreachable"), &unavailable("2")), Some(of(1, 2)));
        // If it was raised several times, the first pace is to be restored.
        let raised = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}});
        let second = json!({"status": {"conditions": since}});
        let twice =
            annotated(1, 2).daemon_set(raised).node("n9", second).unready_pod("agent-9", "n9", json!({}), json!({}));
        assert_eq!(noted(twice, &unavailable("4")), Some(of(1, 4)));
        // This rollout was not blocked.
        let done = || rollout(&json!({"maxUnavailable": 1}), ["new"; 8]);
        assert_eq!(noted(done(), &unavailable("2")), None);
        assert_eq!(noted(blocked("unreachable"), &on_delete()), None);
        // A pace that is set afterwards is intentional.
        let after = done().daemon_set(json!({
            "metadata": {"annotations": {"kubectl-ds/raised-pace": of(1, 2)}},
            "spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}}));
        assert_eq!(noted(after, &unavailable("1")), Some(String::new()));
    }

    #[test]
    fn the_effect_is_what_the_controller_would_do() {
        let stuck = ["old", "old", "old", "old", "old", "new", "new unready", "none"];
        let one = json!({"maxUnavailable": 1});
        let old = ["old", "old", "old", "old", "old", "old", "old unready", "old unready"];
        let done = ["new", "new", "new", "new", "new", "new", "new", "new unready"];
        for (rolling, nodes, request, expected) in [
            // Two nodes count: the unready pod and the missing one.
            (&one, stuck, unavailable("50%"), [Some((1, Some(2), Some(0))), Some((4, Some(2), Some(2)))]),
            (&one, stuck, unavailable("2"), [Some((1, Some(2), Some(0))), Some((2, Some(2), Some(0)))]),
            (&one, stuck, unavailable("100%"), [Some((1, Some(2), Some(0))), Some((8, Some(2), Some(5)))]),
            // Old pods that are not ready are replaced regardless of the limit.
            (&one, old, unavailable("3"), [Some((1, Some(2), Some(2))), Some((3, Some(2), Some(3)))]),
            (&one, old, surge("3"), [Some((1, Some(2), Some(2))), Some((3, Some(0), Some(5)))]),
            (&one, old, on_delete(), [Some((1, Some(2), Some(2))), None]),
            (&one, done, unavailable("5"), [Some((1, Some(1), Some(0))), Some((5, Some(1), Some(0)))]),
        ] {
            let plan = planned(rollout(rolling, nodes), &SetRequest { force: true, ..request }).unwrap();
            assert_eq!(numbers(&plan), expected, "{nodes:?} {request:?}");
            assert_eq!(plan.effect.unwrap().desired, 8);
        }
    }

    /// The controller considers an old pod unavailable if it has not been ready for minReadySeconds.
    #[test]
    fn more_min_ready_seconds_replace_young_pods_at_once_and_only_by_force() {
        let fields = SpecFields { min_ready_seconds: Some(3600), ..SpecFields::default() };
        let world = || rollout(&json!({"maxUnavailable": 1}), ["old"; 8]);
        assert_eq!(worse(planned(world(), &request(fields))), [WarningCode::ReplacedRegardless]);
        let plan = planned(world(), &SetRequest { force: true, ..request(fields) }).unwrap();
        assert_eq!(numbers(&plan), [Some((1, Some(0), Some(1))), Some((1, Some(8), Some(8)))]);
        assert_eq!(
            codes(&plan),
            [WarningCode::BecomeUnavailable, WarningCode::ReplacedRegardless, WarningCode::SlowRollout]
        );
    }

    #[test]
    fn the_end_of_surge_deletes_the_newer_pod_of_each_pair_only_if_that_is_allowed() {
        let nodes = ["pair", "old", "old", "pair", "new", "new", "new", "new"];
        for request in [unavailable("1"), on_delete()] {
            let world = || rollout(&json!({"maxSurge": 2, "maxUnavailable": 0}), nodes);
            let Err(SetRefusal::SurgePods(SurgePods { pods, .. })) = planned(world(), &request) else {
                panic!("not refused")
            };
            let pods: Vec<_> = pods.iter().map(|pod| (pod.node.as_str(), pod.pod.as_str())).collect();
            assert_eq!(pods, [("n0", "agent-0-new"), ("n3", "agent-3-new")]);
            let allowed = SetRequest { delete_surge_pods: true, ..request };
            let plan = planned(world(), &allowed).unwrap();
            assert_eq!(codes(&plan), [WarningCode::SurgePodsDeleted]);
            assert_eq!(plan.effect.unwrap().surge_pods_deleted.len(), 2);
        }
        // A smaller surge is still a surge.
        let plan = planned(rollout(&json!({"maxSurge": 2, "maxUnavailable": 0}), nodes), &surge("1")).unwrap();
        assert_eq!(numbers(&plan), [Some((2, Some(2), Some(0))), Some((1, Some(2), Some(0)))]);
    }

    #[test]
    fn host_ports_rule_surge_out_unless_it_is_forced() {
        let port = |network: bool, port: Value| {
            let world = rollout(&json!({}), ["old"; 8]);
            world.template(
                json!({"hostNetwork": network, "containers": [{"name": "agent", "image": "agent:2", "ports": [port]}]}),
            )
        };
        for (network, ports) in
            [(false, json!({"containerPort": 80, "hostPort": 9100})), (true, json!({"containerPort": 9100}))]
        {
            let refused = planned(port(network, ports.clone()), &surge("1"));
            assert_eq!(refused, Err(SetRefusal::HostPorts(vec!["9100/TCP".to_owned()])));
            let plan = planned(port(network, ports.clone()), &SetRequest { force: true, ..surge("1") }).unwrap();
            assert_eq!(codes(&plan), [WarningCode::HostPort]);
            assert!(planned(port(network, ports), &unavailable("2")).is_ok());
        }
        assert!(planned(port(false, json!({"containerPort": 80})), &surge("1")).is_ok());
    }

    #[test]
    fn the_command_that_undoes_a_change_restores_what_was_there() {
        let fields = SpecFields {
            min_ready_seconds: Some(30),
            revision_history_limit: Some(3),
            max_surge: Some(IntOrPercent::Percent(25)),
            ..SpecFields::default()
        };
        for (rolling, request, expected) in [
            (json!({"maxUnavailable": "10%"}), unavailable("2"), "--max-unavailable '10%'"),
            (json!({"maxUnavailable": "10%"}), surge("2"), "--max-unavailable '10%' --delete-surge-pods"),
            (json!({"maxUnavailable": 0, "maxSurge": 1}), unavailable("2"), "--max-surge 1"),
            (
                json!({"maxUnavailable": 0, "maxSurge": 1}),
                request(fields),
                "--max-surge 1 --min-ready-seconds 0 --revision-history-limit 10",
            ),
            (json!({}), on_delete(), "--type RollingUpdate"),
        ] {
            let world = || rollout(&rolling, ["new"; 8]);
            let plan = planned(world(), &request).unwrap();
            let command = plan.revert.as_ref().unwrap().command.as_ref().unwrap().to_string();
            let (fields, switch) =
                expected.split_once(" --delete").map_or((expected, ""), |(fields, _)| (fields, " --delete-surge-pods"));
            assert_eq!(command, format!("kubectl ds set {fields} -n default{switch} agent"));
        }
        // If pods have host ports, only surge has to be forced.
        let ready = SpecFields { min_ready_seconds: Some(30), ..SpecFields::default() };
        let surging = json!({"maxUnavailable": 0, "maxSurge": 1});
        for (rolling, request, expected) in [
            (&surging, unavailable("2"), "--max-surge 1 -n default --force agent"),
            (&surging, request(ready), "--min-ready-seconds 0 -n default agent"),
            (&json!({"maxUnavailable": 1}), surge("2"), "--max-unavailable 1 -n default --delete-surge-pods agent"),
        ] {
            let plan = planned(with_host_port(rolling), &SetRequest { force: true, ..request }).unwrap();
            assert_eq!(plan.revert.unwrap().command.unwrap().to_string(), format!("kubectl ds set {expected}"));
        }
    }

    /// Two pods of a node cannot share their port.
    fn with_host_port(rolling_update: &Value) -> World {
        let ports = json!([{"containerPort": 9100, "hostPort": 9100}]);
        rollout(rolling_update, ["new"; 8])
            .template(json!({"containers": [{"name": "agent", "image": "agent:2", "ports": ports}]}))
    }

    fn rolling() -> SetRequest {
        request(SpecFields { strategy_type: Some(StrategyType::RollingUpdate), ..SpecFields::default() })
    }

    #[test]
    fn the_pace_of_a_suspended_rollout_is_not_set() {
        let under_on_delete = |rolling_update: &Value, annotations: Value| {
            with_host_port(rolling_update).daemon_set(
                json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}}),
            )
        };
        let original = json!({"kubectl-ds/original-update-strategy": json!({"type": "RollingUpdate"}).to_string()});
        let held = || under_on_delete(&json!({"maxUnavailable": 1}), original.clone());
        let on_delete = SpecFields { strategy_type: Some(StrategyType::OnDelete), ..SpecFields::default() };
        for request in [unavailable("2"), surge("2"), rolling(), request(on_delete)] {
            assert_eq!(planned(held(), &request), Err(SetRefusal::OnHold), "{request:?}");
        }
        let ready = SpecFields { min_ready_seconds: Some(30), ..SpecFields::default() };
        assert!(planned(held(), &request(ready)).is_ok());
        // By choice.
        let on_delete = |rolling_update: Value| under_on_delete(&rolling_update, json!({}));
        assert_eq!(planned(on_delete(json!({})), &unavailable("2")), Err(SetRefusal::NotRollingUpdate));
        assert!(planned(on_delete(json!({"maxUnavailable": 1})), &rolling()).is_ok());
        // The pace is retained under OnDelete.
        let surging = on_delete(json!({"maxUnavailable": 0, "maxSurge": 1}));
        assert_eq!(planned(surging, &rolling()), Err(SetRefusal::HostPorts(vec!["9100/TCP".to_owned()])));
    }

    #[test]
    fn only_a_faster_pace_is_warned_of_what_is_wrong_with_the_pods() {
        let quota = "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=8, \
                     limited: pods=2";
        let world = |strategy: Value| {
            rollout(&json!({}), ["old"; 8]).daemon_set(json!({"spec": {"updateStrategy": strategy}})).refusal(quota)
        };
        let rolling_update = |unavailable, surge| {
            let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
            json!({"type": "RollingUpdate", "rollingUpdate": rolling})
        };
        for (strategy, request, expected) in [
            (rolling_update(1, 0), unavailable("3"), true),
            (rolling_update(3, 0), unavailable("1"), false),
            // Of 8 nodes, 1.
            (rolling_update(1, 0), unavailable("10%"), false),
            (rolling_update(1, 0), surge("1"), true),
            (rolling_update(0, 3), surge("2"), false),
            (rolling_update(1, 0), on_delete(), false),
            (json!({"type": "OnDelete"}), rolling(), true),
        ] {
            let plan = planned(world(strategy.clone()), &SetRequest { force: true, ..request }).unwrap();
            let is_warned_of = codes(&plan).contains(&WarningCode::CreationRefused);
            assert_eq!(is_warned_of, expected, "{strategy} {request:?}");
        }
    }

    /// Its controller replaces no pods, whatever the pace.
    #[test]
    fn a_change_of_what_is_being_deleted_has_no_effect() {
        let world = || rollout(&json!({"maxUnavailable": 1}), ["old"; 8]);
        assert!(planned(world(), &unavailable("2")).unwrap().effect.is_some());
        let deleted = json!({"metadata": {"deletionTimestamp": at("11:59:00")}});
        let plan = planned(world().daemon_set(deleted), &unavailable("2")).unwrap();
        assert_eq!(plan.effect, None);
        assert!(codes(&plan).contains(&WarningCode::Deleting));
    }

    /// Its lease may expire later.
    #[test]
    fn a_scheduler_that_pods_wait_for_is_warned_of() {
        for (says, is_told) in [("", true), ("0/9 nodes are available: 1 Insufficient cpu.", false)] {
            let world = rollout(&json!({"maxUnavailable": 1}), ["old"; 8]).node("z", json!({}));
            let created = json!({"metadata": {"creationTimestamp": at("11:59:20")}});
            let plan = planned(world.pending_pod("agent-z", "z", says, created), &unavailable("2")).unwrap();
            assert_eq!(codes(&plan).contains(&WarningCode::SchedulerDown), is_told, "{says}");
        }
    }

    /// It was lowered to stop a rollout, and raising it again would be refused.
    #[test]
    fn what_would_be_refused_now_is_not_offered_as_if_it_undid_the_change() {
        let quota = "pods \"agent-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=8, \
                     limited: pods=2";
        for (is_refused, expected) in [(true, "to undo, once new pods become available"), (false, "to undo")] {
            let world = rollout(&json!({"maxUnavailable": "50%"}), ["old"; 8]);
            let world = if is_refused { world.refusal(quota) } else { world };
            let revert = planned(world, &unavailable("1")).unwrap().revert.unwrap();
            let command = "kubectl ds set --max-unavailable '50%' -n default agent";
            assert_eq!((&*revert.advice, &*revert.command.unwrap().to_string()), (expected, command));
        }
    }

    #[test]
    fn unread_budgets_matter_if_the_pace_deletes_pods() {
        let incomplete = |request: &SetRequest| {
            let mut world = rollout(&json!({"maxUnavailable": 1}), ["new"; 8]);
            let cause = GapCause::Forbidden("list poddisruptionbudgets".to_owned());
            world.snapshot.gaps.push(Gap { kind: Kind::PodDisruptionBudgets, namespace: None, cause });
            let incomplete = planned(world, request).unwrap().incomplete;
            incomplete.into_iter().map(|one| one.resource).collect::<Vec<_>>()
        };
        assert_eq!(incomplete(&unavailable("2")), ["poddisruptionbudgets"]);
        let ready = SpecFields { min_ready_seconds: Some(30), ..SpecFields::default() };
        for request in [unavailable("1"), surge("2"), on_delete(), request(ready)] {
            assert!(incomplete(&request).is_empty(), "{request:?}");
        }
    }

    #[test]
    fn what_is_changed_beyond_the_request_is_explained() {
        let pace = |unavailable, surge| json!({"maxUnavailable": unavailable, "maxSurge": surge});
        for (rolling, request, expected) in [
            (pace(1, 0), surge("2"), Some("maxUnavailable becomes 0")),
            (pace(0, 1), surge("2"), None),
            (pace(0, 1), unavailable("2"), Some("maxSurge becomes 0")),
            (pace(1, 0), unavailable("2"), None),
        ] {
            let why = planned(rollout(&rolling, ["new"; 8]), &request).unwrap().why;
            assert_eq!(why.as_deref().and_then(|why| why.split(':').next()), expected, "{rolling} {request:?}");
        }
    }

    #[test]
    fn a_pace_that_endangers_the_cluster_is_pointed_out() {
        let rolling = || rollout(&json!({"maxUnavailable": 1}), ["new"; 8]);
        let plan = |world: World, request: &SetRequest| codes(&planned(world, request).unwrap());
        assert_eq!(plan(rolling(), &unavailable("100%")), [WarningCode::AllAtOnce]);
        assert_eq!(plan(rolling(), &unavailable("8")), [WarningCode::AllAtOnce]);
        assert_eq!(plan(rolling(), &surge("100%")), [WarningCode::AllAtOnce]);
        assert_eq!(plan(rolling(), &unavailable("87%")), []);

        let ready = |seconds| SpecFields { min_ready_seconds: Some(seconds), ..SpecFields::default() };
        assert_eq!(plan(rolling(), &request(ready(449))), []);
        assert_eq!(plan(rolling(), &request(ready(450))), [WarningCode::SlowRollout]);
        let all_at_once = SpecFields { max_unavailable: Some(IntOrPercent::Int(7)), ..ready(450) };
        assert_eq!(plan(rolling(), &request(all_at_once)), []);

        let with_budget = |selector: Value, allowed: i64, observed: i64| {
            let mut world = rolling();
            let budget: PodDisruptionBudget = serde_json::from_value(json!({
                "metadata": {"name": "agent", "namespace": "default", "generation": 2},
                "spec": {"selector": selector},
                "status": {"expectedPods": 8, "desiredHealthy": 8 - allowed, "observedGeneration": observed},
            }))
            .unwrap();
            world.snapshot.pod_disruption_budgets.push(budget);
            world
        };
        let matching = || json!({"matchLabels": {"app": "agent"}});
        assert_eq!(plan(with_budget(matching(), 1, 2), &unavailable("2")), [WarningCode::DisruptionBudget]);
        assert_eq!(plan(with_budget(json!({}), 1, 2), &unavailable("2")), [WarningCode::DisruptionBudget]);
        assert_eq!(plan(with_budget(matching(), 2, 2), &unavailable("2")), []);
        assert_eq!(plan(with_budget(Value::Null, 1, 2), &unavailable("2")), []);
        assert_eq!(plan(with_budget(json!({"matchLabels": {"app": "b"}}), 1, 2), &unavailable("2")), []);
        // Of an earlier generation.
        assert_eq!(plan(with_budget(matching(), 8, 1), &unavailable("2")), [WarningCode::DisruptionBudget]);
    }

    #[test]
    fn only_what_reverts_these_fields_is_warned_of() {
        let applied = |strategy: Value| {
            let manifest = json!({"spec": {"updateStrategy": strategy}}).to_string();
            let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": manifest});
            let world = rollout(&json!({"maxUnavailable": 1}), ["new"; 8]);
            let plan = planned(world.daemon_set(json!({"metadata": {"annotations": annotations}})), &unavailable("2"));
            codes(&plan.unwrap())
        };
        assert_eq!(applied(json!({"rollingUpdate": {"maxUnavailable": 1}})), [WarningCode::LastApplied]);
        assert_eq!(applied(json!({"rollingUpdate": {"maxUnavailable": 2}})), []);
        assert_eq!(applied(json!({"type": "RollingUpdate"})), []);

        let managed = |fields: Value| {
            let entry = json!({"manager": "deployer", "operation": "Apply", "fieldsV1": {"f:spec": fields}});
            let world = rollout(&json!({"maxUnavailable": 1}), ["new"; 8]);
            let plan = planned(world.daemon_set(json!({"metadata": {"managedFields": [entry]}})), &unavailable("2"));
            codes(&plan.unwrap())
        };
        let rolling = json!({"f:updateStrategy": {"f:rollingUpdate": {"f:maxUnavailable": {}}}});
        assert_eq!(managed(rolling), [WarningCode::ServerSideApply]);
        assert_eq!(managed(json!({"f:template": {}, "f:updateStrategy": {"f:type": {}}})), []);
    }
}
