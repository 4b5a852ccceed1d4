//! The stages of a staged rollout, and the properties of nodes that its canary covers.

use std::fmt;
use std::str::FromStr;

use serde_with::{DeserializeFromStr, SerializeDisplay};
use thiserror::Error;

use super::int_or_percent::IntOrPercent;
use super::names::is_label_key;
use super::node::{INSTANCE_TYPE, Node, ZONE};

/// How many stages a rollout may have.
const MOST_STAGES: usize = 20;

/// How many nodes a stage updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageSize {
    /// A few nodes that together have each value of the strata.
    Canary,
    /// The number or percentage of nodes that are updated when it ends.
    Update(IntOrPercent),
}

impl fmt::Display for StageSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StageSize::Canary => formatter.write_str("canary"),
            StageSize::Update(amount) => amount.fmt(formatter),
        }
    }
}

/// The stages, in their order; the last one updates all nodes.
#[derive(Debug, Clone, PartialEq, Eq, SerializeDisplay, DeserializeFromStr)]
pub struct Stages(Vec<StageSize>);

/// Why a text lists no stages.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidStages {
    /// A stage is none.
    #[error("invalid stage {0:?}: give canary, a number of nodes, or a percentage")]
    Stage(String),
    /// The canary does not come first.
    #[error("canary must be the first stage")]
    LateCanary,
    /// A stage is not larger than the one before.
    #[error("stage {0} is not larger than the one before")]
    NotLarger(StageSize),
    /// The last stage leaves nodes.
    #[error("the last stage must be 100%")]
    NotAll,
    /// There are too many.
    #[error("at most {MOST_STAGES} stages are supported")]
    TooMany,
}

impl Stages {
    /// Returns the stages.
    pub fn sizes(&self) -> &[StageSize] {
        &self.0
    }
}

impl FromStr for Stages {
    type Err = InvalidStages;

    fn from_str(text: &str) -> Result<Self, InvalidStages> {
        let mut sizes: Vec<StageSize> = Vec::new();
        for stage in text.split(',') {
            let size = match stage {
                "canary" if sizes.is_empty() => StageSize::Canary,
                "canary" => return Err(InvalidStages::LateCanary),
                amount => match amount.parse() {
                    Ok(amount @ IntOrPercent::Percent(1..=100)) => StageSize::Update(amount),
                    Ok(amount @ IntOrPercent::Int(1..)) => StageSize::Update(amount),
                    _ => return Err(InvalidStages::Stage(stage.to_owned())),
                },
            };
            // How a number compares with a percentage depends on how many nodes there are.
            let comparable = |one: &StageSize, unit: IntOrPercent| match one {
                StageSize::Update(one) if one.is_percentage() == unit.is_percentage() => Some(one.value()),
                _ => None,
            };
            if let StageSize::Update(amount) = size
                && sizes.iter().filter_map(|one| comparable(one, amount)).any(|before| before >= amount.value())
            {
                return Err(InvalidStages::NotLarger(size));
            }
            sizes.push(size);
        }
        match sizes.last() {
            _ if sizes.len() > MOST_STAGES => Err(InvalidStages::TooMany),
            Some(StageSize::Update(IntOrPercent::Percent(100))) => Ok(Stages(sizes)),
            _ => Err(InvalidStages::NotAll),
        }
    }
}

impl fmt::Display for Stages {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, size) in self.0.iter().enumerate() {
            write!(formatter, "{}{size}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// A property of nodes of which a canary covers every value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, SerializeDisplay, DeserializeFromStr)]
pub enum Stratum {
    /// The label `topology.kubernetes.io/zone`.
    Zone,
    /// The CPU architecture.
    Arch,
    /// The operating system's name and version.
    OsImage,
    /// The kernel's version.
    Kernel,
    /// The container runtime and its version.
    Runtime,
    /// The label `node.kubernetes.io/instance-type`.
    InstanceType,
    /// Another label.
    Label(String),
}

/// Why a text is no stratum.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid stratum {0:?}: give zone, arch, os-image, kernel, runtime, instance-type, or the key of a label")]
pub struct InvalidStratum(String);

impl Stratum {
    /// Those that are covered by default.
    pub const DEFAULT: [Stratum; 6] =
        [Stratum::Zone, Stratum::Arch, Stratum::OsImage, Stratum::Kernel, Stratum::Runtime, Stratum::InstanceType];

    /// Returns the key of a label that is none of those which nodes have by default.
    pub fn label(&self) -> Option<&str> {
        if let Stratum::Label(key) = self { Some(key) } else { None }
    }

    /// Returns the value that a node has; empty if it has none.
    pub fn value<'n>(&self, node: &'n Node) -> &'n str {
        let label = |key: &str| node.metadata.labels.get(key).map_or("", String::as_str);
        let info = &node.status.node_info;
        match self {
            Stratum::Zone => label(ZONE),
            Stratum::Arch => &info.architecture,
            Stratum::OsImage => &info.os_image,
            Stratum::Kernel => &info.kernel_version,
            Stratum::Runtime => &info.container_runtime_version,
            Stratum::InstanceType => label(INSTANCE_TYPE),
            Stratum::Label(key) => label(key),
        }
    }
}

impl fmt::Display for Stratum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Stratum::Zone => "zone",
            Stratum::Arch => "arch",
            Stratum::OsImage => "os-image",
            Stratum::Kernel => "kernel",
            Stratum::Runtime => "runtime",
            Stratum::InstanceType => "instance-type",
            Stratum::Label(key) => key,
        })
    }
}

impl FromStr for Stratum {
    type Err = InvalidStratum;

    fn from_str(text: &str) -> Result<Self, InvalidStratum> {
        match Stratum::DEFAULT.into_iter().find(|stratum| stratum.to_string() == text) {
            Some(stratum) => Ok(stratum),
            None if is_label_key(text) => Ok(Stratum::Label(text.to_owned())),
            None => Err(InvalidStratum(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{InvalidStages, Stages, Stratum};
    use crate::model::node::Node;

    #[test]
    fn stages_grow_until_all_nodes_are_updated() {
        let parse = |text: &str| text.parse::<Stages>().map(|stages| stages.to_string());
        for valid in ["canary,10%,50%,100%", "100%", "canary,100%", "1,5,25%,100%", "50%,7,100%"] {
            assert_eq!(parse(valid).as_deref(), Ok(valid));
        }
        for (invalid, why) in [
            ("10%,canary,100%", InvalidStages::LateCanary),
            ("canary,canary,100%", InvalidStages::LateCanary),
            ("canary,50%,10%,100%", InvalidStages::NotLarger(super::StageSize::Update("10%".parse().unwrap()))),
            ("5,10%,5,100%", InvalidStages::NotLarger(super::StageSize::Update("5".parse().unwrap()))),
            ("canary,10%", InvalidStages::NotAll),
            ("canary", InvalidStages::NotAll),
            ("100%,200", InvalidStages::NotAll),
        ] {
            assert_eq!(parse(invalid), Err(why), "{invalid}");
        }
        for invalid in ["", "canary,", "0,100%", "0%,100%", "-1,100%", "101%", "ten,100%", "Canary,100%", " 5,100%"] {
            assert!(matches!(parse(invalid), Err(InvalidStages::Stage(_))), "{invalid:?}");
        }
        let many = (1..=20).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(parse(&format!("{many},100%")), Err(InvalidStages::TooMany));
    }

    #[test]
    fn a_stratum_is_a_word_or_the_key_of_a_label() {
        for stratum in Stratum::DEFAULT {
            assert_eq!(stratum.to_string().parse(), Ok(stratum));
        }
        let node: Node = serde_json::from_value(json!({
            "metadata": {"labels": {"topology.kubernetes.io/zone": "a", "node.kubernetes.io/instance-type": "m5", "rack": "7"}},
            "status": {"nodeInfo": {"architecture": "amd64", "osImage": "Linux 1", "kernelVersion": "6.8",
                "containerRuntimeVersion": "containerd://2.1"}},
        }))
        .unwrap();
        let value = |text: &str| text.parse::<Stratum>().unwrap().value(&node).to_owned();
        let names = ["zone", "arch", "os-image", "kernel", "runtime", "instance-type", "rack", "row"];
        assert_eq!(names.map(value), ["a", "amd64", "Linux 1", "6.8", "containerd://2.1", "m5", "7", ""]);
        for invalid in ["", "a b", "--evict", "a/b/c", "\u{1b}[2J"] {
            assert!(invalid.parse::<Stratum>().is_err(), "{invalid:?}");
        }
    }
}
