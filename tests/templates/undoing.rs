//! Undo on random templates: it restores the template of the revision, and a second undo restores the original.

use kubectl_ds::facts::index::Index;
use kubectl_ds::model::controller_revision::ControllerRevision;
use kubectl_ds::model::daemon_set::DaemonSet;
use kubectl_ds::model::snapshot::Snapshot;
use kubectl_ds::model::template::Template;
use kubectl_ds::rollout::proposal::Planned;
use kubectl_ds::rollout::situation::Situation;
use kubectl_ds::rollout::undo::undo;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::random::Random;
use crate::support::sampling::cases;
use crate::support::template_generator::{Taste, edited, template};

/// A DaemonSet and its revisions, as the API keeps them.
struct Kept {
    object: Value,
    /// Number and template of each.
    revisions: Vec<(i64, Value)>,
}

impl Kept {
    fn new(old: &Value, live: &Value) -> Self {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "agent", "namespace": "team", "uid": "u", "resourceVersion": "1"},
            "spec": {"template": live},
        });
        Kept { object, revisions: vec![(1, old.clone()), (2, live.clone())] }
    }

    fn live(&self) -> Template {
        Template::new(self.object["spec"]["template"].clone())
    }

    /// Reads it as a command does; nothing where the slim form of a random template cannot be read.
    fn snapshot(&self) -> Option<Snapshot> {
        let mut snapshot = Snapshot::empty("2026-11-21T12:00:00Z".parse().unwrap());
        snapshot.daemon_sets = vec![DaemonSet::from_object(self.object.clone()).ok()?];
        let owner = json!({"kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true});
        snapshot.controller_revisions = self
            .revisions
            .iter()
            .map(|(number, template)| {
                let mut template = template.clone();
                template["$patch"] = "replace".into();
                let metadata =
                    json!({"name": format!("agent-{number}"), "namespace": "team", "ownerReferences": [owner]});
                let data = json!({"spec": {"template": template}});
                ControllerRevision::from_object(json!({"metadata": metadata, "revision": number, "data": data}))
                    .unwrap()
            })
            .collect();
        Some(snapshot)
    }

    /// Undoes, and numbers the revisions as the controller does; returns where it went.
    fn undo(&mut self, to_revision: Option<i64>) -> Option<i64> {
        let snapshot = self.snapshot()?;
        let index = Index::new(&snapshot);
        let situation = Situation::new(&index, &snapshot.daemon_sets[0]);
        let Planned { plan, report, .. } = undo(&situation, to_revision).ok()?;
        let target = report.to_revision?;
        if plan.step.is_some() {
            self.object = plan.applied_to(&self.object).unwrap();
            let newest = self.revisions.iter().map(|(number, _)| *number).max()?;
            self.revisions.iter_mut().find(|(number, _)| *number == target)?.0 = newest + 1;
        }
        Some(target)
    }
}

/// Two templates that pods could be made from.
fn pair(seed: u64) -> (Value, Value) {
    let mut random = Random::new(seed);
    let old = template(&mut random, Taste::Readable);
    let live = edited(&mut random, &old, Taste::Readable);
    (old, live)
}

fn has_containers(template: &Value) -> bool {
    template.pointer("/spec/containers").and_then(Value::as_array).is_some_and(|containers| !containers.is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn undo_gets_there_and_a_second_undo_gets_back(seed: u64) {
        let (old, live) = pair(seed);
        let differ = !Template::new(old.clone()).same_meaning(&Template::new(live.clone()));
        prop_assume!(differ && has_containers(&old) && has_containers(&live));
        let mut kept = Kept::new(&old, &live);
        prop_assume!(kept.snapshot().is_some());
        prop_assert_eq!(kept.undo(None), Some(1));
        prop_assert!(kept.live().same_meaning(&Template::new(old)));
        // The revision has a new number by now; asked for by that number, there is nothing to do.
        let there = kept.object.clone();
        prop_assert_eq!(kept.undo(Some(3)), Some(3));
        prop_assert_eq!(&kept.object, &there);
        prop_assert_eq!(kept.undo(None), Some(2));
        prop_assert!(kept.live().same_meaning(&Template::new(live)));
        prop_assert_eq!(&kept.revisions.iter().map(|(number, _)| *number).collect::<Vec<_>>(), &[3, 4]);
    }
}

#[test]
fn most_random_pairs_can_be_undone() {
    let usable = (0..500).filter(|seed| {
        let (old, live) = pair(*seed);
        let differ = !Template::new(old.clone()).same_meaning(&Template::new(live.clone()));
        differ && has_containers(&old) && has_containers(&live) && Kept::new(&old, &live).snapshot().is_some()
    });
    let usable = usable.count();
    assert!(usable > 250, "{usable} of 500");
}
