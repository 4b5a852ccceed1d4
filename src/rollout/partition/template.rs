//! The template that a stage rolls out, and what else the manifest of it would change.

use serde_json::{Map, Value};

use super::plan::Refusal;
use crate::model::daemon_set::DaemonSet;
use crate::model::metadata::LAST_APPLIED_ANNOTATION;
use crate::model::template::Template;
use crate::plan::Plan;
use crate::report::change::Change;
use crate::rollout::difference::object;
use crate::rollout::revisions::{Revisions, name_of};

/// The template that is rolled out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NewTemplate {
    /// That of the DaemonSet.
    Live,
    /// That with these images, by container.
    Images(Vec<(String, String)>),
    /// That of a revision.
    Revision(i64),
    /// That of a manifest.
    Manifest(Box<DaemonSet>),
}

/// Returns the template that is rolled out, if it is not that of the DaemonSet.
pub(super) fn template(revisions: &Revisions<'_>, wanted: &NewTemplate) -> Result<Option<Template>, Refusal> {
    let template = match wanted {
        NewTemplate::Live => return Ok(None),
        NewTemplate::Revision(number) => {
            let revision = revisions.number(*number).and_then(|revision| revision.template.as_ref().ok());
            revision.cloned().ok_or(Refusal::NoSuchRevision(*number))?
        }
        NewTemplate::Manifest(manifest) => {
            let (live, given) = (name_of(revisions.daemon_set), name_of(manifest));
            if (&live.namespace, &live.name) != (&given.namespace, &given.name)
                || manifest.flavor() != revisions.daemon_set.flavor()
            {
                return Err(Refusal::OtherManifest(given));
            }
            if !revisions.daemon_set.spec.selector.matches(&manifest.spec.template.metadata.labels) {
                return Err(Refusal::SelectorMismatch);
            }
            manifest.template()
        }
        NewTemplate::Images(images) => {
            let mut template = revisions.live.value().clone();
            for (name, image) in images {
                let container = ["/spec/containers", "/spec/initContainers"].into_iter().find_map(|path| {
                    let containers = template.pointer(path)?.as_array()?;
                    let at = containers.iter().position(|container| container["name"] == name.as_str())?;
                    Some(format!("{path}/{at}"))
                });
                let container = container.ok_or_else(|| Refusal::NoSuchContainer(name.clone()))?;
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
