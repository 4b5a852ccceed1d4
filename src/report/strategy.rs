//! Update strategies in short.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::model::int_or_percent::IntOrPercent;

/// An update strategy. It is shown, and serialized, as text such as `RollingUpdate 10%`, `RollingUpdate surge 1` or
/// `OnDelete`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// The controller replaces pods.
    RollingUpdate(RollingStrategy),
    /// Pods are updated only when they are deleted.
    OnDelete,
    /// The strategy of this name, which the controller does not know.
    Unknown(String),
}

/// How the controller replaces pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollingStrategy {
    /// How many nodes may be without an available pod.
    pub max_unavailable: IntOrPercent,
    /// How many nodes may have a second pod.
    pub max_surge: IntOrPercent,
    /// Of an Advanced DaemonSet: how many pods stay on older revisions.
    pub partition: Option<IntOrPercent>,
    /// Of an Advanced DaemonSet: whether a selector restricts which nodes are updated.
    pub has_selector: bool,
    /// Of an Advanced DaemonSet: whether pods are updated in place if possible.
    pub in_place: bool,
    /// Of an Advanced DaemonSet: whether it is paused.
    pub paused: bool,
}

impl fmt::Display for Strategy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rolling = match self {
            Strategy::RollingUpdate(rolling) => rolling,
            Strategy::OnDelete => return formatter.write_str("OnDelete"),
            Strategy::Unknown(name) => return formatter.write_str(name),
        };
        formatter.write_str("RollingUpdate")?;
        let RollingStrategy { max_unavailable, max_surge, .. } = rolling;
        let surges = *max_surge != IntOrPercent::Int(0);
        if !surges || *max_unavailable != IntOrPercent::Int(0) {
            write!(formatter, " {max_unavailable}")?;
        }
        if surges {
            write!(formatter, " surge {max_surge}")?;
        }
        if let Some(partition) = rolling.partition {
            write!(formatter, " partition {partition}")?;
        }
        for (is_set, word) in
            [(rolling.has_selector, " with selector"), (rolling.in_place, " in place"), (rolling.paused, " paused")]
        {
            formatter.write_str(if is_set { word } else { "" })?;
        }
        Ok(())
    }
}

impl Serialize for Strategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
