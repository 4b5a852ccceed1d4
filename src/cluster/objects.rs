//! Collects the objects of a dump, each in the form that reports use, and what they tell about the dump itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;

use super::dump_header::Header;
use super::needs::{Cluster, Needs};
use super::newest_time::NewestTimes;
use super::object::Object;
use super::projection::{
    SharedKeys, SharedParts, drop_unfiltered_volumes, foreign_pod, keep_node, own_pod, takes_room,
};
use super::type_meta::TypeMeta;
use crate::model::config_object::ConfigObject;
use crate::model::daemon_set::DaemonSet;
use crate::model::event::Event;
use crate::model::kind::{Place, with_place};
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, Snapshot};
use crate::model::storage::PersistentVolumeClaim;
use crate::model::time::Time;
use crate::model::wire::without_struct;
use crate::model::written::{WrittenNode, WrittenObject};

/// Namespaces that every cluster has and nobody runs pods in: a dump that contains them covers all namespaces.
const IDLE_NAMESPACES: [&str; 2] = ["kube-node-lease", "kube-public"];

/// The most objects that are kept from a dump: more than ten times those of the largest cluster that upstream supports.
/// This bounds memory, however small a compressed dump is.
pub(super) const MAX_OBJECTS: usize = 2_000_000;

/// The objects that an object kept whole counts as additionally, besides one per [`WHOLE_OBJECT_BYTES`] of its text.
const WHOLE_OBJECT: usize = 20;
const WHOLE_OBJECT_BYTES: usize = 100;

/// The most other kinds that are counted, and the most bytes of their names.
const MAX_OTHERS: usize = 1_000;
const MAX_NAME: usize = 253;

/// The most unreadable objects before the whole dump counts as unreadable.
const MAX_UNREADABLE: usize = 1_000;

/// An object of which only the name is used.
#[derive(Deserialize)]
pub(super) struct NamedObject {
    metadata: Name,
}

#[derive(Deserialize)]
struct Name {
    #[serde(default)]
    namespace: String,
    name: String,
}

/// The most objects of which only the name is kept.
const MAX_NAMES: usize = 200_000;

/// The objects found so far.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// What is kept.
    pub(super) needs: Needs,
    /// The objects that are kept. The rest of the snapshot is determined at the end.
    pub(super) snapshot: Snapshot,
    /// The bound pods of other controllers.
    pub(super) foreign_pods: PackedPods,
    pub(super) shared: SharedParts,
    /// Like `shared`, for the managers of nodes.
    pub(super) shared_keys: SharedKeys,
    /// The kinds of which there was an object, or an empty list.
    pub(super) kinds: BTreeSet<Kind>,
    /// The kinds of the truncated lists in files of a directory or archive.
    pub(super) truncated: BTreeSet<Kind>,
    /// What dumps say about themselves.
    pub(super) headers: Vec<Header>,
    /// Number of objects of other kinds.
    pub(super) others: BTreeMap<String, usize>,
    /// Number of DaemonSets that no cluster has stored.
    pub(super) manifests: usize,
    /// Whether there was a DaemonSet of another version than apps/v1.
    pub(super) has_other_daemon_sets: bool,
    /// Whether a list shows that it has the pods of all namespaces.
    pub(super) pods_everywhere: bool,
    /// Whether a list with pods was requested for all namespaces, perhaps with a selector.
    pub(super) lists_all_namespaces: bool,
    /// The namespaces whose pods were listed.
    pub(super) pod_namespaces: BTreeSet<String>,
    /// The newest times at which anything happened, including dropped objects.
    pub(super) newest_times: NewestTimes,
    /// The objects of an unexpected shape.
    pub(super) unreadable: Vec<Unreadable>,
    /// Number of kept objects. Large ones count as several.
    pub(super) kept: usize,
}

/// An object of an unexpected shape, which was skipped.
#[derive(Debug, Clone)]
pub(super) struct Unreadable {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Its position and the error, such as `dump.json: line 3: spec.taints: invalid type: …`.
    pub(super) problem: String,
    /// The node of a pod.
    pub(super) node: Option<String>,
    /// Whether it is a pod of a controller other than a DaemonSet.
    pub(super) is_foreign: bool,
}

/// Pods of other controllers, by node, encoded to take little memory until the free resources of a node are needed.
#[derive(Debug, Default)]
pub(super) struct PackedPods(BTreeMap<String, Vec<u8>>);

impl PackedPods {
    fn add(&mut self, pod: Pod) {
        let node = if pod.spec.node_name.is_empty() { &pod.status.nominated_node_name } else { &pod.spec.node_name };
        let (node, version) = (node.clone(), pod.metadata.resource_version.clone());
        let mut pod = foreign_pod(pod);
        pod.metadata.resource_version = version;
        let encoded = self.0.entry(node).or_default();
        encoded.reserve_exact(pod.encoded_len() + 2);
        // A vector grows.
        let _ = pod.encode_length_delimited(encoded);
    }

    /// Removes and returns the pods of a node.
    pub(super) fn take(&mut self, node: &str) -> Vec<Pod> {
        let encoded = self.0.remove(node).unwrap_or_default();
        let mut rest = encoded.as_slice();
        let mut pods = Vec::new();
        while let Ok(pod) = Pod::decode_length_delimited(&mut rest) {
            pods.push(pod);
        }
        newest(&mut pods);
        pods
    }
}

/// What one list reveals about the request that returned it.
#[derive(Debug, Default)]
pub(super) struct Reach {
    namespaces: BTreeSet<String>,
    pod_namespaces: BTreeSet<String>,
    /// Whether it has a pod of another controller, so that it was not a list of the pods of some DaemonSet.
    has_other_pods: bool,
}

impl Objects {
    /// Decodes and adds an object.
    pub(super) fn add<'de, D: Deserializer<'de>>(
        &mut self,
        kind: Kind,
        deserializer: D,
        reach: &mut Reach,
    ) -> Result<(), D::Error> {
        let noted = match kind {
            Kind::DaemonSets => {
                let daemon_set: DaemonSet = typed(kind, deserializer)?;
                if is_manifest(&daemon_set) {
                    self.manifests += 1;
                    return Ok(());
                }
                self.keep(daemon_set, |kept| &mut kept.daemon_sets)
            }
            Kind::Nodes => {
                let node = match self.needs.cluster {
                    Cluster::Writes => {
                        let node = WrittenNode::from_object(Value::deserialize(deserializer)?);
                        let mut node = node.map_err(D::Error::custom)?;
                        self.shared_keys.share(&mut node);
                        self.snapshot.note_writes(node)
                    }
                    Cluster::Nothing | Cluster::Nodes => Node::deserialize(deserializer)?,
                };
                let is_complete = self.needs.keeps_whole(&node.metadata.name);
                self.keep(keep_node(node, is_complete), |kept| &mut kept.nodes)
            }
            Kind::Pods => {
                let pod = Pod::deserialize(deserializer)?;
                note(&mut reach.pod_namespaces, &pod.metadata.namespace);
                note(&mut self.pod_namespaces, &pod.metadata.namespace);
                let controller = pod.metadata.controller();
                reach.has_other_pods |= controller.is_none_or(|owner| owner.kind != "DaemonSet");
                self.keep_pod(pod)
            }
            Kind::Events => {
                let event = Event::deserialize(deserializer)?;
                let concerns = matches!(event.involved_object.kind.as_str(), "DaemonSet" | "Pod" | "Node");
                if !self.needs.everything && !concerns {
                    self.newest_times.note(&event);
                    self.kinds.insert(kind);
                    note(&mut reach.namespaces, &event.metadata.namespace);
                    return Ok(());
                }
                self.keep(event, |kept| &mut kept.events)
            }
            Kind::ConfigMaps | Kind::Secrets => {
                let object = ConfigObject::deserialize(deserializer)?;
                let (namespace, name) = (object.metadata.namespace.clone(), object.metadata.name.clone());
                self.keep_name(kind.api_names().1, namespace, name);
                if object.metadata.creation_timestamp == Time::default() {
                    let (api_version, kind, _) = kind.api_names();
                    self.count_other(api_version, kind);
                    return Ok(());
                }
                if !self.needs.scope.config {
                    Ok(object.metadata.namespace)
                } else if kind == Kind::Secrets {
                    self.keep(object, |kept| &mut kept.secrets)
                } else {
                    self.keep(object, |kept| &mut kept.config_maps)
                }
            }
            Kind::PersistentVolumeClaims => {
                let claim: PersistentVolumeClaim = typed(kind, deserializer)?;
                self.keep_name(kind.api_names().1, claim.metadata.namespace.clone(), claim.metadata.name.clone());
                self.keep(claim, |kept| &mut kept.persistent_volume_claims)
            }
            _ => with_place!(kind, place => self.keep(typed(kind, deserializer)?, place.of_mut))
                .unwrap_or(Err("is not kept")),
        };
        self.kinds.insert(kind);
        note(&mut reach.namespaces, &noted.map_err(D::Error::custom)?);
        Ok(())
    }

    /// Adds an object of a kind; returns its namespace.
    fn keep<T: Object>(
        &mut self,
        object: T,
        objects: fn(&mut Snapshot) -> &mut Vec<T>,
    ) -> Result<String, &'static str> {
        let namespace = count(&mut self.kept, &object)?;
        self.newest_times.note(&object);
        objects(&mut self.snapshot).push(object);
        Ok(namespace)
    }

    /// Counts an object that is kept whole, by the length of its text.
    pub(super) fn count_whole(&mut self, kind: Kind, length: usize) {
        self.kept += weight(kind, length) - 1;
    }

    /// Returns whether the limit of objects is reached.
    pub(super) fn is_full(&self) -> bool {
        self.kept >= MAX_OBJECTS
    }

    fn keep_pod(&mut self, mut pod: Pod) -> Result<String, &'static str> {
        if self.needs.everything {
            drop_unfiltered_volumes(&mut pod);
            return self.keep(pod, |kept| &mut kept.pods);
        }
        self.newest_times.note(&pod);
        // A pod without a controller may be adopted by a DaemonSet.
        if pod.metadata.controller().is_none_or(|owner| owner.kind == "DaemonSet") {
            let is_complete = self.needs.keeps_whole(&pod.spec.node_name);
            let mut pod = own_pod(pod, is_complete);
            self.shared.share(&mut pod);
            let namespace = count(&mut self.kept, &pod)?;
            self.snapshot.pods.push(pod);
            return Ok(namespace);
        }
        if !takes_room(&pod) {
            return Ok(pod.metadata.namespace);
        }
        let namespace = count(&mut self.kept, &pod)?;
        self.foreign_pods.add(pod);
        Ok(namespace)
    }

    /// Records an object that cannot be decoded. Fails if there are too many, in which case the dump itself is considered broken.
    pub(super) fn skip(&mut self, kind: Kind, object: &Value, problem: String) -> Result<(), String> {
        if self.unreadable.len() >= MAX_UNREADABLE {
            return Err(format!("more than {MAX_UNREADABLE} objects cannot be read, the last: {problem}"));
        }
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let mut controllers = owners.into_iter().flatten().filter(|owner| owner["controller"] == true);
        let namespace = text("/metadata/namespace");
        self.kinds.insert(kind);
        if kind == Kind::Pods {
            note(&mut self.pod_namespaces, &namespace);
        }
        self.unreadable.push(Unreadable {
            kind,
            namespace,
            name: text("/metadata/name"),
            problem,
            node: Some(text("/spec/nodeName")).filter(|node| !node.is_empty()),
            is_foreign: controllers.next().is_some_and(|owner| owner["kind"] != "DaemonSet"),
        });
        Ok(())
    }

    /// Derives from a whole list what it reveals about pods.
    ///
    /// One request reads one namespace or all of them. A list with objects of two namespaces is a list of all
    /// namespaces. If it has pods, it has all of them, unless they all belong to DaemonSets, which suggests a selector.
    pub(super) fn end_list(&mut self, listed: Option<Kind>, reach: &Reach, folder: Option<&str>) {
        self.kinds.extend(listed);
        let lists_all_namespaces = reach.namespaces.len() > 1 && !reach.pod_namespaces.is_empty();
        self.lists_all_namespaces |= lists_all_namespaces;
        self.pods_everywhere |= lists_all_namespaces && reach.has_other_pods;
        if let (Some(Kind::Pods), Some(folder)) = (listed, folder) {
            self.pods_everywhere |= IDLE_NAMESPACES.contains(&folder);
            note(&mut self.pod_namespaces, folder);
        }
    }

    /// Records an object of which only the name is used.
    pub(super) fn note_name(&mut self, type_: &TypeMeta, read: impl FnOnce() -> Option<NamedObject>) {
        if (&*type_.api_version, &*type_.kind) == ("v1", "ServiceAccount")
            && let Some(NamedObject { metadata: Name { namespace, name } }) = read()
        {
            self.keep_name(&type_.kind, namespace, name);
        }
    }

    fn keep_name(&mut self, kind: &str, namespace: String, name: String) {
        if self.snapshot.object_names.len() < MAX_NAMES {
            self.snapshot.object_names.insert((kind.to_owned(), namespace, name));
        }
    }

    /// Records the managers of an object that limits, labels, admits or changes pods, if wanted.
    pub(super) fn note_written(&mut self, type_: &TypeMeta, read: impl FnOnce() -> Option<Value>) {
        let is_of = |kind: &Kind| self.needs.cluster == Cluster::Writes && kind.is(&type_.api_version, &type_.kind);
        let kind = Kind::WRITTEN.into_iter().chain(Kind::ADMISSION).find(is_of);
        let object = kind.and_then(|kind| Some((kind, WrittenObject::from_object(read()?).ok()?)));
        if let Some((kind, object)) = object {
            self.kept += 1;
            self.snapshot.written_objects.entry(kind).or_default().push(object);
        }
    }

    /// Counts an object of another kind, or of another version of a kind.
    pub(super) fn count_other(&mut self, api_version: &str, kind: &str) {
        let is_name = !kind.is_empty() && kind.len() <= MAX_NAME && api_version.len() <= MAX_NAME;
        let name = if Kind::ALL.iter().any(|known| known.api_names().1 == kind) {
            self.has_other_daemon_sets |= kind == "DaemonSet";
            format!("{api_version} {kind}")
        } else {
            kind.to_owned()
        };
        if is_name && (self.others.len() < MAX_OTHERS || self.others.contains_key(&name)) {
            *self.others.entry(name).or_default() += 1;
        }
    }

    /// Sorts every kind by namespace and name, and keeps the newest version of each object.
    pub(super) fn keep_newest(&mut self) {
        for kind in Kind::every() {
            with_place!(kind, place => newest((place.of_mut)(&mut self.snapshot)));
        }
    }
}

/// Returns whether a DaemonSet lacks all fields that the API server adds when it stores one.
fn is_manifest(daemon_set: &DaemonSet) -> bool {
    let metadata = &daemon_set.metadata;
    metadata.uid.is_empty()
        && metadata.resource_version.is_empty()
        && metadata.creation_timestamp == Time::default()
        && daemon_set.object.get("status").is_none()
}

/// Counts an object to be kept, and returns its namespace. Fails if it has no name.
fn count(kept: &mut usize, object: &impl Object) -> Result<String, &'static str> {
    if object.metadata().name.is_empty() {
        return Err("metadata.name: is missing");
    }
    *kept += 1;
    Ok(object.metadata().namespace.clone())
}

/// Reads an object, which may lack its type in a typed list.
fn typed<'de, T: Object, D: Deserializer<'de>>(kind: Kind, deserializer: D) -> Result<T, D::Error> {
    let (api_version, kind, _) = kind.api_names();
    let mut object = T::deserialize(deserializer)?;
    object.set_type(api_version, kind);
    Ok(object)
}

/// Returns why an object cannot be decoded, with the path of the field.
pub(super) fn problem(kind: Kind, object: &Value) -> Option<String> {
    fn problem_of<'de, T: Deserialize<'de>>(_: Place<T>, object: &'de Value) -> Option<String> {
        serde_path_to_error::deserialize::<_, T>(object).err().map(without_struct)
    }
    with_place!(kind, place => problem_of(place, object)).flatten()
}

/// Sorts objects by namespace and name, and keeps the newest version of each.
pub(super) fn newest<T: Object>(objects: &mut Vec<T>) {
    let version = |object: &T| Reverse(object.metadata().resource_version.parse::<u64>().unwrap_or(0));
    objects.sort_by(|one, other| (one.key(), version(one)).cmp(&(other.key(), version(other))));
    objects.dedup_by(|one, other| one.key() == other.key());
}

/// Returns how many objects one counts as, by the length of its text: kinds that are kept whole count as several.
pub(super) fn weight(kind: Kind, length: usize) -> usize {
    match kind {
        Kind::DaemonSets | Kind::AdvancedDaemonSets | Kind::ControllerRevisions => {
            1 + WHOLE_OBJECT + length / WHOLE_OBJECT_BYTES
        }
        _ => 1,
    }
}

fn note(names: &mut BTreeSet<String>, name: &str) {
    if !name.is_empty() && !names.contains(name) {
        names.insert(name.to_owned());
    }
}
