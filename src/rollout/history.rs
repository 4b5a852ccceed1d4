//! The history of a DaemonSet: what each revision changed, when, and which pods run on it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::known_rollouts::replaced_templates;
use crate::coverage::gaps;
use crate::difference::change_summary::in_a_few_words;
use crate::difference::difference;
use crate::facts::controller::Controller;
use crate::facts::index::Index;
use crate::facts::revisions::{Address, NoTemplate, Revision, Revisions, name_of};
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::hold::{ANNOTATIONS, Hold};
use crate::model::metadata::{LAST_APPLIED_ANNOTATION, TEMPLATE_GENERATION_ANNOTATION};
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::template::Template;
use crate::model::template_parts::items;
use crate::report::age::seconds_between;
use crate::report::count_and;
use crate::report::history::{DiffSide, HistoryReport, RevisionDiff, RevisionRow, TemplateSource};

/// The annotation that records the reason for a change.
const CHANGE_CAUSE_ANNOTATION: &str = "kubernetes.io/change-cause";

/// Returns the history of each DaemonSet, sorted by namespace and name.
pub fn histories(snapshot: &Snapshot) -> Vec<HistoryReport> {
    let index = Index::new(snapshot);
    let daemon_sets = index.daemon_sets_of_any_flavor().into_iter();
    daemon_sets.map(|daemon_set| history(&index.revisions(daemon_set), snapshot)).collect()
}

/// Returns the history of one DaemonSet.
pub fn history(revisions: &Revisions<'_>, snapshot: &Snapshot) -> HistoryReport {
    let daemon_set = revisions.daemon_set;
    let is_read = |kind: Kind| snapshot.gap(kind, &daemon_set.metadata.namespace).is_none();
    let (knows_pods, knows_revisions) = (is_read(Kind::Pods), is_read(Kind::ControllerRevisions));
    let replaced = replaced_templates(revisions);
    let rows: Vec<RevisionRow> = revisions
        .all
        .iter()
        .enumerate()
        .map(|(index, revision)| row(revision, &revisions.all[index + 1..], revisions, &replaced, knows_pods))
        .collect();
    HistoryReport {
        daemon_set: name_of(daemon_set),
        now: snapshot.now,
        incomplete: gaps::incomplete_for_history(snapshot, &daemon_set.metadata.namespace),
        notes: notes(revisions, knows_pods, snapshot).into_iter().chain(renumbered(&rows)).collect(),
        skipped: revisions.skipped.clone(),
        revisions: rows,
        other_pods: (knows_pods && knows_revisions).then_some(revisions.other_pods),
    }
}

fn row(
    revision: &Revision<'_>,
    older: &[Revision<'_>],
    revisions: &Revisions<'_>,
    replaced: &BTreeMap<i64, &Template>,
    knows_pods: bool,
) -> RevisionRow {
    let object = revision.object;
    let template = revision.template.as_ref().ok();
    // If nobody knows what it replaced, the next older one says most.
    let next = || older.iter().find_map(|older| older.template.as_ref().ok());
    let has_it = |before: &Template, other: &Revision<'_>| {
        other.number() != revision.number() && other.template.as_ref().is_ok_and(|other| other.same_meaning(before))
    };
    // Its own earlier rollout is not what it replaced.
    let is_other = |before: &&Template| revisions.all.iter().any(|other| has_it(before, other));
    let before = replaced.get(&object.revision).copied().filter(is_other).or_else(next);
    let changes = before.zip(template).map(|(before, template)| difference(before, template)).unwrap_or_default();
    let same_as = template.and_then(|template| {
        let same = |other: &&Revision<'_>| other.template.as_ref().is_ok_and(|other| other.same_meaning(template));
        // The one that it replaced may have been rolled out again since.
        let is_unchanged = before.is_some_and(|before| before.same_meaning(template));
        let others = revisions.all.iter().filter(|other| is_unchanged && other.number() != revision.number());
        older.iter().chain(others).find(same).map(Revision::number)
    });
    // If both came back, neither was rolled back from for good.
    let is_left =
        |left: &&Revision<'_>| revisions.was_left_for(left, revision) && !revisions.both_came_back(left, revision);
    RevisionRow {
        revision: object.revision,
        name: object.metadata.name.clone(),
        hash: object.hash().to_owned(),
        current: revision.is_current,
        created_at: created(revision),
        rolled_out_at: revisions.rolled_out_at(object),
        rolled_out_again: is_rolled_out_again(revision, older, revisions),
        images: template.map(images).unwrap_or_default(),
        change_cause: change_cause(object),
        pods: knows_pods.then_some(revision.pods),
        summary: in_a_few_words(&changes),
        changes,
        rolled_back_from: older.first().filter(|left| is_left(left)).map(Revision::number),
        same_as,
        problem: revision.template.as_ref().err().cloned(),
    }
}

fn created(revision: &Revision<'_>) -> Option<Timestamp> {
    revision.object.metadata.creation_timestamp.get()
}

/// Returns whether a revision was rolled out again after its creation: the controller raised its number (`constructHistory`,
/// pkg/controller/daemon/update.go, release 1.37.2), so that it is later than its creation, or higher than those of younger revisions.
fn is_rolled_out_again(revision: &Revision<'_>, older: &[Revision<'_>], revisions: &Revisions<'_>) -> bool {
    let Some(own) = created(revision) else { return false };
    // Both times of a new revision are those of one request.
    let is_later = |at: Timestamp| seconds_between(own, at) > 1;
    revisions.rolled_out_at(revision.object).is_some_and(is_later)
        || older.iter().filter_map(created).any(|other| other > own)
}

/// Explains why the numbers of revisions that were rolled out again do not follow their creation.
fn renumbered(rows: &[RevisionRow]) -> Option<String> {
    let of = |is_known: bool| {
        let again = rows.iter().filter(|row| row.rolled_out_again && (is_known || row.rolled_out_at.is_none()));
        again.map(|row| row.revision.to_string()).collect::<Vec<_>>().join(", ")
    };
    let (all, unknown) = (of(true), of(false));
    let when = if unknown.is_empty() { String::new() } else { format!("; the time of {unknown} is not known") };
    let were = match all.contains(',') {
        true => format!("revisions {all} were rolled out again after they were"),
        false => format!("revision {all} was rolled out again after it was"),
    };
    let note = format!(
        "{were} created; each time, the controller raises the number of the revision, so lower numbers are missing{when}"
    );
    (!all.is_empty()).then_some(note)
}

/// Returns the reason for the change that created a revision.
pub(super) fn change_cause(revision: &ControllerRevision) -> Option<String> {
    revision.annotations.get(CHANGE_CAUSE_ANNOTATION).filter(|cause| !cause.is_empty()).cloned()
}

fn images(template: &Template) -> Vec<String> {
    let all = ["initContainers", "containers"].into_iter().flat_map(|list| items(&template.value()["spec"], list));
    all.filter_map(|container| container["image"].as_str().map(str::to_owned)).collect()
}

fn notes(revisions: &Revisions<'_>, knows_pods: bool, snapshot: &Snapshot) -> Vec<String> {
    let daemon_set = revisions.daemon_set;
    let controller = Controller::of(daemon_set).name();
    let mut notes = Vec::new();
    let known = snapshot.gap(Kind::ControllerRevisions, &daemon_set.metadata.namespace).is_none();
    match revisions.current() {
        _ if !known => {}
        None if daemon_set.is_observed() => {
            notes.push(
                "the revision of the live template is missing in the list, although the controller has observed it"
                    .to_owned(),
            );
        }
        None => notes.push(format!("the live template has no revision yet: {controller} has not observed it")),
        Some(current) if !revisions.has_newest_number() => notes.push(format!(
            "the live template is that of revision {}, which gets the highest number once {controller} has acted",
            current.number()
        )),
        Some(_) => {}
    }
    if revisions.other_pods > 0 && known && knows_pods {
        let pods = count_and(revisions.other_pods, "pod", ["is", "are"]);
        notes.push(format!("{pods} of a revision that is no longer retained"));
    }
    notes
}

/// Returns a short summary of the differences between the templates of two revisions; nothing if one cannot be read.
pub fn changes_between(revisions: &Revisions<'_>, from: i64, to: i64) -> Vec<String> {
    let template = |number| revisions.find(Address::Number(number)).ok().map(|(_, template)| template);
    template(from).zip(template(to)).map(|(from, to)| in_a_few_words(&difference(from, to))).unwrap_or_default()
}

/// Compares two templates of a DaemonSet.
pub fn diff(revisions: &Revisions<'_>, from: (DiffSide, &Template), to: (DiffSide, &Template)) -> RevisionDiff {
    RevisionDiff {
        daemon_set: name_of(revisions.daemon_set),
        changes: difference(from.1, to.1),
        from: from.0,
        to: to.0,
    }
}

/// Returns the template at an address, with its description for a report.
///
/// # Errors
///
/// Fails if the revision does not exist or its template cannot be read.
pub fn side<'a>(revisions: &'a Revisions<'_>, address: Address) -> Result<(DiffSide, &'a Template), NoTemplate> {
    let (revision, template) = revisions.find(address)?;
    let is_live = matches!(address, Address::Live);
    let side = DiffSide {
        source: if is_live || revision.is_none() { TemplateSource::Live } else { TemplateSource::Revision },
        file: None,
        revision: revision.map(Revision::number),
        current: is_live || revision.is_none_or(|revision| revision.is_current),
    };
    Ok((side, template))
}

/// Returns the DaemonSet with another template, as a manifest that can be applied.
pub fn manifest_with(daemon_set: &DaemonSet, template: &Template) -> Value {
    let mut metadata = json!({"name": daemon_set.metadata.name, "namespace": daemon_set.metadata.namespace});
    if !daemon_set.metadata.labels.is_empty() {
        metadata["labels"] = json!(daemon_set.metadata.labels);
    }
    // The API server and kubectl write these; they describe the live template.
    let mut annotations = daemon_set.annotations.clone();
    let is_of_hold = |key: &String| ANNOTATIONS.contains(&key.as_str());
    annotations
        .retain(|key, _| key != TEMPLATE_GENERATION_ANNOTATION && key != LAST_APPLIED_ANNOTATION && !is_of_hold(key));
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    let mut spec = daemon_set.object.get("spec").cloned().unwrap_or_else(|| json!({}));
    spec["template"] = template.value().clone();
    // Whoever applies it later must not begin the hold again.
    if let Some(hold) = Hold::in_force(daemon_set) {
        spec["updateStrategy"] = hold.original;
    }
    json!({"apiVersion": daemon_set.api_version(), "kind": "DaemonSet", "metadata": metadata, "spec": spec})
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{changes_between, histories, manifest_with};
    use crate::coverage::test_support::{World, world};
    use crate::facts::revisions::Revisions;
    use crate::model::snapshot::{Gap, GapCause, Kind};
    use crate::report::history::HistoryReport;

    /// A DaemonSet of `agent:2` and the revisions of these images, with their numbers.
    fn with_revisions(images: &[(i64, &str)]) -> World {
        let mut world = world().template(json!({"initContainers": [{"name": "init", "image": "init:1"}]}));
        world.snapshot.controller_revisions.clear();
        images
            .iter()
            .fold(world, |world, (number, image)| world.revision_of_image(&format!("hash{number}"), *number, image))
    }

    fn told(world: World) -> HistoryReport {
        histories(&world.finish()).remove(0)
    }

    #[test]
    fn a_row_has_the_images_of_all_containers_and_the_cause_if_there_is_one() {
        let mut world = with_revisions(&[(1, "agent:1"), (2, "agent:2"), (3, "agent:3")]);
        for (revision, cause) in world.snapshot.controller_revisions.iter_mut().zip(["", "an update"]) {
            revision.annotations.insert("kubernetes.io/change-cause".to_owned(), cause.to_owned());
        }
        let rows = told(world).revisions;
        let images: Vec<&[String]> = rows.iter().map(|row| row.images.as_slice()).collect();
        assert_eq!(images, [["init:1", "agent:3"], ["init:1", "agent:2"], ["init:1", "agent:1"]]);
        let causes: Vec<Option<&str>> = rows.iter().map(|row| row.change_cause.as_deref()).collect();
        assert_eq!(causes, [None, Some("an update"), None]);
    }

    #[test]
    fn a_row_tells_what_was_rolled_back() {
        let mut world = with_revisions(&[(1, "agent:0"), (3, "agent:3"), (4, "agent:2")]);
        for (revision, minute) in world.snapshot.controller_revisions.iter_mut().zip([0, 10, 5]) {
            let created = json!(format!("2026-03-01T11:{minute:02}:00Z"));
            revision.metadata.creation_timestamp = serde_json::from_value(created).unwrap();
        }
        let rows = told(world).revisions;
        let told: Vec<_> = rows.iter().map(|row| (row.rolled_back_from, row.summary.join(", "))).collect();
        let image = |from, to| format!("image agent {from} → {to}");
        // The revision that ran before revision 3 is revision 4 now.
        assert_eq!(told, [(Some(3), image(3, 2)), (None, image(2, 3)), (None, String::new())]);
    }

    /// Both revisions were rolled out again, and then a third one was rolled out.
    #[test]
    fn what_came_back_twice_is_told_with_what_it_replaced() {
        let mut world = with_revisions(&[(3, "agent:1"), (4, "agent:2"), (5, "agent:3")]);
        let times = [(0, 20), (10, 30), (40, 40)];
        for (revision, (created, numbered)) in world.snapshot.controller_revisions.iter_mut().zip(times) {
            let at = |minute: i64| json!(format!("2026-03-01T11:{minute:02}:00Z"));
            revision.metadata.creation_timestamp = serde_json::from_value(at(created)).unwrap();
            revision.object["metadata"]["managedFields"] =
                json!([{"time": at(numbered), "fieldsV1": {"f:revision": {}}}]);
        }
        let rows = told(world).revisions;
        let told: Vec<_> = rows.iter().map(|row| (row.rolled_back_from, row.summary.join(", "))).collect();
        let image = |from, to| format!("image agent {from} → {to}");
        assert_eq!(told, [(None, image(2, 3)), (None, image(1, 2)), (None, image(2, 1))]);
    }

    /// As after an upgrade of the control plane, and a return to the template as it was.
    #[test]
    fn a_revision_that_replaced_an_equivalent_one_is_told_as_such_whichever_has_the_higher_number_now() {
        let mut world = with_revisions(&[(1, "agent:1"), (3, "agent:2"), (4, "agent:2")]);
        let times = [(0, 0), (20, 20), (10, 30)];
        for (revision, (created, numbered)) in world.snapshot.controller_revisions.iter_mut().zip(times) {
            let at = |minute: i64| json!(format!("2026-03-01T11:{minute:02}:00Z"));
            revision.metadata.creation_timestamp = serde_json::from_value(at(created)).unwrap();
            revision.object["metadata"]["managedFields"] =
                json!([{"time": at(numbered), "fieldsV1": {"f:revision": {}}}]);
        }
        let same: Vec<_> = told(world).revisions.iter().map(|row| (row.revision, row.same_as)).collect();
        assert_eq!(same, [(4, Some(3)), (3, Some(4)), (1, None)]);
    }

    #[test]
    fn a_revision_that_was_rolled_out_again_is_told_with_when_if_that_is_known() {
        // The numbers, and the minutes of the creation and of the number.
        let rows = |revisions: &[(i64, i64, Option<i64>)]| {
            let images: Vec<(i64, String)> =
                revisions.iter().map(|(number, ..)| (*number, format!("agent:{number}"))).collect();
            let images: Vec<(i64, &str)> = images.iter().map(|(number, image)| (*number, image.as_str())).collect();
            let mut world = with_revisions(&images);
            for (revision, (_, created, numbered)) in world.snapshot.controller_revisions.iter_mut().zip(revisions) {
                let at = |minute: &i64| json!(format!("2026-03-01T11:{minute:02}:00Z"));
                revision.metadata.creation_timestamp = serde_json::from_value(at(created)).unwrap();
                let numbered: Vec<Value> =
                    numbered.iter().map(|it| json!({"time": at(it), "fieldsV1": {"f:revision": {}}})).collect();
                revision.object["metadata"]["managedFields"] = json!(numbered);
            }
            let report = told(world);
            let rows: Vec<_> = report.revisions.iter().map(|row| (row.revision, row.rolled_out_again)).collect();
            (rows, report.notes.into_iter().find(|note| note.contains("rolled out again")).unwrap_or_default())
        };
        let (told, note) = rows(&[(1, 1, Some(1)), (2, 2, Some(2))]);
        assert_eq!((told, note.as_str()), (vec![(2, false), (1, false)], ""));
        let (told, note) = rows(&[(3, 5, Some(5)), (4, 2, Some(10)), (5, 1, Some(20))]);
        assert_eq!(told, [(5, true), (4, true), (3, false)]);
        assert!(note.starts_with("revisions 5, 4 were ") && !note.contains("not known"), "{note}");
        // A dump without field managers: the order of the numbers tells, and the time is unknown.
        let (told, note) = rows(&[(3, 5, None), (4, 2, None), (6, 9, None)]);
        assert_eq!(told, [(6, false), (4, true), (3, false)]);
        assert!(note.ends_with("; the time of 4 is not known"), "{note}");
    }

    #[test]
    fn a_note_tells_what_the_controller_has_yet_to_do_and_of_pods_without_a_revision() {
        let notes = |images: &[(i64, &str)], hashes: &[&str], is_known: bool| {
            let mut world = hashes.iter().enumerate().fold(with_revisions(images), |world, (number, hash)| {
                world.pod(
                    &format!("agent-{number}"),
                    "a",
                    json!({"metadata": {"labels": {"controller-revision-hash": hash}}}),
                )
            });
            if !is_known {
                let cause = GapCause::Forbidden("list controllerrevisions".to_owned());
                world.snapshot.gaps.push(Gap { kind: Kind::ControllerRevisions, namespace: None, cause });
            }
            told(world).notes
        };
        let starts = |notes: Vec<String>, expected: &[&str]| {
            assert_eq!(notes.len(), expected.len(), "{notes:?}");
            assert!(notes.iter().zip(expected).all(|(note, start)| note.starts_with(start)), "{notes:?}");
        };
        let both = [(1, "agent:1"), (2, "agent:2")];
        starts(notes(&both, &["hash1", "hash2"], true), &[]);
        starts(notes(&[(1, "agent:1")], &[], true), &["the revision of the live template is missing in the list"]);
        // It was rolled back, and the controller has not renumbered its revision yet.
        starts(notes(&[(1, "agent:2"), (2, "agent:1")], &[], true), &["the live template is that of revision 1"]);
        starts(notes(&both, &["hash9", "hash2"], true), &["1 pod is"]);
        starts(notes(&both, &["hash9", "hash2", "hash8"], true), &["2 pods are"]);
        // Without the revisions, none of this is known.
        starts(notes(&[], &["hash9"], false), &[]);
    }

    #[test]
    fn the_changes_between_two_revisions_are_told_if_both_are_there() {
        let snapshot = with_revisions(&[(1, "agent:1"), (2, "agent:2")]).finish();
        let revisions = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
        assert_eq!(changes_between(&revisions, 1, 2), ["image agent 1 → 2"]);
        assert_eq!(changes_between(&revisions, 2, 1), ["image agent 2 → 1"]);
        assert_eq!(changes_between(&revisions, 1, 3), [""; 0]);
    }

    #[test]
    fn a_manifest_leaves_out_what_describes_the_live_template() {
        let metadata = |patch: Value| {
            let snapshot = world().daemon_set(json!({"metadata": patch})).finish();
            let daemon_set = &snapshot.daemon_sets[0];
            manifest_with(daemon_set, &daemon_set.template())["metadata"].clone()
        };
        let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
        assert_eq!(
            metadata(json!({"labels": {"team": "a"}, "annotations": {"note": "b", last_applied: "{}"}})),
            json!({"name": "agent", "namespace": "default", "labels": {"team": "a"}, "annotations": {"note": "b"}})
        );
        assert_eq!(metadata(json!({})), json!({"name": "agent", "namespace": "default"}));
    }

    /// It would begin the hold again.
    #[test]
    fn a_manifest_of_a_held_daemon_set_has_the_strategy_from_before() {
        let annotations = json!({"kubectl-ds/original-update-strategy": r#"{"type":"RollingUpdate"}"#,
            "kubectl-ds/partition": "1", "team": "a"});
        let held = json!({"metadata": {"annotations": annotations}, "spec": {"updateStrategy": {"type": "OnDelete"}}});
        let snapshot = world().daemon_set(held).finish();
        let daemon_set = &snapshot.daemon_sets[0];
        let manifest = manifest_with(daemon_set, &daemon_set.template());
        assert_eq!(manifest["spec"]["updateStrategy"], json!({"type": "RollingUpdate"}));
        assert_eq!(manifest["metadata"]["annotations"], json!({"team": "a"}));
    }

    #[test]
    fn pods_of_a_revision_that_was_deleted_are_counted() {
        let of = |hash: &str| json!({"metadata": {"labels": {"controller-revision-hash": hash}}});
        let world = with_revisions(&[(2, "agent:2")]).node("a", json!({})).node("b", json!({}));
        let world = world.pod("agent-a", "a", of("hash2")).pod("agent-b", "b", of("gone"));
        assert_eq!(told(world).other_pods, Some(1));
    }
}
