//! Semantic differences between two pod templates.
//!
//! Both are compared in their normal form, type by type. List entries are matched by their [`Key`], so moving one is a
//! difference only if the order matters.

pub mod change_summary;
pub(crate) mod object;
mod sequence;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::model::metadata::RESTARTED_AT_ANNOTATION;
use crate::model::template::{Template, arranged};
use crate::model::template_keys::Key;
use crate::model::template_types::{EnvVar, FieldKind, PodTemplateSpec, Type};
use crate::report::change::{Change, ChangePath, PathStep};

/// Returns every semantic difference between two templates, in the order of the template.
///
/// It is empty if and only if [`Template::same_meaning`] holds. The name of the service account, which the API keeps in
/// two fields, counts once.
pub fn difference(from: &Template, to: &Template) -> Vec<Change> {
    let mut comparison = Comparison::default();
    comparison.value(&PodTemplateSpec, &ChangePath::default(), &from.normal(), &to.normal());
    comparison.changes
}

/// Returns whether two templates differ in nothing but when their pods were to be restarted: replacing the pods of one by those of the other
/// only restarts them.
pub(crate) fn only_restarts(one: &Template, other: &Template) -> bool {
    difference(one, other).iter().all(is_restart)
}

/// Returns whether a change to a template is a restart.
pub(crate) fn is_restart(change: &Change) -> bool {
    let [_, _, PathStep::Field(key) | PathStep::Entry(key)] = change.path.0.as_slice() else { return false };
    key == RESTARTED_AT_ANNOTATION
}

/// The differences that were found so far.
#[derive(Default)]
struct Comparison {
    changes: Vec<Change>,
}

impl Comparison {
    fn add(&mut self, path: &ChangePath, from: Option<&Value>, to: Option<&Value>) {
        if from != to {
            self.changes.push(Change::new(path.clone(), from.cloned(), to.cloned()));
        }
    }

    /// Compares two values that should be structs of a type.
    fn value(&mut self, of: &Type, path: &ChangePath, from: &Value, to: &Value) {
        match (from, to) {
            (Value::Object(from), Value::Object(to)) => self.fields(of, path, from, to),
            _ => self.add(path, Some(from), Some(to)),
        }
    }

    fn fields(&mut self, of: &Type, path: &ChangePath, from: &Map<String, Value>, to: &Map<String, Value>) {
        // In a normal form, `serviceAccount` is always the same as `serviceAccountName`.
        for field in of.fields.iter().filter(|field| field.name != "serviceAccount") {
            let (from, to) = (from.get(field.name), to.get(field.name));
            if from != to {
                self.field(&field.kind, &path.field(field.name), from, to);
            }
        }
        let unknown: BTreeSet<_> = from.keys().chain(to.keys()).filter(|name| of.field(name).is_none()).collect();
        for name in unknown {
            self.unknown(&path.field(name), from.get(name), to.get(name));
        }
    }

    fn field(&mut self, kind: &FieldKind, path: &ChangePath, from: Option<&Value>, to: Option<&Value>) {
        // Absent and empty are the same here, so each entry is a separate change.
        let empty = match kind {
            FieldKind::Struct(_) | FieldKind::Texts | FieldKind::Quantities => Value::Object(Map::new()),
            FieldKind::List(_, key) if *key != Key::Sequence => Value::Array(Vec::new()),
            _ => Value::Null,
        };
        match (kind, from.unwrap_or(&empty), to.unwrap_or(&empty)) {
            (FieldKind::Struct(of) | FieldKind::Optional(of), Value::Object(from), Value::Object(to)) => {
                self.fields(of, path, from, to);
            }
            (FieldKind::Texts, Value::Object(from), Value::Object(to)) => self.map(from, to, |key| path.entry(key)),
            (FieldKind::Quantities, Value::Object(from), Value::Object(to)) => {
                self.map(from, to, |key| path.field(key))
            }
            (FieldKind::Values(_) | FieldKind::List(_, Key::Sequence), Value::Array(from), Value::Array(to)) => {
                self.changes.extend(sequence::difference(path, from, to));
            }
            (FieldKind::List(of, key), Value::Array(from), Value::Array(to)) => self.list(of, *key, path, from, to),
            _ => self.add(path, from, to),
        }
    }

    /// Compares unknown fields.
    fn unknown(&mut self, path: &ChangePath, from: Option<&Value>, to: Option<&Value>) {
        match (from, to) {
            (Some(Value::Object(from)), Some(Value::Object(to))) => {
                let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
                for name in names {
                    self.unknown(&path.field(name), from.get(name), to.get(name));
                }
            }
            (Some(Value::Array(from)), Some(Value::Array(to))) => {
                self.changes.extend(sequence::difference(path, from, to));
            }
            _ => self.add(path, from, to),
        }
    }

    fn map(&mut self, from: &Map<String, Value>, to: &Map<String, Value>, path: impl Fn(&str) -> ChangePath) {
        let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        for name in names {
            self.add(&path(name), from.get(name), to.get(name));
        }
    }

    /// Compares two lists whose entries have keys.
    fn list(&mut self, of: &Type, key: Key, path: &ChangePath, from: &[Value], to: &[Value]) {
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
            // Entries with the same key can be reordered without changing the order of keys.
            let from = if before.names == after.names { would_be.into() } else { before.names.clone().into() };
            self.changes.push(Change::new(path.order(), Some(from), Some(after.names.into())));
        }
    }

    fn entry(&mut self, of: &Type, key: Key, path: &ChangePath, from: &Value, to: &Value) {
        let refers = |entry: &Value| entry.get("valueFrom").is_some() && entry.get("value").is_none();
        if key == Key::Env && !(refers(from) && refers(to)) {
            self.add(path, Some(&shown(of, from)), Some(&shown(of, to)));
        } else {
            self.value(of, path, from, to);
        }
    }
}

/// The entries of a list, and their keys.
struct Entries<'a> {
    key: Key,
    list: &'a [Value],
    names: Vec<String>,
    places: BTreeMap<String, Vec<usize>>,
    /// The entries in a form in which equivalent ones are equal.
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

    /// Returns each key once: those of this list in its order, then those that only the other list has.
    fn names_and_those_of<'b>(&'b self, other: &'b Entries) -> Vec<&'b str> {
        let mut seen = BTreeSet::new();
        self.names.iter().chain(&other.names).map(String::as_str).filter(|name| seen.insert(*name)).collect()
    }

    /// Returns which entries with a key were removed, and which ones of the other list were added.
    ///
    /// If the last entry with a name wins, all are replaced, so that their order is that of the other list.
    fn replaced(&self, name: &str, other: &Entries) -> (Vec<usize>, Vec<usize>) {
        if self.key.last_wins() {
            let same = self.arranged(name) == other.arranged(name);
            return if same { Default::default() } else { (self.places(name).to_vec(), other.places(name).to_vec()) };
        }
        (self.without(name, other), other.without(name, self))
    }

    /// Returns the entries with a key that have no equal in the other list; each entry there can match only once.
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

/// Returns an entry as shown in a change: a variable with a plain value is shown as that value.
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

/// Returns the path of an entry; one without a key is identified by its index.
fn entry_path(path: &ChangePath, key: Key, name: &str, index: usize) -> ChangePath {
    if key == Key::Loose { path.index(index) } else { path.entry(name) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{difference, only_restarts};
    use crate::model::metadata::RESTARTED_AT_ANNOTATION;
    use crate::model::template::Template;
    use crate::report::change::Op;

    #[test]
    fn a_restart_is_told_from_another_change() {
        let of = |at: &str, image: &str| {
            let spec = json!({"containers": [{"name": "agent", "image": image}]});
            Template::new(json!({"metadata": {"annotations": {RESTARTED_AT_ANNOTATION: at}}, "spec": spec}))
        };
        let restarts = |at, image| only_restarts(&of("2026-03-01T11:00:00Z", "agent:1"), &of(at, image));
        assert!(restarts("2026-03-01T12:00:00Z", "agent:1"));
        assert!(!restarts("2026-03-01T12:00:00Z", "agent:2"));
    }

    /// Formats each difference as a line.
    fn lines(from: Value, to: Value) -> Vec<String> {
        let changes = difference(&Template::new(from), &Template::new(to));
        let text = |value: Option<Value>| value.unwrap_or_default().to_string();
        changes
            .into_iter()
            .map(|change| match change.op {
                Op::Add => format!("+ {} {}", change.path, text(change.to)),
                Op::Remove => format!("- {} {}", change.path, text(change.from)),
                Op::Replace => format!("~ {} {} → {}", change.path, text(change.from), text(change.to)),
            })
            .collect()
    }

    /// Formats the differences between two containers.
    fn in_container(from: Value, to: Value) -> Vec<String> {
        let template = |mut container: Value| {
            container["name"] = "agent".into();
            json!({"spec": {"containers": [container]}})
        };
        let lines = lines(template(from), template(to));
        lines.into_iter().map(|line| line.replace("spec.containers[agent].", "")).collect()
    }

    #[test]
    fn of_entries_that_are_there_twice_what_was_taken_out_holds_no_place() {
        let variable = |name: &str, value: &str| json!({"name": name, "value": value});
        let from = json!({"env": [variable("A", "1"), variable("A", "2"), variable("B", "$(A)")]});
        let to = json!({"env": [variable("A", "3"), variable("B", "$(A)")]});
        // If it were appended, A would come after the variable that refers to it.
        assert_eq!(
            in_container(from, to),
            ["- env[A] \"1\"", "- env[A] \"2\"", "+ env[A] \"3\"", "~ env (order) [\"A\",\"A\",\"B\"] → [\"A\",\"B\"]",]
        );
    }

    #[test]
    fn a_list_without_keys_is_one_change_if_there_was_none() {
        let rules = json!({"restartPolicyRules": [{"action": "Restart"}]});
        assert_eq!(in_container(json!({}), rules), ["+ restartPolicyRules [{\"action\":\"Restart\"}]"]);
    }

    #[test]
    fn edits_read_as_people_made_them() {
        let from = json!({
            "metadata": {"labels": {"app": "agent"}, "annotations": {"kubectl.kubernetes.io/restartedAt": "2025"}},
            "spec": {
                "containers": [
                    {"name": "agent", "image": "agent:2", "env": [{"name": "MODE", "value": "yes"}],
                        "ports": [{"containerPort": 9100, "hostPort": 9100}],
                        "resources": {"limits": {"memory": "64Mi", "example.com/gpu": 1}}},
                    {"name": "old", "image": "old:1"},
                ],
                "volumes": [{"name": "data", "hostPath": {"path": "/a"}}],
                "tolerations": [{"operator": "Exists"}],
            },
        });
        let to = json!({
            "metadata": {"labels": {"app": "agent"}, "annotations": {"kubectl.kubernetes.io/restartedAt": "2026"}},
            "spec": {
                "containers": [
                    {"name": "agent", "image": "agent:3",
                        "env": [{"name": "LEVEL", "value": "1_000"}, {"name": "MODE", "value": "no"}],
                        "ports": [{"containerPort": 9100, "hostPort": 9200}],
                        "resources": {"limits": {"memory": "128Mi"}, "requests": {"cpu": 0.1}}},
                ],
                "volumes": [{"name": "data", "hostPath": {"path": "/b"}}],
                "tolerations": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
                "nodeSelector": {"disk": "ssd"},
                "hostNetwork": true,
            },
        });
        assert_eq!(
            lines(from, to),
            [
                r#"~ metadata.annotations[kubectl.kubernetes.io/restartedAt] "2025" → "2026""#,
                r#"~ spec.containers[agent].image "agent:2" → "agent:3""#,
                r#"~ spec.containers[agent].ports[9100/TCP].hostPort 9100 → 9200"#,
                r#"~ spec.containers[agent].env[MODE] "yes" → "no""#,
                r#"+ spec.containers[agent].env[LEVEL] "1_000""#,
                r#"- spec.containers[agent].resources.limits[example.com/gpu] "1""#,
                r#"~ spec.containers[agent].resources.limits.memory "64Mi" → "128Mi""#,
                r#"+ spec.containers[agent].resources.requests.cpu "100m""#,
                concat!(
                    r#"- spec.containers[old] {"image":"old:1","imagePullPolicy":"IfNotPresent","name":"old","#,
                    r#""terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}"#
                ),
                r#"~ spec.volumes[data].hostPath.path "/a" → "/b""#,
                r#"+ spec.nodeSelector[disk] "ssd""#,
                r#"+ spec.hostNetwork true"#,
                r#"- spec.tolerations[*] {"operator":"Exists"}"#,
                r#"+ spec.tolerations[a=b:NoSchedule] {"effect":"NoSchedule","key":"a","value":"b"}"#,
            ]
        );
    }

    #[test]
    fn the_same_in_another_spelling_is_no_difference() {
        let from = json!({"metadata": {"creationTimestamp": null}, "spec": {
            "hostNetwork": false,
            "serviceAccount": "agent",
            "containers": [{"name": "agent", "image": "agent:1", "env": [], "resources": {"limits": {"cpu": "1000m"}}}],
            "volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": "/"}}],
        }});
        let to = json!({"spec": {
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "agent",
            "containers": [{"name": "agent", "image": "agent:1", "imagePullPolicy": "IfNotPresent",
                "resources": {"limits": {"cpu": 1}, "requests": {}}}],
            "volumes": [{"name": "b", "hostPath": {"path": "/", "type": ""}}, {"name": "a", "emptyDir": {}}],
        }});
        assert_eq!(lines(from, to), [""; 0]);
    }

    #[test]
    fn the_order_of_init_containers_is_a_difference() {
        let spec = |names: &[&str]| {
            let containers: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            json!({"spec": {"initContainers": containers}})
        };
        assert_eq!(
            lines(spec(&["a", "b", "c"]), spec(&["c", "a", "b"])),
            [r#"~ spec.initContainers (order) ["a","b","c"] → ["c","a","b"]"#]
        );
        assert_eq!(lines(spec(&["a", "b"]), spec(&["a"])).len(), 1);
        assert_eq!(lines(spec(&["a"]), spec(&["a", "b"])).len(), 1);
        assert_eq!(lines(spec(&["a"]), spec(&["b", "a"])).len(), 2);
    }

    #[test]
    fn the_order_of_variables_is_a_difference_only_where_one_refers_to_the_other() {
        let env = |variables: &[(&str, &str)]| {
            let env: Vec<_> = variables.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
            json!({"env": env})
        };
        let plain = [("A", "1"), ("B", "2")];
        assert_eq!(in_container(env(&plain), env(&[plain[1], plain[0]])), [""; 0]);
        let referring = [("A", "1"), ("B", "$(A)"), ("C", "3")];
        assert_eq!(in_container(env(&referring), env(&[referring[2], referring[0], referring[1]])), [""; 0]);
        assert_eq!(
            in_container(env(&referring), env(&[referring[1], referring[0], referring[2]])),
            [r#"~ env (order) ["A","B","C"] → ["B","A","C"]"#]
        );
        let escaped = [("A", "1"), ("B", "$$(A)")];
        assert_eq!(in_container(env(&escaped), env(&[escaped[1], escaped[0]])), [""; 0]);
    }

    #[test]
    fn of_variables_with_one_name_none_is_lost() {
        let env = |values: &[&str]| {
            let env: Vec<_> = values.iter().map(|value| json!({"name": "A", "value": value})).collect();
            json!({"env": env})
        };
        assert_eq!(in_container(env(&["1", "2"]), env(&["1", "2"])), [""; 0]);
        assert_eq!(in_container(env(&["1", "2"]), env(&["2", "1"])).len(), 4);
        assert_eq!(
            in_container(env(&["1"]), env(&["1", "2"])),
            [r#"- env[A] "1""#, r#"+ env[A] "1""#, r#"+ env[A] "2""#]
        );
    }

    #[test]
    fn entries_with_one_key_are_matched_with_their_equals() {
        let ports = |ips: &[&str]| {
            let ports: Vec<_> = ips.iter().map(|ip| json!({"containerPort": 80, "hostIP": ip})).collect();
            json!({"ports": ports})
        };
        assert_eq!(in_container(ports(&["10.0.0.1", "10.0.0.2"]), ports(&["10.0.0.2", "10.0.0.1"])), [""; 0]);
        assert_eq!(
            in_container(ports(&["10.0.0.1", "10.0.0.2"]), ports(&["10.0.0.2", "10.0.0.3"])),
            [
                r#"- ports[80/TCP] {"containerPort":80,"hostIP":"10.0.0.1","protocol":"TCP"}"#,
                r#"+ ports[80/TCP] {"containerPort":80,"hostIP":"10.0.0.3","protocol":"TCP"}"#,
            ]
        );
    }

    #[test]
    fn a_variable_changes_as_a_whole_unless_both_come_from_elsewhere() {
        let env = |variable: Value| json!({"env": [variable]});
        let secret = |key: &str| json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": key}}});
        assert_eq!(
            in_container(env(secret("a")), env(secret("b"))),
            [r#"~ env[A].valueFrom.secretKeyRef.key "a" → "b""#]
        );
        assert_eq!(
            in_container(env(json!({"name": "A", "value": "1"})), env(secret("b"))),
            [r#"~ env[A] "1" → {"name":"A","valueFrom":{"secretKeyRef":{"key":"b","name":"s"}}}"#]
        );
        assert_eq!(in_container(env(json!({"name": "A"})), json!({})), [r#"- env[A] """#]);
        assert_eq!(
            in_container(env(json!({"name": "A"})), env(secret("b"))),
            [r#"~ env[A] "" → {"name":"A","valueFrom":{"secretKeyRef":{"key":"b","name":"s"}}}"#]
        );
        // Unknown fields of a variable are not omitted.
        assert_eq!(
            in_container(env(json!({"name": "A", "value": "1", "new": "x"})), json!({})),
            [r#"- env[A] {"name":"A","new":"x","value":"1"}"#]
        );
    }

    #[test]
    fn arguments_are_compared_one_by_one() {
        let args = |args: &[&str]| json!({"args": args});
        assert_eq!(
            in_container(args(&["-a", "--level=info", "-c"]), args(&["-a", "--level=debug", "-c", "-d"])),
            [r#"~ args[1] "--level=info" → "--level=debug""#, r#"+ args[3] "-d""#]
        );
        assert_eq!(in_container(args(&["-a", "-b", "-c"]), args(&["-b", "-c"])), [r#"- args[0] "-a""#]);
        assert_eq!(
            in_container(args(&["-a", "-b", "-c"]), args(&["-x", "-c"])),
            [r#"- args[0] "-a""#, r#"- args[1] "-b""#, r#"+ args[0] "-x""#]
        );
        assert_eq!(in_container(args(&["a", "b"]), args(&["c"])), [r#"~ args ["a","b"] → ["c"]"#]);
        assert_eq!(in_container(args(&["a"]), args(&["c"])), [r#"~ args[0] "a" → "c""#]);
        assert_eq!(in_container(args(&["a"]), json!({})), [r#"- args ["a"]"#]);
    }

    #[test]
    fn fields_that_are_not_known_are_compared_too() {
        assert_eq!(
            lines(json!({"spec": {"new": {"a": [1, 2]}}}), json!({"spec": {"new": {"a": [1], "b": false}}})),
            ["- spec.new.a[1] 2", "+ spec.new.b false"]
        );
    }

    #[test]
    fn templates_of_the_wrong_shape_are_compared_as_they_are() {
        assert_eq!(lines(json!({"spec": 1}), json!({"spec": "x"})), [r#"~ spec 1 → "x""#]);
        assert_eq!(lines(json!({"metadata": {"labels": ["a"]}}), json!({})).len(), 1);
        assert_eq!(lines(json!([]), json!([])), [""; 0]);
    }
}
