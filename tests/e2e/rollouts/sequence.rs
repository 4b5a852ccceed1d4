//! A random sequence of user actions on a DaemonSet; each step is checked against plain JSON and, on a twin, against
//! kubectl.

use std::collections::BTreeMap;
use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::meaning::{meaning, newest_has_twin, newest_of_other_meaning};
use super::steps::{Step, choose};
use super::workload::{Api, RESTARTED_AT, Workload, hash, number, template, without_restart};
use super::{Cluster, agreement};
use crate::support::random::Random;
use crate::support::say;

/// More would only wait for each other on a small machine.
const AT_ONCE: usize = 6;

/// Runs sequences, several at once, and returns how often each thing was done; `KUBECTL_DS_SEED`
/// repeats a run.
pub fn run_many(cluster: &'static Cluster, api: Api, count: usize, steps: usize) -> BTreeMap<&'static str, usize> {
    let seed = env::var("KUBECTL_DS_SEED").ok().map_or_else(seed_of_the_clock, |seed| seed.parse().unwrap());
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<&str, usize>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                // kubectl cannot undo what is no apps/v1 DaemonSet, so that those have no twin.
                let namespaces: Vec<String> =
                    (0..if api == Api::Apps { 2 } else { 1 }).map(|_| cluster.namespace()).collect();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        break;
                    }
                    for what in Sequence::new(cluster, api, &namespaces, seed, at).run(steps) {
                        *done.lock().unwrap().entry(what).or_default() += 1;
                    }
                }
            });
        }
    });
    let (done, took, version) = (done.into_inner().unwrap(), start.elapsed(), api.version());
    say(&format!("KUBECTL_DS_SEED={seed}: {count} sequences on {version} are right after {took:.1?}: {done:?}"));
    done
}

fn seed_of_the_clock() -> u64 {
    u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos())
}

/// One sequence.
struct Sequence {
    random: Random,
    ours: Workload,
    /// What kubectl acts on, unless it cannot.
    theirs: Option<Workload>,
    restarted: Option<Instant>,
    /// When kubectl restarted its twin, by when the program restarted the other.
    restarts: BTreeMap<String, String>,
    /// What was done, to be shown when something is wrong.
    story: Vec<String>,
    done: Vec<&'static str>,
}

/// Tells the story of a sequence that ends in a panic.
impl Drop for Sequence {
    fn drop(&mut self) {
        if thread::panicking() {
            say(&self.story.join("\n"));
        }
    }
}

impl Sequence {
    /// Makes the sequence's DaemonSet in the first namespace, and a twin in the second if there is one.
    fn new(cluster: &'static Cluster, api: Api, namespaces: &[String], seed: u64, at: usize) -> Self {
        let name = format!("agent-{at}");
        let create = |namespace: &String| Workload::create(cluster, api, namespace, &name, &json!({}));
        Sequence {
            random: Random::new(seed.wrapping_add(at as u64)),
            ours: create(&namespaces[0]),
            theirs: namespaces.get(1).map(create),
            restarted: None,
            restarts: BTreeMap::new(),
            story: vec![format!("KUBECTL_DS_SEED={seed}, sequence {at} on {}", api.version())],
            done: Vec::new(),
        }
    }

    /// Takes so many steps, and returns what they came to.
    fn run(mut self, steps: usize) -> Vec<&'static str> {
        self.settle();
        for _ in 0..steps {
            let step = choose(&mut self.random, self.ours.api, &self.ours.live(), &self.ours.revisions());
            self.story.push(step.to_string());
            self.take(step);
            self.settle();
            self.compare();
        }
        self.both().for_each(Workload::delete);
        std::mem::take(&mut self.done)
    }

    fn both(&self) -> impl Iterator<Item = &Workload> {
        self.theirs.iter().chain([&self.ours])
    }

    fn settle(&self) {
        self.both().for_each(Workload::settle);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Edit { template, .. } => self.edit(&template),
            Step::Merge { patch, .. } => self.both().for_each(|workload| workload.merge(&patch)),
            Step::UndoTo(target) => self.undo_to(target),
            Step::UndoToUnknown(target) => self.undo_to_unknown(target),
            Step::Undo => self.undo(),
            Step::UndoTwice => self.undo_twice(),
            Step::UndoWhileRollingOut { template } => {
                self.edit(&template);
                self.both().for_each(Workload::wait_until_observed);
                let limit = self.ours.live()["spec"]["revisionHistoryLimit"].as_u64().unwrap();
                let revisions = self.ours.revisions();
                let target = newest_of_other_meaning(&revisions, &self.ours.template());
                let before = revisions.len().checked_sub(2).map(|before| number(&revisions[before]));
                if limit == 0 || target != before {
                    // What the controller will have deleted by then is a matter of moments.
                    self.settle();
                }
                self.undo();
                self.done.push("rolled back while rolling out");
            }
            Step::UndoPastSameMeaning { mut template } => {
                self.edit(&template);
                self.settle();
                template["spec"]["containers"][0]["env"].as_array_mut().unwrap().reverse();
                self.edit(&template);
                self.settle();
                let revisions = self.ours.revisions();
                let target = newest_of_other_meaning(&revisions, &self.ours.template());
                self.undo();
                // Under a small limit the one to go back to may be gone. So may the one of the same meaning, which no pod has
                // under OnDelete, while pods keep older ones.
                if target.is_some() && newest_has_twin(&revisions) {
                    assert_ne!(target, Some(number(&revisions[revisions.len() - 2])));
                    self.done.push("rolled back past the same meaning");
                }
            }
            Step::Restart => self.restart(),
        }
    }

    fn edit(&self, template: &Value) {
        self.ours.set_template(template);
        let Some(theirs) = &self.theirs else { return };
        let mut template = template.clone();
        if let Some(annotation) =
            template.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(RESTARTED_AT))
        {
            *annotation = json!(self.restarts[annotation.as_str().unwrap()]);
        }
        theirs.set_template(&template);
    }

    /// Lets kubectl do its part, where it can.
    fn kubectl_rollout(&self, arguments: &[&str]) {
        if let Some(theirs) = &self.theirs {
            let name = format!("daemonset/{}", theirs.name);
            let arguments = [&["rollout"], arguments, &[&name, "-n", &theirs.namespace]].concat();
            theirs.cluster.control_plane.kubectl(&arguments);
        }
    }

    fn undo_to(&mut self, target: u64) {
        let revisions = self.ours.revisions();
        let wanted = template(revisions.iter().find(|revision| number(revision) == target).unwrap());
        if meaning(&wanted) == meaning(&self.ours.template()) {
            agreement::nothing_is_sent(&self.ours, &["undo", "--to-revision", &target.to_string()], 0);
            self.done.push("already there");
            return;
        }
        self.kubectl_rollout(&["undo", &format!("--to-revision={target}")]);
        let run = self.ours.run(&["undo", "--to-revision", &target.to_string()]).expect(0);
        agreement::was_rolled_back(&self.ours, &run, &revisions, target);
        self.done.push("rolled back");
    }

    fn undo_to_unknown(&mut self, target: u64) {
        agreement::unknown_revision_is_refused(&self.ours, target);
        self.done.push("unknown revision");
    }

    fn undo(&mut self) {
        let revisions = self.ours.revisions();
        let Some(target) = newest_of_other_meaning(&revisions, &self.ours.template()) else {
            agreement::nothing_is_sent(&self.ours, &["undo"], 1);
            self.done.push("nothing to go back to");
            return;
        };
        // kubectl takes the one before the newest, whatever that means.
        if number(&revisions[revisions.len() - 2]) == target {
            self.kubectl_rollout(&["undo"]);
        } else {
            self.kubectl_rollout(&["undo", &format!("--to-revision={target}")]);
        }
        // Without a number, it does not return to what was rolled back before.
        let run = self.ours.run(&["undo", "--to-revision", &target.to_string()]).expect(0);
        agreement::was_rolled_back(&self.ours, &run, &revisions, target);
        self.done.push("rolled back");
    }

    fn undo_twice(&mut self) {
        let first = self.ours.template();
        let kept = self.ours.live()["spec"]["revisionHistoryLimit"] != 0;
        self.undo();
        self.settle();
        self.compare();
        let between = self.ours.template();
        self.undo();
        if kept && first != between {
            assert_eq!(meaning(&self.ours.template()), meaning(&first), "two undos do not return");
            self.done.push("undone twice");
        }
    }

    fn restart(&mut self) {
        if let Some(before) = self.restarted {
            // The time is written in seconds: two restarts within one are one.
            thread::sleep(Duration::from_millis(1100).saturating_sub(before.elapsed()));
        }
        self.kubectl_rollout(&["restart"]);
        agreement::is_restarted(&self.ours);
        self.restarted = Some(Instant::now());
        let time = |workload: &Workload| {
            workload.template()["metadata"]["annotations"][RESTARTED_AT].as_str().unwrap().to_owned()
        };
        if let Some(theirs) = &self.theirs {
            self.restarts.insert(time(&self.ours), time(theirs));
        }
        self.done.push("restarted");
    }

    /// Holds the twins against each other, and what the program says against the objects.
    fn compare(&mut self) {
        let revisions = self.ours.revisions();
        let numbers: Vec<u64> = revisions.iter().map(number).collect();
        self.story.push(format!("    revisions {numbers:?}, live {}", hash(revisions.last().unwrap())));
        if let Some(theirs) = &self.theirs {
            let [theirs_is, ours_is] = [theirs, &self.ours].map(without_times);
            assert_eq!(theirs_is, ours_is, "kubectl's twin is on the left");
            let twin = if self.random.percent(50) { theirs } else { &self.ours };
            assert_eq!(agreement::kubectl_history(twin), numbers, "kubectl's numbers are on the left");
        }
        agreement::history_agrees(&self.ours);
        if self.random.percent(35) {
            agreement::revision_agrees(&self.ours, self.random.pick(&revisions));
            let (a, b) = (self.random.pick(&revisions).clone(), self.random.pick(&revisions).clone());
            agreement::difference_agrees(&self.ours, &a, &b);
        }
    }
}

/// Returns what has to be equal for twins: the template, and number, template and cause of each revision.
fn without_times(workload: &Workload) -> Value {
    let revisions = workload.revisions();
    let rows = revisions.iter().map(|revision| {
        json!({
            "revision": number(revision),
            "template": without_restart(&template(revision)),
            "cause": revision["metadata"]["annotations"]["kubernetes.io/change-cause"],
        })
    });
    json!({"template": without_restart(&workload.template()), "revisions": rows.collect::<Vec<_>>()})
}
