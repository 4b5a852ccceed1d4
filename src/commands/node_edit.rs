//! Flags that describe a hypothetical change to a node.

use clap::Args;

use crate::error::CommandError;
use crate::model::names::{is_label_key, is_label_value};
use crate::model::node::Taint;
use crate::model::node_edit::{NodeEdit, TaintKey};

/// The effects of taints.
pub(super) const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

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
    /// Resolves the flags. Fails if a taint or label is invalid.
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

pub(super) fn parse_taint(text: &str) -> Result<Taint, CommandError> {
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

pub(super) fn parse_taint_key(text: &str) -> Result<TaintKey, CommandError> {
    let (pair, effect) = text.split_once(':').map_or((text, None), |(pair, effect)| (pair, Some(effect)));
    // kubectl accepts a value, too, and ignores it.
    let key = pair.split_once('=').map_or(pair, |(key, _)| key);
    if !is_label_key(key) || effect.is_some_and(|effect| !EFFECTS.contains(&effect)) {
        let error = CommandError::usage(format!("invalid taint to remove {text:?}"));
        return Err(error.hint(format!("give KEY or KEY:EFFECT; an effect is one of {}", EFFECTS.join(", "))));
    }
    Ok(TaintKey { key: key.to_owned(), effect: effect.map(str::to_owned) })
}

pub(super) fn parse_label(text: &str) -> Result<(String, String), CommandError> {
    match text.split_once('=') {
        Some((key, value)) if is_label_key(key) && is_label_value(value) => Ok((key.to_owned(), value.to_owned())),
        _ => Err(CommandError::usage(format!("invalid label {text:?}")).hint("give KEY=VALUE")),
    }
}

pub(super) fn check_key(key: &str) -> Result<(), CommandError> {
    if is_label_key(key) { Ok(()) } else { Err(CommandError::usage(format!("invalid label key {key:?}"))) }
}

#[cfg(test)]
mod tests {
    use super::parse_taint;

    #[test]
    fn a_taint_has_a_key_and_an_effect() {
        assert_eq!(parse_taint("x.io/y:PreferNoSchedule").unwrap().key, "x.io/y");
        for invalid in ["x", "x=y", ":NoSchedule", "x:No"] {
            assert!(parse_taint(invalid).is_err(), "{invalid}");
        }
    }
}
