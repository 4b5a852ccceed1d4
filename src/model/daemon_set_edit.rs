//! Edits to a DaemonSet's object, as `kubectl edit` or `kubectl set` would make them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::hold::{HELD_SINCE_ANNOTATION, ORIGINAL_STRATEGY_ANNOTATION};
use super::int_or_percent::IntOrPercent;

/// An edit to a DaemonSet.
#[derive(Debug, Clone, PartialEq)]
pub enum DaemonSetEdit {
    /// Adds a toleration.
    Toleration(Value),
    /// Sets or removes a label in `nodeSelector`.
    NodeSelector(String, Option<String>),
    /// Sets the image of a container.
    Image(String, String),
    /// Sets resource requests of a container, or of the only one.
    Requests(Option<String>, BTreeMap<String, String>),
    /// Sets how many pods may be unavailable during a rolling update.
    MaxUnavailable(IntOrPercent),
}

impl DaemonSetEdit {
    /// Edits the whole object of a DaemonSet. Fails with the reason if there is nothing to edit.
    pub fn apply(&self, object: &mut Value) -> Result<(), String> {
        let annotations = &object["metadata"]["annotations"];
        let is_held =
            [ORIGINAL_STRATEGY_ANNOTATION, HELD_SINCE_ANNOTATION].iter().any(|key| annotations.get(key).is_some());
        let spec = &mut object["spec"];
        let pod = &mut spec["template"]["spec"];
        match self {
            DaemonSetEdit::Toleration(toleration) => match &mut pod["tolerations"] {
                Value::Array(tolerations) => tolerations.push(toleration.clone()),
                tolerations => *tolerations = json!([toleration]),
            },
            DaemonSetEdit::NodeSelector(key, Some(value)) => pod["nodeSelector"][key] = json!(value),
            DaemonSetEdit::NodeSelector(key, None) => {
                let removed = pod["nodeSelector"].as_object_mut().and_then(|labels| labels.remove(key));
                removed.ok_or_else(|| format!("its nodeSelector has no label {key}"))?;
            }
            DaemonSetEdit::Image(name, image) => container(pod, Some(name))?["image"] = json!(image),
            DaemonSetEdit::Requests(name, requests) => {
                let container = container(pod, name.as_ref())?;
                for (resource, quantity) in requests {
                    container["resources"]["requests"][resource] = json!(quantity);
                }
            }
            DaemonSetEdit::MaxUnavailable(most) => {
                let strategy = &mut spec["updateStrategy"];
                if strategy["type"].as_str().is_some_and(|of| of != "RollingUpdate") {
                    if is_held {
                        return Err(
                            "its rollout is paused, so maxUnavailable has no effect until it is resumed".to_owned()
                        );
                    }
                    let of = strategy["type"].as_str().unwrap_or_default();
                    return Err(format!("its update strategy is {of}: maxUnavailable has no effect"));
                }
                strategy["rollingUpdate"]["maxUnavailable"] = json!(most);
                // The API server accepts only one of the two.
                if most.value() > 0 {
                    strategy["rollingUpdate"]["maxSurge"] = json!(0);
                }
            }
        }
        Ok(())
    }
}

/// Finds a container by name, or the only one that is not an init container.
fn container<'a>(pod: &'a mut Value, name: Option<&String>) -> Result<&'a mut Value, String> {
    let mut all = Vec::new();
    for (field, value) in pod.as_object_mut().into_iter().flatten() {
        if field == "containers" || (field == "initContainers" && name.is_some()) {
            all.extend(value.as_array_mut().into_iter().flatten());
        }
    }
    let names: Vec<String> = all.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect();
    let found = match name {
        Some(name) => names.iter().position(|one| one == name),
        None => (names.len() == 1).then_some(0),
    };
    let names = names.join(", ");
    match (found.map(|index| all.swap_remove(index)), name) {
        (Some(container), _) => Ok(container),
        (None, Some(name)) => Err(format!("it has no container {name:?}; its containers: {names}")),
        (None, None) => Err(format!(
            "it has several containers, and the request is of one: give CONTAINER:RESOURCE=QUANTITY; its containers: {names}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::DaemonSetEdit as Edit;
    use crate::model::int_or_percent::IntOrPercent;

    fn container(name: &str) -> Value {
        json!({"name": name, "image": format!("{name}:1")})
    }

    /// Returns the edited spec of a DaemonSet with these fields in its pods and its strategy.
    fn edited(pod: Value, strategy: Value, edit: &Edit) -> Result<Value, String> {
        let mut object = json!({"spec": {"updateStrategy": strategy, "template": {"spec": pod}}});
        edit.apply(&mut object).map(|()| object["spec"].take())
    }

    #[test]
    fn a_change_is_made_where_kubectl_makes_it() {
        let text = |text: &str| Some(text.to_owned());
        let selector = |value| Edit::NodeSelector("pool".to_owned(), value);
        let requests = |container| Edit::Requests(container, [("cpu".to_owned(), "200m".to_owned())].into());
        let image = |container: &str| Edit::Image(container.to_owned(), "x:2".to_owned());
        let any = json!({"key": "gpu", "operator": "Exists"});
        let two = || json!({"initContainers": [container("init")], "containers": [container("a"), container("b")]});
        for (pod, edit, pointer, expected) in [
            (json!({}), Edit::Toleration(any.clone()), "tolerations", json!([any])),
            (json!({"tolerations": null}), Edit::Toleration(any.clone()), "tolerations", json!([any])),
            (json!({"tolerations": [any]}), Edit::Toleration(json!("b")), "tolerations", json!([any, "b"])),
            (json!({}), selector(text("a")), "nodeSelector", json!({"pool": "a"})),
            (
                json!({"nodeSelector": {"pool": "b", "os": "c"}}),
                selector(text("a")),
                "nodeSelector",
                json!({"pool": "a", "os": "c"}),
            ),
            (json!({"nodeSelector": {"pool": "b"}}), selector(None), "nodeSelector", json!({})),
            (two(), image("b"), "containers/1/image", json!("x:2")),
            (two(), image("init"), "initContainers/0/image", json!("x:2")),
            (two(), requests(text("b")), "containers/1/resources", json!({"requests": {"cpu": "200m"}})),
            (
                json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}),
                requests(None),
                "containers/0/resources",
                json!({"requests": {"cpu": "200m", "memory": "1Gi"}}),
            ),
        ] {
            let spec = edited(pod, json!({}), &edit).unwrap();
            assert_eq!(spec.pointer(&format!("/template/spec/{pointer}")), Some(&expected), "{edit:?}");
        }
        for (strategy, most, expected) in [
            (json!(null), IntOrPercent::Percent(10), json!({"maxUnavailable": "10%", "maxSurge": 0})),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 2}}),
                IntOrPercent::Int(3),
                json!({"maxUnavailable": 3, "maxSurge": 0}),
            ),
            (
                json!({"rollingUpdate": {"maxSurge": 2}}),
                IntOrPercent::Int(0),
                json!({"maxUnavailable": 0, "maxSurge": 2}),
            ),
        ] {
            let spec = edited(json!({}), strategy, &Edit::MaxUnavailable(most)).unwrap();
            assert_eq!(spec["updateStrategy"]["rollingUpdate"], expected);
        }
    }

    #[test]
    fn what_is_not_there_is_not_changed() {
        let two = json!({"containers": [container("a"), container("b")]});
        let image = Edit::Image("c".to_owned(), "x".to_owned());
        let requests = Edit::Requests(None, [("cpu".to_owned(), "1".to_owned())].into());
        let selector = Edit::NodeSelector("pool".to_owned(), None);
        let most = Edit::MaxUnavailable(IntOrPercent::Int(1));
        for (edit, strategy, said) in [
            (image, json!({}), "its containers: a, b"),
            (requests, json!({}), "CONTAINER:RESOURCE=QUANTITY; its containers: a, b"),
            (selector, json!({}), "no label pool"),
            (most, json!({"type": "OnDelete"}), "its update strategy is OnDelete"),
        ] {
            let problem = edited(two.clone(), strategy, &edit).unwrap_err();
            assert!(problem.contains(said), "{problem}");
        }
    }
}
