//! The revisions of a DaemonSet: which belong to it, which one is current, and how users refer to them.

use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet, Flavor};
use crate::model::metadata::OwnerReference;
use crate::model::pod::Pod;
use crate::model::snapshot::Snapshot;
use crate::model::template::Template;
use crate::report::history::{DaemonSetName, SkippedRevision};

/// The revisions of one DaemonSet.
#[derive(Debug)]
pub struct Revisions<'a> {
    /// The DaemonSet.
    pub daemon_set: &'a DaemonSet,
    /// The live template.
    pub live: Template,
    /// The revisions, the newest first.
    pub all: Vec<Revision<'a>>,
    /// Revisions that match the selector but belong to another owner.
    pub skipped: Vec<SkippedRevision>,
}

/// A revision with its template.
#[derive(Debug)]
pub struct Revision<'a> {
    /// The revision.
    pub object: &'a ControllerRevision,
    /// Its template, or why it cannot be read.
    pub template: Result<Template, String>,
    /// Whether it is the newest revision that is equivalent to the live template.
    pub is_current: bool,
}

impl Revision<'_> {
    /// Returns the number.
    pub fn number(&self) -> i64 {
        self.object.revision
    }
}

/// How a user refers to a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address {
    /// The revision of this number.
    Number(i64),
    /// N revisions before the current one.
    Back(usize),
    /// The template of the DaemonSet itself.
    Live,
}

/// Why no template was found at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unknown {
    /// The revision does not exist.
    NoSuchRevision,
    /// The revision's template cannot be read, with the problem as a fragment.
    Unreadable(i64, String),
}

impl<'a> Revisions<'a> {
    /// Finds the revisions of a DaemonSet in a snapshot.
    ///
    /// As `controlledHistories` of pkg/controller/daemon/update.go, release 1.36.3, does, it takes those that the
    /// DaemonSet controls, and those without a controller that it is about to adopt.
    pub fn of(daemon_set: &'a DaemonSet, snapshot: &'a Snapshot) -> Self {
        let live = daemon_set.template();
        let (mut all, mut skipped) = (Vec::new(), Vec::new());
        let in_namespace =
            |revision: &&ControllerRevision| revision.metadata.namespace == daemon_set.metadata.namespace;
        for object in snapshot.controller_revisions.iter().filter(in_namespace) {
            let matches = daemon_set.spec.selector.matches(&object.metadata.labels);
            match object.metadata.controller() {
                Some(owner) if owner.uid == daemon_set.metadata.uid => {
                    all.push(Revision { object, template: object.template(), is_current: false });
                }
                None if matches && !daemon_set.metadata.is_terminating() && !object.metadata.is_terminating() => {
                    all.push(Revision { object, template: object.template(), is_current: false });
                }
                owner if matches => {
                    let reason =
                        owner.map_or_else(|| "it has no owner".to_owned(), |owner| belongs_to(owner, daemon_set));
                    skipped.push(SkippedRevision { name: object.metadata.name.clone(), reason });
                }
                _ => {}
            }
        }
        all.sort_by(|one, other| {
            (other.number(), &one.object.metadata.name).cmp(&(one.number(), &other.object.metadata.name))
        });
        skipped.sort_by(|one, other| one.name.cmp(&other.name));
        let is_live = |revision: &&mut Revision<'_>| {
            revision.template.as_ref().is_ok_and(|template| template.same_meaning(&live))
        };
        if let Some(current) = all.iter_mut().find(is_live) {
            current.is_current = true;
        }
        Revisions { daemon_set, live, all, skipped }
    }

    /// Returns the revision of the live template; `None` if the controller has not created it yet.
    pub fn current(&self) -> Option<&Revision<'a>> {
        self.all.iter().find(|revision| revision.is_current)
    }

    /// Returns the revision that a pod was created from; `None` if it no longer exists.
    pub(super) fn of_pod(&self, pod: &Pod) -> Option<&Revision<'a>> {
        let hash = Some(pod.revision_hash()).filter(|hash| !hash.is_empty())?;
        self.all.iter().find(|revision| revision.object.hash() == hash)
    }

    /// Returns the revision with a number.
    pub fn number(&self, number: i64) -> Option<&Revision<'a>> {
        self.all.iter().find(|revision| revision.number() == number)
    }

    /// Returns the revision `steps` before the current one, or before the live template if it is not a revision yet.
    pub fn back(&self, steps: usize) -> Option<&Revision<'a>> {
        match self.all.iter().position(|revision| revision.is_current) {
            Some(current) => self.all.get(current + steps),
            None => self.all.get(steps.checked_sub(1)?),
        }
    }

    /// Returns the default revision to roll back to: the newest readable one whose template is not equivalent
    /// to the live one.
    pub fn default_target(&self) -> Option<(&Revision<'a>, &Template)> {
        self.all.iter().find_map(|revision| {
            let template = revision.template.as_ref().ok()?;
            (!template.same_meaning(&self.live)).then_some((revision, template))
        })
    }

    /// Returns the template at an address, and its revision if it has one.
    ///
    /// # Errors
    ///
    /// Fails if the revision does not exist or its template cannot be read.
    pub fn find(&self, address: Address) -> Result<(Option<&Revision<'a>>, &Template), Unknown> {
        let revision = match address {
            Address::Live => return Ok((self.current(), &self.live)),
            Address::Number(number) => self.number(number),
            Address::Back(steps) => self.back(steps),
        };
        let revision = revision.ok_or(Unknown::NoSuchRevision)?;
        match &revision.template {
            Ok(template) => Ok((Some(revision), template)),
            Err(problem) => Err(Unknown::Unreadable(revision.number(), problem.clone())),
        }
    }
}

/// Returns the name of a DaemonSet for a report.
pub fn name_of(daemon_set: &DaemonSet) -> DaemonSetName {
    DaemonSetName {
        api_version: daemon_set.api_version().to_owned(),
        namespace: daemon_set.metadata.namespace.clone(),
        name: daemon_set.metadata.name.clone(),
    }
}

/// Returns the name of the controller that creates the DaemonSet's revisions, for messages.
pub fn controller_of(daemon_set: &DaemonSet) -> &'static str {
    match daemon_set.flavor() {
        Flavor::Apps => "the DaemonSet controller",
        Flavor::Advanced => "the OpenKruise controller",
    }
}

fn belongs_to(owner: &OwnerReference, daemon_set: &DaemonSet) -> String {
    let (version, name) = (daemon_set.api_version(), &daemon_set.metadata.name);
    if (owner.kind.as_str(), owner.api_version.as_str(), &owner.name) == ("DaemonSet", version, name) {
        return "it belongs to a former DaemonSet of this name".to_owned();
    }
    let kind = match owner.kind.as_str() {
        "DaemonSet" if owner.api_version.starts_with(ADVANCED_GROUP) => "Advanced DaemonSet",
        kind => kind,
    };
    format!("it belongs to {kind} {}", owner.name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Revisions;
    use crate::coverage::test_support::{at, world};
    use crate::model::controller_revision::ControllerRevision;

    #[test]
    fn revisions_of_others_are_skipped_with_the_reason_if_their_labels_match() {
        let owner = |kind: &str, api_version: &str, name: &str, uid: &str| {
            let owner = json!({"kind": kind, "apiVersion": api_version, "name": name, "uid": uid, "controller": true});
            json!([owner])
        };
        let matching = || json!({"labels": {"app": "agent"}});
        for (mut metadata, owners, taken, skipped) in [
            (matching(), owner("DaemonSet", "apps/v1", "agent", "agent-uid"), 1, None),
            // The controller adopts a revision without an owner, unless it is being deleted.
            (matching(), json!([]), 1, None),
            (json!({}), json!([]), 0, None),
            (
                json!({"labels": {"app": "agent"}, "deletionTimestamp": at("11:59:00")}),
                json!([]),
                0,
                Some("it has no owner"),
            ),
            (
                matching(),
                owner("DaemonSet", "apps/v1", "agent", "former"),
                0,
                Some("it belongs to a former DaemonSet of this name"),
            ),
            (matching(), owner("DaemonSet", "apps/v1", "other", "o"), 0, Some("it belongs to DaemonSet other")),
            (matching(), owner("StatefulSet", "apps/v1", "agent", "o"), 0, Some("it belongs to StatefulSet agent")),
            (
                matching(),
                owner("DaemonSet", "apps.kruise.io/v1beta1", "agent", "o"),
                0,
                Some("it belongs to Advanced DaemonSet agent"),
            ),
            (json!({}), owner("StatefulSet", "apps/v1", "db", "o"), 0, None),
        ] {
            metadata["name"] = json!("r");
            metadata["namespace"] = json!("default");
            metadata["ownerReferences"] = owners;
            let mut world = world();
            let revision: Value = json!({"metadata": metadata, "revision": 1});
            world.snapshot.controller_revisions = vec![ControllerRevision::from_object(revision.clone()).unwrap()];
            let snapshot = world.finish();
            let revisions = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
            let reasons: Vec<&str> = revisions.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
            assert_eq!((revisions.all.len(), reasons), (taken, skipped.into_iter().collect()), "{revision}");
        }
    }
}
