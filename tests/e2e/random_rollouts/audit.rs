//! Who deleted which pod, from the audit log of the API server.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};

/// Who deleted a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleter {
    Controller,
    Other,
    Both,
}

/// The audit log, as far as it has been read.
pub struct Audit {
    _folder: tempfile::TempDir,
    log: PathBuf,
    read: Mutex<Reading>,
}

#[derive(Default)]
struct Reading {
    offset: u64,
    rest: String,
    controller: HashSet<(String, String)>,
    others: HashSet<(String, String)>,
}

impl Audit {
    /// Writes a policy that logs deletions of pods.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [
                {"level": "Metadata", "verbs": ["delete", "deletecollection"],
                    "resources": [{"group": "", "resources": ["pods"]}]},
                // The taint manager and others evict.
                {"level": "Metadata", "verbs": ["create"],
                    "resources": [{"group": "", "resources": ["pods/eviction"]}]},
                {"level": "None"},
            ],
        });
        fs::write(folder.path().join("policy.json"), policy.to_string()).unwrap();
        let log = folder.path().join("audit.log");
        Audit { _folder: folder, log, read: Mutex::default() }
    }

    /// Returns the flags of the API server.
    pub fn flags(&self) -> Vec<String> {
        let policy = self.log.with_file_name("policy.json");
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        vec![
            flag("audit-policy-file", &policy),
            flag("audit-log-path", &self.log),
            "--audit-log-maxsize=2000".to_owned(),
        ]
    }

    /// Returns who has deleted the pods of a namespace, by name.
    pub fn deleters(&self, namespace: &str) -> HashMap<String, Deleter> {
        let mut reading = self.read.lock().unwrap();
        let Reading { offset, rest, controller, others } = &mut *reading;
        if let Ok(mut file) = File::open(&self.log) {
            file.seek(SeekFrom::Start(*offset)).unwrap();
            *offset += u64::try_from(file.read_to_string(rest).unwrap()).unwrap();
        }
        let complete = rest.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = rest.drain(..complete).collect();
        for line in lines.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let object = &event["objectRef"];
            let (Some(namespace), Some(name)) = (object["namespace"].as_str(), object["name"].as_str()) else {
                continue;
            };
            // The tests themselves send none.
            let agent = event["userAgent"].as_str().unwrap_or_default();
            // KWOK removes pods as a kubelet does: only if they are terminating.
            if event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300) && !agent.contains("kwok") {
                let is_controller = agent.contains("daemon-set-controller");
                let of = if is_controller { &mut *controller } else { &mut *others };
                of.insert((namespace.to_owned(), name.to_owned()));
            }
        }
        let mut deleters = HashMap::new();
        for (_, name) in controller.iter().filter(|(of, _)| of == namespace) {
            deleters.insert(name.clone(), Deleter::Controller);
        }
        for (_, name) in others.iter().filter(|(of, _)| of == namespace) {
            let by = deleters.entry(name.clone()).or_insert(Deleter::Other);
            if *by == Deleter::Controller {
                *by = Deleter::Both;
            }
        }
        deleters
    }
}
