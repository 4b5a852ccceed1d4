//! How to continue after a stage has ended, and how to go back.

use jiff::Timestamp;

use super::instruction::{gates_failures, gates_hold};
use super::plan::{Amount, StageRefusal, StageRequest, plan};
use super::template::NewTemplate;
use crate::coverage::PROGRESS_DEADLINE;
use crate::model::daemon_set::UpdateStrategy;
use crate::model::hold::{GATES_ANNOTATION, Hold, StageFlags};
use crate::model::int_or_percent::{IntOrPercent, int};
use crate::model::stages::Stratum;
use crate::report::fix::{Command, Fix};
use crate::report::history::DaemonSetName;
use crate::report::partition::{Gate, GateFailure, PartitionReport, PartitionStage, SKIP_LABEL};
use crate::report::reason::ReasonCode;
use crate::rollout::rollback::spreads_failure;
use crate::rollout::situation::fault::may_be_taken_down;
use crate::rollout::situation::{RolloutNode, Situation};
use crate::rollout::undo::{is_return, unfinished_rollback};

/// No pod stays on an older revision.
const ALL: Amount = Amount::Keep(IntOrPercent::Int(0));

/// How a stage can begin.
enum Begin<'a> {
    /// With these flags: some nodes may be left out of the stage or of its limit.
    Now(Continued<'a>),
    /// Not before something else is fixed.
    Later(Continued<'a>),
    /// Not at all: none of its nodes is left, or somebody else decides.
    Never,
}

/// A stage that another run may continue.
#[derive(Clone)]
pub(crate) struct Continued<'a> {
    name: &'a DaemonSetName,
    flags: StageFlags,
    /// The command of `--verify`, which is known only to the run itself.
    verify: Option<&'a str>,
    /// How many pods are updated.
    amount: Amount,
    /// The number of the revision that is rolled out, if it is known.
    revision: Option<i64>,
    /// Whether the strategy before the hold was OnDelete.
    is_on_delete: bool,
}

impl<'a> Continued<'a> {
    pub(crate) fn of_run(report: &'a PartitionReport, request: &'a StageRequest) -> Self {
        let amount = report.partition.parse().map_or(request.amount, Amount::Keep);
        let is_on_delete = report.original_strategy.is_on_delete();
        Continued {
            amount,
            revision: report.revision,
            is_on_delete,
            ..Continued::of_request(&report.daemon_set, request)
        }
    }

    /// Returns a stage that was not begun.
    pub(crate) fn of_request(name: &'a DaemonSetName, request: &'a StageRequest) -> Self {
        // When it has begun is not part of a command.
        let (flags, verify) = (request.flags(Timestamp::UNIX_EPOCH), request.verify.as_deref());
        let revision = request.undone_revision();
        Continued { name, flags, verify, amount: request.amount, revision, is_on_delete: false }
    }

    /// Returns the stage that another run has left; `None` if there was none. If its flags cannot be read, the gates are the
    /// default ones, and no disruption budget is bypassed.
    pub(crate) fn of_hold(name: &'a DaemonSetName, hold: &Hold, revision: Option<i64>) -> Option<Self> {
        let flags = hold.flags.clone().unwrap_or_else(|| StageFlags { evict: true, ..StageFlags::default() });
        let is_on_delete = hold.original_strategy() == UpdateStrategy::OnDelete;
        Some(Continued { name, flags, verify: None, amount: Amount::Keep(hold.partition?), revision, is_on_delete })
    }

    /// Returns the command that continues it under the same gates; `None` if it is not known yet what that is.
    pub(crate) fn again(&self) -> Option<Command> {
        if self.flags.is_undo {
            // The rest is kept in the cluster.
            let flags = StageFlags { progress_deadline_seconds: 0, evict: false, ..self.flags.clone() };
            return Some(self.gated(self.name.undo(self.revision?), &flags));
        }
        Some(self.command(&self.flags, self.amount))
    }

    /// Returns the command that begins it as it was begun, if it can be repeated; `manifest` is the file of its template.
    pub(crate) fn whole_again(&self, request: &StageRequest, manifest: Option<&str>) -> Option<Command> {
        let mut command = self.command(&self.flags, self.amount);
        match &request.template {
            NewTemplate::Live => {}
            NewTemplate::Images(images) => {
                for (container, image) in images {
                    command = command.flag("--image", format!("{container}={image}"));
                }
            }
            // A revision gets a new number when it becomes current, so the same command would mean another one.
            NewTemplate::Revision(_) => return None,
            NewTemplate::Manifest(_) => command = command.flag("-f", manifest.filter(|path| *path != "-")?),
            NewTemplate::Restart(_) => command = self.gated(self.name.command("restart"), &self.flags),
        }
        for (switch, given) in [("--delete-surge-pods", request.delete_surge_pods), ("--force", request.force)] {
            command = if given { command.switch(switch) } else { command };
        }
        Some(command)
    }

    /// Returns the stage that updates all other nodes under the same gates, and restores the strategy.
    fn of_all(&self) -> Self {
        let flags = StageFlags {
            nodes: Vec::new(),
            has_other_nodes: false,
            node_selector: String::new(),
            ..self.flags.clone()
        };
        Continued { flags, amount: ALL, ..self.clone() }
    }

    /// Tries the stage on the rules. What several stages or a rollback do next depends on more, and is not tried.
    fn begin(mut self, situation: &Situation<'_>) -> Begin<'a> {
        if self.flags.staged.is_some() || self.flags.is_undo || self.flags.has_other_nodes {
            return Begin::Now(self);
        }
        let tried = |stage: &Self| {
            let StageFlags { nodes, node_selector, spread_by, max_unavailable, evict, .. } = stage.flags.clone();
            let node_selector = node_selector.parse().unwrap_or_default();
            let request = StageRequest::new(stage.amount, NewTemplate::Live, String::new());
            plan(situation, &StageRequest { nodes, node_selector, spread_by, max_unavailable, evict, ..request }, None)
        };
        let is_down = |node: &RolloutNode<'_>| node.keeps_pods() && !may_be_taken_down(situation, node);
        let is_apart = |name: &String| situation.node(name).is_some_and(|node| node.updated.is_none() || is_down(node));
        let old = situation.outdated_nodes().count();
        match tried(&self) {
            // What fails because of the stage has to be fixed first.
            Err(StageRefusal::NoBudget { unavailable, enough, .. }) if unavailable.iter().all(is_apart) => {
                self.flags.max_unavailable = Some(IntOrPercent::Int(int(enough)));
            }
            Err(StageRefusal::TooFewNodes { found, .. }) if found > 0 => {
                self.amount = Amount::Keep(IntOrPercent::Int(int(old.saturating_sub(found))));
            }
            Err(StageRefusal::TooFewNodes { not_ready, skipped, .. }) if not_ready.is_empty() && skipped.is_empty() => {
                return Begin::Never;
            }
            Err(StageRefusal::NoSuchNode(_) | StageRefusal::HeldBy(_)) => return Begin::Never,
            Err(StageRefusal::NoBudget { .. } | StageRefusal::TooFewNodes { .. }) => return Begin::Later(self),
            _ => return Begin::Now(self),
        }
        if tried(&self).is_ok() { Begin::Now(self) } else { Begin::Later(self) }
    }

    /// Returns the command that rolls all nodes back to a revision, with the same kind of replacement. Under OnDelete, nobody has
    /// asked for other pods than those of the stage to be replaced.
    fn back(&self, revision: i64) -> Command {
        if self.is_on_delete {
            return self.name.undo(revision);
        }
        let StageFlags { evict, progress_deadline_seconds, max_unavailable, .. } = self.flags;
        let flags = StageFlags { evict, progress_deadline_seconds, max_unavailable, ..StageFlags::default() };
        self.command(&flags, ALL).flag("--to-revision", revision.to_string())
    }

    /// Returns the command that runs a stage with flags. Without the command of `--verify`, it does not run.
    fn command(&self, flags: &StageFlags, amount: Amount) -> Command {
        let mut command = Command::kubectl(&["ds", "partition"]).namespace(&self.name.namespace);
        if flags.has_other_nodes {
            command = command.variable("--nodes", "NODES");
        }
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let nodes = [
            ("--nodes", some(flags.nodes.join(","))),
            ("--node-selector", some(flags.node_selector.clone())),
            ("--spread-by", flags.spread_by.clone()),
        ];
        let staged = flags.staged.as_ref();
        let strata = staged.filter(|staged| staged.strata != Stratum::DEFAULT).map(|staged| &staged.strata);
        let strata = strata.map(|strata| strata.iter().map(Stratum::to_string).collect::<Vec<_>>().join(","));
        let staging = [("--stages", staged.map(|staged| staged.stages.to_string())), ("--strata", strata)];
        let command = nodes.into_iter().chain(staging).fold(command, with);
        let command = self.gated(command, flags).name(self.name.short());
        match amount {
            _ if staged.is_some() => command.name("0"),
            Amount::Keep(keep) => command.name(keep.to_string()),
            Amount::Update(update) => command.flag("--update", update.to_string()),
        }
    }

    /// Adds the flags that `partition`, `restart` and `undo` share to a command.
    fn gated(&self, command: Command, flags: &StageFlags) -> Command {
        let restarts = (flags.max_restarts != 0).then(|| flags.max_restarts.to_string());
        let seconds = |seconds: i64, default: i64| (seconds != default && seconds != 0).then(|| format!("{seconds}s"));
        let gates = [
            ("--max-unavailable", flags.max_unavailable.map(|amount| amount.to_string())),
            ("--max-restarts", restarts),
            ("--soak", seconds(flags.soak_seconds, 0)),
            ("--progress-deadline", seconds(flags.progress_deadline_seconds, PROGRESS_DEADLINE)),
        ];
        let command = gates.into_iter().fold(command, with);
        let command = match self.verify {
            Some(verify) if flags.verifies => command.flag("--verify", verify),
            None if flags.verifies => command.variable("--verify", "VERIFY"),
            _ => command,
        };
        let command = with(command, ("--on-failure", flags.undoes_on_failure.then(|| "undo".to_owned())));
        if flags.evict { command.switch("--evict") } else { command }
    }
}

/// Adds a flag to a command if it has a value.
fn with(command: Command, (flag, value): (&str, Option<String>)) -> Command {
    match value {
        Some(value) => command.flag(flag, value),
        None => command,
    }
}

/// Suggests leaving out the only node on which a new pod fails, which may be why. That no pod was created is not up to the node: the next
/// one would get none, either.
fn skip_node(failures: &[GateFailure]) -> Option<Fix> {
    let [GateFailure { gate: Gate::Starts | Gate::Restarts, node: Some(node), pod: Some(_), .. }] = failures else {
        return None;
    };
    let label = Command::kubectl(&["label", "node"]).name(node).name(format!("{SKIP_LABEL}=true"));
    Some(Fix::new(format!("if {node} is at fault, to leave it out before continuing"), label))
}

/// Returns how to replace pods that have restarted too often: the gate counts that as long as they exist, even if they work now.
fn replace_restarted(name: &DaemonSetName, failures: &[GateFailure]) -> Option<Fix> {
    let restarts = failures.iter().filter(|failure| failure.gate == Gate::Restarts);
    let mut restarted = restarts.filter_map(|failure| failure.pod.as_deref()).peekable();
    restarted.peek()?;
    let advice = "once the cause is fixed, replace what has restarted before you continue";
    Some(Fix::new(advice, Command::delete_pods(&name.namespace, restarted)))
}

/// Returns what may follow a stage; `back_to` is the revision that its nodes had before, if that is known.
pub(crate) fn way_out(report: &PartitionReport, request: &StageRequest, back_to: Option<i64>) -> Vec<Fix> {
    if report.outcome.failures.iter().any(|failure| failure.reason == Some(ReasonCode::NamespaceTerminating)) {
        // No command gives a node its pod.
        return Vec::new();
    }
    let mut continued = Continued::of_run(report, request);
    // A node that is gone would be refused; without any, the stage would be one of all nodes.
    let is_left = |node: &String| !report.outcome.gone.contains(node);
    continued.flags.nodes.retain(is_left);
    let name = &report.daemon_set;
    let (mut advice, old) = ("to continue", report.outcome.old);
    let mut is_any_left = request.nodes.is_empty() || request.nodes.iter().any(is_left);
    if !report.nodes.is_empty() && !report.nodes.iter().any(is_left) && !report.rolls_back {
        // The same command would find no node, or nothing to update.
        advice = match request.nodes.is_empty() && continued.flags.node_selector.is_empty() {
            true => "to begin with other nodes",
            false => "to begin with other nodes than were chosen",
        };
        let amount = Amount::Update(IntOrPercent::Int(old.min(int(report.nodes.len()))));
        (continued, is_any_left) = (Continued { amount, ..continued.of_all() }, old > 0);
    }
    let mut fixes: Vec<Fix> = match report.outcome.stage {
        PartitionStage::Planned | PartitionStage::Unknown | PartitionStage::Finished => return Vec::new(),
        // A rollback does not replace pods of other revisions than the one that it leaves.
        PartitionStage::Complete if report.rolls_back => {
            continued.again().map(|again| Fix::new("to finish", again)).into_iter().collect()
        }
        PartitionStage::Complete => {
            continued.of_all().again().map(|again| Fix::new("to finish", again)).into_iter().collect()
        }
        PartitionStage::Begun | PartitionStage::Stopped => {
            let again = continued.again().filter(|_| is_any_left).map(|again| Fix::new(advice, again));
            replace_restarted(name, &report.outcome.failures).into_iter().chain(again).collect()
        }
    };
    // Nothing of an Advanced DaemonSet is suspended.
    if name.is_advanced() {
        fixes.push(Fix::new("to roll back", name.command("undo")));
        return fixes;
    }
    // What a rollback leaves is not a way back.
    let back = back_to.filter(|_| !report.rolls_back);
    let back = back.map(|number| Fix::new("to roll back", continued.back(number)));
    // What a gate has stopped is rolled back before it is continued, and continued before the gates are given up.
    match report.outcome.stage {
        PartitionStage::Stopped => fixes.splice(0..0, back).for_each(drop),
        _ => fixes.extend(back),
    }
    fixes.extend(skip_node(&report.outcome.failures));
    // Under OnDelete, the controller would not go on.
    if !report.original_strategy.is_on_delete() {
        // A tired person must see that it rolls out what a gate has stopped.
        let advice = match report.outcome.stage {
            PartitionStage::Stopped if !report.rolls_back => {
                "to let the controller finish, without gates, once the cause is fixed"
            }
            PartitionStage::Complete if !report.rolls_back => {
                "to let the controller finish at its own pace, without gates"
            }
            _ => "to resume",
        };
        fixes.push(Fix::new(advice, name.command("resume")));
    }
    fixes
}

/// Returns how to continue a hold that another run has left, as that run has said it; `back_to` is the revision that works on
/// most other nodes, and `updates` tells whether nodes of its stage are left to update.
pub(in crate::rollout) fn continuation(
    name: &DaemonSetName,
    hold: &Hold,
    updates: bool,
    back_to: Option<i64>,
    situation: &Situation<'_>,
) -> Vec<Fix> {
    let continued = Continued::of_hold(name, hold, situation.current.known().map(|current| current.revision));
    let (Some(partition), Some(mut continued)) = (hold.partition, continued) else {
        let advice = match spreads_failure(situation) {
            true => "once the cause is fixed, to update the remaining nodes under the gates of `partition`",
            false => "to update the remaining nodes under the gates of `partition`",
        };
        let request = StageRequest::new(ALL, NewTemplate::Live, String::new());
        let Begin::Now(rest) = Continued::of_request(name, &request).begin(situation) else { return Vec::new() };
        return rest.again().map(|rest| Fix::new(advice, rest)).into_iter().collect();
    };
    // A node that is gone would be refused; without any, the stage would be one of all nodes.
    let is_left = |name: &String| situation.node(name).is_some_and(|node| node.eligible);
    if continued.flags.nodes.iter().any(is_left) {
        continued.flags.nodes.retain(is_left);
    }
    // The same command knows which of several stages comes next.
    let updates = updates || hold.flags.as_ref().is_some_and(|flags| flags.staged.is_some());
    let (rest, is_later) = match continued.clone().begin(situation) {
        Begin::Now(rest) if updates => (Some(rest), false),
        Begin::Later(rest) if updates => (Some(rest), true),
        _ => (None, false),
    };
    let updates = rest.is_some();
    let whole = || match continued.of_all().begin(situation) {
        Begin::Now(whole) => whole.again(),
        Begin::Later(_) | Begin::Never => None,
    };
    // Without a node of the stage to update, the same command would do nothing.
    let go_on = || match &rest {
        Some(rest) => rest.again(),
        None if continued.flags.is_undo => continued.again(),
        None => whole(),
    };
    let Some(flags) = &hold.flags else {
        let how = if updates { "to continue" } else { "its nodes are updated; to update all others" };
        let advice = format!(
            "the gates of the stage are not known, because the annotation {GATES_ANNOTATION} is missing or cannot be used; \
             {how} under the default gates, with evictions"
        );
        return go_on().map(|command| Fix::new(advice, command)).into_iter().collect();
    };
    let set = match (flags.verifies, flags.has_other_nodes) {
        (false, false) => "",
        (true, false) => ", with VERIFY set to the command of --verify, which is not kept",
        (false, true) => ", with NODES set to its nodes, which are too many to keep",
        (true, true) => ", with VERIFY set to the command of --verify and NODES to its nodes, which are not kept",
    };
    let is_back = hold.lacks_template(situation.current_hash());
    if is_back || hold.is_of_another_template(situation.daemon_set) {
        let undo = || back_to.map_or_else(|| name.command("undo"), |number| name.undo(number));
        // Only if the stage's template was there before somebody put the old one back.
        let returned = unfinished_rollback(situation).filter(|_| is_return(situation));
        return match (flags.is_undo, returned) {
            (true, _) if is_back => {
                vec![Fix::new("the template is still the one to roll back, or is it again; to roll back", undo())]
            }
            (true, _) => {
                let advice = "the template was changed after the rollback began; to roll out the present one";
                vec![Fix::new(advice, name.command("partition").name("0"))]
            }
            (false, Some(back)) => {
                let advice = "the template that the last stage replaced is back; to roll the updated nodes back, too";
                vec![Fix::new(advice, name.undo(back))]
            }
            (false, None) => {
                let advice =
                    format!("the template of the last stage is not there; to continue with the present one{set}");
                go_on().map(|command| Fix::new(advice, command)).into_iter().collect()
            }
        };
    }
    let finish = |advice: &str| whole().map(|command| Fix::new(format!("{advice}{set}"), command));
    let is_last = flags.is_undo || partition.value() == 0;
    if !updates && !is_last && gates_hold(situation, partition, flags) {
        let back = back_to.map(|number| Fix::new("to roll back", continued.back(number)));
        return finish("to finish").into_iter().chain(back).collect();
    }
    let failures = if updates { gates_failures(situation, partition, flags) } else { Vec::new() };
    let advice = match updates || flags.is_undo {
        true if is_later || !failures.is_empty() => "once this is fixed, to continue",
        true => "to continue",
        false => "to check the gates of the stage again",
    };
    let first_of_all = skip_node(&failures).into_iter().chain(replace_restarted(name, &failures));
    let is_gone = !continued.flags.nodes.is_empty() && !continued.flags.nodes.iter().any(is_left);
    let again = match is_gone {
        true => {
            let old = situation.outdated_nodes().count();
            let amount = Amount::Update(IntOrPercent::Int(int(continued.flags.nodes.len().min(old))));
            let others = Continued { amount, ..continued.of_all() };
            others
                .again()
                .map(|again| Fix::new(format!("no node of the stage is left; to begin with other nodes{set}"), again))
        }
        false => rest.as_ref().unwrap_or(&continued).again().map(|again| Fix::new(format!("{advice}{set}"), again)),
    };
    // Even if none has a pod of the revision yet, new pods get one.
    let back = back_to.filter(|_| !flags.is_undo);
    let back = back.map(|number| Fix::new("to roll back", continued.back(number)));
    // None of its pods was ever created: to continue would not help.
    let is_none_created = situation.creation_is_refused() && situation.eligible().all(|node| node.updated.is_none());
    let (first, last) = match is_none_created && situation.another_is_admitted() {
        true => (back, None),
        false => (None, back),
    };
    // Whether the command of --verify has passed is not in the cluster.
    let finish = (!updates && !is_last && !is_gone).then(|| finish("to finish, once they have passed")).flatten();
    first.into_iter().chain(first_of_all).chain(again).chain(finish).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use serde_json::{Value, json};

    use super::{Continued, continuation, skip_node, way_out};
    use crate::coverage::test_support::{World, world};
    use crate::facts::index::Index;
    use crate::facts::revisions::name_of;
    use crate::model::daemon_set::DaemonSet;
    use crate::model::hold::{Hold, StageFlags};
    use crate::model::int_or_percent::IntOrPercent;
    use crate::report::history::DaemonSetName;
    use crate::report::partition::{Gate, GateFailure, PartitionStage};
    use crate::report::reason::ReasonCode;
    use crate::rollout::partition::StageGates;
    use crate::rollout::partition::plan::{Amount, StageRequest, plan};
    use crate::rollout::partition::template::NewTemplate;
    use crate::rollout::situation::Situation;

    #[test]
    fn the_same_stage_again_has_the_same_gates() {
        let name =
            DaemonSetName { api_version: "apps/v1".to_owned(), namespace: "team".to_owned(), name: "agent".to_owned() };
        let mut request = StageRequest::new(Amount::Keep(IntOrPercent::Int(3)), NewTemplate::Live, String::new());
        let again = |request: &StageRequest| Continued::of_request(&name, request).again().unwrap().to_string();
        assert_eq!(again(&request), "kubectl ds partition -n team agent 3");
        request.nodes = vec!["a".to_owned(), "b".to_owned()];
        request.verify = Some("curl $NODE".to_owned());
        (request.evict, request.rolls_back) = (true, true);
        request.max_unavailable = Some(IntOrPercent::Percent(10));
        request.gates.max_restarts = Some(2);
        request.gates.soak = SignedDuration::from_secs(90);
        request.gates.progress_deadline = SignedDuration::from_secs(60);
        assert_eq!(
            again(&request),
            "kubectl ds partition -n team --nodes 'a,b' --max-unavailable '10%' --max-restarts 2 --soak 90s --progress-deadline 60s \
             --verify 'curl $NODE' --on-failure undo --evict agent 3"
        );
        // Another run does not know the command of --verify, and a shell does not run this without one.
        let commands = |annotation: &str, updates| {
            let object = json!({"metadata": {"annotations": {
                "kubectl-ds/original-update-strategy": "{}", "kubectl-ds/partition": "3", "kubectl-ds/gates": annotation}}});
            let hold = Hold::of(&DaemonSet::from_object(object).unwrap()).unwrap();
            let snapshot = world().node("a", json!({})).pod("agent-a", "a", json!({})).node("b", json!({})).finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let fixes = continuation(&name, &hold, updates, Some(1), &situation).into_iter();
            fixes.map(|fix| (fix.advice, fix.command.unwrap().to_string())).collect::<Vec<_>>()
        };
        let annotation = request.flags(Timestamp::UNIX_EPOCH).to_annotation();
        assert!(!annotation.contains("curl"));
        let same = again(&request).replace("'curl $NODE'", "\"${VERIFY:?}\"");
        let left = commands(&annotation, true);
        let back = "kubectl ds partition -n team --max-unavailable '10%' --progress-deadline 60s --evict --to-revision 1 agent 0".to_owned();
        assert_eq!(left.iter().map(|(_, command)| command).collect::<Vec<_>>(), [&same, &back]);
        assert!(left[0].0.contains("VERIFY"), "{left:?}");
        // Nobody but the run knows whether the gates have passed.
        let all = same.replace(" --nodes 'a,b'", "").replace(" agent 3", " agent 0");
        let updated = commands(&annotation, false);
        assert_eq!(updated.iter().map(|(_, command)| command).collect::<Vec<_>>(), [&same, &all, &back]);
        // What is not known is said, and a disruption budget is not bypassed.
        for unusable in ["", "{}", &annotation.replace("true", "\"sh\"")] {
            // The same number would update no more nodes than are updated.
            for (updates, kept) in [(true, "3"), (false, "0")] {
                let [(advice, command)] = &commands(unusable, updates)[..] else { panic!("{unusable}") };
                assert!(advice.contains("kubectl-ds/gates is missing or cannot be used"), "{advice}");
                assert_eq!(*command, format!("kubectl ds partition -n team --evict agent {kept}"));
            }
        }
    }

    #[test]
    fn a_stage_begins_again_with_the_template_that_was_not_written_yet() {
        let name =
            DaemonSetName { api_version: "apps/v1".to_owned(), namespace: "team".to_owned(), name: "agent".to_owned() };
        let object = json!({"metadata": {"name": "agent", "namespace": "team"}});
        let manifest = || NewTemplate::Manifest(Box::new(DaemonSet::from_object(object.clone()).unwrap()));
        let images = NewTemplate::Images(vec![("a".to_owned(), "a:2".to_owned()), ("b".to_owned(), "b:2".to_owned())]);
        for (template, file, expected) in [
            (NewTemplate::Live, None, Some("")),
            (images, None, Some(" --image 'a=a:2' --image 'b=b:2'")),
            (manifest(), Some("a b.yaml"), Some(" -f 'a b.yaml'")),
            (manifest(), Some("-"), None),
            (NewTemplate::Revision(3), None, None),
            (NewTemplate::Restart(Timestamp::UNIX_EPOCH), None, Some("restart")),
        ] {
            let mut request = StageRequest::new(Amount::Update(IntOrPercent::Int(3)), template, String::new());
            request.delete_surge_pods = true;
            let again = Continued::of_request(&name, &request).whole_again(&request, file);
            let expected = expected.map(|flags| match flags {
                "restart" => "kubectl ds restart -n team --delete-surge-pods agent".to_owned(),
                flags => format!("kubectl ds partition -n team --update 3{flags} --delete-surge-pods agent"),
            });
            assert_eq!(again.map(|again| again.to_string()), expected);
        }
    }

    /// A hold of two nodes that are updated and one that is not, whose stage had these flags.
    fn held(flags: &StageFlags) -> World {
        let old =
            json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}});
        let annotations = json!({"kubectl-ds/original-update-strategy": r#"{"type":"RollingUpdate"}"#,
            "kubectl-ds/partition": "1", "kubectl-ds/gates": flags.to_annotation()});
        let world = world().daemon_set(json!({"metadata": {"annotations": annotations}}));
        let world = world.daemon_set(json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}));
        let world = world.node("n0", json!({})).node("n1", json!({})).node("n2", json!({}));
        world.pod("a0", "n0", json!({})).pod("a1", "n1", json!({})).pod("a2", "n2", old)
    }

    /// What is printed is tried first: a command that is refused helps nobody.
    #[test]
    fn a_stage_is_continued_with_the_nodes_that_are_left_and_beside_those_that_are_down() {
        let printed = |nodes: &[&str], keep: &str, change: fn(World) -> World| {
            let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
            let flags = StageFlags { nodes, progress_deadline_seconds: 600, ..StageFlags::default() };
            let old = || json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}});
            let world = change(held(&flags)).node("n3", json!({})).pod("a3", "n3", old());
            let partition = json!({"metadata": {"annotations": {"kubectl-ds/partition": keep}}});
            let snapshot = world.daemon_set(partition).revision("hash1", 1).finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let hold = Hold::of(situation.daemon_set).unwrap();
            let fixes = continuation(&name_of(situation.daemon_set), &hold, true, None, &situation).into_iter();
            fixes
                .map(|fix| format!("{}: {}", fix.advice, fix.command.unwrap()).replace(" -n default", ""))
                .collect::<Vec<_>>()
        };
        let same = |world: World| world;
        let one_down = |world: World| {
            world.node("n4", json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})).unready_pod(
                "a4",
                "n4",
                json!({"state": {"running": {}}}),
                json!({"metadata": {"labels": {"controller-revision-hash": "hash1", "pod-template-generation": "1"}}}),
            )
        };
        assert_eq!(
            printed(&["n0", "n2", "n3"], "0", same),
            ["to continue: kubectl ds partition --nodes 'n0,n2,n3' agent 0"]
        );
        // Of two nodes that are left to update, one is gone.
        assert_eq!(
            printed(&["n0", "n2", "gone"], "0", same),
            ["to continue: kubectl ds partition --nodes 'n0,n2' agent 1"]
        );
        // All are updated, or gone.
        assert_eq!(printed(&["n0", "gone"], "1", same), ["to finish: kubectl ds partition agent 0"]);
        let beside = printed(&["n0", "n2"], "2", one_down);
        assert_eq!(beside, ["to continue: kubectl ds partition --nodes 'n0,n2' --max-unavailable 1 agent 2"]);
    }

    #[test]
    fn what_has_passed_its_gates_is_finished_as_the_run_has_said_it() {
        let flags = |change: &dyn Fn(&mut StageFlags)| {
            let mut flags = StageFlags { progress_deadline_seconds: 600, ..StageFlags::default() };
            change(&mut flags);
            flags
        };
        let continued = |flags: StageFlags| {
            let snapshot = held(&flags).revision("hash1", 1).finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let (name, hold) = (name_of(situation.daemon_set), Hold::of(situation.daemon_set).unwrap());
            let fixes = continuation(&name, &hold, false, Some(1), &situation).into_iter();
            fixes.map(|fix| fix.command.unwrap().to_string().replace(" -n default", "")).collect::<Vec<_>>()
        };
        let (finish, back) = ("kubectl ds partition agent 0", "kubectl ds partition --to-revision 1 agent 0");
        assert_eq!(continued(flags(&|_| {})), [finish, back]);
        // The pods have been ready for 29 minutes.
        let soaked = continued(flags(&|flags| flags.soak_seconds = 29 * 60));
        assert_eq!(soaked, [&finish.replace("agent", "--soak 1740s agent"), back]);
        let soaking = continued(flags(&|flags| flags.soak_seconds = 29 * 60 + 1));
        assert!(soaking[0].ends_with("--soak 1741s agent 1") && soaking[1].ends_with("agent 0"), "{soaking:?}");
        // A budget is not bypassed on the way back.
        let evicted = continued(flags(&|flags| flags.evict = true));
        let with_evict = |command: &str| command.replace("partition", "partition --evict");
        assert_eq!(evicted, [with_evict(finish), with_evict(back)]);
        // Nodes that are gone are left out; without any, the others follow.
        let nodes = |nodes: &[&str]| {
            let nodes = nodes.iter().map(|&node| node.to_owned()).collect();
            let snapshot = held(&flags(&|_| {})).revision("hash1", 1).finish();
            let (index, more) = (Index::new(&snapshot), StageFlags { nodes, ..flags(&|_| {}) });
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let hold = Hold { flags: Some(more), ..Hold::of(situation.daemon_set).unwrap() };
            let fixes = continuation(&name_of(situation.daemon_set), &hold, true, Some(1), &situation);
            fixes[0].command.as_ref().unwrap().to_string()
        };
        assert_eq!(nodes(&["n0", "gone", "n2"]), "kubectl ds partition -n default --nodes 'n0,n2' agent 1");
        assert_eq!(nodes(&["gone"]), "kubectl ds partition -n default agent 0");
        // Under OnDelete, what is rolled back is no reason to replace other pods.
        let on_delete = json!({"kubectl-ds/original-update-strategy": r#"{"type":"OnDelete"}"#});
        let snapshot = held(&flags(&|_| {})).daemon_set(json!({"metadata": {"annotations": on_delete}}));
        let snapshot = snapshot.revision("hash1", 1).finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let hold = Hold::of(situation.daemon_set).unwrap();
        let back = continuation(&name_of(situation.daemon_set), &hold, false, Some(1), &situation).pop().unwrap();
        assert_eq!(back.command.unwrap().to_string(), "kubectl ds undo --to-revision 1 -n default agent");
        // A rollback is continued as it was begun, whatever number it has now.
        let undo = "kubectl ds undo --to-revision 2 agent";
        assert_eq!(continued(flags(&|flags| flags.is_undo = true)), [undo]);
        let gates = |flags: &mut StageFlags| (flags.is_undo, flags.soak_seconds, flags.evict) = (true, 30, true);
        assert_eq!(continued(flags(&gates)), [undo.replace("agent", "--soak 30s agent")]);
        // Somebody has rolled out something else since: nobody has asked to go back to that.
        let left = |generation: i64| {
            let flags = flags(&|flags| (flags.is_undo, flags.template_generation) = (true, Some(generation)));
            let snapshot = held(&flags).revision("hash1", 1).finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let hold = Hold::of(situation.daemon_set).unwrap();
            let fixes = continuation(&name_of(situation.daemon_set), &hold, true, Some(1), &situation);
            fixes.into_iter().filter_map(|fix| Some(fix.command?.to_string())).collect::<Vec<_>>()
        };
        assert_eq!(left(2), ["kubectl ds undo --to-revision 2 -n default agent"]);
        assert_eq!(left(1), ["kubectl ds partition -n default agent 0"]);
        // Somebody has put back the template that the stage was to replace: the updated nodes go back, too.
        let back = |old: &str| {
            let flags = flags(&|flags| flags.replaced_revision = Some("hash2".to_owned()));
            let mut world = held(&flags).revision_of_image("hash3", 1, "agent:3");
            // It is newer than the current one, and has a lower number.
            let newer = serde_json::from_value(json!("2026-03-01T11:20:00Z")).unwrap();
            world.snapshot.controller_revisions.last_mut().unwrap().metadata.creation_timestamp = newer;
            let labels =
                json!({"metadata": {"labels": {"controller-revision-hash": old, "pod-template-generation": "1"}}});
            world = world.node("updated", json!({})).pod("agent-updated", "updated", labels);
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
            let hold = Hold::of(situation.daemon_set).unwrap();
            let fixes = continuation(&name_of(situation.daemon_set), &hold, true, Some(1), &situation);
            fixes.into_iter().map(|fix| fix.command.unwrap().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(back("hash3"), ["kubectl ds undo --to-revision 2 -n default agent"]);
    }

    #[test]
    fn a_rollback_replaces_pods_as_the_stage_did() {
        let evicts = |world: World| {
            let snapshot = world.finish();
            StageRequest::roll_back(1, String::new(), &snapshot.daemon_sets[0]).evict
        };
        let flags = |evict| StageFlags { evict, progress_deadline_seconds: 600, ..StageFlags::default() };
        let gates = |gates: Value| held(&flags(false)).daemon_set(json!({"metadata": {"annotations": gates}}));
        assert_eq!([true, false].map(|evict| evicts(held(&flags(evict)))), [true, false]);
        // What is not known is not bypassed; a rollout that was only paused has deleted no pod.
        assert!(evicts(gates(json!({"kubectl-ds/gates": "{}"}))));
        assert!(!evicts(gates(json!({"kubectl-ds/gates": null, "kubectl-ds/partition": null}))));
    }

    #[test]
    fn there_is_a_way_out_of_what_was_begun() {
        let request = StageRequest::new(Amount::Keep(IntOrPercent::Int(3)), NewTemplate::Live, String::new());
        let snapshot = world().node("n", json!({})).finish();
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let mut report = plan(&situation, &request, None).unwrap().report;
        let (again, finish) = ("kubectl ds partition -n default agent 3", "kubectl ds partition -n default agent 0");
        let resume = "kubectl ds resume -n default agent";
        let back = "kubectl ds partition -n default --to-revision 1 agent 0";
        for (stage, gate, expected) in [
            (PartitionStage::Planned, None, &[][..]),
            (PartitionStage::Unknown, None, &[]),
            (PartitionStage::Finished, None, &[]),
            (PartitionStage::Complete, None, &[finish, back, resume]),
            (PartitionStage::Begun, None, &[again, back, resume]),
            (PartitionStage::Stopped, Some(Gate::Starts), &[back, again, resume]),
        ] {
            let failure = |gate| GateFailure { gate, node: None, pod: None, reason: None, message: String::new() };
            (report.outcome.stage, report.outcome.failures) = (stage, gate.map(failure).into_iter().collect());
            let fixes = way_out(&report, &request, Some(1)).into_iter();
            let commands: Vec<String> = fixes.filter_map(|fix| Some(fix.command?.to_string())).collect();
            assert_eq!(commands, expected, "{stage:?} {gate:?}");
            let last = way_out(&report, &request, Some(1)).pop().map(|fix| fix.advice);
            let is_stopped = last.is_some_and(|advice| advice.contains("once the cause is fixed"));
            assert_eq!(is_stopped, gate == Some(Gate::Starts), "{stage:?}");
        }
        // Nothing gives a node its pod.
        let of_namespace = GateFailure::new(Gate::Starts, String::new());
        let reason = Some(ReasonCode::NamespaceTerminating);
        (report.outcome.stage, report.outcome.failures) =
            (PartitionStage::Stopped, vec![GateFailure { reason, ..of_namespace }]);
        assert_eq!(way_out(&report, &request, Some(1)), []);
        report.outcome.failures = Vec::new();
        // What a rollback leaves is no way back.
        let undo = StageRequest { gates: StageGates { max_restarts: None, ..request.gates.clone() }, ..request };
        (report.rolls_back, report.outcome.stage) = (true, PartitionStage::Stopped);
        let fixes = way_out(&report, &undo, Some(1)).into_iter();
        let commands: Vec<String> = fixes.filter_map(|fix| Some(fix.command?.to_string())).collect();
        assert!(!commands.iter().any(|command| command.contains("--to-revision 1")), "{commands:?}");
    }

    #[test]
    fn a_node_is_left_out_only_if_it_may_be_at_fault() {
        let failure = |pod: Option<&str>| GateFailure {
            node: Some("n".to_owned()),
            pod: pod.map(str::to_owned),
            ..GateFailure::new(Gate::Starts, String::new())
        };
        assert!(skip_node(&[failure(Some("agent-n"))]).is_some());
        assert!(skip_node(&[failure(None)]).is_none(), "none was created");
        assert!(skip_node(&[failure(Some("a")), failure(Some("b"))]).is_none());
    }

    /// Whatever is created next has the new template.
    #[test]
    fn a_stage_that_has_updated_no_node_is_rolled_back_as_another_one() {
        let flags = StageFlags { progress_deadline_seconds: 600, ..StageFlags::default() };
        let mut snapshot = held(&flags).revision("hash1", 1).finish();
        snapshot.pods.retain(|pod| pod.revision_hash() == "hash1");
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        assert!(situation.eligible().all(|node| node.updated.is_none()));
        let hold = Hold::of(situation.daemon_set).unwrap();
        let fixes = continuation(&name_of(situation.daemon_set), &hold, true, Some(1), &situation);
        assert_eq!(fixes.last().unwrap().advice, "to roll back");
    }
}
