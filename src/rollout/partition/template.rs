//! The template that a stage rolls out, and what else the manifest of it would change.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::plan::StageRefusal;
use crate::difference::object;
use crate::facts::revisions::{Address, Revisions, name_of};
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::LAST_APPLIED_ANNOTATION;
use crate::model::template::Template;
use crate::plan::Plan;
use crate::report::change::Change;

/// The template that is rolled out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NewTemplate {
    /// That of the DaemonSet.
    Live,
    /// That with these images, by container.
    Images(Vec<(String, String)>),
    Revision(i64),
    Manifest(Box<DaemonSet>),
    /// That of the DaemonSet with a restart at this time.
    Restart(Timestamp),
}

/// Returns the template that is rolled out, if it is not that of the DaemonSet.
pub(super) fn template(revisions: &Revisions<'_>, wanted: &NewTemplate) -> Result<Option<Template>, StageRefusal> {
    let template = match wanted {
        NewTemplate::Live => return Ok(None),
        NewTemplate::Revision(number) => {
            let found = revisions.find(Address::Number(*number));
            found.map_err(|unknown| StageRefusal::NoTemplate(*number, unknown))?.1.clone()
        }
        NewTemplate::Manifest(manifest) => {
            let (live, given) = (name_of(revisions.daemon_set), name_of(manifest));
            if (&live.namespace, &live.name) != (&given.namespace, &given.name)
                || manifest.flavor() != revisions.daemon_set.flavor()
            {
                return Err(StageRefusal::OtherManifest(given));
            }
            if !revisions.daemon_set.spec.selector.matches(&manifest.spec.template.metadata.labels) {
                return Err(StageRefusal::SelectorMismatch);
            }
            manifest.template()
        }
        NewTemplate::Restart(at) => {
            let object = &revisions.daemon_set.object;
            let restarted = Plan::restart(revisions.daemon_set, *at).applied_to(object);
            Template::new(restarted.unwrap_or_else(|_| object.clone())["spec"]["template"].take())
        }
        NewTemplate::Images(images) => {
            let mut template = revisions.live.value().clone();
            for (name, image) in images {
                let container = ["/spec/containers", "/spec/initContainers"].into_iter().find_map(|path| {
                    let containers = template.pointer(path)?.as_array()?;
                    let at = containers.iter().position(|container| container["name"] == name.as_str())?;
                    Some(format!("{path}/{at}"))
                });
                let container = container.ok_or_else(|| StageRefusal::NoSuchContainer(name.clone()))?;
                if let Some(container) = template.pointer_mut(&container) {
                    container["image"] = image.as_str().into();
                }
            }
            Template::new(template)
        }
    };
    Ok((!template.same_meaning(&revisions.live)).then_some(template))
}

/// Returns what differs between a DaemonSet as it is without a hold and a manifest, besides the template; fields that the
/// manifest lacks do not differ.
pub(super) fn not_applied(daemon_set: &DaemonSet, wanted: &NewTemplate) -> Vec<Change> {
    let NewTemplate::Manifest(manifest) = wanted else { return Vec::new() };
    let live = Plan::resume(daemon_set).applied_to(&daemon_set.object).unwrap_or_else(|_| daemon_set.object.clone());
    let mut after = live.clone();
    let given = |parent: &str| manifest.object.get(parent).and_then(Value::as_object).into_iter().flatten();
    let metadata = given("metadata").filter(|(name, _)| matches!(name.as_str(), "labels" | "annotations"));
    let spec = given("spec").filter(|(name, _)| *name != "template");
    for (parent, (name, value)) in metadata.map(|one| ("metadata", one)).chain(spec.map(|one| ("spec", one))) {
        // The API server omits some zeros.
        if *value != 0 || live[parent].get(name).is_some() {
            overlay(&mut after[parent][name], value);
        }
    }
    if let Some(annotations) = after.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        match live.pointer("/metadata/annotations").and_then(|live| live.get(LAST_APPLIED_ANNOTATION)) {
            Some(live) => annotations.insert(LAST_APPLIED_ANNOTATION.to_owned(), live.clone()),
            None => annotations.remove(LAST_APPLIED_ANNOTATION),
        };
    }
    object::changes(&live, &after)
}

/// Puts the fields of a value into another one. As in a manifest, null is no value.
fn overlay(into: &mut Value, from: &Value) {
    match from {
        Value::Null => {}
        Value::Object(from) => {
            if !into.is_object() {
                *into = Value::Object(Map::new());
            }
            from.iter().filter(|(_, value)| !value.is_null()).for_each(|(name, value)| overlay(&mut into[name], value));
        }
        from => from.clone_into(into),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{NewTemplate, StageRefusal, not_applied, template};
    use crate::coverage::test_support::{merge, world};
    use crate::facts::revisions::Revisions;
    use crate::model::daemon_set::DaemonSet;

    /// A manifest of the DaemonSet, with another image.
    fn manifest(change: impl Fn(&mut Value)) -> NewTemplate {
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "agent", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "template": {
                    "metadata": {"labels": {"app": "agent"}},
                    "spec": {"containers": [{"name": "agent", "image": "agent:3"}]},
                },
            },
        });
        change(&mut object);
        NewTemplate::Manifest(Box::new(DaemonSet::from_object(object).unwrap()))
    }

    #[test]
    fn the_template_of_a_manifest_is_rolled_out_if_it_is_one_of_the_daemon_set() {
        let snapshot = world().finish();
        let revisions = Revisions::of(&snapshot.daemon_sets[0], &snapshot);
        let of = |path: &str, value: Value| {
            let wanted = manifest(|object| *object.pointer_mut(path).unwrap() = value.clone());
            template(&revisions, &wanted).map(|template| template.map(|template| template.value().clone()))
        };
        let image = "/spec/template/spec/containers/0/image";
        let found = of(image, json!("agent:3")).unwrap().unwrap();
        assert_eq!(found["spec"]["containers"][0]["image"], "agent:3");
        assert_eq!(of(image, json!("agent:2")), Ok(None));
        for (path, value) in
            [("/metadata/name", "other"), ("/metadata/namespace", "other"), ("/apiVersion", "apps.kruise.io/v1beta1")]
        {
            assert!(matches!(of(path, json!(value)), Err(StageRefusal::OtherManifest(_))), "{path}");
        }
        assert_eq!(of("/spec/template/metadata/labels/app", json!("other")), Err(StageRefusal::SelectorMismatch));
    }

    #[test]
    fn what_else_a_manifest_would_change_is_told() {
        let live = world().daemon_set(json!({"spec": {
            "revisionHistoryLimit": 3,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "maxSurge": 0}},
        }}));
        let snapshot = live.finish();
        let changes = |metadata: Value, spec: Value| -> Vec<(String, Value)> {
            let wanted = manifest(|object| {
                merge(object, json!({"metadata": metadata}));
                spec.as_object().unwrap().iter().for_each(|(name, value)| object["spec"][name] = value.clone());
            });
            let changes = not_applied(&snapshot.daemon_sets[0], &wanted).into_iter();
            changes.map(|change| (change.path.to_string(), change.to.unwrap_or_default())).collect()
        };
        let strategy = |strategy: Value| json!({"updateStrategy": strategy});
        for (spec, expected) in [
            (json!({}), vec![]),
            // The API server omits it.
            (json!({"minReadySeconds": 0}), vec![]),
            (json!({"minReadySeconds": 5}), vec![("spec.minReadySeconds", json!(5))]),
            (json!({"revisionHistoryLimit": 0}), vec![("spec.revisionHistoryLimit", json!(0))]),
            (json!({"revisionHistoryLimit": 3}), vec![]),
            (json!({"revisionHistoryLimit": null}), vec![]),
            (strategy(json!({"rollingUpdate": {"maxUnavailable": null}})), vec![]),
            (
                strategy(json!({"rollingUpdate": {"maxUnavailable": 4}})),
                vec![("spec.updateStrategy.rollingUpdate.maxUnavailable", json!(4))],
            ),
        ] {
            let expected: Vec<_> = expected.into_iter().map(|(path, to)| (path.to_owned(), to)).collect();
            assert_eq!(changes(json!({}), spec.clone()), expected, "{spec}");
        }
        let changed = changes(json!({"labels": {"team": "net"}, "resourceVersion": "9"}), json!({}));
        assert_eq!(changed, [("metadata.labels[team]".to_owned(), json!("net"))]);
    }
}
