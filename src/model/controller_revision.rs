//! ControllerRevisions: the templates that a DaemonSet has had.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::daemon_set::{annotations, drop_nulls};
use super::metadata::{CONTROLLER_REVISION_HASH_LABEL, ObjectMeta};

/// A revision: one template, with a number that says how recent it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ControllerRevision {
    /// Name, labels and owner.
    pub metadata: ObjectMeta,
    /// Annotations, copied from the owner when the revision was made.
    pub annotations: BTreeMap<String, String>,
    /// The number: the highest is the current one.
    pub revision: i64,
    /// The whole object, as it was read.
    pub object: Value,
}

impl ControllerRevision {
    /// Reads a revision from the whole object.
    ///
    /// # Errors
    ///
    /// Fails where a field has the wrong type, and says where.
    pub fn from_object(object: Value) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Slim {
            metadata: ObjectMeta,
            revision: i64,
        }
        let mut slim = object.clone();
        drop_nulls(&mut slim);
        let Slim { metadata, revision } = Slim::deserialize(&slim)?;
        Ok(ControllerRevision { metadata, annotations: annotations(&slim), revision, object })
    }

    /// Returns the hash that pods of this revision carry, empty where the label is missing.
    pub fn hash(&self) -> &str {
        self.metadata.labels.get(CONTROLLER_REVISION_HASH_LABEL).map_or("", String::as_str)
    }
}
