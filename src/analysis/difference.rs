//! How two pod templates differ in meaning.
//!
//! Both are compared in their normal form, type by type: entries of lists are matched by what they are known by
//! ([`Key`]), so that moving one is a difference only where the order means something.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::{child, in_brackets, order};
use super::sequence;
use crate::model::template::{Template, arranged};
use crate::model::template_keys::Key;
use crate::model::template_types::{EnvVar, Kind, PodTemplateSpec, Type};
use crate::report::change::Change;

/// Returns every difference in meaning between two templates, in the order of the template.
///
/// There is none exactly where [`Template::same_meaning`] holds. The name of the service account, which the API keeps
/// in two fields, counts once.
pub fn difference(from: &Template, to: &Template) -> Vec<Change> {
    let mut comparison = Comparison::default();
    comparison.value(&PodTemplateSpec, "", &from.normal(), &to.normal());
    comparison.changes
}

/// The differences that were found so far.
#[derive(Default)]
struct Comparison {
    changes: Vec<Change>,
}

impl Comparison {
    fn add(&mut self, path: &str, from: Option<&Value>, to: Option<&Value>) {
        if from != to {
            self.changes.push(Change::new(path, from.cloned(), to.cloned()));
        }
    }

    /// Compares two values that should have the fields of a type.
    fn value(&mut self, of: &Type, path: &str, from: &Value, to: &Value) {
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => self.fields(of, path, from, to),
            _ => self.add(path, Some(from), Some(to)),
        }
    }

    fn fields(&mut self, of: &Type, path: &str, from: &Map<String, Value>, to: &Map<String, Value>) {
        let is_mirrored =
            |fields: &Map<String, Value>| fields.get("serviceAccount") == fields.get("serviceAccountName");
        for field in of.fields {
            if field.name == "serviceAccount" && is_mirrored(from) && is_mirrored(to) {
                continue;
            }
            let path = child(path, field.name);
            self.field(&field.kind, &path, from.get(field.name), to.get(field.name));
        }
        let unknown: BTreeSet<_> = from.keys().chain(to.keys()).filter(|name| of.field(name).is_none()).collect();
        for name in unknown {
            self.unknown(&child(path, name), from.get(name), to.get(name));
        }
    }

    fn field(&mut self, kind: &Kind, path: &str, from: Option<&Value>, to: Option<&Value>) {
        // What is absent of these means the same as what is empty, which makes a change of each part.
        let empty = match kind {
            Kind::Struct(_) | Kind::Texts | Kind::Quantities => Value::Object(Map::new()),
            Kind::List(_, key) if *key != Key::Sequence => Value::Array(Vec::new()),
            _ => Value::Null,
        };
        if from == to {
            return;
        }
        match (kind, from.unwrap_or(&empty), to.unwrap_or(&empty)) {
            (Kind::Struct(of) | Kind::Optional(of), Value::Object(from), Value::Object(to)) => {
                self.fields(of, path, from, to);
            }
            (Kind::Texts, Value::Object(from), Value::Object(to)) => self.map(path, from, to, in_brackets),
            (Kind::Quantities, Value::Object(from), Value::Object(to)) => self.map(path, from, to, child),
            (Kind::Values | Kind::List(_, Key::Sequence), Value::Array(from), Value::Array(to)) => {
                self.changes.extend(sequence::difference(path, from, to));
            }
            (Kind::List(of, key), Value::Array(from), Value::Array(to)) => self.list(of, *key, path, from, to),
            _ => self.add(path, from, to),
        }
    }

    /// Compares what this program does not know, as far as it is plain.
    fn unknown(&mut self, path: &str, from: Option<&Value>, to: Option<&Value>) {
        match (from, to) {
            (Some(Value::Object(from)), Some(Value::Object(to))) => {
                let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
                for name in names {
                    self.unknown(&child(path, name), from.get(name), to.get(name));
                }
            }
            (Some(Value::Array(from)), Some(Value::Array(to))) => {
                self.changes.extend(sequence::difference(path, from, to));
            }
            _ => self.add(path, from, to),
        }
    }

    fn map(
        &mut self,
        path: &str,
        from: &Map<String, Value>,
        to: &Map<String, Value>,
        place: impl Fn(&str, &str) -> String,
    ) {
        let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        for name in names {
            self.add(&place(path, name), from.get(name), to.get(name));
        }
    }

    /// Compares two lists whose entries are known by something.
    fn list(&mut self, of: &Type, key: Key, path: &str, from: &[Value], to: &[Value]) {
        let (before, after) = (Entries::new(of, key, from), Entries::new(of, key, to));
        let mut stays = vec![true; from.len()];
        let mut appended = Vec::new();
        for name in before.names_and_those_of(&after) {
            let (old, new) = (before.places(name), after.places(name));
            if let (&[old], &[new]) = (old, new) {
                self.entry(of, key, &entry_path(path, key, name, old), &from[old], &to[new]);
                continue;
            }
            let (removed, added) = before.replaced(name, &after);
            for place in removed {
                self.add(&entry_path(path, key, name, place), Some(&shown(of, &from[place])), None);
                stays[place] = false;
            }
            for place in added {
                self.add(&entry_path(path, key, name, place), None, Some(&shown(of, &to[place])));
                appended.push(name);
            }
        }
        let stay = before.names.iter().zip(stays).filter(|(_, stays)| *stays).map(|(name, _)| name.as_str());
        let would_be: Vec<&str> = stay.chain(appended).collect();
        if key.arrange(&after.in_order_of(&would_be)) != key.arrange(to) {
            // Entries of one name can be in another order with all names in the same.
            let from = if before.names == after.names { would_be.into() } else { before.names.clone().into() };
            self.changes.push(Change::new(order(path), Some(from), Some(after.names.into())));
        }
    }

    fn entry(&mut self, of: &Type, key: Key, path: &str, from: &Value, to: &Value) {
        let refers = |entry: &Value| entry.get("valueFrom").is_some() && entry.get("value").is_none();
        if key == Key::Env && !(refers(from) && refers(to)) {
            self.add(path, Some(&shown(of, from)), Some(&shown(of, to)));
        } else {
            self.value(of, path, from, to);
        }
    }
}

/// The entries of a list, and what they are known by.
struct Entries<'a> {
    key: Key,
    list: &'a [Value],
    names: Vec<String>,
    places: BTreeMap<String, Vec<usize>>,
    /// The entries in the form in which those of the same meaning are equal.
    arranged: Vec<Value>,
}

impl<'a> Entries<'a> {
    fn new(of: &Type, key: Key, list: &'a [Value]) -> Self {
        let names: Vec<String> = list.iter().map(|entry| key.of(entry)).collect();
        let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, name) in names.iter().enumerate() {
            places.entry(name.clone()).or_default().push(place);
        }
        Entries { key, list, names, places, arranged: list.iter().map(|entry| arranged(of, entry)).collect() }
    }

    fn places(&self, name: &str) -> &[usize] {
        self.places.get(name).map_or(&[], Vec::as_slice)
    }

    fn arranged(&self, name: &str) -> Vec<&Value> {
        self.places(name).iter().map(|&place| &self.arranged[place]).collect()
    }

    /// Returns each name once: those of this list in its order, then those that only the other has.
    fn names_and_those_of<'b>(&'b self, other: &'b Entries) -> Vec<&'b str> {
        let mut seen = BTreeSet::new();
        self.names.iter().chain(&other.names).map(String::as_str).filter(|name| seen.insert(*name)).collect()
    }

    /// Returns which entries of a name are gone, and which of the other list are new.
    ///
    /// Where the last of a name wins, all are replaced, so that their order is that of the other list.
    fn replaced(&self, name: &str, other: &Entries) -> (Vec<usize>, Vec<usize>) {
        if self.key.last_wins() {
            let same = self.arranged(name) == other.arranged(name);
            return if same { Default::default() } else { (self.places(name).to_vec(), other.places(name).to_vec()) };
        }
        (self.without(name, other), other.without(name, self))
    }

    /// Returns the entries of a name that have no equal in the other list, each of which is the equal of one only.
    fn without(&self, name: &str, other: &Entries) -> Vec<usize> {
        let mut others = other.arranged(name);
        let mut left = self.places(name).to_vec();
        left.retain(|&place| match others.iter().position(|other| **other == self.arranged[place]) {
            Some(equal) => {
                others.remove(equal);
                false
            }
            None => true,
        });
        left
    }

    /// Returns the entries in the order of these names.
    fn in_order_of(&self, names: &[&str]) -> Vec<Value> {
        let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
        names
            .iter()
            .filter_map(|name| {
                let nth = taken.entry(name).or_default();
                *nth += 1;
                self.places(name).get(*nth - 1).map(|&place| self.list[place].clone())
            })
            .collect()
    }
}

/// Returns an entry as a change shows it: a variable that has only a value is shown as that value.
fn shown(of: &Type, entry: &Value) -> Value {
    let is_plain = |fields: &Map<String, Value>| {
        of.name == EnvVar.name
            && fields.get("name").is_some_and(Value::is_string)
            && fields.iter().all(|(name, value)| name == "name" || name == "value" && value.is_string())
    };
    match entry.as_object().filter(|fields| is_plain(fields)) {
        Some(fields) => fields.get("value").cloned().unwrap_or_else(|| "".into()),
        None => entry.clone(),
    }
}

/// Writes the path of an entry; what is known by nothing is known by its place.
fn entry_path(path: &str, key: Key, name: &str, place: usize) -> String {
    if key == Key::Loose { format!("{path}[{place}]") } else { in_brackets(path, name) }
}
