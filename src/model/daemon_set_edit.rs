//! Changes of a DaemonSet's object, as `kubectl edit` or `kubectl set` would make them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::int_or_percent::IntOrPercent;

/// A change of a DaemonSet.
#[derive(Debug, Clone, PartialEq)]
pub enum DaemonSetEdit {
    /// A toleration is added, of every value or effect if there is none.
    Toleration {
        /// The key of the taint.
        key: String,
        /// Its value.
        value: Option<String>,
        /// Its effect.
        effect: Option<String>,
    },
    /// A label is required by `nodeSelector`, or no longer.
    NodeSelector {
        /// The key of the label.
        key: String,
        /// Its value.
        value: Option<String>,
    },
    /// A container gets another image.
    Image {
        /// Its name.
        container: String,
        /// The image.
        image: String,
    },
    /// A container requests something else.
    Requests {
        /// Its name; the only one if absent.
        container: Option<String>,
        /// Quantities by resource.
        requests: BTreeMap<String, String>,
    },
    /// As many pods may be unavailable during a rolling update.
    MaxUnavailable(IntOrPercent),
}

impl DaemonSetEdit {
    /// Changes the whole object of a DaemonSet that was read.
    ///
    /// # Errors
    ///
    /// Fails with the reason if there is nothing to be changed.
    pub fn apply(&self, object: &mut Value) -> Result<(), String> {
        let spec = &mut object["spec"];
        let pod = &mut spec["template"]["spec"];
        match self {
            DaemonSetEdit::Toleration { key, value, effect } => {
                let mut toleration = json!({"key": key, "operator": "Exists"});
                if let Some(value) = value {
                    toleration = json!({"key": key, "operator": "Equal", "value": value});
                }
                if let Some(effect) = effect {
                    toleration["effect"] = json!(effect);
                }
                match &mut pod["tolerations"] {
                    Value::Array(tolerations) => tolerations.push(toleration),
                    tolerations => *tolerations = json!([toleration]),
                }
            }
            DaemonSetEdit::NodeSelector { key, value: Some(value) } => pod["nodeSelector"][key] = json!(value),
            DaemonSetEdit::NodeSelector { key, value: None } => {
                let removed = pod["nodeSelector"].as_object_mut().and_then(|labels| labels.remove(key));
                removed.ok_or_else(|| format!("its nodeSelector has no label {key}"))?;
            }
            DaemonSetEdit::Image { container, image } => self::container(pod, Some(container))?["image"] = json!(image),
            DaemonSetEdit::Requests { container, requests } => {
                let container = self::container(pod, container.as_ref())?;
                for (resource, quantity) in requests {
                    container["resources"]["requests"][resource] = json!(quantity);
                }
            }
            DaemonSetEdit::MaxUnavailable(most) => {
                let strategy = &mut spec["updateStrategy"];
                if strategy["type"].as_str().is_some_and(|of| of != "RollingUpdate") {
                    let of = strategy["type"].as_str().unwrap_or_default();
                    return Err(format!("its update strategy is {of}: maxUnavailable has no effect"));
                }
                strategy["rollingUpdate"]["maxUnavailable"] = json!(most);
                // The API server takes one of both alone.
                if most.value() > 0 {
                    strategy["rollingUpdate"]["maxSurge"] = json!(0);
                }
            }
        }
        Ok(())
    }
}

/// Finds a container, or the only one that is no init container.
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

    /// Returns the spec of a DaemonSet with these fields of its pods and its strategy after a change.
    fn edited(pod: Value, strategy: Value, edit: &Edit) -> Result<Value, String> {
        let mut object = json!({"spec": {"updateStrategy": strategy, "template": {"spec": pod}}});
        edit.apply(&mut object).map(|()| object["spec"].take())
    }

    #[test]
    fn a_change_is_made_where_kubectl_makes_it() {
        let text = |text: &str| Some(text.to_owned());
        let toleration = |value, effect| Edit::Toleration { key: "gpu".to_owned(), value, effect };
        let selector = |value| Edit::NodeSelector { key: "pool".to_owned(), value };
        let requests =
            |container| Edit::Requests { container, requests: [("cpu".to_owned(), "200m".to_owned())].into() };
        let image = |container: &str| Edit::Image { container: container.to_owned(), image: "x:2".to_owned() };
        let any = json!({"key": "gpu", "operator": "Exists"});
        let two = || json!({"initContainers": [container("init")], "containers": [container("a"), container("b")]});
        for (pod, edit, pointer, expected) in [
            (json!({}), toleration(None, None), "tolerations", json!([any])),
            (json!({"tolerations": null}), toleration(None, None), "tolerations", json!([any])),
            (
                json!({"tolerations": [any]}),
                toleration(text("a"), text("NoSchedule")),
                "tolerations",
                json!([any, {"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]),
            ),
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
        let image = Edit::Image { container: "c".to_owned(), image: "x".to_owned() };
        let requests = Edit::Requests { container: None, requests: [("cpu".to_owned(), "1".to_owned())].into() };
        let selector = Edit::NodeSelector { key: "pool".to_owned(), value: None };
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
