//! Random user actions on a DaemonSet.

use serde_json::{Value, json};

use super::workload::{Api, FATE, NEVER_READY, clean, number, template};
use crate::support::random::Random;

/// A step of a sequence.
#[derive(Debug, Clone)]
pub enum Step {
    /// The template becomes another.
    Edit { what: String, template: Value },
    /// A merge patch of anything but the template.
    Merge { what: String, patch: Value },
    /// An undo to a revision that is there, maybe the current one.
    UndoTo(u64),
    /// An undo to a revision that is not there.
    UndoToUnknown(u64),
    /// An undo without a target.
    Undo,
    /// Two of them.
    UndoTwice,
    /// A template whose pods never become ready, and an undo as soon as the controller has seen it.
    UndoWhileRollingOut { template: Value },
    /// A template, the same with its variables in another order, and an undo, which has to go past both.
    UndoPastSameMeaning { template: Value },
    /// A restart.
    Restart,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Edit { what, template } => write!(f, "edit: {what}, so that the template is {template}"),
            Step::Merge { what, patch } => write!(f, "{what}: {patch}"),
            Step::UndoWhileRollingOut { template } => write!(f, "undo while this rolls out: {template}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// Chooses a step for a DaemonSet and its revisions.
pub fn choose(random: &mut Random, api: Api, live: &Value, revisions: &[Value]) -> Step {
    if revisions.len() == 1 && random.percent(70) {
        // Else there is not much to go back to.
        return edit(random, live, revisions);
    }
    match random.below(100) {
        0..34 => edit(random, live, revisions),
        34..42 => strategy(random, api),
        42..49 => {
            let limit = random.below(4);
            Step::Merge { what: "history limit".to_owned(), patch: json!({"spec": {"revisionHistoryLimit": limit}}) }
        }
        49..52 => {
            let cause = format!("because of {}", random.below(1000));
            let patch = json!({"metadata": {"annotations": {"kubernetes.io/change-cause": cause}}});
            Step::Merge { what: "change cause".to_owned(), patch }
        }
        52..68 => Step::UndoTo(number(random.pick(revisions))),
        68..71 => Step::UndoToUnknown(revisions.last().map_or(1, number) + 1),
        71..79 => Step::Undo,
        79..84 => Step::UndoTwice,
        84..89 => {
            let mut template = clean(&live["spec"]["template"]);
            set_image(&mut template, random);
            template["metadata"]["annotations"][FATE] = json!(NEVER_READY);
            Step::UndoWhileRollingOut { template }
        }
        89..93 => {
            let mut template = clean(&live["spec"]["template"]);
            let [one, two] = [0, 1].map(|_| random.below(1000).to_string());
            template["spec"]["containers"][0]["env"] =
                json!([{"name": "ONE", "value": one}, {"name": "TWO", "value": two}]);
            Step::UndoPastSameMeaning { template }
        }
        _ => Step::Restart,
    }
}

fn strategy(random: &mut Random, api: Api) -> Step {
    let strategy = match random.below(if api == Api::Apps { 4 } else { 6 }) {
        0 => json!({"type": "OnDelete", "rollingUpdate": null}),
        1 => json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}),
        2 => json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}}),
        3 => json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}),
        // Only Advanced DaemonSets have these.
        4 => json!({"type": "RollingUpdate", "rollingUpdate": {"partition": random.below(4)}}),
        _ => json!({"type": "RollingUpdate", "rollingUpdate": {"paused": random.percent(60)}}),
    };
    Step::Merge { what: "strategy".to_owned(), patch: json!({"spec": {"updateStrategy": strategy}}) }
}

fn set_image(template: &mut Value, random: &mut Random) {
    template["spec"]["containers"][0]["image"] = json!(format!("agent:{}", random.below(40)));
}

fn edit(random: &mut Random, live: &Value, revisions: &[Value]) -> Step {
    let mut template = clean(&live["spec"]["template"]);
    let what = match random.below(10) {
        0 | 1 => {
            set_image(&mut template, random);
            "image"
        }
        2 => {
            let value = random.below(5).to_string();
            let name = random.word(&["LEVEL", "REGION", "MODE"]);
            let environment = list(&mut template["spec"]["containers"][0]["env"]);
            environment.retain(|variable| variable["name"] != name);
            environment.push(json!({"name": name, "value": value}));
            "env"
        }
        3 => {
            let environment = list(&mut template["spec"]["containers"][0]["env"]);
            if let Some(first) = environment.pop() {
                environment.insert(0, first);
            }
            "env entries moved"
        }
        4 => {
            let arguments = [json!([]), json!(["--quiet"]), json!(["--verbose", "--level=3"]), json!(["yes", "1_000"])];
            template["spec"]["containers"][0]["args"] = random.pick(&arguments).clone();
            "args"
        }
        5 => {
            template["metadata"]["labels"]["tier"] = json!(random.word(&["edge", "core", "1.0", "true"]));
            "label"
        }
        6 => {
            template["metadata"]["annotations"]["example.com/note"] = json!(random.word(&["a", "", "null", "0o7"]));
            "annotation"
        }
        7 => {
            let spellings = [("1", "1Gi"), ("1000m", "1024Mi"), ("1.0", "1073741824"), ("2", "2Gi")];
            let (cpu, memory) = *random.pick(&spellings);
            template["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": cpu, "memory": memory}});
            "resources"
        }
        8 => {
            let containers = list(&mut template["spec"]["containers"]);
            if containers.len() == 1 {
                containers.push(json!({"name": "helper", "image": "helper:1"}));
            } else {
                containers.pop();
            }
            "a second container"
        }
        _ => {
            template = self::template(random.pick(revisions));
            "back to an older template"
        }
    };
    Step::Edit { what: what.to_owned(), template }
}

fn list(value: &mut Value) -> &mut Vec<Value> {
    if value.is_null() {
        *value = json!([]);
    }
    value.as_array_mut().expect("a list")
}
