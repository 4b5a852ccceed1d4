//! Resource quantities, with the same precision as in Kubernetes.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An amount of a resource as it was written, such as `100m` or `64Mi`.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct Quantity {
    /// The amount as text.
    #[prost(string, tag = 1)]
    pub text: String,
}

/// Nano units per unit, the finest precision of a quantity.
const NANOS: i128 = 1_000_000_000;

impl Quantity {
    /// Wraps an amount given as text, which is not validated until it is used; one that is read from JSON is.
    pub fn new(text: impl Into<String>) -> Self {
        Quantity { text: text.into() }
    }

    /// Returns an amount in billionths of a unit.
    pub(super) fn from_nanos(nanos: i128) -> Self {
        Quantity::new(decimal(nanos))
    }

    /// Returns whole units, with fractions rounded up: `Quantity.Value` in Go.
    ///
    /// Invalid text counts as 0; in JSON it is rejected before.
    pub fn value(&self) -> i64 {
        clamp(div_ceil(self.nanos().unwrap_or(0), NANOS))
    }

    /// Returns thousandths of a unit, with fractions rounded up: `Quantity.MilliValue` in Go.
    ///
    /// Invalid text counts as 0; in JSON it is rejected before.
    pub fn milli_value(&self) -> i64 {
        clamp(div_ceil(self.nanos().unwrap_or(0), NANOS / 1_000))
    }

    /// Returns the amount in billionths of a unit, or `None` if the text is not a quantity.
    ///
    /// Finer fractions are rounded away from zero and amounts beyond 2^63 - 1 units are capped, as in `ParseQuantity`
    /// of k8s.io/apimachinery/pkg/api/resource/quantity.go, release 1.37.
    pub fn nanos(&self) -> Option<i128> {
        let (negative, unsigned) = match self.text.as_bytes().first()? {
            b'-' => (true, &self.text[1..]),
            b'+' => (false, &self.text[1..]),
            _ => (false, self.text.as_str()),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let scale = Scale::of(suffix)?;
        let limit = i128::from(i64::MAX) * NANOS;
        let nanos = scale.nanos(whole, fraction).map_or(limit, |nanos| nanos.min(limit));
        Some(if negative { -nanos } else { nanos })
    }

    /// Returns the amount rounded up to thousandths, or `None` if the text is not a quantity.
    pub fn round_up_to_milli(&self) -> Option<Quantity> {
        let nanos = self.nanos()?;
        let milli = NANOS / 1_000;
        let rounded = div_ceil(nanos.abs(), milli) * milli * nanos.signum();
        Some(Quantity::from_nanos(rounded))
    }

    /// Returns the canonical spelling of this amount, or `None` if the text is not a quantity: the shorter of the decimal and the
    /// binary one.
    ///
    /// Kubernetes preserves whether an amount was written in decimal or binary units, which is not a semantic difference.
    pub fn canonical(&self) -> Option<String> {
        let nanos = self.nanos()?;
        let decimal = decimal(nanos);
        Some(binary(nanos).filter(|binary| binary.len() < decimal.len()).unwrap_or(decimal))
    }

    /// Returns the canonical decimal spelling of this amount, or `None` if the text is not a quantity.
    pub fn canonical_decimal(&self) -> Option<String> {
        self.nanos().map(decimal)
    }
}

/// Writes billionths with the largest decimal suffix that leaves no fraction.
fn decimal(nanos: i128) -> String {
    let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if nanos == 0 { "0".to_owned() } else { spelled(nanos, 1_000, &suffixes) }
}

/// Writes billionths with the largest binary suffix that leaves no fraction, if there is one.
fn binary(nanos: i128) -> Option<String> {
    let is_whole = nanos % NANOS == 0 && nanos != 0;
    is_whole.then(|| spelled(nanos / NANOS, 1_024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]))
}

/// Writes a number with the last of some suffixes that leaves no fraction; each is the multiple of the one before.
fn spelled(mut number: i128, multiple: i128, suffixes: &[&str]) -> String {
    let mut suffix = 0;
    while number % multiple == 0 && suffix + 1 < suffixes.len() {
        number /= multiple;
        suffix += 1;
    }
    format!("{number}{}", suffixes[suffix])
}

/// The value of a suffix.
enum Scale {
    /// A power of ten.
    Decimal(i32),
    /// A power of two.
    Binary(u32),
}

impl Scale {
    fn of(suffix: &str) -> Option<Scale> {
        Some(match suffix {
            "n" => Scale::Decimal(-9),
            "u" => Scale::Decimal(-6),
            "m" => Scale::Decimal(-3),
            "" => Scale::Decimal(0),
            "k" => Scale::Decimal(3),
            "M" => Scale::Decimal(6),
            "G" => Scale::Decimal(9),
            "T" => Scale::Decimal(12),
            "P" => Scale::Decimal(15),
            "E" => Scale::Decimal(18),
            "Ki" => Scale::Binary(10),
            "Mi" => Scale::Binary(20),
            "Gi" => Scale::Binary(30),
            "Ti" => Scale::Binary(40),
            "Pi" => Scale::Binary(50),
            "Ei" => Scale::Binary(60),
            exponent => Scale::Decimal(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }

    /// Returns the number in billionths, rounded up, or `None` if it is out of range.
    fn nanos(&self, whole: &str, fraction: &str) -> Option<i128> {
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Some(0);
        }
        let places = i64::try_from(fraction.len()).ok()?;
        let (exponent, factor) = match self {
            Scale::Decimal(exponent) => (i64::from(*exponent) + 9 - places, 1),
            Scale::Binary(bits) => (9 - places, 1_i128 << bits),
        };
        if exponent >= 0 {
            let power = 10_i128.checked_pow(u32::try_from(exponent).ok()?)?;
            return digits.parse::<i128>().ok()?.checked_mul(power)?.checked_mul(factor);
        }
        // Excess digits are cut, and any digit that was cut rounds up.
        let drop = usize::try_from(-exponent).ok()?;
        let keep = digits.len().saturating_sub(drop);
        if matches!(self, Scale::Decimal(_)) {
            let kept = digits[..keep].parse::<i128>().or(if keep == 0 { Ok(0) } else { Err(()) }).ok()?;
            return kept.checked_add(1).map(|up| if digits[keep..].bytes().all(|b| b == b'0') { kept } else { up });
        }
        let number = digits.parse::<i128>().ok()?.checked_mul(factor)?;
        let power = 10_i128.checked_pow(u32::try_from(-exponent).ok()?)?;
        Some(div_ceil(number, power))
    }
}

/// Divides and rounds up, which is away from zero for positive numbers.
fn div_ceil(number: i128, divisor: i128) -> i128 {
    number.div_euclid(divisor) + i128::from(number.rem_euclid(divisor) != 0)
}

fn clamp(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number > 0 { i64::MAX } else { i64::MIN })
}

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Manifests may contain a bare number instead of text.
        struct TextOrNumber;
        impl de::Visitor<'_> for TextOrNumber {
            type Value = Quantity;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a quantity such as 100m or 64Mi")
            }
            // `Quantity.UnmarshalJSON` in Go ignores spaces around the text.
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                let quantity = Quantity::new(text.trim());
                // The API server never has another one: to count it as 0 would make room that may not be there.
                match quantity.nanos() {
                    Some(_) => Ok(quantity),
                    None => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity::new(number.to_string()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity::new(number.to_string()))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity::new(number.to_string()))
            }
        }
        deserializer.deserialize_any(TextOrNumber)
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn every_suffix_is_read() {
        for (text, milli) in [
            ("0", 0),
            ("1", 1_000),
            ("100m", 100),
            ("1.5", 1_500),
            (".5", 500),
            ("1.", 1_000),
            ("1500u", 2),
            ("1n", 1),
            ("0.0000000001", 1),
            ("2k", 2_000_000),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("1e3", 1_000_000),
            ("1E3", 1_000_000),
            ("12e-1", 1_200),
            ("-1", -1_000),
            ("+1", 1_000),
            ("0.1Ki", 102_400),
        ] {
            assert_eq!(Quantity::new(text).milli_value(), milli, "{text}");
        }
    }

    #[test]
    fn whole_units_round_up() {
        assert_eq!(Quantity::new("100m").value(), 1);
        assert_eq!(Quantity::new("1001m").value(), 2);
        assert_eq!(Quantity::new("-100m").value(), 0);
        assert_eq!(Quantity::new("8Ei").value(), i64::MAX);
        assert_eq!(Quantity::new("99999999999999999999999999999999999999999999").value(), i64::MAX);
    }

    #[test]
    fn every_amount_has_one_spelling() {
        for (text, spelling) in [
            ("1000m", "1"),
            ("0.1", "100m"),
            ("1024Mi", "1Gi"),
            ("0.5Gi", "512Mi"),
            ("67108864", "64Mi"),
            ("1e3", "1k"),
            ("1000", "1k"),
            ("1024", "1Ki"),
            ("1000Ki", "1024k"),
            ("0.1Ki", "102400m"),
            ("-1Mi", "-1Mi"),
            ("0m", "0"),
            ("1n", "1n"),
            ("+1.", "1"),
            ("9Ei", "9223372036854775807"),
        ] {
            assert_eq!(Quantity::new(text).canonical().as_deref(), Some(spelling), "{text}");
            assert_eq!(Quantity::new(spelling).nanos(), Quantity::new(text).nanos(), "{text}");
        }
        assert_eq!(Quantity::new("1024").canonical_decimal().as_deref(), Some("1024"));
        assert_eq!(Quantity::new("12Q").canonical(), None);
    }

    #[test]
    fn rounding_to_thousandths_goes_away_from_zero() {
        for (text, rounded) in [("1n", "1m"), ("1500u", "2m"), ("-1n", "-1m"), ("1m", "1m"), ("64Mi", "64Mi")] {
            let rounded = Quantity::new(rounded).nanos();
            assert_eq!(Quantity::new(text).round_up_to_milli().and_then(|amount| amount.nanos()), rounded, "{text}");
        }
    }

    #[test]
    fn text_that_is_no_quantity_has_no_amount_and_is_not_read() {
        for text in ["", "m", "1x", "1.2.3", "--1", "1 Gi", "e3", "1e", "."] {
            assert_eq!(Quantity::new(text).nanos(), None, "{text:?}");
            let error = serde_json::from_value::<Quantity>(text.into()).unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}, expected a quantity")), "{error}");
        }
        assert_eq!(serde_json::from_value::<Quantity>(" 1Gi ".into()).unwrap().text, "1Gi");
    }
}
