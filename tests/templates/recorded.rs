//! The templates of the recorded faulty cluster, as its control plane wrote them.

use std::collections::BTreeMap;
use std::path::Path;

use flate2::read::GzDecoder;
use kubectl_ds::difference::difference;
use kubectl_ds::model::template::Template;
use serde_json::Value;

use super::apply::apply;

fn items(kind: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/faulty-cluster.json.gz");
    let list: Value = serde_json::from_reader(GzDecoder::new(std::fs::File::open(path).unwrap())).unwrap();
    list["items"].as_array().unwrap().iter().filter(|item| item["kind"] == kind).cloned().collect()
}

/// Returns the templates of each DaemonSet's revisions by its uid, the newest last.
fn revisions() -> BTreeMap<String, Vec<Template>> {
    let mut revisions = items("ControllerRevision");
    revisions.sort_by_key(|revision| revision["revision"].as_i64());
    let mut of_owner: BTreeMap<String, Vec<Template>> = BTreeMap::new();
    for revision in revisions {
        let Some(uid) = revision.pointer("/metadata/ownerReferences/0/uid").and_then(Value::as_str) else { continue };
        let template = Template::new(revision.pointer("/data/spec/template").unwrap().clone());
        of_owner.entry(uid.to_owned()).or_default().push(template);
    }
    of_owner
}

#[test]
fn the_newest_revision_of_every_daemon_set_means_the_same_as_its_template() {
    let revisions = revisions();
    let mut compared = 0;
    for daemon_set in items("DaemonSet") {
        let Some(newest) = revisions.get(daemon_set["metadata"]["uid"].as_str().unwrap()).and_then(|all| all.last())
        else {
            continue;
        };
        let live = Template::new(daemon_set["spec"]["template"].clone());
        assert_eq!(live.normal(), newest.normal());
        assert_eq!(difference(newest, &live), []);
        compared += 1;
    }
    assert!(compared > 50, "only {compared} have revisions");
}

#[test]
fn the_revisions_of_one_daemon_set_lead_to_each_other() {
    let mut compared = 0;
    for revisions in revisions().values() {
        for pair in revisions.windows(2) {
            let changes = difference(&pair[0], &pair[1]);
            assert!((1..10).contains(&changes.len()), "{changes:?}");
            assert!(apply(&pair[0], &changes).same_meaning(&pair[1]));
            compared += 1;
        }
    }
    assert!(compared > 3, "only {compared} have a revision before");
}
