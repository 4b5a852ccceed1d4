//! What an API server rejects in a DaemonSet, next to what the program rejects from a dump.

use std::collections::BTreeSet;
use std::path::PathBuf;

use kubectl_ds::cluster::manifest::read_daemon_sets;
use kubectl_ds::validation::problems_of_daemon_set;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What becomes of a manifest that is sent to an API server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It is stored.
    Accepted,
    /// It cannot be decoded.
    Undecodable,
    /// These fields are refused.
    Refused(BTreeSet<String>),
}

impl Answer {
    pub fn refused(paths: impl IntoIterator<Item = String>) -> Self {
        // The user of a file is dropped, because its feature is disabled, but in an odd way if a volume has two sources.
        let is_dropped = |path: &String| path.ends_with(".user") || path.ends_with(".defaultUser");
        Answer::Refused(paths.into_iter().filter(|path| !is_dropped(path)).collect())
    }

    /// Returns what the program says: of what cannot be decoded it knows the path better than the server.
    pub fn ours(object: &Value) -> Self {
        let problems = problems_of_daemon_set(object, object);
        match problems.is_empty() {
            true => Answer::Accepted,
            false => Answer::refused(problems.into_iter().map(|problem| problem.path)),
        }
    }

    /// Tells whether the program may say what it does if this is what Kubernetes says.
    pub fn allows(&self, ours: &Answer) -> bool {
        match (self, ours) {
            (Answer::Undecodable, ours) => *ours != Answer::Accepted,
            // Containers of that kind are refused as a whole; what else is wrong with them is left out.
            (Answer::Refused(paths), Answer::Refused(_)) if paths.iter().any(|path| path.contains("ephemeralC")) => {
                true
            }
            _ => self == ours,
        }
    }
}

/// Returns the manifests that changes begin with.
pub fn manifests() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/validation/manifests.yaml");
    let read = read_daemon_sets(&[path.to_owned()], &mut std::io::empty(), None, "default").unwrap();
    read.daemon_sets.iter().map(|manifest| manifest.object().clone()).collect()
}

/// A manifest, and what Kubernetes says.
#[derive(Serialize, Deserialize)]
pub struct Line {
    pub manifest: Value,
    pub answer: Answer,
}

/// Returns where answers are checked in.
pub fn recording() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/validation/1.37.2.jsonl.gz"))
}
