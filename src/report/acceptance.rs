//! What a rollout may lack and still count as complete: `--accept`, and the annotation `kubectl-ds/accept`.

use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use serde_with::SerializeDisplay;

use super::age::parse_duration;
use super::reason::ReasonCode;
use super::rollout_status::Fault;
use crate::model::int_or_percent::IntOrPercent;

/// One thing that is accepted, such as `node=10%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, SerializeDisplay)]
pub struct Acceptance {
    /// What.
    pub what: Accept,
    /// Up to which point.
    pub limit: Option<Limit>,
}

/// What is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// Nodes that are missing through no fault of the revision: `node` or `cluster`.
    Fault(Fault),
    /// Nodes that are missing for this reason.
    Code(ReasonCode),
    /// Old pods under the update strategy OnDelete.
    OnDelete,
    /// A revision that has removed most of the nodes.
    FewerNodes,
    /// Nothing, whatever the annotation accepts.
    Nothing,
}

/// The limit of what is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The number of nodes, or their share of the eligible ones, rounded down.
    Nodes(IntOrPercent),
    /// The age of old pods, in seconds.
    Age(i64),
}

impl Accept {
    /// Returns whether it is about missing nodes.
    pub fn is_about_nodes(self) -> bool {
        !matches!(self, Accept::FewerNodes | Accept::Nothing)
    }
}

impl FromStr for Acceptance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, limit) = match text.split_once('=') {
            Some((name, limit)) => (name, Some(limit)),
            None => (text, None),
        };
        let what = match name.to_ascii_lowercase().as_str() {
            "node" => Accept::Fault(Fault::Node),
            "cluster" => Accept::Fault(Fault::Cluster),
            "on-delete" => Accept::OnDelete,
            "fewer-nodes" => Accept::FewerNodes,
            "none" => Accept::Nothing,
            _ => {
                let code = ReasonCode::of_word(name).map(Accept::Code);
                code.ok_or("give node, cluster, on-delete, fewer-nodes, a reason code or none")?
            }
        };
        let nodes = |text: &str| match text.parse() {
            Ok(limit @ (IntOrPercent::Int(0..) | IntOrPercent::Percent(0..=100))) => Ok(Limit::Nodes(limit)),
            _ => Err("the limit must be a number of nodes or a percentage: node=3, node=10%"),
        };
        let age = |text: &str| {
            let age = parse_duration(text).filter(|age| *age >= SignedDuration::ZERO);
            age.map(|age| Limit::Age(age.as_secs())).ok_or("the limit must be an age: on-delete=12h, on-delete=7d")
        };
        let limit = match (what, limit) {
            (_, None) => None,
            (Accept::FewerNodes | Accept::Nothing, Some(_)) => return Err(format!("{name} takes no limit")),
            (Accept::OnDelete, Some(text)) => Some(age(text)?),
            (Accept::Fault(_) | Accept::Code(_), Some(text)) => Some(nodes(text)?),
        };
        Ok(Acceptance { what, limit })
    }
}

impl fmt::Display for Acceptance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Accept::Fault(Fault::Cluster) => formatter.write_str("cluster"),
            Accept::Fault(_) => formatter.write_str("node"),
            Accept::Code(code) => formatter.write_str(code.name()),
            Accept::OnDelete => formatter.write_str("on-delete"),
            Accept::FewerNodes => formatter.write_str("fewer-nodes"),
            Accept::Nothing => formatter.write_str("none"),
        }?;
        match self.limit {
            Some(Limit::Nodes(limit)) => write!(formatter, "={limit}"),
            Some(Limit::Age(seconds)) => {
                let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
                let (unit, name) = units.into_iter().find(|(unit, _)| seconds % unit == 0).unwrap_or((1, "s"));
                write!(formatter, "={}{name}", seconds / unit)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_accepted_is_read_and_written_the_same() {
        for text in [
            "node",
            "node=10%",
            "cluster=3",
            "on-delete",
            "on-delete=7d",
            "on-delete=200h",
            "on-delete=90m",
            "fewer-nodes",
            "none",
            "CrashLooping=2",
        ] {
            assert_eq!(text.parse::<Acceptance>().unwrap().to_string(), text);
        }
        for (given, read) in [("crashlooping", "CrashLooping"), ("Node=1", "node=1"), ("On-Delete", "on-delete")] {
            assert_eq!(given.parse::<Acceptance>().unwrap().to_string(), read);
        }
        let age = |text: &str| text.parse::<Acceptance>().unwrap().limit;
        assert_eq!(age("on-delete=36h"), Some(Limit::Age(36 * 3600)));
        for text in [
            "",
            "nodes",
            "revision",
            "unknown",
            "node=",
            "node=-1",
            "node=101%",
            "node=7d",
            "on-delete=3%",
            "on-delete=-1d",
            "on-delete=1 d",
            "fewer-nodes=1",
            "none=1",
            "CrashLooping=",
            "=1",
            "node=1=2",
        ] {
            assert!(text.parse::<Acceptance>().is_err(), "{text}");
        }
    }
}
