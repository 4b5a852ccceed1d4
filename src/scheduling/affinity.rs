//! The nodeSelector and the required node affinity of a pod: parsed once, then matched against nodes.

use std::collections::BTreeMap;

use crate::model::names::{is_label_key, is_label_value};
use crate::model::node::Node;
use crate::model::pod::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// The one field that terms can match: the node's name.
const NAME_FIELD: &str = "metadata.name";

/// A nodeSelector and a required node affinity, parsed so that matching does not allocate.
///
/// Ported from `RequiredNodeAffinity` and `LazyErrorNodeSelector`,
/// k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go, release 1.37.2.
#[derive(Debug, Clone, Default)]
pub struct RequiredNodeAffinity {
    pub(super) node_selector: BTreeMap<String, String>,
    terms: Option<Vec<Term>>,
}

/// The result of a required node affinity on a node.
#[derive(Debug, Clone, PartialEq)]
pub enum AffinityOutcome {
    /// There is no required node affinity: every node matches.
    NotSet,
    /// A term matches.
    Matches {
        /// The first term that matches, counted from 0.
        term: usize,
    },
    /// There is a required node affinity without a single term, which matches no node.
    NoTerms,
    /// No term matches.
    NoMatch {
        /// Why, for each term.
        terms: Vec<TermOutcome>,
    },
}

impl AffinityOutcome {
    /// Returns whether the node matches.
    pub fn is_match(&self) -> bool {
        matches!(self, AffinityOutcome::NotSet | AffinityOutcome::Matches { .. })
    }
}

/// Why a term does not match a node.
#[derive(Debug, Clone, PartialEq)]
pub enum TermOutcome {
    /// The term has no requirement, which matches no node.
    Empty,
    /// The term cannot be parsed, so it matches no node, whatever its labels.
    Invalid {
        /// What is wrong with it.
        error: String,
    },
    /// Some requirements fail on this node.
    Mismatch {
        /// The requirements that fail.
        failing: Vec<FailingRequirement>,
        /// How many requirements hold.
        matching: usize,
    },
}

/// A requirement that a node does not meet.
#[derive(Debug, Clone, PartialEq)]
pub struct FailingRequirement {
    /// The requirement, as it is written.
    pub written: NodeSelectorRequirement,
    /// Whether the key is a field (`matchFields`) rather than a label.
    pub field: bool,
    /// The node's value, if it has the label.
    pub actual: Option<String>,
}

#[derive(Debug, Clone)]
enum Term {
    Empty,
    Invalid(String),
    Valid { labels: Vec<LabelRequirement>, fields: Vec<FieldRequirement> },
}

#[derive(Debug, Clone)]
struct LabelRequirement {
    written: NodeSelectorRequirement,
    test: Test,
}

#[derive(Debug, Clone, Copy)]
enum Test {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

#[derive(Debug, Clone)]
struct FieldRequirement {
    written: NodeSelectorRequirement,
    equal: bool,
}

impl RequiredNodeAffinity {
    /// Parses the terms; those that cannot be parsed never match, and the others still count.
    pub fn new(spec: &PodSpec) -> Self {
        let terms = spec.required_node_affinity().map(Self::of_terms).unwrap_or_default();
        RequiredNodeAffinity { node_selector: spec.node_selector.clone(), ..terms }
    }

    /// Parses the terms of what is not a pod, such as those of a volume.
    pub fn of_terms(required: &NodeSelector) -> Self {
        let terms = required.node_selector_terms.iter().map(Term::parse).collect();
        RequiredNodeAffinity { node_selector: BTreeMap::new(), terms: Some(terms) }
    }

    /// Returns whether a node matches, without allocating.
    pub fn matches(&self, node: &Node) -> bool {
        self.node_selector.iter().all(|(key, value)| node.metadata.labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }

    /// Returns which term of the affinity matches a node, or why none does.
    pub fn explain(&self, node: &Node) -> AffinityOutcome {
        let Some(terms) = &self.terms else { return AffinityOutcome::NotSet };
        if terms.is_empty() {
            return AffinityOutcome::NoTerms;
        }
        match terms.iter().position(|term| term.matches(node)) {
            Some(term) => AffinityOutcome::Matches { term },
            None => AffinityOutcome::NoMatch { terms: terms.iter().map(|term| term.explain(node)).collect() },
        }
    }
}

impl Term {
    fn parse(term: &NodeSelectorTerm) -> Term {
        if term.match_expressions.is_empty() && term.match_fields.is_empty() {
            return Term::Empty;
        }
        let labels = term.match_expressions.iter().enumerate().map(|(index, written)| {
            let test = Test::parse(written).map_err(|error| format!("matchExpressions[{index}]: {error}"))?;
            Ok(LabelRequirement { written: written.clone(), test })
        });
        let labels: Result<Vec<_>, String> = labels.collect();
        let fields = term.match_fields.iter().enumerate().map(|(index, written)| {
            FieldRequirement::parse(written).map_err(|error| format!("matchFields[{index}]: {error}"))
        });
        let fields: Result<Vec<_>, String> = fields.collect();
        match (labels, fields) {
            (Ok(labels), Ok(fields)) => Term::Valid { labels, fields },
            (Err(error), _) | (_, Err(error)) => Term::Invalid(error),
        }
    }

    fn matches(&self, node: &Node) -> bool {
        let Term::Valid { labels, fields } = self else { return false };
        labels.iter().all(|requirement| requirement.matches(&node.metadata.labels))
            && fields.iter().all(|requirement| requirement.matches(&node.metadata.name))
    }

    fn explain(&self, node: &Node) -> TermOutcome {
        let (labels, fields) = match self {
            Term::Empty => return TermOutcome::Empty,
            Term::Invalid(error) => return TermOutcome::Invalid { error: error.clone() },
            Term::Valid { labels, fields } => (labels, fields),
        };
        let mut failing = Vec::new();
        for requirement in labels.iter().filter(|requirement| !requirement.matches(&node.metadata.labels)) {
            let actual = node.metadata.labels.get(&requirement.written.key).cloned();
            failing.push(FailingRequirement { written: requirement.written.clone(), field: false, actual });
        }
        for requirement in fields.iter().filter(|requirement| !requirement.matches(&node.metadata.name)) {
            let actual = (requirement.written.key == NAME_FIELD).then(|| node.metadata.name.clone());
            failing.push(FailingRequirement { written: requirement.written.clone(), field: true, actual });
        }
        let matching = labels.len() + fields.len() - failing.len();
        TermOutcome::Mismatch { failing, matching }
    }
}

impl Test {
    /// Ported from `nodeSelectorRequirementsAsSelector` of nodeaffinity.go and `NewRequirement`,
    /// k8s.io/apimachinery/pkg/labels/selector.go, release 1.37.2.
    fn parse(requirement: &NodeSelectorRequirement) -> Result<Test, String> {
        let NodeSelectorRequirement { key, operator, values } = requirement;
        if !matches!(operator.as_str(), "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt") {
            return Err(format!("{operator:?} is none of In, NotIn, Exists, DoesNotExist, Gt and Lt"));
        }
        if !is_label_key(key) {
            return Err(format!("{key:?} is no label key"));
        }
        let test = match (operator.as_str(), values.as_slice()) {
            ("In" | "NotIn", []) => return Err(format!("{operator} needs a value")),
            ("In", _) => Test::In,
            ("NotIn", _) => Test::NotIn,
            ("Exists", []) => Test::Exists,
            ("DoesNotExist", []) => Test::DoesNotExist,
            ("Exists" | "DoesNotExist", _) => return Err(format!("{operator} takes no value")),
            (_, [value]) => match value.parse() {
                Ok(number) if operator == "Gt" => Test::GreaterThan(number),
                Ok(number) => Test::LessThan(number),
                Err(_) => return Err(format!("{operator} needs an integer of 64 bits, not {value:?}")),
            },
            _ => return Err(format!("{operator} needs exactly one value")),
        };
        match values.iter().find(|value| !is_label_value(value)) {
            Some(value) => Err(format!("{value:?} is no label value")),
            None => Ok(test),
        }
    }
}

impl LabelRequirement {
    /// Ported from `Requirement.Matches`, k8s.io/apimachinery/pkg/labels/selector.go, release 1.37.2.
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.written.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self.test {
            Test::In => value.is_some_and(|value| self.written.values.contains(value)),
            Test::NotIn => value.is_none_or(|value| !self.written.values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::GreaterThan(bound) => number().is_some_and(|number| number > bound),
            Test::LessThan(bound) => number().is_some_and(|number| number < bound),
        }
    }
}

impl FieldRequirement {
    /// Ported from `nodeSelectorRequirementsAsFieldSelector` of nodeaffinity.go, release 1.37.2.
    fn parse(requirement: &NodeSelectorRequirement) -> Result<Self, String> {
        let equal = match requirement.operator.as_str() {
            "In" => true,
            "NotIn" => false,
            operator => return Err(format!("{operator:?} is neither In nor NotIn")),
        };
        if requirement.values.len() != 1 {
            return Err(format!("{} needs exactly one value", requirement.operator));
        }
        Ok(FieldRequirement { written: requirement.clone(), equal })
    }

    /// A field that is unknown has the empty value, and a node without a name has no fields to test.
    fn matches(&self, name: &str) -> bool {
        let value = if self.written.key == NAME_FIELD { name } else { "" };
        name.is_empty() || (value == self.written.values[0]) == self.equal
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::RequiredNodeAffinity;
    use crate::model::node::Node;

    fn affinity(terms: &[Value]) -> RequiredNodeAffinity {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        RequiredNodeAffinity::new(&from_value(json!({"affinity": {"nodeAffinity": required}})).unwrap())
    }

    #[test]
    fn numbers_of_labels_are_compared() {
        for (operator, cores, matches) in [
            ("Gt", "5", true),
            ("Gt", "4", false),
            ("Gt", "3", false),
            ("Lt", "3", true),
            ("Lt", "4", false),
            ("Lt", "5", false),
        ] {
            let expression = json!({"key": "cores", "operator": operator, "values": ["4"]});
            let node: Node = from_value(json!({"metadata": {"name": "n", "labels": {"cores": cores}}})).unwrap();
            assert_eq!(
                affinity(&[json!({"matchExpressions": [expression]})]).matches(&node),
                matches,
                "{cores} {operator} 4"
            );
        }
    }
}
