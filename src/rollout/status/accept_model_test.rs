//! Random fleets with random faults and a random `--accept`, judged by what was done to each node.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use super::fault_test::{another, crashing, down, old};
use super::{Question, answer};
use crate::coverage::test_support::{World, at, world};
use crate::report::rollout_status::{RolloutStatus, Verdict};

/// What was done to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Its pod was updated and is available.
    Updated,
    /// Its pod is available and waits to be updated.
    Waits,
    /// It was down before the rollout, with a pod of the current or of an older revision.
    Down,
    DownWithOldPod,
    /// It has joined and was never ready.
    NeverReady,
    /// It went down minutes after it got the current revision.
    TakenDown,
    /// It has been short of disk space since before the rollout, or since the current revision filled its disk.
    Full,
    Filled,
    /// The current revision crashes there, where everything else works, or has also failed since before the rollout.
    Crashes,
    EverythingCrashes,
    /// The pod of an older revision crashes there.
    OldCrashes,
    /// A quota refuses its pod.
    Refused,
}

#[derive(Debug, Clone)]
struct Fleet {
    fates: Vec<Fate>,
    /// Whether the current revision requests more than the previous one.
    requests_more: bool,
    on_delete: bool,
    accept: Vec<&'static str>,
}

impl Fleet {
    fn status(&self) -> RolloutStatus {
        let template = |world: World, cpu: &str| {
            let container = json!({"name": "agent", "image": "agent:2", "resources": {"requests": {"cpu": cpu}}});
            world.template(json!({ "containers": [container] }))
        };
        let strategy = if self.on_delete { "OnDelete" } else { "RollingUpdate" };
        let mut world = world().daemon_set(json!({"spec": {"updateStrategy": {"type": strategy}}}));
        world.snapshot.controller_revisions.clear();
        let world = template(world, "100m").revision_of_image("hash1", 1, "agent:1");
        let world = template(world, if self.requests_more { "200m" } else { "100m" });
        let mut world = world.revision_of_image("hash2", 2, "agent:2");
        if self.count(Fate::Refused) > 0 {
            world = world.refusal(
                "pods \"agent-x\" is forbidden: exceeded quota: q, requested: requests.cpu=100m, used: requests.cpu=2, \
                 limited: requests.cpu=2",
            );
        }
        for (number, fate) in self.fates.iter().enumerate() {
            world = fate.add(world, &format!("node-{number}"));
        }
        let accept: Vec<_> = self.accept.iter().map(|one| one.parse().unwrap()).collect();
        answer(&world.finish(), &Question { accept: &accept, ..Question::default() }).daemon_sets.remove(0)
    }

    fn count(&self, fate: Fate) -> usize {
        self.fates.iter().filter(|other| **other == fate).count()
    }

    /// Returns whether `--accept` contains one of these, whatever the limit.
    fn accepts(&self, what: &str) -> bool {
        self.accept.iter().any(|one| one.split('=').next() == Some(what))
    }

    fn works_where_it_crashes(&self) -> bool {
        self.count(Fate::Updated) > self.count(Fate::Crashes)
    }

    /// Returns whether a node may be accepted, if it is missing at all.
    fn may_be_accepted(&self, fate: Fate) -> bool {
        match fate {
            Fate::Updated => true,
            Fate::Waits => self.on_delete && self.accepts("on-delete"),
            Fate::Down | Fate::DownWithOldPod | Fate::NeverReady | Fate::Full => self.accepts("node"),
            Fate::TakenDown => self.accepts("node") && self.count(Fate::Updated) > self.count(Fate::TakenDown),
            Fate::Filled => false,
            Fate::Crashes => {
                let is_known = self.works_where_it_crashes() || self.count(Fate::OldCrashes) > 0;
                self.accepts("CrashLooping") && is_known
            }
            Fate::EverythingCrashes => self.accepts("node") || self.accepts("CrashLooping"),
            Fate::OldCrashes => self.accepts("CrashLooping"),
            Fate::Refused => self.accepts("cluster") && !self.requests_more,
        }
    }

    /// Returns whether a node can only come up if an accepted fault goes away, so that waiting is pointless.
    fn must_be_accepted(&self, fate: Fate) -> bool {
        let works_on_most = self.count(Fate::Updated) > self.count(Fate::TakenDown);
        let is_clear = match fate {
            Fate::Crashes | Fate::OldCrashes => false,
            Fate::Full => works_on_most,
            _ => true,
        };
        is_clear && self.may_be_accepted(fate)
    }

    /// Returns whether no limit is exceeded.
    fn is_within_limits(&self) -> bool {
        let is_of_node = |fate: &&Fate| {
            let of_node = [Fate::Down, Fate::DownWithOldPod, Fate::NeverReady, Fate::TakenDown, Fate::Full];
            of_node.contains(fate) || (**fate == Fate::EverythingCrashes && !self.accepts("CrashLooping"))
        };
        let of_nodes = self.fates.iter().filter(is_of_node).count();
        let limit = self.accept.iter().find_map(|one| one.strip_prefix("node=")).map(|limit| limit.parse().unwrap());
        limit.is_none_or(|limit: usize| of_nodes <= limit)
    }
}

impl Fate {
    fn add(self, world: World, name: &str) -> World {
        let pod = format!("agent-{name}");
        let node_with = |conditions: Value| {
            json!({"metadata": {"creationTimestamp": at("09:00:00")},
            "status": {"conditions": conditions}})
        };
        let running = json!({"ready": false, "state": {"running": {"startedAt": at("11:31:00")}}});
        let lost = |since: &str| json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(since)}]);
        let evicted = |pressure_since: &str| {
            let node = node_with(json!([{"type": "Ready", "status": "True", "lastTransitionTime": at("09:00:00")},
                {"type": "DiskPressure", "status": "True", "lastTransitionTime": at(pressure_since)}]));
            let failed = json!({"status": {"phase": "Failed", "reason": "Evicted", "containerStatuses": null,
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at("11:55:00")}]}});
            (node, failed)
        };
        match self {
            Fate::Updated => world.node(name, json!({})).pod(&pod, name, json!({})),
            Fate::Waits => world.node(name, json!({})).pod(&pod, name, old()),
            Fate::Down => down(world, name, json!({})),
            Fate::DownWithOldPod => down(world, name, old()),
            Fate::NeverReady => {
                let mut node = node_with(lost("11:29:00"));
                node["metadata"]["creationTimestamp"] = json!(at("11:28:58"));
                world.node(name, node).unready_pod(&pod, name, running, json!({}))
            }
            Fate::TakenDown => {
                world.node(name, node_with(lost("11:32:00"))).unready_pod(&pod, name, running, json!({}))
            }
            Fate::Full | Fate::Filled => {
                let (node, failed) = evicted(if self == Fate::Full { "10:00:00" } else { "11:40:00" });
                world.node(name, node).pod(&pod, name, failed)
            }
            Fate::Crashes => crashing(world, name),
            Fate::EverythingCrashes => {
                let others = (0..2).map(|number| format!("{name}-{number}"));
                others.fold(crashing(world, name), |world, other| another(world, &other, name, Some("10:00:00")))
            }
            Fate::OldCrashes => {
                let crashes = json!({"restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
                world.node(name, json!({})).unready_pod(&pod, name, crashes, old())
            }
            Fate::Refused => world.node(name, json!({})),
        }
    }
}

fn fleet() -> impl Strategy<Value = Fleet> {
    use Fate as F;
    let faults = [
        F::Waits,
        F::Down,
        F::DownWithOldPod,
        F::NeverReady,
        F::TakenDown,
        F::Full,
        F::Filled,
        F::Crashes,
        F::EverythingCrashes,
        F::OldCrashes,
        F::Refused,
    ];
    // Few kinds at once, so that all of them are often accepted.
    let kinds = subsequence(faults.to_vec(), 1..=3);
    let fates = kinds.prop_flat_map(|kinds| {
        let fate = prop_oneof![3 => Just(F::Updated), 2 => select(kinds)];
        prop::collection::vec(fate, 1..10)
    });
    let accept = (subsequence(vec!["cluster", "on-delete", "CrashLooping"], 0..=3), 0..4_usize);
    let accept = accept.prop_map(|(mut accept, node)| {
        accept.extend([None, Some("node"), Some("node=1"), Some("node=3")][node]);
        accept
    });
    (fates, any::<bool>(), prop::bool::weighted(0.3), accept)
        .prop_map(|(fates, requests_more, on_delete, accept)| Fleet { fates, requests_more, on_delete, accept })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_fault_of_a_revision_is_accepted_and_nothing_is_waited_for_that_cannot_come(fleet in fleet()) {
        let status = fleet.status();
        let mut faults: BTreeMap<Fate, usize> = BTreeMap::new();
        fleet.fates.iter().filter(|fate| **fate != Fate::Updated).for_each(|fate| *faults.entry(*fate).or_default() += 1);
        let is_complete = status.counts_as_complete();
        if faults.is_empty() {
            prop_assert!(is_complete && status.verdict == Verdict::Complete, "{status:#?}");
            return Ok(());
        }
        prop_assert!(status.verdict != Verdict::Complete, "{status:#?}");
        let runs = fleet.count(Fate::Updated) > 0 || faults.keys().all(|fate| *fate == Fate::Waits);
        // Old pods that crash or are down wait to be deleted, too, and what is refused is missing beside those that wait.
        let is_on_no_node = |fate: &Fate| matches!(fate, Fate::OldCrashes | Fate::DownWithOldPod | Fate::Refused);
        let waits = |fate: &Fate| *fate == Fate::Waits || (fleet.on_delete && is_on_no_node(fate));
        let may = (runs || faults.keys().all(waits)) && faults.keys().all(|fate| fleet.may_be_accepted(*fate));
        let must = runs && fleet.is_within_limits() && faults.keys().all(|fate| fleet.must_be_accepted(*fate));
        prop_assert!(may || !is_complete, "accepted: {:#?}", (&faults, &status.accepted, &status.problems, &status.suspect));
        prop_assert!(is_complete || !must, "refused: {:#?}", (&faults, &status.accepted, &status.problems, &status.suspect));
        prop_assert!(fleet.is_within_limits() || !is_complete, "{:#?}", (&faults, &status.accepted));
    }
}
