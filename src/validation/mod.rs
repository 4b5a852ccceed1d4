//! The API server's validation of apps/v1 DaemonSets, for answers without a server.
//!
//! An object is first checked against the Go types ([`decode`]), as the server decodes it under `fieldValidation=Strict`; then,
//! with the API's defaults filled in, against the validation rules: [`rules`] is the table of rules for single fields, and the
//! other modules contain the rules that compare fields. Everything is ported from release 1.37.2 with its default feature gates, by
//! which fields of disabled features are dropped before validation. Paths are those of the server, even if they are odd.
//! tests/e2e/validation checks all of it against the real functions.

mod containers;
mod decode;
mod formats;
mod pod;
mod resources;
mod rules;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use self::formats::Format;
use crate::model::daemon_set::{Flavor, UpdateStrategy};
use crate::model::metadata::TEMPLATE_GENERATION_ANNOTATION;
use crate::model::selector::LabelSelector;
use crate::model::template;
use crate::model::template_types::{DaemonSet, PodTemplateSpec, Type};
use crate::model::update_strategy::Problem;

/// Returns the API server's errors for an apps/v1 DaemonSet, given the manifest as sent and the merged object.
pub fn problems_of_daemon_set(manifest: &Value, merged: &Value) -> Vec<Problem> {
    problems(&DaemonSet, (manifest, merged), "", |found, at| found.daemon_set(at))
}

/// Returns the API server's errors for the pod template at a path, like [`problems_of_daemon_set`].
pub fn problems_of_template(manifest: &Value, merged: &Value, path: &str) -> Vec<Problem> {
    problems(&PodTemplateSpec, (manifest, merged), path, |found, at| found.pod_template(at))
}

/// Only the manifest is checked against the types: the rest of the merged object was decoded by a server, which may be newer.
fn problems(
    of: &'static Type,
    (manifest, merged): (&Value, &Value),
    path: &str,
    check: impl for<'a> FnOnce(&mut Validation<'a>, &At<'a>),
) -> Vec<Problem> {
    let problems = decode::problems(of, manifest, path);
    if !problems.is_empty() {
        return problems;
    }
    let mut given = if merged.is_null() { json!({}) } else { merged.clone() };
    template::drop_noise(&mut given, Some(of));
    let normal = template::normal(of, &given);
    let mut found = Validation::default();
    check(&mut found, &At { path: path.to_owned(), value: &normal, given: &given });
    found.problems
}

/// Names of finalizers without a domain.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// A value and its path.
#[derive(Clone)]
struct At<'a> {
    path: String,
    /// With the API's defaults, and without values that are equivalent to absence; null if absent.
    value: &'a Value,
    given: &'a Value,
}

impl<'a> At<'a> {
    fn field(&self, name: &str) -> At<'a> {
        At { path: self.child(name), value: &self.value[name], given: &self.given[name] }
    }

    /// Returns the same value with the path in the API server's messages.
    fn named(self, path: String) -> At<'a> {
        At { path, ..self }
    }

    fn child(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn entry(&self, key: &str) -> String {
        format!("{}[{key}]", self.path)
    }

    fn items(&self) -> impl Iterator<Item = At<'a>> + use<'a> {
        let (path, given) = (self.path.clone(), self.given);
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(move |(index, value)| At { path: format!("{path}[{index}]"), value, given: &given[index] })
    }

    fn list(&self, name: &str) -> impl Iterator<Item = At<'a>> + use<'a> {
        self.field(name).items()
    }

    fn is_there(&self) -> bool {
        !self.value.is_null()
    }

    fn has(&self, name: &str) -> bool {
        !self.value[name].is_null()
    }

    fn is_true(&self, name: &str) -> bool {
        self.value[name] == true
    }

    fn as_text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    fn text(&self, name: &str) -> &'a str {
        self.value[name].as_str().unwrap_or_default()
    }

    fn number(&self, name: &str) -> i64 {
        self.value[name].as_i64().unwrap_or_default()
    }

    fn texts(&self, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let texts = self.value[name].as_object().into_iter().flatten();
        texts.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }
}

/// The errors so far, and the parts of the pod to which other fields refer.
#[derive(Default)]
struct Validation<'a> {
    problems: Vec<Problem>,
    pod: PodFacts<'a>,
}

/// The parts of a pod to which fields refer.
#[derive(Default)]
struct PodFacts<'a> {
    /// The valid volumes, by name.
    volumes: BTreeMap<&'a str, &'a Value>,
    claims: BTreeSet<&'a str>,
    grace_period: Option<i64>,
    shares_users_with_host: bool,
}

impl Validation<'_> {
    fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { path: path.into(), message: message.into() });
    }

    fn required(&mut self, path: impl Into<String>) {
        self.problem(path, "Required value");
    }

    fn forbidden(&mut self, path: impl Into<String>, why: &str) {
        self.problem(path, format!("Forbidden: {why}"));
    }

    fn duplicate(&mut self, path: impl Into<String>, value: &str) {
        self.problem(path, format!("Duplicate value: {value:?}"));
    }

    fn invalid(&mut self, path: impl Into<String>, value: &str, why: &str) {
        self.problem(path, format!("Invalid value: {value:?}: {why}"));
    }

    fn invalid_at(&mut self, at: &At<'_>, why: &str) {
        self.problem(&*at.path, format!("Invalid value: {}: {why}", at.value));
    }

    fn check(&mut self, path: impl Into<String>, text: &str, format: Format) {
        if let Some(why) = format(text) {
            self.invalid(path, text, why);
        }
    }

    fn one_of(&mut self, path: impl Into<String>, text: &str, supported: &[&str]) {
        if !supported.contains(&text) {
            let supported: Vec<_> = supported.iter().map(|one| format!("{one:?}")).collect();
            self.problem(path, format!("Unsupported value: {text:?}: supported values: {}", supported.join(", ")));
        }
    }

    fn range(&mut self, at: &At<'_>, least: i64, most: i64) {
        if at.value.as_i64().is_some_and(|number| !(least..=most).contains(&number)) {
            self.invalid_at(at, &format!("must be between {least} and {most}, inclusive"));
        }
    }
}

impl<'a> Validation<'a> {
    /// `ValidateDaemonSet` and `ValidateDaemonSetSpec`, pkg/apis/apps/validation/validation.go.
    fn daemon_set(&mut self, at: &At<'a>) {
        self.object_meta(&at.field("metadata"));
        let spec = at.field("spec");
        let selector = spec.field("selector");
        let before = self.problems.len();
        self.label_selector(&selector);
        let labels = &spec.value["template"]["metadata"]["labels"];
        let (is_empty, matches) = match selector.given.is_null() {
            true => (false, false),
            false => {
                let read = serde_json::from_value::<LabelSelector>(selector.value.clone()).unwrap_or_default();
                let labels = serde_json::from_value(labels.clone()).unwrap_or_default();
                (read.is_empty(), read.matches(&labels))
            }
        };
        let template = spec.field("template");
        if self.problems.len() == before && !matches {
            let why = match selector.given.is_null() {
                true => "`selector` does not match template `labels`: there is no `selector`",
                false => "`selector` does not match template `labels`",
            };
            self.problem(template.child("metadata.labels"), format!("Invalid value: {labels}: {why}"));
        }
        if is_empty {
            self.problem(&*selector.path, "Invalid value: empty selector is invalid for daemonset");
        }
        self.pod_template(&template);
        let pod = template.field("spec");
        self.one_of(pod.child("restartPolicy"), pod.text("restartPolicy"), &["Always"]);
        if pod.has("activeDeadlineSeconds") {
            self.forbidden(pod.child("activeDeadlineSeconds"), "activeDeadlineSeconds in DaemonSet is not Supported");
        }
        for field in ["minReadySeconds", "revisionHistoryLimit"] {
            self.range(&spec.field(field), 0, i64::MAX);
        }
        self.update_strategy(&spec.field("updateStrategy"));
    }

    /// `ValidateDaemonSetUpdateStrategy`, pkg/apis/apps/validation/validation.go.
    fn update_strategy(&mut self, at: &At<'a>) {
        let mut given = at.given.clone();
        for name in
            ["maxUnavailable", "maxSurge"].into_iter().filter(|_| matches!(at.text("type"), "" | "RollingUpdate"))
        {
            let field = at.field("rollingUpdate").field(name);
            if field.value.is_string() && formats::percent(field.as_text()).is_some() {
                self.check(&*field.path, field.as_text(), formats::percent);
                // `getIntOrPercentValue`
                given["rollingUpdate"][name] = field.as_text().parse::<i32>().unwrap_or_default().into();
            }
        }
        let strategy = serde_json::from_value::<UpdateStrategy>(given).unwrap_or_default();
        self.problems.extend(strategy.problems(Flavor::Apps));
    }

    /// `ValidateObjectMeta`, k8s.io/apimachinery/pkg/api/validation/objectmeta.go, for a new object.
    fn object_meta(&mut self, at: &At<'a>) {
        self.check(at.child("name"), at.text("name"), formats::subdomain);
        if at.has("generateName") {
            self.check(at.child("generateName"), at.text("generateName"), formats::subdomain_prefix);
        }
        self.check(at.child("namespace"), at.text("namespace"), formats::label);
        self.labels(&at.field("labels"));
        self.annotations(&at.field("annotations"));
        // `Convert_v1_DaemonSet_To_apps_DaemonSet`, pkg/apis/apps/v1/conversion.go
        for (key, value) in at.texts("annotations").filter(|(key, _)| *key == TEMPLATE_GENERATION_ANNOTATION) {
            if value.parse::<i64>().is_err() {
                self.invalid(at.field("annotations").entry(key), value, "must be an integer");
            }
        }
        let mut controllers = 0;
        for owner in at.list("ownerReferences") {
            let (group, version) = owner.text("apiVersion").rsplit_once('/').unwrap_or(("", owner.text("apiVersion")));
            if owner.has("apiVersion") && (version.is_empty() || group.contains('/')) {
                self.invalid(
                    owner.child("apiVersion"),
                    owner.text("apiVersion"),
                    "must be <group>/<version> or <version>",
                );
            }
            for field in ["apiVersion", "kind", "name", "uid"] {
                if owner.text(field).is_empty() {
                    self.required(owner.child(field));
                }
            }
            if (owner.text("apiVersion"), owner.text("kind")) == ("v1", "Event") {
                self.problem(&*owner.path, "Invalid value: an Event is disallowed from being an owner");
            }
            controllers += usize::from(owner.is_true("controller"));
        }
        if controllers > 1 {
            let path = at.child("ownerReferences");
            self.problem(path, "Invalid value: only one reference can have `controller` set to true");
        }
        let finalizers = at.field("finalizers");
        for finalizer in finalizers.items() {
            self.check(&*finalizers.path, finalizer.as_text(), formats::qualified_name);
            // `validateKubeFinalizerName`, pkg/apis/core/validation/validation.go
            if !(finalizer.as_text().contains('/') || STANDARD_FINALIZERS.contains(&finalizer.as_text())) {
                self.invalid_at(&finalizer, "name is neither a standard finalizer name nor is it fully qualified");
            }
        }
        let has = |name: &str| finalizers.items().any(|one| one.as_text() == name);
        if has("orphan") && has("foregroundDeletion") {
            self.problem(&*finalizers.path, "Invalid value: orphan and foregroundDeletion cannot be both set");
        }
    }

    /// `ValidateLabels`, k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go.
    fn labels(&mut self, at: &At<'_>) {
        for (key, value) in at.value.as_object().into_iter().flatten() {
            self.check(&*at.path, key, formats::qualified_name);
            self.check(&*at.path, value.as_str().unwrap_or_default(), formats::label_value);
        }
    }

    /// `ValidateAnnotations`, k8s.io/apimachinery/pkg/api/validation/objectmeta.go.
    fn annotations(&mut self, at: &At<'_>) {
        let mut size = 0;
        for (key, value) in at.value.as_object().into_iter().flatten() {
            self.check(&*at.path, &key.to_lowercase(), formats::qualified_name);
            size += key.len() + value.as_str().unwrap_or_default().len();
        }
        if size > 256 * 1024 {
            self.problem(&*at.path, "Too long: may not be more than 262144 bytes");
        }
    }

    /// `ValidateLabelSelector`, k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go.
    fn label_selector(&mut self, at: &At<'_>) {
        self.labels(&at.field("matchLabels"));
        for requirement in at.list("matchExpressions") {
            self.requirement(&requirement, &["In", "NotIn"], &["Exists", "DoesNotExist"], true);
        }
    }

    /// Checks a label requirement, given the operators with and without values.
    fn requirement(&mut self, at: &At<'_>, with: &[&str], without: &[&str], checks_values: bool) {
        let values = at.field("values");
        match at.text("operator") {
            operator if with.contains(&operator) && !values.is_there() => self.required(&*values.path),
            operator if without.contains(&operator) && values.is_there() => {
                self.forbidden(&*values.path, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
            }
            operator if with.contains(&operator) || without.contains(&operator) => {}
            operator => self.invalid(at.child("operator"), operator, "not a valid selector operator"),
        }
        self.check(at.child("key"), at.text("key"), formats::qualified_name);
        for value in values.items().filter(|_| checks_values) {
            self.check(&*value.path, value.as_text(), formats::label_value);
        }
    }

    /// Reports names that occur twice in a list.
    fn unique(&mut self, list: &At<'a>) {
        let mut seen = BTreeSet::new();
        for item in list.items() {
            if !item.text("name").is_empty() && !seen.insert(item.text("name")) {
                self.duplicate(item.child("name"), item.text("name"));
            }
        }
    }
}
