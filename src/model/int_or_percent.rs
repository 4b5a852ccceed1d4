//! A count, or a percentage of one: `IntOrString` as update strategies use it.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of pods, or a percentage of the desired ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntOrPercent {
    /// A number of pods.
    Int(i64),
    /// A percentage of the desired pods.
    Percent(i64),
}

impl IntOrPercent {
    /// Returns the number of pods of `total`, with fractions rounded up.
    ///
    /// Ported from `GetScaledValueFromIntOrPercent`, k8s.io/apimachinery/pkg/util/intstr/intstr.go,
    /// release 1.36.
    pub fn scaled_up(self, total: i64) -> i64 {
        match self {
            IntOrPercent::Int(count) => count,
            IntOrPercent::Percent(percent) => (percent.saturating_mul(total).saturating_add(99)).div_euclid(100),
        }
    }
}

impl std::fmt::Display for IntOrPercent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IntOrPercent::Int(count) => write!(formatter, "{count}"),
            IntOrPercent::Percent(percent) => write!(formatter, "{percent}%"),
        }
    }
}

impl Serialize for IntOrPercent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            IntOrPercent::Int(count) => serializer.serialize_i64(*count),
            IntOrPercent::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Int(i64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Int(count) => Ok(IntOrPercent::Int(count)),
            Form::Text(text) => text
                .strip_suffix('%')
                .and_then(|digits| digits.parse().ok())
                .map(IntOrPercent::Percent)
                .ok_or_else(|| de::Error::custom(format!("{text:?} is neither a number nor a percentage"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::IntOrPercent::{Int, Percent};

    #[test]
    fn percentages_round_up() {
        assert_eq!(Percent(50).scaled_up(3), 2);
        assert_eq!(Percent(1).scaled_up(5), 1);
        assert_eq!(Percent(0).scaled_up(5), 0);
        assert_eq!(Percent(100).scaled_up(7), 7);
        assert_eq!(Int(4).scaled_up(1), 4);
    }
}
