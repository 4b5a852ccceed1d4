//! Applies differences to the template that they are relative to.

use std::collections::BTreeMap;

use kubectl_ds::model::template::{Template, arranged};
use kubectl_ds::model::template_keys::Key;
use kubectl_ds::model::template_types::{FieldKind, PodTemplateSpec, Type};
use kubectl_ds::report::change::{Change, Op, PathStep};
use serde_json::{Value, json};

/// A change, and what is left of its path.
type Part<'a> = (&'a [PathStep], &'a Change);

/// Returns the template that the differences lead to; fails where one does not start from what is there.
pub fn apply(from: &Template, changes: &[Change]) -> Template {
    let parts: Vec<Part> = changes.iter().map(|change| (change.path.0.as_slice(), change)).collect();
    let mut value = Some(from.normal());
    apply_in(Some(&FieldKind::Struct(&PodTemplateSpec)), &mut value, &parts);
    let mut value = value.unwrap_or_else(|| json!({}));
    if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
        // Changes name one of the two fields only, and the other follows it.
        spec.remove("serviceAccount");
    }
    Template::new(value)
}

fn apply_in(kind: Option<&FieldKind>, slot: &mut Option<Value>, parts: &[Part]) {
    if let [([], change)] = parts {
        assert_eq!(*slot, change.from, "{} does not start from what is there", change.path);
        slot.clone_from(&change.to);
        return;
    }
    match (kind, slot.take()) {
        (Some(FieldKind::List(of, key)), list) if *key != Key::Sequence => {
            let list = match list.unwrap_or_else(|| json!([])) {
                Value::Array(list) => edit_list(of, *key, list, parts),
                other => panic!("{other} is no list"),
            };
            *slot = (!list.is_empty()).then(|| list.into());
        }
        (_, Some(Value::Array(list))) => {
            let list = edit_sequence(list, parts);
            let stays = !list.is_empty() || kind.is_none();
            *slot = stays.then(|| list.into());
        }
        (_, object) => {
            let Value::Object(mut fields) = object.unwrap_or_else(|| json!({})) else { panic!("no fields: {parts:?}") };
            for (name, parts) in by_first_step(parts) {
                let kind = match kind {
                    Some(FieldKind::Struct(of) | FieldKind::Optional(of)) => of.field(&name).map(|field| &field.kind),
                    _ => None,
                };
                let mut field = fields.remove(&name);
                apply_in(kind, &mut field, &parts);
                fields.extend(field.map(|field| (name, field)));
            }
            let may_go = matches!(kind, Some(FieldKind::Struct(_) | FieldKind::Texts | FieldKind::Quantities));
            *slot = (!fields.is_empty() || !may_go).then(|| fields.into());
        }
    }
}

/// Groups changes by the first step of what is left of their paths.
fn by_first_step<'a>(parts: &[Part<'a>]) -> BTreeMap<String, Vec<Part<'a>>> {
    let mut groups: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for (steps, change) in parts {
        let name = match &steps[0] {
            PathStep::Field(name) | PathStep::Entry(name) => name.clone(),
            PathStep::Index(index) => index.to_string(),
            PathStep::Order => panic!("no list is here: {}", change.path),
        };
        groups.entry(name).or_default().push((&steps[1..], change));
    }
    groups
}

fn edit_list(of: &'static Type, key: Key, mut list: Vec<Value>, parts: &[Part]) -> Vec<Value> {
    let (order, entries): (Vec<Part>, Vec<Part>) = parts.iter().partition(|(steps, _)| steps[0] == PathStep::Order);
    for (name, parts) in by_first_step(&entries) {
        let is_it = |place: usize, entry: &Value| match key {
            Key::Loose => place.to_string() == name,
            _ => key.of(entry) == name,
        };
        if parts.iter().all(|(rest, change)| rest.is_empty() && change.op != Op::Replace) {
            continue;
        }
        let places: Vec<usize> = (0..list.len()).filter(|&place| is_it(place, &list[place])).collect();
        assert_eq!(places.len(), 1, "{name} is not clear: {parts:?}");
        let mut entry = Some(list[places[0]].clone());
        match parts[..] {
            [([], change)] => {
                let step = PathStep::Entry(name);
                assert_eq!(Some(&list[places[0]]), whole(of, &step, change.from.as_ref()).as_ref());
                entry = whole(of, &step, change.to.as_ref());
            }
            _ => apply_in(Some(&FieldKind::Struct(of)), &mut entry, &parts),
        }
        list[places[0]] = entry.unwrap_or_else(|| json!({}));
    }
    for (steps, change) in &entries {
        let ([step], Op::Remove) = (steps, change.op) else { continue };
        let gone = arranged(of, &whole(of, step, change.from.as_ref()).unwrap());
        let place = list.iter().position(|entry| arranged(of, entry) == gone);
        list.remove(place.unwrap_or_else(|| panic!("{} is not there", change.path)));
    }
    for (steps, change) in &entries {
        let ([step], Op::Add) = (steps, change.op) else { continue };
        list.push(whole(of, step, change.to.as_ref()).unwrap());
    }
    if let [(_, change)] = order[..] {
        let mut left = std::mem::take(&mut list);
        for name in change.to.iter().flat_map(|names| names.as_array().unwrap()) {
            let place = left.iter().position(|entry| key.of(entry) == *name).unwrap();
            list.push(left.remove(place));
        }
        assert_eq!(left, Vec::<Value>::new(), "the order lacks some");
    }
    list
}

/// Returns the entry that a change shows; a variable may be shown as its value.
fn whole(of: &Type, step: &PathStep, shown: Option<&Value>) -> Option<Value> {
    let name = match step {
        PathStep::Entry(name) if !name.is_empty() => name,
        _ => return shown.cloned(),
    };
    Some(match shown? {
        Value::String(text) if of.name == "EnvVar" && text.is_empty() => json!({"name": name}),
        Value::String(text) if of.name == "EnvVar" => json!({"name": name, "value": text}),
        entry => entry.clone(),
    })
}

fn edit_sequence(list: Vec<Value>, parts: &[Part]) -> Vec<Value> {
    let place = |steps: &[PathStep]| match steps {
        [PathStep::Index(place)] => *place,
        other => panic!("{other:?} is no place in a list"),
    };
    let mut items: Vec<Option<Value>> = list.into_iter().map(Some).collect();
    for (steps, change) in parts.iter().filter(|(_, change)| change.op != Op::Add) {
        let item = &mut items[place(steps)];
        assert_eq!(*item, change.from, "{}", change.path);
        item.clone_from(&change.to);
    }
    let mut items: Vec<Value> = items.into_iter().flatten().collect();
    let mut added: Vec<(usize, &Value)> = Vec::new();
    added.extend(
        parts
            .iter()
            .filter(|(_, change)| change.op == Op::Add)
            .map(|(steps, change)| (place(steps), change.to.as_ref().unwrap())),
    );
    added.sort_by_key(|(place, _)| *place);
    for (place, item) in added {
        items.insert(place, item.clone());
    }
    items
}
