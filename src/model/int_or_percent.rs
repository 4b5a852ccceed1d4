//! A count, or a percentage of one: `IntOrString` as update strategies use it.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

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
    /// release 1.37.
    pub fn scaled_up(self, total: i64) -> i64 {
        match self {
            IntOrPercent::Int(count) => count,
            IntOrPercent::Percent(percent) => (percent.saturating_mul(total).saturating_add(99)).div_euclid(100),
        }
    }

    /// Returns the number of pods of `total`, with fractions rounded down.
    ///
    /// Ported as [`IntOrPercent::scaled_up`].
    pub(crate) fn scaled_down(self, total: i64) -> i64 {
        match self {
            IntOrPercent::Int(count) => count,
            IntOrPercent::Percent(percent) => percent.saturating_mul(total).div_euclid(100),
        }
    }
}

impl IntOrPercent {
    /// Returns whether it is a percentage.
    pub(crate) fn is_percentage(self) -> bool {
        matches!(self, IntOrPercent::Percent(_))
    }

    /// Returns the number without its unit.
    ///
    /// Ported from `getIntOrPercentValue`, pkg/apis/apps/validation/validation.go, release 1.37.2.
    pub fn value(self) -> i64 {
        match self {
            IntOrPercent::Int(value) | IntOrPercent::Percent(value) => value,
        }
    }
}

/// Why a text is not a number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidIntOrPercent {
    /// It is neither a number nor a percentage.
    #[error("must be an integer or a percentage (e.g. 5 or 10%)")]
    Syntax,
    /// The number does not fit into the API's field.
    #[error("must be at most {}", i32::MAX)]
    TooLarge,
}

impl FromStr for IntOrPercent {
    type Err = InvalidIntOrPercent;

    /// Parses what the API server accepts in a field of this type, whose range the validation checks.
    ///
    /// Ported from `Parse`, k8s.io/apimachinery/pkg/util/intstr/intstr.go, and `IsValidPercent`,
    /// k8s.io/apimachinery/pkg/util/validation/validation.go, release 1.37. A number beyond 32 bits is an error here.
    fn from_str(text: &str) -> Result<Self, InvalidIntOrPercent> {
        if let Some(digits) = text.strip_suffix('%') {
            let is_valid = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            // A percentage that does not fit is over 100% anyway.
            return match is_valid {
                true => Ok(IntOrPercent::Percent(digits.parse().unwrap_or(i64::MAX))),
                false => Err(InvalidIntOrPercent::Syntax),
            };
        }
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(InvalidIntOrPercent::Syntax);
        }
        let number: i32 = text.parse().map_err(|_| InvalidIntOrPercent::TooLarge)?;
        Ok(IntOrPercent::Int(number.into()))
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

/// Converts a count to the API's integer type.
pub fn int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::IntOrPercent::{self, Int, Percent};
    use super::InvalidIntOrPercent::{Syntax, TooLarge};

    #[test]
    fn text_is_read_as_the_api_server_reads_it() {
        for (text, expected) in [
            ("0", Ok(Int(0))),
            ("14", Ok(Int(14))),
            ("05", Ok(Int(5))),
            ("+5", Ok(Int(5))),
            ("-1", Ok(Int(-1))),
            ("2147483647", Ok(Int(2_147_483_647))),
            ("2147483648", Err(TooLarge)),
            ("99999999999999999999", Err(TooLarge)),
            ("10%", Ok(Percent(10))),
            ("010%", Ok(Percent(10))),
            ("0%", Ok(Percent(0))),
            ("99999999999999999999%", Ok(Percent(i64::MAX))),
            ("%", Err(Syntax)),
            ("-5%", Err(Syntax)),
            ("+5%", Err(Syntax)),
            ("5.5%", Err(Syntax)),
            ("5%%", Err(Syntax)),
            (" 5", Err(Syntax)),
            ("5 %", Err(Syntax)),
            ("", Err(Syntax)),
            ("-", Err(Syntax)),
            ("1_000", Err(Syntax)),
            ("0x10", Err(Syntax)),
            ("ten", Err(Syntax)),
        ] {
            assert_eq!(text.parse::<IntOrPercent>(), expected, "{text:?}");
        }
    }

    #[test]
    fn percentages_round_up() {
        assert_eq!(Percent(50).scaled_up(3), 2);
        assert_eq!(Percent(1).scaled_up(5), 1);
        assert_eq!(Percent(0).scaled_up(5), 0);
        assert_eq!(Percent(100).scaled_up(7), 7);
        assert_eq!(Int(4).scaled_up(1), 4);
    }
}
