//! Argument values that several subcommands share.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Display;

use clap::builder::{PossibleValue, PossibleValuesParser, StyledStr, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};

use super::explain::statuses;
use crate::cluster::Flavors;
use crate::error::CommandError;
use crate::io::Io;
use crate::model::names::{is_dns_label, is_label_key};
use crate::model::selector::LabelSelector;
use crate::plan::StrategyType;
use crate::report::fix::{Command as Suggested, Fix};
use crate::report::node_coverage::NodeState;
use crate::report::reason::ReasonCode;

/// Other kinds that users may type before a slash, which are not namespaces.
const OTHER_KINDS: [&[&str]; 8] = [
    &["po", "pod", "pods"],
    &["deploy", "deployment", "deployments"],
    &["rs", "replicaset", "replicasets"],
    &["sts", "statefulset", "statefulsets"],
    &["job", "jobs"],
    &["cj", "cronjob", "cronjobs"],
    &["no", "node", "nodes"],
    &["svc", "service"],
];

/// A DaemonSet as named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) flavors: Flavors,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

pub(super) fn parse_revision_number(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|_| "expected the number of a revision, such as 3; `kubectl ds history NAME` lists them".to_owned())
}

/// Parses `CONTAINER=IMAGE`.
pub(super) fn parse_image(text: &str) -> Option<(String, String)> {
    let (container, image) =
        text.split_once('=').filter(|(container, image)| !container.is_empty() && !image.is_empty())?;
    Some((container.to_owned(), image.to_owned()))
}

/// Parses `NAME`, `ds/NAME`, `ads/NAME` for an Advanced DaemonSet, and `NAMESPACE/NAME` as in reports. Fails for any other kind.
pub(super) fn parse_name(text: &str) -> Result<Named, CommandError> {
    let Some((before, name)) = text.split_once('/') else {
        return Ok(Named { flavors: Flavors::Any, namespace: None, name: text.to_owned() });
    };
    let (flavors, namespace) = match flavor_of_type(before) {
        Some(flavors) => (flavors, None),
        None if is_namespace(before) => (Flavors::Any, Some(before.to_owned())),
        None => return Err(invalid_name(text)),
    };
    if name.is_empty() || name.contains('/') {
        return Err(invalid_name(text));
    }
    Ok(Named { flavors, namespace, name: name.to_owned() })
}

/// Returns the DaemonSet flavors that a resource type denotes. As in kubectl, case does not matter.
pub(super) fn flavor_of_type(text: &str) -> Option<Flavors> {
    match &*text.to_ascii_lowercase() {
        "ds" | "daemonset" | "daemonsets" | "daemonset.apps" | "daemonsets.apps" | "daemonset.v1.apps"
        | "daemonsets.v1.apps" => Some(Flavors::Apps),
        "ads" | "daemon" | "advanceddaemonset" | "daemonset.apps.kruise.io" | "daemonsets.apps.kruise.io" => {
            Some(Flavors::Advanced)
        }
        _ => None,
    }
}

/// Parses a reason code; with `ignore_case` in any case.
pub(super) fn reason_codes() -> impl TypedValueParser<Value = ReasonCode> {
    Brief(one_of(ReasonCode::ALL, |code| code.name()))
}

/// Parses an argument of `explain`: a reason code or a status.
pub(super) fn explained() -> impl TypedValueParser<Value = &'static str> {
    let names = ReasonCode::ALL.iter().map(|code| code.name()).chain(statuses()).collect::<Vec<_>>();
    Brief(one_of(names.leak(), |name| *name))
}

/// A parser for many possible values, which also accepts kubectl's terms for reason codes; its error for an unknown
/// value only lists similar ones, or how to list all.
#[derive(Clone)]
struct Brief<P>(P);

impl<P: TypedValueParser> TypedValueParser for Brief<P> {
    type Value = P::Value;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<P::Value, clap::Error> {
        let of_word = || value.to_str().and_then(ReasonCode::of_word).map(|code| OsStr::new(code.name()));
        let parsed = self.0.parse_ref(command, argument, value);
        let parsed = parsed.or_else(|error| match of_word() {
            Some(code) => self.0.parse_ref(command, argument, code),
            None => Err(error),
        });
        parsed.map_err(|mut error| {
            error.remove(ContextKind::ValidValue);
            let word = value.to_string_lossy().to_lowercase();
            let is_begun = |name: &&str| word.len() > 2 && name.to_lowercase().starts_with(&word);
            let begun = ReasonCode::ALL.iter().map(|code| code.name()).find(is_begun);
            if let Some(code) = begun.filter(|_| error.get(ContextKind::SuggestedValue).is_none()) {
                error.insert(ContextKind::SuggestedValue, ContextValue::String(code.to_owned()));
            }
            if error.get(ContextKind::SuggestedValue).is_none() {
                let all = StyledStr::from("`kubectl ds explain` lists all values");
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![all]));
            }
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

/// Parses the state of a node; with `ignore_case` in any case.
pub(super) fn node_states() -> impl TypedValueParser<Value = NodeState> {
    one_of(NodeState::ALL, |state| state.name())
}

/// Parses the type of an update strategy; with `ignore_case` in any case.
pub(super) fn strategy_types() -> impl TypedValueParser<Value = StrategyType> {
    one_of(&[StrategyType::RollingUpdate, StrategyType::OnDelete], |strategy_type| strategy_type.name())
}

/// Parses one of several values by its name.
fn one_of<T: Copy + Send + Sync + 'static>(
    values: &'static [T],
    name: fn(&T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let find = move |text: String| {
        values.iter().find(|value| name(value).eq_ignore_ascii_case(&text)).copied().ok_or("unknown value")
    };
    PossibleValuesParser::new(values.iter().map(name)).try_map(find)
}

/// Returns the names, and the namespace given with them. Fails if they are in several namespaces, or one is not a
/// Kubernetes DaemonSet.
pub(super) fn parse_names(names: &[String]) -> Result<(Option<String>, Vec<String>), CommandError> {
    for name in names {
        let named = parse_name(name)?;
        if named.flavors == Flavors::Advanced {
            return Err(CommandError::usage(format!("ads/{} is an Advanced DaemonSet of OpenKruise", named.name))
                .hint("this command does not support Advanced DaemonSets; try status"));
        }
    }
    parse_names_of_any_flavor(names).map(|(_, namespace, names)| (namespace, names))
}

/// Returns the names, their flavors, and the namespace given with them. Fails if they are in several namespaces, or
/// only some are Advanced DaemonSets.
pub(super) fn parse_names_of_any_flavor(
    names: &[String],
) -> Result<(Flavors, Option<String>, Vec<String>), CommandError> {
    let names = names.iter().map(|name| parse_name(name)).collect::<Result<Vec<Named>, _>>()?;
    let flavors = names.first().map_or(Flavors::Apps, |named| named.flavors);
    let is_mixed = names.iter().any(|named| named.flavors != flavors);
    if is_mixed && names.iter().any(|named| named.flavors == Flavors::Advanced) {
        return Err(CommandError::usage("Advanced DaemonSets and others cannot be named together"));
    }
    let flavors = if is_mixed { Flavors::Apps } else { flavors };
    let namespaces: BTreeSet<Option<&String>> = names.iter().map(|named| named.namespace.as_ref()).collect();
    if namespaces.len() > 1 {
        return Err(CommandError::usage("the names are in several namespaces")
            .hint("name DaemonSets of one namespace at a time, or use -A with --selector"));
    }
    let namespace = namespaces.first().copied().flatten().cloned();
    Ok((flavors, namespace, names.into_iter().map(|named| named.name).collect()))
}

fn is_namespace(text: &str) -> bool {
    is_dns_label(text) && !is_other_kind(text)
}

/// Returns whether a word names a kind that no command accepts.
pub(super) fn is_other_kind(text: &str) -> bool {
    OTHER_KINDS.iter().any(|kind| kind.contains(&text))
}

fn invalid_name(text: &str) -> CommandError {
    let error = CommandError::usage(format!("{text:?} does not name a DaemonSet"));
    match text.split_once('/') {
        Some(("no" | "node" | "nodes", node)) => {
            error.hint(Fix::new("to choose a node, add", Suggested::choice("--node", [node])))
        }
        Some(("po" | "pod" | "pods", _)) => error.hint("give the DaemonSet of the pod, and the node with --node"),
        _ => error.hint("give NAME, ds/NAME, NAMESPACE/NAME, or ads/NAME for an Advanced DaemonSet"),
    }
}

/// Returns the environment's value for a flag that is not given. An invalid value is an error that names the variable.
pub(super) fn from_environment<T, E: Display>(
    variable: &str,
    io: &Io<'_>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, CommandError> {
    let parse = |text| parse(text).map_err(|why| CommandError::usage(format!("invalid {variable} {text:?}: {why}")));
    io.variable(variable).map(parse).transpose()
}

/// Returns the value of `--by` or else of the environment variable. Fails if it is not a label key.
pub(super) fn grouping_label(by: Option<String>, io: &Io<'_>) -> Result<Option<String>, CommandError> {
    let key = |label: &str| match is_label_key(label) {
        true => Ok(label.to_owned()),
        false => Err("it is not a label key; give the key of a node label, such as topology.kubernetes.io/zone"),
    };
    match by.map(|label| key(&label).map_err(|why| CommandError::usage(format!("invalid --by {label:?}: {why}")))) {
        Some(label) => label.map(Some),
        None => from_environment("KUBECTL_DS_BY", io, key),
    }
}

/// Parses the name of a node: `NAME` or `node/NAME`. Fails for any other kind.
pub(super) fn parse_node(text: &str) -> Result<String, CommandError> {
    match text.split_once('/') {
        None => Ok(text.to_owned()),
        Some(("no" | "node" | "nodes", name)) if !name.is_empty() => Ok(name.to_owned()),
        Some(_) => Err(CommandError::usage(format!("{text:?} does not name a node")).hint("give NAME or node/NAME")),
    }
}

/// Parses a selector. Fails with an error that names the flag if it is invalid.
pub(super) fn parse_selector(flag: &str, text: Option<&str>) -> Result<LabelSelector, CommandError> {
    let selector = text.unwrap_or_default().parse::<LabelSelector>();
    selector.map_err(|error| {
        CommandError::usage(format!("invalid {flag}"))
            .because(error)
            .hint("a selector is a list such as app=agent,tier!=test,zone in (a,b),!legacy")
    })
}

#[cfg(test)]
mod tests {
    use super::{parse_name, parse_node};
    use crate::cluster::Flavors;

    #[test]
    fn daemon_sets_are_named_as_kubectl_and_as_reports_name_them() {
        for (text, flavors, namespace, name) in [
            ("agent", Flavors::Any, None, "agent"),
            ("ds/agent", Flavors::Apps, None, "agent"),
            ("daemonset.apps/agent", Flavors::Apps, None, "agent"),
            ("daemonsets.v1.apps/agent", Flavors::Apps, None, "agent"),
            ("DaemonSet/agent", Flavors::Apps, None, "agent"),
            ("ads/agent", Flavors::Advanced, None, "agent"),
            ("kube-system/agent", Flavors::Any, Some("kube-system"), "agent"),
        ] {
            let named = parse_name(text).unwrap();
            assert_eq!((named.flavors, named.namespace.as_deref(), named.name.as_str()), (flavors, namespace, name));
        }
        for text in ["pod/agent", "deployment.apps/agent", "ds/", "/agent", "a/b/c", "Shop/agent"] {
            assert!(parse_name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nodes_are_named_with_or_without_their_kind() {
        assert_eq!(parse_node("a").unwrap(), "a");
        assert_eq!(parse_node("node/a").unwrap(), "a");
        assert!(parse_node("pod/a").is_err() && parse_node("node/").is_err());
    }
}
