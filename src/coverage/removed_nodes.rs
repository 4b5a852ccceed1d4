//! Nodes that a revision has removed from the DaemonSet: its rollout is complete and every desired pod is available,
//! but fewer pods are desired than before.

use std::cmp::Reverse;

use crate::difference::change_summary::in_a_few_words;
use crate::difference::difference;
use crate::facts::Facts;
use crate::facts::revisions::{Doubt, Revision, name_of};
use crate::model::daemon_set::PodTemplate;
use crate::model::template::Template;
use crate::report::age::seconds_between;
use crate::report::change::{Change, ChangePath};
use crate::report::coverage::RemovedNodes;
use crate::report::fix::Fix;
use crate::scheduling::should_run::DaemonPod;

/// How many seconds after its rollout a revision is compared with the one before it: one day.
const RECENT: i64 = 86_400;

/// The fields of a pod spec that determine the eligible nodes.
const DECIDING: [&str; 5] = ["affinity", "hostNetwork", "nodeName", "nodeSelector", "tolerations"];

/// Returns the nodes that a recent revision has removed and that the current template still excludes; if there are
/// several such revisions, those of the one that has removed the most.
///
/// The templates are compared on the current nodes, so that changed taints and labels affect both.
pub(super) fn removed_nodes(facts: &Facts<'_>) -> Option<RemovedNodes> {
    let Facts { index, daemon_set, revisions, .. } = facts;
    if daemon_set.metadata.is_terminating() || !index.nodes_are_read() {
        return None;
    }
    let current = revisions.all.iter().position(|revision| revision.is_current)?;
    let is_recent = |revision: &&Revision<'_>| {
        let began = revisions.rollout_began_at(revision.object);
        began.is_some_and(|began| seconds_between(began, index.now()) < RECENT)
    };
    let recent = revisions.all[current..].iter().take_while(is_recent);
    let steps = recent.zip(&revisions.all[current + 1..]);
    // A rollback removes no nodes.
    let is_step = |of: &Revision<'_>| !revisions.was_rolled_back(of);
    let steps = steps.filter(|(revision, before)| is_step(revision) && is_step(before));
    let removed = steps.filter_map(|(revision, before)| removed_by(facts, revision, before));
    // The newest one wins a tie.
    removed.min_by_key(|removed| Reverse(removed.nodes.len()))
}

fn removed_by(facts: &Facts<'_>, revision: &Revision<'_>, before: &Revision<'_>) -> Option<RemovedNodes> {
    let (template, template_before) = (revision.template.as_ref().ok()?, before.template.as_ref().ok()?);
    let changes = deciding(difference(template_before, template));
    if changes.is_empty() {
        return None;
    }
    let (pod, pod_before) = (pod_of(template)?, pod_of(template_before)?);
    let eligible_before = facts.index.nodes.iter().filter(|node| pod_before.decide(node).should_run);
    let eligible_before: Vec<_> = eligible_before.collect();
    let is_removed = |pod: &DaemonPod, number: usize| !pod.decide(eligible_before[number]).should_run;
    let nodes: Vec<String> = (0..eligible_before.len())
        .filter(|number| is_removed(&pod, *number) && is_removed(&facts.daemon_pod, *number))
        .map(|number| eligible_before[number].metadata.name.clone())
        .collect();
    if nodes.is_empty() {
        return None;
    }
    let name = name_of(facts.daemon_set);
    // The one before may be that of a stage which has stopped: the way back is to what that was to replace.
    let gives_back = |target: &Revision<'_>| {
        let pod = target.template.as_ref().ok().and_then(pod_of);
        pod.is_some_and(|pod| (0..eligible_before.len()).all(|number| !is_removed(&pod, number)))
    };
    let target = facts.revisions.replaced_by_stage().filter(|target| target.number() != before.number());
    let target = target.map_or(Some(before), |target| Some(target).filter(|target| gives_back(target)));
    let is_usable =
        |target: &&Revision<'_>| !matches!(facts.revisions.doubt(target), Some(Doubt::RolledBack | Doubt::Failing(_)));
    let target = target.filter(is_usable).filter(|_| revision.is_current);
    let advice = "to give these nodes their pods back, revert what the revision changed";
    let diff = || name.diff(before.number(), revision.number());
    let fix = match (facts.daemon_set.reverted_by(), target) {
        (Some(writer), _) => {
            let advice = "to give these nodes their pods back, revert the change in the source of";
            Fix::new(format!("{advice} {writer}, which overwrites this DaemonSet; to see the change"), diff())
        }
        (None, Some(target)) => Fix::new("to give these nodes their pods back, roll back", name.undo(target.number())),
        // A rollback would also revert what later revisions have changed, or roll out a revision that does not work.
        (None, None) => Fix::new(advice, diff()),
    };
    Some(RemovedNodes {
        revision: revision.number(),
        previous: before.number(),
        at: facts.revisions.rollout_began_at(revision.object)?,
        most: nodes.len() * 2 > eligible_before.len(),
        eligible_before: eligible_before.len(),
        nodes,
        changes: in_a_few_words(&changes),
        fix,
        accepted: false,
    })
}

/// Returns the changes that affect which nodes are eligible.
fn deciding(changes: Vec<Change>) -> Vec<Change> {
    let spec = ChangePath::default().field("spec");
    let fields = DECIDING.map(|field| spec.field(field));
    let is_within = |change: &Change| fields.iter().any(|field| change.path.0.starts_with(&field.0));
    changes.into_iter().filter(is_within).collect()
}

/// Returns the pod of a template; `None` if a deciding field has the wrong type.
fn pod_of(template: &Template) -> Option<DaemonPod> {
    let template: PodTemplate = serde_json::from_value(template.value().clone()).ok()?;
    Some(DaemonPod::new(&template))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::coverage::test_support::{World, world};
    use crate::model::hold::StageFlags;
    use crate::report::coverage::RemovedNodes;

    /// Revisions with these pod specs, the last of which is that of the DaemonSet, each rolled out at a time; 15 nodes
    /// in the pool `general`, and 2 in the pool `gpu`.
    fn removed(revisions: &[(&str, Value)]) -> Option<RemovedNodes> {
        let created = revisions.iter().map(|(time, spec)| (*time, *time, spec.clone()));
        removed_of(&created.collect::<Vec<_>>())
    }

    /// The same with revisions that were created at a time, and got their number at another one.
    fn removed_of(revisions: &[(&str, &str, Value)]) -> Option<RemovedNodes> {
        removed_from(world(), revisions)
    }

    fn removed_from(mut world: World, revisions: &[(&str, &str, Value)]) -> Option<RemovedNodes> {
        world.snapshot.controller_revisions.clear();
        for (number, (created, numbered, spec)) in (1_i64..).zip(revisions) {
            world = world.template(spec.clone()).revision_of_image(&format!("r{number}"), number, "agent:2");
            let revision = world.snapshot.controller_revisions.last_mut().unwrap();
            revision.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
            revision.object["metadata"]["managedFields"] = json!([{"operation": "Update", "time": numbered}]);
        }
        let pools = (0..17).map(|number| (number, if number < 15 { "general" } else { "gpu" }));
        let world = pools.fold(world, |world: World, (number, pool)| {
            world.node(&format!("n{number:02}"), json!({"metadata": {"labels": {"pool": pool}}}))
        });
        world.coverage().removed_nodes
    }

    fn pool(pool: &str) -> Value {
        json!({"nodeSelector": {"pool": pool}, "tolerations": null})
    }

    const EARLY: &str = "2026-02-01T00:00:00Z";
    const NOW: &str = "2026-03-01T11:59:56Z";

    #[test]
    fn a_revision_that_fewer_nodes_are_eligible_for_is_told_with_what_it_has_changed() {
        let typo = removed(&[(EARLY, pool("general")), (NOW, pool("genral"))]).unwrap();
        assert_eq!((typo.revision, typo.previous, typo.nodes.len(), typo.eligible_before), (2, 1, 15, 15));
        assert_eq!((typo.most, typo.changes), (true, vec!["nodeSelector pool: general → genral".to_owned()]));
        let command = typo.fix.command.unwrap().to_string();
        assert_eq!(command, "kubectl ds undo --to-revision 1 -n default agent");
        let all_of = removed(&[(EARLY, json!({})), (NOW, pool("gpu"))]).unwrap();
        assert_eq!((all_of.nodes.len(), all_of.eligible_before, all_of.most), (15, 17, true));
        let few = removed(&[(EARLY, json!({})), (NOW, pool("general"))]).unwrap();
        assert_eq!((few.nodes.as_slice(), few.most), (&["n15".to_owned(), "n16".to_owned()][..], false));
    }

    #[test]
    fn what_a_revision_adds_or_another_one_gives_back_is_not_removed() {
        assert_eq!(removed(&[(EARLY, pool("gpu")), (NOW, json!({"nodeSelector": null}))]), None);
        assert_eq!(removed(&[(EARLY, pool("general")), (NOW, pool("genral")), (NOW, pool("general"))]), None);
        assert_eq!(removed(&[(NOW, pool("general"))]), None);
    }

    /// Whoever writes it back would take the rollback back, and a rollback has removed nothing.
    #[test]
    fn a_rollback_is_neither_blamed_nor_suggested_where_it_cannot_last() {
        let all = || json!({"nodeSelector": null});
        let back = [
            ("2026-01-01T00:00:00Z", EARLY, json!({"nodeSelector": {"pool": "x"}})),
            (NOW, NOW, all()),
            (EARLY, NOW, pool("gpu")),
        ];
        assert_eq!(removed_of(&back), None);
        // Nothing was rolled back.
        assert!(removed_of(&[(EARLY, EARLY, all()), (NOW, NOW, pool("gpu"))]).is_some());
    }

    /// The one before it was that of a canary, which may have failed.
    #[test]
    fn the_way_back_from_what_a_stage_has_become_is_to_what_it_was_to_replace() {
        let command = |replaced: &str| {
            let flags = StageFlags {
                replaced_revision: Some(replaced.to_owned()),
                progress_deadline_seconds: 600,
                ..StageFlags::default()
            };
            let held = json!({"metadata": {"annotations": {"kubectl-ds/held-since": NOW, "kubectl-ds/partition": "16",
                "kubectl-ds/original-update-strategy": "{\"type\":\"RollingUpdate\"}",
                "kubectl-ds/gates": flags.to_annotation()}},
                "spec": {"updateStrategy": {"type": "OnDelete"}}});
            let mut canary = json!({"nodeSelector": null});
            canary["terminationGracePeriodSeconds"] = json!(5);
            let revisions = [(EARLY, json!({"nodeSelector": null})), (NOW, canary), (NOW, pool("none"))];
            let revisions = revisions.map(|(time, spec)| (time, time, spec));
            removed_from(world().daemon_set(held), &revisions).unwrap().fix.command.unwrap().to_string()
        };
        assert_eq!(command("r1"), "kubectl ds undo --to-revision 1 -n default agent");
        assert_eq!(command("r2"), "kubectl ds undo --to-revision 2 -n default agent");
    }

    #[test]
    fn it_counts_for_a_day_even_if_another_revision_follows() {
        let at = |time: &str| removed(&[(EARLY, pool("general")), (time, pool("gpu"))]).is_some();
        assert_eq!([at("2026-02-28T12:00:01Z"), at("2026-02-28T12:00:00Z")], [true, false]);
        let mut with_more = pool("gpu");
        with_more["terminationGracePeriodSeconds"] = json!(5);
        let later = removed(&[(EARLY, pool("general")), (NOW, pool("gpu")), (NOW, with_more)]).unwrap();
        assert_eq!((later.revision, later.previous), (2, 1));
        // The rollback would revert the other change, too.
        assert_eq!(later.fix.command.unwrap().to_string(), "kubectl ds history -n default --diff 1..2 agent");
    }
}
