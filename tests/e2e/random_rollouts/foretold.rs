//! Standstills predicted by previews, compared with what happens on nodes that die at random: before the change, or in
//! the middle of the rollout.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kubectl_ds::report::rollout_status::Verdict;
use serde_json::Value;

use super::rollout::Rollout;
use crate::support::objects::condition;

/// For how long nothing may have changed once a rollout stands still.
const STILL: Duration = Duration::from_secs(3);

/// How long a rollout may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Where a preview says that the rollout stands still.
#[derive(Debug, PartialEq)]
struct Foretold {
    replaced: usize,
    left: usize,
}

/// The commands whose previews are tried.
const COMMANDS: [&str; 4] = ["restart", "undo", "set", "resume"];

impl Rollout {
    /// Lets nodes die, makes a change, and compares what its preview says with where the rollout ends. Then does what the preview
    /// suggests for getting to the end.
    pub fn try_preview(mut self) -> BTreeMap<String, usize> {
        self.stand_still();
        let command = *self.random.pick(&COMMANDS);
        let dies_during = self.random.percent(40);
        let dead = self.random.below(3);
        if command == "undo" {
            self.set_template_to("good", None);
            self.stand_still();
        }
        if !dies_during {
            self.kill_some(dead);
        }
        match command {
            "resume" => {
                self.change(&["pause"]);
                self.set_template_to("good", None);
            }
            "set" => self.set_template_to("good", None),
            _ => {}
        }
        if dies_during {
            // In the middle of another rollout, which stands still with some of the nodes on it.
            if command != "resume" {
                self.set_template_to("good", None);
                std::thread::sleep(Duration::from_millis(self.random.below(4000) as u64));
            }
            self.kill_some(1 + dead);
        }
        self.stand_still();
        let amount = (1 + self.random.below(3)).to_string();
        let change: Vec<&str> = match command {
            "set" => vec!["set", "--max-unavailable", &amount, "--delete-surge-pods"],
            command => vec![command],
        };
        let preview = self.workload.run(&[&change[..], &["--dry-run=client", "-o", "json"]].concat());
        if preview.code != Some(0) {
            // Such as an undo without another revision.
            self.tell(format!("{command} refused: {preview}"));
            return self.end();
        }
        let plan = preview.json();
        let standstill = &plan["effect"]["standstill"];
        let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        let foretold = standstill
            .is_object()
            .then(|| Foretold { replaced: number(&standstill["replaced"]), left: number(&standstill["left"]) });
        let on_template_before = self.on_template();
        self.change(&change);
        self.stand_still();
        if foretold.is_none() {
            let may_block =
                plan["warnings"].as_array().is_some_and(|all| all.iter().any(|one| one["code"] == "MayBlock"));
            self.go_on_where_stalled(may_block);
        }
        let now = self.on_template();
        let is_old = |(_, is_updated): &(&String, &bool)| !**is_updated;
        let left = now.iter().filter(is_old).count();
        // A new template is on no node before.
        let is_new_template = matches!(command, "restart" | "undo");
        let had_old = |node: &String| is_new_template || on_template_before.get(node) == Some(&false);
        let replaced = now.iter().filter(|(node, is_updated)| **is_updated && had_old(node)).count();
        let needed = plan["needed"] == true && (left > 0 || replaced > 0);
        self.tell(format!("{command} foretold {foretold:?}, left {left}, replaced {replaced}"));
        match &foretold {
            // Nothing is said of a rollout that a change without effect has no part in.
            None if plan["needed"] == false => {}
            None => assert_eq!(left, 0, "{command} was foretold to get to the end: {plan}"),
            // Which pods of the target an undo finds already is not asked here.
            Some(foretold) if command == "undo" => assert_eq!(foretold.left, left, "{plan}"),
            Some(foretold) => assert_eq!(*foretold, Foretold { replaced, left }, "{plan}"),
        }
        self.tell(match (foretold.is_some(), needed) {
            (true, _) => "blocks: as foretold".to_owned(),
            (false, true) => "gets to the end: as foretold".to_owned(),
            (false, false) => "nothing to replace".to_owned(),
        });
        if let Some(enough) = standstill["maxUnavailable"].as_u64() {
            self.change(&["set", "--max-unavailable", &enough.to_string()]);
            self.stand_still();
            let left = self.on_template().values().filter(|is_updated| !**is_updated).count();
            assert_eq!(left, 0, "--max-unavailable {enough} was to be enough: {plan}");
            self.tell(format!("finished: with --max-unavailable {enough}"));
        }
        self.end()
    }

    /// Does what `status` suggests as long as the controller has missed that new pods are available, which must have been warned of.
    fn go_on_where_stalled(&mut self, is_warned_of: bool) {
        while let Some((status, _)) = self.look().filter(|(status, _)| status.stalled_since.is_some()) {
            assert!(is_warned_of, "a rollout stalls that was not said to: {status:?}");
            let command = status.way_out[0].command.as_ref().unwrap().to_string();
            assert!(command.starts_with("kubectl delete pod "), "{command}");
            let pod = command.rsplit(' ').next().unwrap();
            self.bed.cluster.api.delete(&format!("/api/v1/namespaces/{}/pods/{pod}", self.workload.namespace));
            self.tell("stalls: as warned of".to_owned());
            self.stand_still();
        }
    }

    /// Makes a change for real.
    fn change(&mut self, change: &[&str]) {
        let run = self.workload.run(change);
        // On a busy machine, the controller may take longer to act than the program waits.
        assert!(matches!(run.code, Some(0 | 6)), "{run}");
        self.tell(change.join(" "));
    }

    fn kill_some(&mut self, number: usize) {
        for _ in 0..number {
            if let Some(node) = self.some_node().filter(|node| !self.dead.contains(node)) {
                self.kill(node);
            }
        }
        let dead = self.dead.clone();
        // The node controller taints them: NoSchedule at once, and NoExecute, which daemon pods tolerate, one node after the other.
        self.bed.cluster.control_plane.wait_until("dead nodes are tainted", || {
            let taints = |node: &String| {
                let node = self.bed.cluster.api.get(&format!("/api/v1/nodes/{node}"));
                node["spec"]["taints"].as_array().map_or(0, Vec::len)
            };
            dead.iter().all(|node| taints(node) >= 1).then_some(())
        });
    }

    /// Waits until the controller does nothing more.
    fn stand_still(&mut self) {
        let (mut seen, mut since, began) = (0, Instant::now(), Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(300));
            if let Some((status, changes)) = self.look() {
                let is_moving = matches!(status.verdict, Verdict::Progressing | Verdict::NotObserved);
                if is_moving || changes != seen {
                    (seen, since) = (changes, Instant::now());
                }
            }
            if since.elapsed() >= STILL {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "it does not stand still");
        }
    }

    /// Returns whether the nodes that are up have a ready pod of the newest revision, by name; those with none at all are left out.
    fn on_template(&self) -> BTreeMap<String, bool> {
        let newest = self.workload.revisions().pop().unwrap();
        let hash = newest["metadata"]["labels"]["controller-revision-hash"].clone();
        let up: BTreeSet<&String> = self.nodes.iter().filter(|node| !self.dead.contains(*node)).collect();
        let mut nodes: BTreeMap<String, bool> = BTreeMap::new();
        for pod in self.workload.pods() {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            let is_live =
                pod["metadata"]["deletionTimestamp"].is_null() && condition(&pod, "Ready")["status"] == "True";
            if up.contains(&node) && is_live {
                let is_updated = pod["metadata"]["labels"]["controller-revision-hash"] == hash;
                nodes.entry(node).and_modify(|it| *it |= is_updated).or_insert(is_updated);
            }
        }
        nodes
    }
}
