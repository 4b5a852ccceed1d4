//! Flags that change a node on trial.

use clap::Args;

use crate::error::CommandError;
use crate::model::node::Taint;
use crate::model::node_edit::{NodeEdit, TaintKey};
use crate::model::selector::{is_label_key, is_label_value};

/// The effects of taints.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Flags that change the labels and taints of a node.
#[derive(Debug, Clone, Args)]
pub(super) struct EditArgs {
    /// With this taint; may be repeated
    #[arg(long, value_name = "KEY[=VALUE]:EFFECT")]
    taint: Vec<String>,
    /// Without this taint; may be repeated
    #[arg(long, value_name = "KEY[:EFFECT]")]
    remove_taint: Vec<String>,
    /// With this label; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// Without this label; may be repeated
    #[arg(long, value_name = "KEY")]
    remove_label: Vec<String>,
}

impl EditArgs {
    /// Makes sense of the flags.
    ///
    /// # Errors
    ///
    /// Fails if a taint or label is invalid.
    pub(super) fn resolve(self) -> Result<NodeEdit, CommandError> {
        let EditArgs { taint, remove_taint, label, remove_label } = self;
        let mut edit = NodeEdit::default();
        for text in taint {
            edit.taints.push(parse_taint(&text)?);
        }
        for text in remove_taint {
            edit.removed_taints.push(parse_taint_key(&text)?);
        }
        for text in label {
            let (key, value) = parse_label(&text)?;
            edit.labels.insert(key, Some(value));
        }
        for key in remove_label {
            check_key(&key)?;
            edit.labels.insert(key, None);
        }
        Ok(edit)
    }
}

/// Parses changes as kubectl takes them: `taint KEY=VALUE:EFFECT`, `taint KEY:EFFECT-`, `label KEY=VALUE` and `label KEY-`.
///
/// # Errors
///
/// Fails if one is neither.
pub(super) fn parse_changes(texts: &[String]) -> Result<NodeEdit, CommandError> {
    let mut edit = NodeEdit::default();
    for text in texts {
        let (verb, change) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let change = change.trim();
        match (verb, change.strip_suffix('-')) {
            ("taint", Some(removed)) => edit.removed_taints.push(parse_taint_key(removed)?),
            ("taint", None) => edit.taints.push(parse_taint(change)?),
            ("label", Some(key)) if !key.contains('=') => {
                check_key(key)?;
                edit.labels.insert(key.to_owned(), None);
            }
            ("label", _) => {
                let (key, value) = parse_label(change)?;
                edit.labels.insert(key, Some(value));
            }
            _ => {
                return Err(CommandError::usage(format!("invalid --if {text:?}")).hint(
                    "give it as for kubectl: 'taint KEY=VALUE:EFFECT', 'taint KEY:EFFECT-', 'label KEY=VALUE' or 'label KEY-'",
                ));
            }
        }
    }
    Ok(edit)
}

fn parse_taint(text: &str) -> Result<Taint, CommandError> {
    let invalid = || {
        CommandError::usage(format!("invalid taint {text:?}"))
            .hint(format!("give KEY=VALUE:EFFECT or KEY:EFFECT; an effect is one of {}", EFFECTS.join(", ")))
    };
    let (pair, effect) = text.rsplit_once(':').ok_or_else(invalid)?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    if !is_label_key(key) || !is_label_value(value) || !EFFECTS.contains(&effect) {
        return Err(invalid());
    }
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned(), ..Taint::default() })
}

fn parse_taint_key(text: &str) -> Result<TaintKey, CommandError> {
    let (pair, effect) = text.split_once(':').map_or((text, None), |(pair, effect)| (pair, Some(effect)));
    // kubectl takes a value, too, and ignores it.
    let key = pair.split_once('=').map_or(pair, |(key, _)| key);
    if !is_label_key(key) || effect.is_some_and(|effect| !EFFECTS.contains(&effect)) {
        let error = CommandError::usage(format!("invalid taint to remove {text:?}"));
        return Err(error.hint(format!("give KEY or KEY:EFFECT; an effect is one of {}", EFFECTS.join(", "))));
    }
    Ok(TaintKey { key: key.to_owned(), effect: effect.map(str::to_owned) })
}

fn parse_label(text: &str) -> Result<(String, String), CommandError> {
    match text.split_once('=') {
        Some((key, value)) if is_label_key(key) && is_label_value(value) => Ok((key.to_owned(), value.to_owned())),
        _ => Err(CommandError::usage(format!("invalid label {text:?}")).hint("give KEY=VALUE")),
    }
}

fn check_key(key: &str) -> Result<(), CommandError> {
    match is_label_key(key) {
        true => Ok(()),
        false => Err(CommandError::usage(format!("invalid label key {key:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_changes, parse_taint};

    #[test]
    fn changes_are_given_as_for_kubectl() {
        let changes = ["taint a=b:NoExecute", " taint  c:NoSchedule-", "taint d-", "label e=f", "label g-", "label h="];
        let edit = parse_changes(&changes.map(str::to_owned)).unwrap();
        assert_eq!(edit.taints[0].to_string(), "a=b:NoExecute");
        let removed: Vec<_> =
            edit.removed_taints.iter().map(|taint| (taint.key.as_str(), taint.effect.as_deref())).collect();
        assert_eq!(removed, [("c", Some("NoSchedule")), ("d", None)]);
        assert_eq!(
            (&edit.labels["e"], &edit.labels["g"], &edit.labels["h"]),
            (&Some("f".into()), &None, &Some("".into()))
        );
        for invalid in ["", "taint", "taint a", "taint a=b", "taint a:No", "label a", "label =b", "cordon"] {
            assert!(parse_changes(&[invalid.to_owned()]).is_err(), "{invalid}");
        }
        assert_eq!(parse_taint("x.io/y:PreferNoSchedule").unwrap().key, "x.io/y");
    }
}
