//! A snapshot, looked up by what the rules ask for: pods by DaemonSet and by node, events by object.
//!
//! Each index is built in one pass, so that an analysis stays linear in the size of the snapshot.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use super::revisions::Revisions;
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, Snapshot};
use crate::scheduling::daemon_pods;

/// A snapshot with its indices.
pub struct Index<'a> {
    /// What is indexed.
    pub snapshot: &'a Snapshot,
    /// The nodes, by name.
    pub nodes: Vec<&'a Node>,
    numbers: HashMap<&'a str, usize>,
    owned: HashMap<&'a str, Vec<&'a Pod>>,
    orphans: HashMap<&'a str, Vec<&'a Pod>>,
    /// By namespace.
    controller_revisions: HashMap<&'a str, Vec<&'a ControllerRevision>>,
    bound: OnceCell<HashMap<&'a str, Vec<&'a Pod>>>,
    nominated: OnceCell<HashMap<&'a str, Vec<&'a Pod>>>,
    events: OnceCell<HashMap<ObjectKey<'a>, Vec<&'a Event>>>,
}

/// Kind, namespace and name.
type ObjectKey<'a> = (&'a str, &'a str, &'a str);

fn sorted<'a>(daemon_sets: impl Iterator<Item = &'a DaemonSet>) -> Vec<&'a DaemonSet> {
    let mut daemon_sets: Vec<&DaemonSet> = daemon_sets.collect();
    daemon_sets.sort_by_key(|daemon_set| (&daemon_set.metadata.namespace, &daemon_set.metadata.name));
    daemon_sets
}

impl<'a> Index<'a> {
    /// Indexes a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let mut nodes: Vec<&Node> = snapshot.nodes.iter().collect();
        nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let numbers = nodes.iter().enumerate().map(|(number, node)| (node.metadata.name.as_str(), number)).collect();

        let mut owned: HashMap<&str, Vec<&Pod>> = snapshot
            .daemon_sets_of_any_flavor()
            .map(|daemon_set| (daemon_set.metadata.uid.as_str(), Vec::new()))
            .collect();
        let mut orphans: HashMap<&str, Vec<&Pod>> = HashMap::new();
        for pod in &snapshot.pods {
            match pod.metadata.controller() {
                Some(owner) => {
                    if let Some(pods) = owned.get_mut(owner.uid.as_str()) {
                        pods.push(pod);
                    }
                }
                None => orphans.entry(&pod.metadata.namespace).or_default().push(pod),
            }
        }

        let mut controller_revisions: HashMap<&str, Vec<&ControllerRevision>> = HashMap::new();
        for revision in &snapshot.controller_revisions {
            controller_revisions.entry(&revision.metadata.namespace).or_default().push(revision);
        }
        let (bound, nominated, events) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Index { snapshot, nodes, numbers, owned, orphans, controller_revisions, bound, nominated, events }
    }

    /// Returns the DaemonSets, by namespace and name.
    pub fn daemon_sets(&self) -> Vec<&'a DaemonSet> {
        sorted(self.snapshot.daemon_sets.iter())
    }

    /// Returns Kubernetes' own DaemonSets and OpenKruise's, by namespace and name.
    pub fn daemon_sets_of_any_flavor(&self) -> Vec<&'a DaemonSet> {
        sorted(self.snapshot.daemon_sets_of_any_flavor())
    }

    /// Returns the node of that name.
    pub fn node(&self, name: &str) -> Option<&'a Node> {
        self.number(name).map(|number| self.nodes[number])
    }

    /// Returns the number of the node of that name in [`Index::nodes`].
    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// Returns the pods that a DaemonSet controls, and those that it may adopt.
    fn possible_pods_of(&self, daemon_set: &DaemonSet) -> impl Iterator<Item = &'a Pod> {
        let owned = self.owned.get(daemon_set.metadata.uid.as_str());
        let orphans = self.orphans.get(daemon_set.metadata.namespace.as_str());
        owned.into_iter().chain(orphans).flatten().copied()
    }

    /// Returns the pods that the controller counts as a DaemonSet's, with the nodes that they are bound to or meant for.
    pub fn pods_of(&self, daemon_set: &DaemonSet) -> impl Iterator<Item = (&'a str, &'a Pod)> {
        let counted = self.possible_pods_of(daemon_set).filter(|pod| daemon_pods::is_counted(daemon_set, pod));
        counted.filter_map(|pod| Some((daemon_pods::target_node(pod)?, pod)))
    }

    /// Finds the revisions of a DaemonSet.
    pub(super) fn revisions(&self, daemon_set: &'a DaemonSet) -> Revisions<'a> {
        let in_namespace = self.controller_revisions.get(daemon_set.metadata.namespace.as_str());
        let in_namespace = in_namespace.into_iter().flatten().copied();
        Revisions::among(daemon_set, in_namespace, self.possible_pods_of(daemon_set), self.now())
    }

    /// Returns the pods that are bound to a node, ended ones among them.
    pub fn bound_to(&self, node: &str) -> &[&'a Pod] {
        let bound = self.bound.get_or_init(|| self.pods_by_node(|pod| &pod.spec.node_name));
        bound.get(node).map_or(&[], Vec::as_slice)
    }

    /// Returns the pods that are not bound yet and for which the scheduler keeps room on a node.
    pub fn nominated_for(&self, node: &str) -> &[&'a Pod] {
        let nominated = self.nominated.get_or_init(|| {
            self.pods_by_node(|pod| if pod.spec.node_name.is_empty() { &pod.status.nominated_node_name } else { "" })
        });
        nominated.get(node).map_or(&[], Vec::as_slice)
    }

    fn pods_by_node(&self, node_of: impl Fn(&'a Pod) -> &'a str) -> HashMap<&'a str, Vec<&'a Pod>> {
        let mut by_node: HashMap<&str, Vec<&Pod>> = HashMap::new();
        for pod in &self.snapshot.pods {
            let node = node_of(pod);
            if !node.is_empty() {
                by_node.entry(node).or_default().push(pod);
            }
        }
        by_node
    }

    /// Returns the events about an object, newest first; those about a former object of the same name
    /// are left out.
    pub fn events_about(&self, kind: &str, object: &ObjectMeta) -> Vec<&'a Event> {
        let events = self.events.get_or_init(|| {
            let mut events: HashMap<ObjectKey, Vec<&Event>> = HashMap::new();
            for event in &self.snapshot.events {
                let about = &event.involved_object;
                events.entry((&about.kind, &about.namespace, &about.name)).or_default().push(event);
            }
            events
        });
        let of_this_name = events.get(&(kind, object.namespace.as_str(), object.name.as_str()));
        let same = |uid: &str| uid.is_empty() || object.uid.is_empty() || uid == object.uid;
        let mut about: Vec<&Event> =
            of_this_name.into_iter().flatten().copied().filter(|event| same(&event.involved_object.uid)).collect();
        about.sort_by_key(|event| Reverse(event.last_seen()));
        about
    }

    /// Tells whether a kind of object could be read in a namespace.
    pub fn knows(&self, kind: Kind, namespace: &str) -> bool {
        self.snapshot.gap(kind, namespace).is_none()
    }

    /// Returns the point in time that ages are counted from.
    pub fn now(&self) -> Timestamp {
        self.snapshot.now
    }
}

/// Returns the nodes whose free room must be known although not all of their pods were read: those that a pod waits for.
pub fn nodes_needing_all_pods(snapshot: &Snapshot) -> BTreeSet<String> {
    let index = Index::new(snapshot);
    let waits = |pod: &Pod| pod.spec.node_name.is_empty() && !pod.is_terminal();
    let mut nodes = BTreeSet::new();
    for daemon_set in &snapshot.daemon_sets {
        let waiting = index.pods_of(daemon_set).filter(|(_, pod)| waits(pod)).map(|(node, _)| node);
        let needed = waiting.filter(|node| index.node(node).is_some() && !snapshot.knows_all_pods_on(node));
        nodes.extend(needed.map(str::to_owned));
    }
    nodes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Index, nodes_needing_all_pods};
    use crate::facts::test_support::world;
    use crate::model::snapshot::PodsComplete;

    #[test]
    fn events_about_a_former_object_of_the_same_name_are_left_out() {
        for (event_uid, object_uid, is_about) in [
            ("now", "now", true),
            ("before", "now", false),
            // An event by hand, or an object from a dump, may have none.
            ("", "now", true),
            ("now", "", true),
        ] {
            let mut world =
                world().node("n", json!({"metadata": {"uid": object_uid}})).event("Node", "n", "R", "m", "11:59:00");
            let about = &mut world.snapshot.events[0].involved_object;
            (about.uid, about.namespace) = (event_uid.to_owned(), String::new());
            let snapshot = world.finish();
            let index = Index::new(&snapshot);
            let events = index.events_about("Node", &snapshot.nodes[0].metadata);
            assert_eq!(!events.is_empty(), is_about, "{event_uid:?} {object_uid:?}");
        }
    }

    #[test]
    fn all_pods_are_needed_of_the_nodes_that_a_pod_waits_for_and_whose_pods_were_not_read() {
        let mut snapshot = world()
            .node("bound", json!({}))
            .pod("agent-bound", "bound", json!({}))
            .node("ended", json!({}))
            .pending_pod("agent-ended", "ended", "", json!({"status": {"phase": "Failed"}}))
            .node("read", json!({}))
            .pending_pod("agent-read", "read", "", json!({}))
            .node("waits", json!({}))
            .pending_pod("agent-waits", "waits", "", json!({}))
            .pending_pod("agent-gone", "gone", "", json!({}))
            .finish();
        snapshot.pods_complete = PodsComplete::On(["read".to_owned()].into());
        assert_eq!(nodes_needing_all_pods(&snapshot), ["waits".to_owned()].into());
    }
}
