//! `preview --if`: changes to nodes and to a DaemonSet, as written on a command line.

use std::collections::BTreeMap;

use serde_json::json;

use super::node_edit::{EFFECTS, check_key, parse_label, parse_taint, parse_taint_key};
use super::parse::parse_image;
use crate::error::CommandError;
use crate::model::daemon_set_edit::DaemonSetEdit;
use crate::model::names::{is_label_key, is_label_value};
use crate::model::node_edit::NodeEdit;
use crate::model::quantity::Quantity;

/// Changes to nodes, and to a DaemonSet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) nodes: NodeEdit,
    pub(super) daemon_set: Vec<DaemonSetEdit>,
}

impl Changes {
    /// Parses changes: `taint` and `label` in kubectl's syntax, and those to a DaemonSet. Fails for anything else.
    pub(super) fn parse(texts: &[String]) -> Result<Self, CommandError> {
        let mut changes = Changes::default();
        for text in texts {
            let (kind, change) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
            let change = change.trim();
            let nodes = &mut changes.nodes;
            match (kind, change.strip_suffix('-')) {
                ("taint", Some(removed)) => nodes.removed_taints.push(parse_taint_key(removed)?),
                ("taint", None) => nodes.taints.push(parse_taint(change)?),
                ("label", Some(key)) if !key.contains('=') => {
                    check_key(key)?;
                    nodes.labels.insert(key.to_owned(), None);
                }
                ("label", _) => {
                    let (key, value) = parse_label(change)?;
                    nodes.labels.insert(key, Some(value));
                }
                _ => {
                    let (parse, form) = of_daemon_set(kind).ok_or_else(|| {
                        CommandError::usage(format!("invalid --if {text:?}")).hint(
                            "of nodes: 'taint KEY=VALUE:EFFECT', 'taint KEY:EFFECT-', 'label KEY=VALUE' or 'label KEY-'; of the \
                             DaemonSet NAME: 'toleration KEY=VALUE:EFFECT', 'nodeSelector KEY=VALUE', 'nodeSelector KEY-', \
                             'image CONTAINER=IMAGE', 'request cpu=200m' or 'maxUnavailable 10%'",
                        )
                    })?;
                    let edit = parse(change).ok_or_else(|| {
                        CommandError::usage(format!("invalid --if {text:?}")).hint(format!("give '{kind} {form}"))
                    })?;
                    changes.daemon_set.push(edit);
                }
            }
        }
        Ok(changes)
    }
}

type Parse = fn(&str) -> Option<DaemonSetEdit>;

/// Returns the parser for a kind of change to a DaemonSet, and its syntax.
fn of_daemon_set(kind: &str) -> Option<(Parse, &'static str)> {
    Some(match kind {
        "toleration" => {
            (toleration, "KEY[=VALUE][:EFFECT]'; an effect is one of NoSchedule, PreferNoSchedule, NoExecute")
        }
        "nodeSelector" => (node_selector, "KEY=VALUE' or 'nodeSelector KEY-'"),
        "image" => (image, "CONTAINER=IMAGE'"),
        "request" => (requests, "[CONTAINER:]RESOURCE=QUANTITY[,...]', such as 'request cpu=200m,memory=1Gi'"),
        "maxUnavailable" => (max_unavailable, "NUMBER' or 'maxUnavailable PERCENT%'"),
        _ => return None,
    })
}

fn toleration(text: &str) -> Option<DaemonSetEdit> {
    let (pair, effect) = text.split_once(':').map_or((text, None), |(pair, effect)| (pair, Some(effect)));
    let (key, value) = pair.split_once('=').map_or((pair, None), |(key, value)| (key, Some(value)));
    let is_valid =
        is_label_key(key) && value.is_none_or(is_label_value) && effect.is_none_or(|effect| EFFECTS.contains(&effect));
    let mut toleration = json!({"key": key, "operator": if value.is_some() { "Equal" } else { "Exists" }});
    for (field, text) in [("value", value), ("effect", effect)] {
        text.into_iter().for_each(|text| toleration[field] = json!(text));
    }
    is_valid.then_some(DaemonSetEdit::Toleration(toleration))
}

fn max_unavailable(text: &str) -> Option<DaemonSetEdit> {
    text.parse().ok().map(DaemonSetEdit::MaxUnavailable)
}

fn node_selector(text: &str) -> Option<DaemonSetEdit> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (text.strip_suffix('-')?, None),
    };
    let is_valid = is_label_key(key) && value.is_none_or(is_label_value);
    is_valid.then(|| DaemonSetEdit::NodeSelector(key.to_owned(), value.map(str::to_owned)))
}

fn image(text: &str) -> Option<DaemonSetEdit> {
    parse_image(text).map(|(container, image)| DaemonSetEdit::Image(container, image))
}

fn requests(text: &str) -> Option<DaemonSetEdit> {
    let (container, pairs) = text.split_once(':').map_or((None, text), |(name, pairs)| (Some(name.to_owned()), pairs));
    let mut requests = BTreeMap::new();
    for pair in pairs.split(',') {
        let (resource, quantity) = pair.split_once('=')?;
        if !is_label_key(resource) || Quantity::new(quantity).nanos().is_none_or(|nanos| nanos < 0) {
            return None;
        }
        requests.insert(resource.to_owned(), quantity.to_owned());
    }
    let is_valid = container.as_ref().is_none_or(|name| !name.is_empty());
    is_valid.then_some(DaemonSetEdit::Requests(container, requests))
}

#[cfg(test)]
mod tests {
    use super::{Changes, DaemonSetEdit};

    fn parse(text: &str) -> Result<Changes, String> {
        Changes::parse(&[text.to_owned()]).map_err(|error| error.message)
    }

    #[test]
    fn changes_of_nodes_are_given_as_for_kubectl() {
        let changes = ["taint a=b:NoExecute", " taint  c:NoSchedule-", "taint d-", "label e=f", "label g-", "label h="];
        let edit = Changes::parse(&changes.map(str::to_owned)).unwrap().nodes;
        assert_eq!(edit.taints[0].to_string(), "a=b:NoExecute");
        let removed: Vec<_> =
            edit.removed_taints.iter().map(|taint| (taint.key.as_str(), taint.effect.as_deref())).collect();
        assert_eq!(removed, [("c", Some("NoSchedule")), ("d", None)]);
        assert_eq!(
            (&edit.labels["e"], &edit.labels["g"], &edit.labels["h"]),
            (&Some("f".into()), &None, &Some("".into()))
        );
        for invalid in ["", "taint", "taint a", "taint a=b", "taint a:No", "label a", "label =b", "cordon"] {
            assert!(parse(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn each_kind_of_change_of_a_daemon_set_is_read_or_refused_with_its_form() {
        for (right, read) in [
            ("toleration gpu", r#"Toleration({"key":"gpu","operator":"Exists"})"#),
            (
                "toleration a/b=c:NoExecute",
                r#"Toleration({"effect":"NoExecute","key":"a/b","operator":"Equal","value":"c"})"#,
            ),
            ("toleration a=", r#"Toleration({"key":"a","operator":"Equal","value":""})"#),
            ("nodeSelector pool=a", r#"NodeSelector("pool", Some("a"))"#),
            ("  nodeSelector   pool-  ", r#"NodeSelector("pool", None)"#),
            ("image a=r:5000/b:1@sha256:x", r#"Image("a", "r:5000/b:1@sha256:x")"#),
            ("request cpu=200m", r#"Requests(None, {"cpu": "200m"})"#),
            ("request a:cpu=0,nvidia.com/gpu=1", r#"Requests(Some("a"), {"cpu": "0", "nvidia.com/gpu": "1"})"#),
            ("maxUnavailable 10%", "MaxUnavailable(Percent(10))"),
            ("maxUnavailable 3", "MaxUnavailable(Int(3))"),
        ] {
            let changes = parse(right).unwrap();
            assert!(changes.nodes.is_empty());
            let found = match &changes.daemon_set[0] {
                DaemonSetEdit::Toleration(toleration) => format!("Toleration({toleration})"),
                other => format!("{other:?}"),
            };
            assert_eq!(found, read);
        }
        for wrong in [
            "toleration",
            "toleration =a",
            "toleration a:No",
            "toleration a=b c",
            "nodeSelector",
            "nodeSelector pool",
            "nodeSelector =a",
            "nodeSelector -",
            "nodeSelector a=b=c",
            "image",
            "image a",
            "image a=",
            "image =b",
            "request",
            "request cpu",
            "request cpu=",
            "request cpu=x",
            "request cpu=-1",
            "request :cpu=1",
            "request cpu=1,",
            "maxUnavailable",
            "maxUnavailable many",
            "maxUnavailable 10 %",
        ] {
            let error = Changes::parse(&[wrong.to_owned()]).unwrap_err();
            let kind = wrong.split(' ').next().unwrap();
            assert_eq!(error.message, format!("invalid --if {wrong:?}"));
            assert!(error.hints[0].advice.starts_with(&format!("give '{kind} ")), "{:?}", error.hints);
        }
        for unknown in ["tolerations gpu", "nodeselector a=b", "cordon", "replicas 3"] {
            assert!(Changes::parse(&[unknown.to_owned()]).unwrap_err().hints[0].advice.starts_with("of nodes: "));
        }
    }
}
