//! Collects objects from documents: lists, typed lists and single objects, in JSON or YAML.
//!
//! Nodes, pods and events are decoded straight into their slim form, so that what is dropped is
//! never kept. In JSON an item's kind may stand after its fields, so items are found first, as
//! parts of the text, and decoded once their kind is known.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::dump_header::Header;
use super::error::ClusterError;
use super::json_document::{Head, JsonDocument};
use super::text::{self, Format};
use super::yaml::{self, Allowance, ValueSeed};
use crate::model::controller_revision::ControllerRevision;
use crate::model::daemon_set::{ADVANCED_GROUP, DaemonSet};
use crate::model::event::Event;
use crate::model::metadata::ObjectMeta;
use crate::model::node::Node;
use crate::model::pod::Pod;
use crate::model::snapshot::{Kind, Lease, LimitRange, PriorityClass, RuntimeClass};

/// Namespaces that every cluster has and nobody runs pods in: who dumped them dumped all of them.
const IDLE_NAMESPACES: [&str; 2] = ["kube-node-lease", "kube-public"];

/// What was found in the documents so far.
#[derive(Debug, Default)]
pub struct Objects {
    /// DaemonSets.
    pub daemon_sets: Vec<DaemonSet>,
    /// OpenKruise's Advanced DaemonSets.
    pub advanced_daemon_sets: Vec<DaemonSet>,
    /// Revisions.
    pub controller_revisions: Vec<ControllerRevision>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Pods.
    pub pods: Vec<Pod>,
    /// Events.
    pub events: Vec<Event>,
    /// LimitRanges.
    pub limit_ranges: Vec<LimitRange>,
    /// Runtime classes.
    pub runtime_classes: Vec<RuntimeClass>,
    /// Priority classes.
    pub priority_classes: Vec<PriorityClass>,
    /// Leases.
    pub leases: Vec<Lease>,
    /// The kinds of which there was an object, or a list without one.
    pub kinds: BTreeSet<Kind>,
    /// What dumps said of themselves.
    pub headers: Vec<Header>,
    /// Objects of other kinds: how many of each.
    pub others: BTreeMap<String, usize>,
    /// Whether a list shows that it was made of all namespaces.
    pub pods_everywhere: bool,
    /// Whether a list with pods was made of all namespaces, perhaps with a selector.
    pub lists_all_namespaces: bool,
    /// The namespaces of which pods were listed.
    pub pod_namespaces: BTreeSet<String>,
}

/// Where a text comes from.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// What errors call it.
    pub name: &'a str,
    /// The folder that it lies in, where a folder is read.
    pub folder: Option<&'a str>,
}

/// What one list says about the reach of the request that made it.
#[derive(Debug, Default)]
struct Reach {
    namespaces: BTreeSet<String>,
    pod_namespaces: BTreeSet<String>,
    /// Whether there is a pod that no DaemonSet made: it was no list of some DaemonSet's pods.
    has_other_pods: bool,
}

impl Objects {
    /// Adds every object in a text.
    ///
    /// # Errors
    ///
    /// Fails where the text is neither JSON nor YAML, breaks off, or a field has the wrong type.
    pub fn add_text(&mut self, origin: Origin<'_>, text: &str) -> Result<(), ClusterError> {
        let text = text::without_mark(text);
        match text::format(origin.name, text)? {
            Format::Json => self.add_json(origin, text),
            Format::Yaml => self.add_yaml(origin, text),
        }
    }

    fn add_json(&mut self, origin: Origin<'_>, text: &str) -> Result<(), ClusterError> {
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<JsonDocument>();
        loop {
            let start = documents.byte_offset();
            let Some(document) = documents.next() else { return Ok(()) };
            let document = document.map_err(|error| json_error(origin.name, &error))?;
            let mut reach = Reach::default();
            let type_ = Type { api_version: &document.api_version, kind: &document.kind };
            match (type_.of_items(), document.items.0) {
                (Some(list_type), Some(items)) => {
                    if let Some(header) = document.snapshot {
                        self.add_header(origin, serde_json::from_str(header.get()))?;
                    }
                    for item in items {
                        self.add_json_object(origin, text, item.get(), list_type.is_known(), &mut reach)?;
                    }
                    self.end_list(origin, list_type, &reach);
                }
                _ => {
                    let object = &text[start..documents.byte_offset()];
                    self.add_json_object(origin, text, object, Some(type_), &mut reach)?;
                }
            }
        }
    }

    fn add_json_object(
        &mut self,
        origin: Origin<'_>,
        text: &str,
        object: &str,
        list_type: Option<Type<'_>>,
        reach: &mut Reach,
    ) -> Result<(), ClusterError> {
        let head = list_type.map_or_else(|| Head::of(object), |type_| Head::from(&type_));
        let type_ = Type { api_version: &head.api_version, kind: &head.kind };
        let Some(kind) = type_.known() else {
            self.count_other(type_);
            return Ok(());
        };
        let mut deserializer = serde_json::Deserializer::from_str(object);
        self.add(kind, &mut deserializer, reach).map_err(|error| {
            let line = text::line_of(text, object.trim_start()) + error.line().saturating_sub(1);
            let problem = error.to_string();
            let problem = problem.split(" at line ").next().unwrap_or_default();
            let value: Value = serde_json::from_str(object).unwrap_or_default();
            ClusterError::file(origin.name, format!("line {line}: {}: {problem}", describe(kind, &value)))
        })
    }

    fn add_yaml(&mut self, origin: Origin<'_>, text: &str) -> Result<(), ClusterError> {
        for document in yaml::documents(text) {
            let mut reach = Reach::default();
            let mut refusal = None;
            let found = yaml::read(document, |deserializer, allowance| {
                let visitor = YamlDocument { objects: self, allowance, reach: &mut reach, refusal: &mut refusal };
                deserializer.deserialize_any(visitor)
            });
            let YamlFields { mut fields, has_items } =
                found.map_err(|problem| ClusterError::file(origin.name, refusal.unwrap_or(problem)))?;
            let api_version = take_text(&mut fields, "apiVersion");
            let kind = take_text(&mut fields, "kind");
            let type_ = Type { api_version: &api_version, kind: &kind };
            match type_.of_items() {
                Some(list_type) if has_items => {
                    if let Some(header) = fields.remove("snapshot") {
                        self.add_header(origin, serde_json::from_value(header))?;
                    }
                    if let Some(Value::Array(untyped)) = fields.remove(UNTYPED) {
                        for item in untyped {
                            self.add_value(list_type, item, &mut reach)
                                .map_err(|problem| ClusterError::file(origin.name, problem))?;
                        }
                    }
                    self.end_list(origin, list_type, &reach);
                }
                _ => {
                    let (api_version, kind) = (type_.api_version.to_owned(), type_.kind.to_owned());
                    let type_ = Type { api_version: &api_version, kind: &kind };
                    self.add_value(type_, Value::Object(fields), &mut reach).map_err(|problem| {
                        let line = document.lines_before + 1;
                        ClusterError::file(origin.name, format!("the document at line {line}: {problem}"))
                    })?;
                }
            }
        }
        Ok(())
    }

    fn add_value(&mut self, type_: Type<'_>, value: Value, reach: &mut Reach) -> Result<(), String> {
        let Some(kind) = type_.known() else {
            self.count_other(type_);
            return Ok(());
        };
        let what = describe(kind, &value);
        self.add(kind, value, reach).map_err(|error: serde_json::Error| format!("{what}: {error}"))
    }

    /// Decodes one object and notes what it says about the reach of its list.
    fn add<'de, D: Deserializer<'de>>(
        &mut self,
        kind: Kind,
        deserializer: D,
        reach: &mut Reach,
    ) -> Result<(), D::Error> {
        /// Decodes and keeps an object; returns its metadata.
        fn keep<'de, 'a, T: Deserialize<'de>, D: Deserializer<'de>>(
            objects: &'a mut Vec<T>,
            deserializer: D,
        ) -> Result<&'a T, D::Error> {
            objects.push(T::deserialize(deserializer)?);
            objects.last().ok_or_else(|| D::Error::custom("nothing was kept"))
        }
        /// Reads a whole object; in a typed list it does not say its type itself.
        fn whole<'de, D: Deserializer<'de>>(known: Kind, deserializer: D) -> Result<Value, D::Error> {
            let (api_version, kind, _) = known.api_names();
            let mut object = Map::deserialize(deserializer)?;
            // They are served in two versions, and are written back in the one they came in.
            if known != Kind::AdvancedDaemonSets || !object.contains_key("apiVersion") {
                object.insert("apiVersion".to_owned(), api_version.into());
            }
            object.insert("kind".to_owned(), kind.into());
            Ok(Value::Object(object))
        }
        let metadata = match kind {
            Kind::DaemonSets => {
                let object = whole(kind, deserializer)?;
                self.daemon_sets.push(DaemonSet::from_object(object).map_err(D::Error::custom)?);
                self.daemon_sets.last().map(|daemon_set| &daemon_set.metadata)
            }
            Kind::AdvancedDaemonSets => {
                let object = whole(kind, deserializer)?;
                self.advanced_daemon_sets.push(DaemonSet::from_object(object).map_err(D::Error::custom)?);
                self.advanced_daemon_sets.last().map(|daemon_set| &daemon_set.metadata)
            }
            Kind::ControllerRevisions => {
                let object = whole(kind, deserializer)?;
                self.controller_revisions.push(ControllerRevision::from_object(object).map_err(D::Error::custom)?);
                self.controller_revisions.last().map(|revision| &revision.metadata)
            }
            Kind::Nodes => Some(&keep(&mut self.nodes, deserializer)?.metadata),
            Kind::Pods => {
                let metadata = &keep(&mut self.pods, deserializer)?.metadata;
                note(&mut reach.pod_namespaces, &metadata.namespace);
                reach.has_other_pods |= metadata.controller().is_none_or(|owner| owner.kind != "DaemonSet");
                Some(metadata)
            }
            Kind::Events => Some(&keep(&mut self.events, deserializer)?.metadata),
            Kind::LimitRanges => Some(&keep(&mut self.limit_ranges, deserializer)?.metadata),
            Kind::RuntimeClasses => Some(&keep(&mut self.runtime_classes, deserializer)?.metadata),
            Kind::PriorityClasses => Some(&keep(&mut self.priority_classes, deserializer)?.metadata),
            Kind::Leases => Some(&keep(&mut self.leases, deserializer)?.metadata),
        };
        if let Some(metadata) = metadata {
            note(&mut reach.namespaces, &metadata.namespace);
        }
        self.kinds.insert(kind);
        if kind == Kind::Pods {
            self.pod_namespaces
                .extend(reach.pod_namespaces.difference(&self.pod_namespaces).cloned().collect::<Vec<_>>());
        }
        Ok(())
    }

    /// Draws from a whole list what it says about pods.
    ///
    /// One request reads one namespace or all of them. So a list with objects of two was made of all,
    /// and where it has pods, it has all of them, unless they are those of DaemonSets alone, which
    /// looks like a selector.
    fn end_list(&mut self, origin: Origin<'_>, list_type: Type<'_>, reach: &Reach) {
        let listed = list_type.known();
        self.kinds.extend(listed);
        let lists_all_namespaces = reach.namespaces.len() > 1 && !reach.pod_namespaces.is_empty();
        self.lists_all_namespaces |= lists_all_namespaces;
        self.pods_everywhere |= lists_all_namespaces && reach.has_other_pods;
        if let (Some(Kind::Pods), Some(folder)) = (listed, origin.folder) {
            self.pods_everywhere |= IDLE_NAMESPACES.contains(&folder);
            note(&mut self.pod_namespaces, folder);
        }
    }

    fn add_header(
        &mut self,
        origin: Origin<'_>,
        header: Result<Header, serde_json::Error>,
    ) -> Result<(), ClusterError> {
        self.headers.push(header.map_err(|error| {
            ClusterError::file(origin.name, format!("its field `snapshot` cannot be read: {error}"))
                .hint("was it written by a newer kubectl-ds? without that field it is read as any dump is")
        })?);
        Ok(())
    }

    fn count_other(&mut self, type_: Type<'_>) {
        if !type_.kind.is_empty() {
            *self.others.entry(type_.kind.to_owned()).or_default() += 1;
        }
    }

    /// Sorts every kind by namespace and name, and keeps the newest version of what is there twice.
    pub fn keep_newest(&mut self) {
        newest(&mut self.daemon_sets, |object| &object.metadata);
        newest(&mut self.advanced_daemon_sets, |object| &object.metadata);
        newest(&mut self.controller_revisions, |object| &object.metadata);
        newest(&mut self.nodes, |object| &object.metadata);
        newest(&mut self.pods, |object| &object.metadata);
        newest(&mut self.events, |object| &object.metadata);
        newest(&mut self.limit_ranges, |object| &object.metadata);
        newest(&mut self.runtime_classes, |object| &object.metadata);
        newest(&mut self.priority_classes, |object| &object.metadata);
        newest(&mut self.leases, |object| &object.metadata);
    }
}

fn newest<T>(objects: &mut Vec<T>, metadata: impl Fn(&T) -> &ObjectMeta) {
    let version = |metadata: &ObjectMeta| metadata.resource_version.parse::<u64>().unwrap_or(0);
    objects.sort_by(|one, other| {
        let (one, other) = (metadata(one), metadata(other));
        (&one.namespace, &one.name, Reverse(version(one))).cmp(&(
            &other.namespace,
            &other.name,
            Reverse(version(other)),
        ))
    });
    objects.dedup_by(|one, other| {
        let (one, other) = (metadata(one), metadata(other));
        !one.name.is_empty() && (&one.namespace, &one.name) == (&other.namespace, &other.name)
    });
}

fn note(names: &mut BTreeSet<String>, name: &str) {
    if !name.is_empty() && !names.contains(name) {
        names.insert(name.to_owned());
    }
}

fn describe(kind: Kind, object: &Value) -> String {
    let field = |name: &str| object.pointer(&format!("/metadata/{name}")).and_then(Value::as_str).unwrap_or_default();
    let kind = kind.api_names().1;
    match (field("namespace"), field("name")) {
        (_, "") => format!("a {kind} without a name"),
        ("", name) => format!("{kind} {name}"),
        (namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}

fn take_text(fields: &mut Map<String, Value>, name: &str) -> String {
    match fields.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Says what is wrong with JSON, and where.
pub(super) fn json_error(name: &str, error: &serde_json::Error) -> ClusterError {
    if error.is_eof() {
        let problem =
            format!("the JSON breaks off at line {}, column {}: the file is truncated", error.line(), error.column());
        return ClusterError::file(name, problem).hint("copy the file again, or make the dump again");
    }
    ClusterError::file(name, format!("broken JSON: {error}"))
}

/// An object's type, or a list's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
}

impl<'a> Type<'a> {
    /// Returns the type of the items of a list, empty for a plain `List`; nothing for other types.
    fn of_items(self) -> Option<Type<'a>> {
        let kind = self.kind.strip_suffix("List")?;
        Some(if kind.is_empty() { Type { api_version: "", kind: "" } } else { Type { kind, ..self } })
    }

    /// Returns the type unless it is the empty one of a plain list's items.
    fn is_known(self) -> Option<Self> {
        (!self.kind.is_empty()).then_some(self)
    }

    /// Returns the kind, where it is one that a snapshot holds.
    fn known(self) -> Option<Kind> {
        if self.kind == "DaemonSet" && self.api_version.starts_with(ADVANCED_GROUP) {
            return Some(Kind::AdvancedDaemonSets);
        }
        Kind::ALL.into_iter().find(|kind| {
            let (api_version, name, _) = kind.api_names();
            name == self.kind && api_version == self.api_version
        })
    }
}

/// The key under which a YAML list's items wait that do not say their kind.
const UNTYPED: &str = "\0items";

/// Reads a YAML document: items that say their kind are added at once, so that a big list is never
/// in memory as a whole; the other fields are returned.
struct YamlDocument<'a> {
    objects: &'a mut Objects,
    allowance: &'a Allowance,
    reach: &'a mut Reach,
    /// What is wrong with an item, in words without the reader's own, wrong, place.
    refusal: &'a mut Option<String>,
}

/// What is left of a YAML document.
#[derive(Default)]
struct YamlFields {
    fields: Map<String, Value>,
    has_items: bool,
}

impl<'de> Visitor<'de> for YamlDocument<'_> {
    type Value = YamlFields;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a Kubernetes object or list")
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<YamlFields, E> {
        self.refuse("holds plain text, not Kubernetes objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<YamlFields, A::Error> {
        self.refuse("holds a YAML sequence, not Kubernetes objects")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<YamlFields, A::Error> {
        let mut found = YamlFields::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                let items = YamlItems(&mut self);
                let untyped = map.next_value_seed(items)?;
                found.has_items = true;
                found.fields.insert(UNTYPED.to_owned(), untyped);
            } else {
                found.fields.insert(key, map.next_value_seed(ValueSeed(self.allowance))?);
            }
        }
        Ok(found)
    }
}

impl YamlDocument<'_> {
    fn refuse<T, E: serde::de::Error>(self, problem: &str) -> Result<T, E> {
        *self.refusal = Some(problem.to_owned());
        Err(E::custom(problem))
    }
}

/// Reads the items of a YAML list; returns those that do not say their kind.
struct YamlItems<'a, 'b>(&'a mut YamlDocument<'b>);

impl<'de> DeserializeSeed<'de> for YamlItems<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for YamlItems<'_, '_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let YamlDocument { objects, allowance, reach, refusal } = self.0;
        let mut untyped = Vec::new();
        while let Some(item) = sequence.next_element_seed(ValueSeed(allowance))? {
            let text = |name| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (api_version, kind) = (text("apiVersion"), text("kind"));
            if kind.is_empty() {
                untyped.push(item);
            } else {
                let type_ = Type { api_version: &api_version, kind: &kind };
                objects.add_value(type_, item, reach).map_err(|problem| {
                    **refusal = Some(problem);
                    A::Error::custom("an item was refused")
                })?;
            }
        }
        Ok(Value::Array(untyped))
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Array(Vec::new()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        ValueSeed(self.0.allowance).visit_map(map)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        ValueSeed(self.0.allowance).visit_str(text)
    }
}
