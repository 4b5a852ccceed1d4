//! Pod templates in JSON: the form that is written back, and the normal form that is compared.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::metadata::RESTARTED_AT_ANNOTATION;
use super::quantity::Quantity;
use super::template_defaults;
use super::template_parts::{Reference, references, texts};
use super::template_types::{FieldKind, PodTemplateSpec, Scalar, Type};

/// A pod template as JSON, with every field, including unknown ones.
#[derive(Debug, Clone)]
pub struct Template {
    value: Value,
    /// Its normal form and the hash of that: each of thousands of revisions is compared with all others.
    meaning: OnceLock<(u64, Value)>,
}

impl PartialEq for Template {
    fn eq(&self, other: &Template) -> bool {
        self.value == other.value
    }
}

impl Template {
    /// Removes what has no meaning: nulls, which Go reads as absent, and the `$patch` in a revision's data.
    pub fn new(mut value: Value) -> Self {
        drop_noise(&mut value, Some(&PodTemplateSpec));
        Template { value, meaning: OnceLock::new() }
    }

    /// Returns the template as it is written back to the API.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the time of the last restart in its annotation.
    pub(crate) fn restarted_at(&self) -> Option<&str> {
        self.value["metadata"]["annotations"][RESTARTED_AT_ANNOTATION].as_str()
    }

    /// Returns the canonical form of the template, except for the order of lists.
    ///
    /// The API's defaults are set, quantities are canonical, and values that are equivalent to absence are removed.
    /// Unknown fields and values of the wrong type are kept as they are.
    pub fn normal(&self) -> Value {
        normal(&PodTemplateSpec, &self.value)
    }

    /// Returns whether its pods cannot start without an object, or without a key of it.
    pub fn needs(&self, kind: &str, name: &str, key: Option<&str>) -> bool {
        let is_it = |it: &Reference<'_>| it.kind == kind && it.name == name && !it.is_optional();
        references(&self.value).iter().any(|it| is_it(it) && key.is_none_or(|key| it.has_key(key)))
    }

    /// Returns whether something in the pod's spec has a field, with a value other than the usual one.
    pub fn sets(&self, field: &str) -> bool {
        fn sets(value: &Value, field: &str) -> bool {
            match value {
                Value::Object(fields) => fields.iter().any(|(name, value)| {
                    let is_usual = value.is_null() || *value == false || value.as_array().is_some_and(Vec::is_empty);
                    (name == field && !is_usual) || sets(value, field)
                }),
                Value::Array(items) => items.iter().any(|item| sets(item, field)),
                _ => false,
            }
        }
        sets(&self.value["spec"], field)
    }

    /// Returns every text that is the value of a field.
    pub fn texts(&self) -> BTreeSet<&str> {
        texts(&self.value).into_iter().collect()
    }

    /// Returns whether two templates are semantically equal.
    pub fn same_meaning(&self, other: &Template) -> bool {
        self.meaning() == other.meaning()
    }

    /// Returns whether two templates may mean the same to a release whose defaults are unknown here: one has all fields of the other.
    pub fn may_be_same(&self, other: &Template) -> bool {
        let (one, other) = (&self.meaning().1, &other.meaning().1);
        // Metadata has no defaults.
        one["metadata"] == other["metadata"] && (has_all(one, other) || has_all(other, one))
    }

    fn meaning(&self) -> &(u64, Value) {
        self.meaning.get_or_init(|| {
            let (arranged, mut hasher) = (arranged(&PodTemplateSpec, &self.normal()), DefaultHasher::new());
            arranged.hash(&mut hasher);
            (hasher.finish(), arranged)
        })
    }
}

/// Returns whether a value has all fields of another one, with their values.
fn has_all(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| has_all(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| has_all(whole, part))
        }
        (whole, part) => whole == part,
    }
}

/// Removes null fields and strategic merge patch directives. In lists and maps, Go reads null as the zero value.
pub(crate) fn drop_noise(value: &mut Value, of: Option<&Type>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| !field.is_null() && name != "$patch");
            for (name, field) in fields {
                match of.and_then(|of| Some(&of.field(name)?.kind)) {
                    Some(FieldKind::Texts | FieldKind::Values(Scalar::Text)) => fill_in(field, &json!("")),
                    Some(FieldKind::Values(_)) => fill_in(field, &json!(0)),
                    Some(FieldKind::Quantities) => fill_in(field, &json!("0")),
                    Some(FieldKind::Struct(of) | FieldKind::Optional(of) | FieldKind::List(of, _)) => {
                        drop_noise(field, Some(of))
                    }
                    _ => drop_noise(field, None),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                if of.is_some() && item.is_null() {
                    *item = json!({});
                }
                drop_noise(item, of);
            }
        }
        _ => {}
    }
}

/// Replaces nulls in a list or map.
fn fill_in(values: &mut Value, zero: &Value) {
    let values: Vec<&mut Value> = match values {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(entries) => entries.values_mut().collect(),
        _ => return,
    };
    values.into_iter().filter(|value| value.is_null()).for_each(|value| *value = zero.clone());
}

/// Returns the canonical form of an object of a type: see [`Template::normal`].
pub(crate) fn normal(of: &Type, value: &Value) -> Value {
    let Value::Object(given) = value else { return value.clone() };
    let mut fields = Map::new();
    for (name, value) in given {
        let value = of.field(name).map_or_else(|| Some(value.clone()), |field| normal_field(&field.kind, value));
        fields.extend(value.map(|value| (name.clone(), value)));
    }
    for field in of.fields {
        // A struct that is not a pointer is always present in Go, and may have defaults.
        if let FieldKind::Struct(of) = field.kind
            && !fields.contains_key(field.name)
        {
            let value = normal(of, &json!({}));
            fields.extend(Some(value).filter(|value| *value != json!({})).map(|value| (field.name.to_owned(), value)));
        }
    }
    template_defaults::apply(of.name, &mut fields);
    Value::Object(fields)
}

/// Returns the normal form of a field's value, or `None` if it is equivalent to absence.
fn normal_field(kind: &FieldKind, value: &Value) -> Option<Value> {
    let value = match (kind, value) {
        (FieldKind::Optional(of), _) => return Some(normal(of, value)),
        (FieldKind::Struct(of), _) => normal(of, value),
        (FieldKind::List(of, _), Value::Array(entries)) => entries.iter().map(|entry| normal(of, entry)).collect(),
        (FieldKind::Quantities, Value::Object(amounts)) => {
            amounts.iter().map(|(name, amount)| (name.clone(), resource_amount(name, amount))).collect()
        }
        (FieldKind::OptionalQuantity, _) => return Some(canonical(value, Quantity::canonical)),
        (FieldKind::Quantity, _) => match canonical(value, Quantity::canonical) {
            Value::String(zero) if zero == "0" => return None,
            value => value,
        },
        _ => value.clone(),
    };
    let means_nothing = match (kind, &value) {
        (FieldKind::Value(_), Value::Bool(given)) => !given,
        (FieldKind::Value(_), Value::String(text)) => text.is_empty(),
        (FieldKind::Value(_) | FieldKind::IntOrString, Value::Number(number)) => number.as_f64() == Some(0.0),
        (FieldKind::Values(_) | FieldKind::List(..), Value::Array(items)) => items.is_empty(),
        (FieldKind::Texts | FieldKind::Quantities | FieldKind::Struct(_), Value::Object(fields)) => fields.is_empty(),
        _ => false,
    };
    (!means_nothing).then_some(value)
}

/// Returns the canonical quantity of a resource: at most milli precision, and cpu never with a binary suffix.
///
/// Ported from `SetDefaults_ResourceList`, pkg/apis/core/v1/defaults.go, release 1.37.2.
fn resource_amount(resource: &str, amount: &Value) -> Value {
    canonical(amount, |amount| {
        let amount = amount.round_up_to_milli()?;
        if resource == "cpu" { amount.canonical_decimal() } else { amount.canonical() }
    })
}

/// Returns the canonical spelling of a quantity; anything else is returned unchanged.
fn canonical(value: &Value, spell: impl Fn(&Quantity) -> Option<String>) -> Value {
    let quantity = match value {
        Value::String(text) => Quantity::new(text.trim()),
        Value::Number(number) => Quantity::new(number.to_string()),
        _ => return value.clone(),
    };
    spell(&quantity).map_or_else(|| value.clone(), Value::String)
}

/// Sorts the lists of a value in normal form unless their order matters.
pub fn arranged(of: &Type, value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let arrange = |(name, value): (&String, &Value)| {
        let value = match (of.field(name).map(|field| &field.kind), value) {
            (Some(FieldKind::Struct(of) | FieldKind::Optional(of)), _) => arranged(of, value),
            (Some(FieldKind::List(of, key)), Value::Array(entries)) => {
                let entries: Vec<Value> = entries.iter().map(|entry| arranged(of, entry)).collect();
                key.arrange(&entries).into()
            }
            _ => value.clone(),
        };
        (name.clone(), value)
    };
    Value::Object(fields.iter().map(arrange).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Template;

    fn normal_spec(spec: Value) -> Value {
        Template::new(json!({"spec": spec})).normal()["spec"].clone()
    }

    #[test]
    fn nulls_and_directives_are_gone_and_the_rest_is_kept() {
        let template = Template::new(json!({
            "$patch": "replace",
            "metadata": {"creationTimestamp": null, "labels": {"a": null}},
            "spec": {"containers": [{"name": "a", "image": null, "newField": {"x": null, "y": [null]}}], "$patch": "x"},
        }));
        assert_eq!(
            *template.value(),
            json!({
                "metadata": {"labels": {"a": ""}},
                "spec": {"containers": [{"name": "a", "newField": {"y": [null]}}]},
            })
        );
    }

    #[test]
    fn the_emptiest_template_has_the_defaults_of_a_pod() {
        let expected = json!({"spec": {
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        }});
        assert_eq!(Template::new(json!({})).normal(), expected);
        let spelt_out = json!({"metadata": {"creationTimestamp": null, "labels": {}}, "spec": {"hostPID": false}});
        assert_eq!(Template::new(spelt_out).normal(), expected);
    }

    #[test]
    fn what_is_empty_stays_where_its_presence_means_something() {
        let spec = normal_spec(json!({
            "automountServiceAccountToken": false,
            "priority": 0,
            "hostNetwork": false,
            "containers": [{"name": "a", "securityContext": {"privileged": false}, "stdin": false}],
        }));
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(spec["priority"], 0);
        assert_eq!(spec.get("hostNetwork"), None);
        assert_eq!(spec["containers"][0]["securityContext"]["privileged"], false);
        assert_eq!(spec["containers"][0].get("stdin"), None);
    }

    #[test]
    fn amounts_have_one_spelling() {
        let spec = normal_spec(json!({
            "overhead": {"cpu": "1024", "memory": 1024},
            "containers": [{"resources": {"limits": {"cpu": "1000m", "memory": "0.5Gi", "x": "0.1m", "bad": "12Q"}}}],
            "volumes": [{"emptyDir": {"sizeLimit": "1048576"}}],
        }));
        assert_eq!(spec["overhead"], json!({"cpu": "1024", "memory": "1Ki"}));
        let limits = &spec["containers"][0]["resources"]["limits"];
        assert_eq!(*limits, json!({"cpu": "1", "memory": "512Mi", "x": "1m", "bad": "12Q"}));
        assert_eq!(spec["volumes"][0]["emptyDir"]["sizeLimit"], "1Mi");
    }

    #[test]
    fn templates_that_the_api_would_refuse_are_kept_as_they_are() {
        for value in [json!(null), json!(5), json!([1]), json!({"spec": "x"}), json!({"spec": {"containers": {}}})] {
            let template = Template::new(value);
            assert!(template.same_meaning(&Template::new(template.normal())));
        }
        let containers = json!([5, {"ports": "x", "resources": [], "env": [null]}]);
        let spec = normal_spec(json!({"containers": containers}));
        assert_eq!(spec["containers"][0], 5);
        assert_eq!(spec["containers"][1]["ports"], "x");
    }

    #[test]
    fn the_old_name_of_the_service_account_yields_to_the_new_one() {
        let spec = normal_spec(json!({"serviceAccount": "old", "serviceAccountName": "new"}));
        assert_eq!((&spec["serviceAccount"], &spec["serviceAccountName"]), (&json!("new"), &json!("new")));
    }
}
