//! A hypothetical node with other labels and taints.

use std::collections::BTreeMap;

use super::node::{Node, Taint};

/// Changes to the labels and taints of a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeEdit {
    /// Labels to set, or to remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// Taints to add. One with the same key and effect is replaced.
    pub taints: Vec<Taint>,
    /// Taints to remove.
    pub removed_taints: Vec<TaintKey>,
}

/// Which taints to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaintKey {
    /// The key.
    pub key: String,
    /// The effect; every effect if absent.
    pub effect: Option<String>,
}

impl TaintKey {
    fn matches(&self, taint: &Taint) -> bool {
        self.key == taint.key && self.effect.as_ref().is_none_or(|effect| *effect == taint.effect)
    }
}

impl NodeEdit {
    /// Returns whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == NodeEdit::default()
    }

    /// Returns a node with the changes.
    pub fn applied(&self, node: &Node) -> Node {
        let mut node = node.clone();
        for (key, value) in &self.labels {
            match value {
                Some(value) => node.metadata.labels.insert(key.clone(), value.clone()),
                None => node.metadata.labels.remove(key),
            };
        }
        let is_replaced = |taint: &Taint| {
            self.taints.iter().any(|new| (&new.key, &new.effect) == (&taint.key, &taint.effect))
                || self.removed_taints.iter().any(|removed| removed.matches(taint))
        };
        node.spec.taints.retain(|taint| !is_replaced(taint));
        node.spec.taints.extend(self.taints.iter().cloned());
        node
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::{NodeEdit, TaintKey};
    use crate::model::node::{Node, Taint};

    #[test]
    fn labels_and_taints_are_set_replaced_and_removed() {
        let taint = |key: &str, value: &str, effect: &str| json!({"key": key, "value": value, "effect": effect});
        let node: Node = from_value(json!({
            "metadata": {"labels": {"a": "1", "b": "1"}},
            "spec": {"taints": [taint("x", "1", "NoSchedule"), taint("x", "1", "NoExecute"), taint("y", "", "NoExecute"),
                taint("z", "", "NoSchedule")]},
        }))
        .unwrap();
        let added: Taint = from_value(taint("x", "2", "NoSchedule")).unwrap();
        let edit = NodeEdit {
            labels: [("a".to_owned(), None), ("c".to_owned(), Some("3".to_owned()))].into(),
            taints: vec![added],
            removed_taints: vec![
                TaintKey { key: "y".to_owned(), effect: None },
                TaintKey { key: "z".to_owned(), effect: Some("NoExecute".to_owned()) },
            ],
        };
        let edited = edit.applied(&node);
        assert_eq!(edited.metadata.labels.iter().collect::<Vec<_>>().len(), 2);
        assert_eq!((edited.metadata.labels.get("a"), edited.metadata.labels["c"].as_str()), (None, "3"));
        let taints: Vec<String> = edited.spec.taints.iter().map(ToString::to_string).collect();
        assert_eq!(taints, ["x=1:NoExecute", "z:NoSchedule", "x=2:NoSchedule"]);
    }
}
