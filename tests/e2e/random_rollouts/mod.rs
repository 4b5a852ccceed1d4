//! Random rollouts of many DaemonSets in parallel on one real cluster: each has its own nodes, which die, are tainted
//! and are deleted, and pods fail. Everything is recorded, and what `status` says about every recorded state is
//! compared with what the controller did next.

mod accepted;
mod audit;
mod foretold;
mod judge;
mod recorder;
mod rollout;
mod state;

use std::collections::BTreeMap;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::rollouts::Cluster;
use crate::support::api::Patch;
use crate::support::control_plane::{ControlPlane, Options};
use crate::support::say;
use audit::Audit;
use recorder::{ROLLOUT, Recorder};
use rollout::{Outcome, Rollout};

/// How many rollouts there are unless `KUBECTL_DS_ROLLOUTS` says otherwise, and how many of them go on at once.
const ROLLOUTS: usize = 40;
const AT_ONCE: usize = 10;

/// The cluster, and what watches it.
struct Bed {
    cluster: Cluster,
    recorder: Arc<Recorder>,
    audit: Audit,
}

impl Bed {
    fn start() -> Self {
        let audit = Audit::new();
        // On a busy machine, the controller manager must not lose its lease, for it would end.
        // Nor may nodes count as lost that no rollout has killed.
        let patience = [
            "--leader-elect-lease-duration=300s",
            "--leader-elect-renew-deadline=250s",
            "--node-monitor-grace-period=600s",
        ];
        let control_plane = ControlPlane::start(Options {
            api_server_flags: audit.flags(),
            controller_manager_flags: patience.map(str::to_owned).to_vec(),
            ..Options::whole()
        });
        let api = control_plane.api();
        let recorder = Recorder::start(api);
        Bed { cluster: Cluster { control_plane, api }, recorder, audit }
    }

    fn create_node(&self, name: &str, rollout: &str) {
        let labels = json!({"type": "kwok", "kubernetes.io/hostname": name, ROLLOUT: rollout});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
        self.cluster.api.create("/api/v1/nodes", &node);
    }

    /// Stops the kubelet of a node.
    fn kill(&self, node: &str) {
        self.set_ready(node, "Unknown", &json!(null));
    }

    /// Starts the kubelet of a node.
    fn revive(&self, node: &str) {
        self.set_ready(node, "True", &json!("kwok"));
    }

    fn set_ready(&self, node: &str, ready: &str, kubelet: &Value) {
        let path = format!("/api/v1/nodes/{node}");
        let api = self.cluster.api;
        api.patch(&path, Patch::Merge, &json!({"metadata": {"labels": {"type": kubelet}}}));
        // The node controller writes conditions, too.
        self.cluster.control_plane.wait_until("the node has its condition", || {
            let mut object = api.get(&path);
            let version = object["metadata"]["resourceVersion"].clone();
            let now = format!("{:.0}", jiff::Timestamp::now());
            let conditions = object["status"]["conditions"].as_array_mut()?;
            let condition = conditions.iter_mut().find(|condition| condition["type"] == "Ready")?;
            condition["status"] = json!(ready);
            condition["lastTransitionTime"] = json!(now);
            condition["lastHeartbeatTime"] = json!(now);
            let body = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
            let path = format!("{path}/status");
            let answer = api.request("PATCH", &path, "application/merge-patch+json", &body.to_string());
            (answer.status == 200).then_some(())
        });
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{variable} is no number: {value}")))
}

/// Runs rollouts side by side, and returns the seed, how many there were to be, and what came of those that are right.
fn side_by_side<T: Send>(run: impl Fn(&'static Bed, u64, usize) -> T + Sync) -> (u64, usize, Vec<T>) {
    let count = number("KUBECTL_DS_ROLLOUTS").map_or(ROLLOUTS, |count| usize::try_from(count).unwrap());
    let first = number("KUBECTL_DS_FIRST").map_or(0, |first| usize::try_from(first).unwrap());
    let seed = number("KUBECTL_DS_SEED")
        .unwrap_or_else(|| u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos()));
    let bed: &'static Bed = Box::leak(Box::new(Bed::start()));
    let next = AtomicUsize::new(first);
    let outcomes: Mutex<Vec<T>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(count) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= first + count {
                        break;
                    }
                    // The others go on, so that all that is wrong is known at the end.
                    if let Ok(outcome) = catch_unwind(AssertUnwindSafe(|| run(bed, seed, at))) {
                        outcomes.lock().unwrap().push(outcome);
                    }
                }
            });
        }
    });
    (seed, count, outcomes.into_inner().unwrap())
}

#[test]
#[ignore = "takes minutes: KUBECTL_DS_ROLLOUTS=200 cargo test --test e2e foretold -- --ignored"]
fn where_a_rollout_with_dead_nodes_stands_still_is_foretold() {
    let start = Instant::now();
    let (seed, count, outcomes) = side_by_side(|bed, seed, at| Rollout::of_preview(bed, seed, at).try_preview());
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (what, times) in outcomes.iter().flatten() {
        *seen.entry(what).or_default() += times;
    }
    let elapsed = start.elapsed();
    say(&format!(
        "KUBECTL_DS_SEED={seed}: {} of {count} previews are right after {elapsed:.0?}: {seen:?}",
        outcomes.len()
    ));
    assert_eq!(outcomes.len(), count, "some are wrong; see above");
}

#[test]
#[ignore = "takes minutes: KUBECTL_DS_ROLLOUTS=40 cargo test --test e2e random_rollouts -- --ignored"]
fn each_step_of_random_rollouts_is_predicted_and_each_way_out_ends_them() {
    let start = Instant::now();
    let (seed, count, outcomes) = side_by_side(|bed, seed, at| Rollout::new(bed, seed, at).run());
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (what, times) in outcomes.iter().flat_map(|outcome| &outcome.seen) {
        *seen.entry(what).or_default() += times;
    }
    let sum = |of: fn(&Outcome) -> usize| outcomes.iter().map(of).sum::<usize>();
    say(&format!(
        "KUBECTL_DS_SEED={seed}: {} rollouts are right after {:.0?}: {} states, {} steps of {} actions ({} stale), {seen:?}",
        outcomes.len(),
        start.elapsed(),
        sum(|outcome| outcome.compared.states),
        sum(|outcome| outcome.compared.steps),
        sum(|outcome| outcome.compared.actions),
        sum(|outcome| outcome.compared.stale),
    ));
    if count >= ROLLOUTS {
        for what in [
            "Complete",
            "Progressing",
            "Blocked",
            "Paused",
            "ds undo --to-revision",
            "ds set --max-unavailable",
            "accepted",
            "at fault",
            "node revived",
        ] {
            assert!(seen.contains_key(what), "nothing was {what}");
        }
    }
    assert_eq!(outcomes.len(), count, "some are wrong; see above");
}
