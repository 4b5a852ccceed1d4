//! ControllerRevisions: the past and present templates of a DaemonSet.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::Value;

use super::daemon_set::{DaemonSet, annotations, drop_nulls};
use super::metadata::{CONTROLLER_REVISION_HASH_LABEL, ObjectMeta};
use super::server_side_apply::{managed_fields, of_template, time_of};
use super::template::Template;

/// The longest delay between a change of the template and the number of its revision: the controller acts immediately.
pub const REACTION: SignedDuration = SignedDuration::from_secs(5);

/// A revision: a template, and a number that increases with each rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct ControllerRevision {
    /// Name, labels and owner.
    pub metadata: ObjectMeta,
    /// Annotations, copied from the owner when the revision was created.
    pub annotations: BTreeMap<String, String>,
    /// The number; the current revision has the highest.
    pub revision: i64,
    /// The whole object, as it was read.
    pub object: Value,
}

kept_whole!(ControllerRevision);

impl ControllerRevision {
    /// Reads a revision from the whole object. Fails if a field has the wrong type.
    pub fn from_object(object: Value) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Slim {
            metadata: ObjectMeta,
            revision: i64,
        }
        let mut slim = object.clone();
        drop_nulls(&mut slim);
        let Slim { metadata, revision } = serde_path_to_error::deserialize(&slim).map_err(serde_json::Error::custom)?;
        Ok(ControllerRevision { metadata, annotations: annotations(&slim), revision, object })
    }

    /// Returns the hash in the label of this revision's pods, empty if the label is missing.
    pub fn hash(&self) -> &str {
        self.metadata.labels.get(CONTROLLER_REVISION_HASH_LABEL).map_or("", String::as_str)
    }

    /// Decodes the whole template from the revision's data, which is a patch of a DaemonSet:
    /// `{"spec": {"template": {…, "$patch": "replace"}}}`, as written by `getPatch` of pkg/controller/daemon/update.go, release
    /// 1.37.2, and by OpenKruise's controller. Fails with a fragment that explains the problem, if the data has no template from
    /// which pods could be created. Unknown fields are kept.
    pub fn template(&self) -> Result<Template, String> {
        let template = match self.object.pointer("/data/spec/template") {
            Some(template @ Value::Object(_)) => template,
            Some(other) => return Err(format!("its data has a spec.template that is {}", type_of(other))),
            None if self.object.get("data").is_none_or(Value::is_null) => return Err("it has no data".to_owned()),
            None => return Err("its data has no spec.template".to_owned()),
        };
        let containers = template.pointer("/spec/containers").and_then(Value::as_array);
        if containers.is_none_or(|containers| !containers.iter().all(Value::is_object) || containers.is_empty()) {
            return Err("its template has no containers".to_owned());
        }
        Ok(Template::new(template.clone()))
    }

    /// Returns when the controller last numbered the revision for a DaemonSet, which is when it was last rolled out; `None` if
    /// unknown.
    ///
    /// A revision that is rolled out again keeps its name and creation time, and gets the highest number, so the time is that of
    /// the number's field manager. A revision that is older than its DaemonSet was adopted, which is also written by that manager,
    /// unless the template was written right before.
    pub fn numbered_at(&self, owner: &DaemonSet) -> Option<Timestamp> {
        let adopted = || owner.metadata.creation_timestamp.get().filter(|owner| self.is_older_than(*owner));
        let follows_template = |at: Timestamp, adopted: Timestamp| {
            let written = of_template(&owner.object).filter_map(time_of);
            let mut written = written.filter(|written| written.duration_since(adopted) > REACTION);
            written.any(|written| (SignedDuration::ZERO..=REACTION).contains(&at.duration_since(written)))
        };
        self.numbered_at_latest()
            .filter(|at| adopted().is_none_or(|adopted| *at < adopted || follows_template(*at, adopted)))
    }

    fn is_older_than(&self, owner: Timestamp) -> bool {
        self.metadata.creation_timestamp.get().is_some_and(|created| created < owner)
    }

    /// Returns when the number's field manager last wrote the revision: the number is at least that old.
    pub fn numbered_at_latest(&self) -> Option<Timestamp> {
        // A redacted dump contains the managers, but not their fields.
        let numbers = |entry: &&Value| {
            entry.get("fieldsV1").and_then(Value::as_object).is_none_or(|fields| fields.contains_key("f:revision"))
        };
        managed_fields(&self.object).iter().filter(numbers).filter_map(time_of).max()
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ControllerRevision, DaemonSet};

    fn revision(object: Value) -> ControllerRevision {
        ControllerRevision::from_object(object).unwrap()
    }

    #[test]
    fn the_template_is_the_patch_without_its_directive_and_nulls() {
        let data = json!({"spec": {"template": {
            "$patch": "replace",
            "metadata": {"creationTimestamp": null, "labels": {"app": "a"}},
            "spec": {"containers": [{"name": "a", "image": "a:1"}], "fromTheFuture": {"x": 1}},
        }}});
        assert_eq!(
            revision(json!({"data": data})).template().unwrap().value(),
            &json!({"metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "a", "image": "a:1"}], "fromTheFuture": {"x": 1}}})
        );
    }

    #[test]
    fn data_that_holds_no_template_says_what_it_holds() {
        for (object, problem) in [
            (json!({}), "it has no data"),
            (json!({"data": null}), "it has no data"),
            (json!({"data": {"spec": 5}}), "its data has no spec.template"),
            (json!({"data": "text"}), "its data has no spec.template"),
            (json!({"data": {"spec": {"template": [1]}}}), "its data has a spec.template that is a list"),
            (json!({"data": {"spec": {"template": {"spec": {}}}}}), "its template has no containers"),
            (json!({"data": {"spec": {"template": {"spec": {"containers": [1]}}}}}), "its template has no containers"),
        ] {
            assert_eq!(revision(object.clone()).template().unwrap_err(), problem, "{object}");
        }
    }

    #[test]
    fn rolled_out_is_when_the_number_was_given() {
        let entry = |time: &str, fields: Value| json!({"manager": "m", "time": time, "fieldsV1": fields});
        let managed = json!([
            entry("2026-11-01T00:00:00Z", json!({"f:data": {}, "f:revision": {}})),
            entry("2026-11-09T00:00:00Z", json!({"f:metadata": {}})),
        ]);
        let owner = |created: &str| {
            let created = json!({"metadata": {"creationTimestamp": created}});
            DaemonSet::from_object(created).unwrap()
        };
        let metadata = |managed: &Value| json!({"creationTimestamp": "2026-10-09T00:00:00Z", "managedFields": managed});
        let of =
            |managed: &Value, owner: &DaemonSet| revision(json!({"metadata": metadata(managed)})).numbered_at(owner);
        let with = |managed: Value| of(&managed, &owner("2026-10-09T00:00:00Z"));
        assert_eq!(with(managed.clone()).unwrap().to_string(), "2026-11-01T00:00:00Z");
        assert_eq!(with(json!([{"time": "2026-11-02T00:00:00Z"}])).unwrap().to_string(), "2026-11-02T00:00:00Z");
        assert_eq!(with(json!([])), None);
        assert_eq!(revision(json!({})).numbered_at(&owner("2026-10-09T00:00:00Z")), None);
        // It has outlived its DaemonSet: the same manager wrote the object when another one adopted it.
        assert_eq!(of(&managed, &owner("2026-10-31T00:00:00Z")), None);
    }
}
