//! Parses the scheduler's message about a pod that it cannot place.

use crate::report::reason::{ReasonCode, ReasonCode as R};

/// The scheduler's message, without the filler about nodes that the pod is not meant for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchedulerMessage {
    /// The reasons for the target node; empty if there are none.
    pub reasons: Vec<String>,
    /// Whether all reasons are about other nodes, so that it has not looked at the target node.
    pub knows_only_other_nodes: bool,
    /// How many nodes the scheduler knows, if it says so.
    pub nodes: Option<usize>,
    /// The outcome of preemption.
    pub preemption: Preemption,
}

/// The outcome of preemption, as the scheduler reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preemption {
    #[default]
    NotReported,
    /// Preemption could help, but there are no lower-priority pods on the node.
    NoVictims,
    /// Preemption would not help.
    NotHelpful,
    /// It failed for another reason, such as that another rule keeps the pod from the node even then.
    Failed,
}

impl SchedulerMessage {
    /// Parses the message of a `PodScheduled` condition or `FailedScheduling` event.
    ///
    /// The shape is that of `FitError.Error`, pkg/scheduler/framework/types.go, release 1.37.2. `selects_target` says that the pod's
    /// nodeSelector and node affinity match the target node, so that they are no reason there unless they are one on all nodes.
    pub fn parse(message: &str, selects_target: bool) -> Self {
        let (filters, preemption) = match message.split_once("preemption: ") {
            Some((filters, preemption)) => (filters, Some(preemption)),
            None => (message, None),
        };
        let preemption = match preemption {
            None => Preemption::NotReported,
            Some(outcome) if outcome.contains("No preemption victims found") => Preemption::NoVictims,
            Some(outcome) if outcome.contains("Preemption is not helpful") => Preemption::NotHelpful,
            Some(_) => Preemption::Failed,
        };
        let (available, filters) = filters.split_once("nodes are available: ").unwrap_or(("", filters));
        let nodes = available.trim().strip_prefix("0/").and_then(|nodes| nodes.parse().ok());
        let filters = filters.split(". ").next().unwrap_or_default().trim().trim_end_matches(['.', ',']);
        let counted = split_counted(filters);
        let is_of_others = |(count, reason): &&(Option<usize>, &str)| {
            is_filler(reason) || (selects_target && reason.contains(OTHER_NODES) && nodes != *count)
        };
        let own = counted.iter().filter(|counted| !is_of_others(counted));
        let reasons: Vec<String> = own.map(|(_, reason)| (*reason).to_owned()).collect();
        let knows_only_other_nodes = reasons.is_empty() && !counted.is_empty();
        SchedulerMessage { reasons, knows_only_other_nodes, nodes, preemption }
    }
}

/// The reason of the nodes that a pod does not select. Those that are not its target have it, too, unless a plugin has narrowed the nodes
/// down before (`PreFilter`, pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go, release 1.37.2).
const OTHER_NODES: &str = "node affinity/selector";

/// Splits `1 Insufficient cpu, 2 Too many pods` at its counts; text without counts is one reason.
fn split_counted(text: &str) -> Vec<(Option<usize>, &str)> {
    let mut reasons = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.match_indices(", ").find(|(at, _)| count(&rest[at + 2..]).is_some()).map(|(at, _)| at);
        let (reason, after) = end.map_or((rest, ""), |at| (&rest[..at], &rest[at + 2..]));
        reasons.push(count(reason).map_or((None, reason), |(count, words)| (Some(count), words)));
        rest = after;
    }
    reasons
}

/// Returns the count that a text begins with, and what follows it.
fn count(text: &str) -> Option<(usize, &str)> {
    let (count, words) = text.split_once(' ')?;
    Some((count.bytes().all(|byte| byte.is_ascii_digit()).then(|| count.parse().ok())??, words))
}

/// Returns whether a reason is about the nodes that the pod is not meant for.
///
/// Those are the absent nodes of `findNodesThatFitPod`, pkg/scheduler/schedule_one.go, release 1.37.2, whichever
/// plugins narrowed the nodes down; plugins that contradict each other (`simultaneously`) are a reason of the pod.
fn is_filler(reason: &str) -> bool {
    (reason.contains("didn't satisfy plugin(s) [") && reason.ends_with(']'))
        || reason.contains("filtered out by the prefilter result")
}

/// What is known about filters of the scheduler whose reasons have the same code.
pub struct SchedulerPlugin {
    /// Parts of their reasons, as they are in pkg/scheduler/framework/plugins, release 1.37.2.
    says: &'static [&'static str],
    /// The code of their reasons, and then those of what is recomputed more exactly.
    codes: &'static [ReasonCode],
    /// What their outcome is recomputed from.
    pub input: PluginInput,
}

/// What the outcome of a plugin depends on besides the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginInput {
    Node,
    /// All pods of the node.
    Pods,
    /// The pods of the node and of other nodes, as far as they decide.
    OtherPods,
    /// The claims and volumes, and what attaches them.
    Volumes,
    /// The claims to devices, and the devices.
    Devices,
    /// What kubelets declare.
    Features,
}

/// In the scheduler's order.
const PLUGINS: [SchedulerPlugin; 9] = [
    plugin(PluginInput::Node, &[R::UntoleratedNoSchedule, R::UntoleratedNoExecute], &["untolerated taint"]),
    plugin(PluginInput::Node, &[R::InjectedNodeSelector], &["node affinity/selector"]),
    plugin(PluginInput::Pods, &[R::HostPortConflict, R::SurgeHostPortDeadlock], &["free ports"]),
    plugin(PluginInput::Pods, &[R::TooManyPods], &["Too many pods"]),
    plugin(PluginInput::Pods, &[R::InsufficientResource, R::NeverFits], &["Insufficient "]),
    plugin(
        PluginInput::Volumes,
        &[R::VolumeUnsatisfiable],
        &[
            "no available disk",
            "ReadWriteOncePod",
            "max volume count",
            "persistent volume",
            "PersistentVolume",
            "persistentvolume",
            "enough free storage",
            "non-existent pv",
            "ephemeral volume controller",
            "volume zone",
            "CSI driver is not installed",
            // The words of 1.30.
            "volume node affinity conflict",
        ],
    ),
    plugin(
        PluginInput::OtherPods,
        &[R::PodAffinityBlocked],
        &["topology spread constraints", "pod affinity rules", "anti-affinity"],
    ),
    plugin(
        PluginInput::Devices,
        &[R::DeviceClaimUnsatisfied],
        &["resourceclaim", "ResourceClaim", "allocate all claims", "resource claim", "device class "],
    ),
    plugin(PluginInput::Features, &[R::NodeFeatureMissing], &["required features"]),
];

const fn plugin(input: PluginInput, codes: &'static [ReasonCode], says: &'static [&'static str]) -> SchedulerPlugin {
    SchedulerPlugin { says, codes, input }
}

impl SchedulerPlugin {
    /// Returns the plugins whose outcome has a code.
    pub fn of(code: ReasonCode) -> Option<&'static Self> {
        PLUGINS.iter().find(|plugin| plugin.codes.contains(&code))
    }
}

/// Returns whether the scheduler comes to the plugins of one code before it comes to those of another: it reports the first that fails.
pub fn is_before(code: ReasonCode, other: ReasonCode) -> bool {
    let place = |code: ReasonCode| PLUGINS.iter().position(|plugin| plugin.codes.contains(&code));
    place(code) < place(other)
}

pub fn code_of(reason: &str) -> ReasonCode {
    let is_said = |plugin: &&SchedulerPlugin| plugin.says.iter().any(|words| reason.contains(words));
    PLUGINS.iter().find(is_said).map_or(ReasonCode::SchedulerRejected, |plugin| plugin.codes[0])
}

/// Returns whether two codes are about the same plugin.
pub fn is_same_plugin(a: ReasonCode, b: ReasonCode) -> bool {
    a == b || SchedulerPlugin::of(a).is_some_and(|plugin| plugin.codes.contains(&b))
}

#[cfg(test)]
mod tests {
    use super::{Preemption, SchedulerMessage, code_of};
    use crate::report::reason::ReasonCode;

    #[test]
    fn the_filler_about_other_nodes_is_dropped() {
        let words = SchedulerMessage::parse(
            "0/24 nodes are available: 1 Insufficient cpu, 23 node(s) didn't satisfy plugin(s) [NodeAffinity]. no new \
             claims to deallocate, preemption: 0/24 nodes are available: 1 No preemption victims found for incoming \
             pod, 23 Preemption is not helpful for scheduling.",
            true,
        );
        assert_eq!(words.reasons, ["Insufficient cpu"]);
        assert_eq!(words.preemption, Preemption::NoVictims);
        assert!(!words.knows_only_other_nodes);
    }

    #[test]
    fn other_nodes_that_several_plugins_exclude_are_no_second_reason() {
        let words = SchedulerMessage::parse(
            "0/25 nodes are available: 1 Insufficient cpu, 24 node(s) didn't satisfy plugin(s) [NodeAffinity \
             NodeResourcesFit]. no new claims to deallocate, preemption: 0/25 nodes are available: 25 Preemption is not \
             helpful for scheduling.",
            true,
        );
        assert_eq!(words.reasons, ["Insufficient cpu"]);
    }

    #[test]
    fn plugins_that_contradict_each_other_are_a_reason() {
        let words = SchedulerMessage::parse(
            "0/2 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity VolumeBinding] simultaneously.",
            true,
        );
        assert_eq!(words.reasons.len(), 1);
    }

    #[test]
    fn several_reasons_of_one_node_are_told_apart() {
        let words = SchedulerMessage::parse(
            "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/gpu, 1 Too many pods, 2 node is \
             filtered out by the prefilter result. preemption: 0/3 nodes are available: 3 Preemption is not helpful \
             for scheduling.",
            true,
        );
        assert_eq!(words.reasons, ["Insufficient cpu", "Insufficient example.com/gpu", "Too many pods"]);
        assert_eq!(words.preemption, Preemption::NotHelpful);
    }

    #[test]
    fn a_failure_before_filtering_has_no_counts() {
        let words = SchedulerMessage::parse(
            "0/24 nodes are available: persistentvolumeclaim \"absent\" not found. not found",
            true,
        );
        assert_eq!(words.reasons, ["persistentvolumeclaim \"absent\" not found"]);
        assert_eq!(code_of(&words.reasons[0]), ReasonCode::VolumeUnsatisfiable);
    }

    #[test]
    fn only_filler_means_the_node_is_not_known() {
        let words = SchedulerMessage::parse(
            "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            true,
        );
        assert!(words.reasons.is_empty());
        assert!(words.knows_only_other_nodes);
    }

    /// kubernetes/kubernetes#91601: the scheduler counts a node, and gives no reason for it.
    #[test]
    fn what_only_other_nodes_do_not_match_is_no_reason_for_the_target() {
        const SELECTOR: &str = "node(s) didn't match Pod's node affinity/selector";
        for (message, selects_target, reasons, only_others) in [
            (
                format!(
                    "0/4 nodes are available: 3 {SELECTOR}. preemption: 0/4 nodes are available: 3 Preemption is not helpful for scheduling."
                ),
                true,
                &[][..],
                true,
            ),
            (format!("0/4 nodes are available: 3 {SELECTOR}."), false, &[SELECTOR], false),
            // All nodes: the target is among them.
            (format!("0/4 nodes are available: 4 {SELECTOR}."), true, &[SELECTOR], false),
            (format!("0/4 nodes are available: 1 Insufficient cpu, 3 {SELECTOR}."), true, &["Insufficient cpu"], false),
            (
                format!(
                    "0/9 nodes are available: 1 Too many pods, 2 node(s) didn't satisfy plugin(s) [NodeAffinity], 6 {SELECTOR}."
                ),
                true,
                &["Too many pods"],
                false,
            ),
            ("0/4 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].".to_owned(), true, &[], true),
        ] {
            let words = SchedulerMessage::parse(&message, selects_target);
            assert_eq!(
                (words.reasons.as_slice(), words.knows_only_other_nodes),
                (&reasons.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..], only_others),
                "{message}"
            );
        }
    }

    #[test]
    fn every_plugin_has_its_code() {
        for (reason, code) in [
            ("node(s) had untolerated taint {dedicated: gpu}", ReasonCode::UntoleratedNoSchedule),
            ("node(s) had untolerated taint(s)", ReasonCode::UntoleratedNoSchedule),
            ("node(s) didn't match Pod's node affinity/selector", ReasonCode::InjectedNodeSelector),
            ("node(s) didn't match scheduler-enforced node affinity", ReasonCode::SchedulerRejected),
            ("node(s) didn't have free ports for the requested pod ports", ReasonCode::HostPortConflict),
            ("Too many pods", ReasonCode::TooManyPods),
            ("Insufficient memory", ReasonCode::InsufficientResource),
            ("node(s) had no available disk", ReasonCode::VolumeUnsatisfiable),
            ("node(s) exceed max volume count", ReasonCode::VolumeUnsatisfiable),
            ("node(s) didn't match PersistentVolume's node affinity", ReasonCode::VolumeUnsatisfiable),
            ("node(s) had volume node affinity conflict", ReasonCode::VolumeUnsatisfiable),
            ("node(s) didn't find available persistent volumes to bind", ReasonCode::VolumeUnsatisfiable),
            ("pod has unbound immediate PersistentVolumeClaims", ReasonCode::VolumeUnsatisfiable),
            ("ebs.csi.aws.com CSI driver is not installed on the node", ReasonCode::VolumeUnsatisfiable),
            ("node(s) didn't match pod topology spread constraints", ReasonCode::PodAffinityBlocked),
            ("node(s) didn't match pod anti-affinity rules", ReasonCode::PodAffinityBlocked),
            ("node(s) didn't satisfy existing pods anti-affinity rules", ReasonCode::PodAffinityBlocked),
            ("cannot allocate all claims", ReasonCode::DeviceClaimUnsatisfied),
            ("node(s) didn't match Pod's required features", ReasonCode::NodeFeatureMissing),
            ("something of a plugin of one's own", ReasonCode::SchedulerRejected),
        ] {
            assert_eq!(code_of(reason), code, "{reason}");
        }
    }
}
