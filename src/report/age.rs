//! Ages, as kubectl prints them.

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};

/// Formats a number of seconds as kubectl does: `45s`, `3m12s`, `5h20m`, `4d`.
///
/// Ported from `HumanDuration`, k8s.io/apimachinery/pkg/util/duration/duration.go, release 1.37; a
/// negative age, which skewed clocks can cause, counts as 0.
pub fn format_age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |whole: i64, whole_unit: &str, part: i64, part_unit: &str| {
        if part == 0 { format!("{whole}{whole_unit}") } else { format!("{whole}{whole_unit}{part}{part_unit}") }
    };
    match seconds {
        ..0 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s / MINUTE % 60, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s / HOUR % 24, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s / DAY % 365, "d"),
        s => format!("{}y", s / YEAR),
    }
}

/// Parses a number with its unit, or several: `1.5s`, `2m`, `1h30m` or `2d`.
pub fn parse_duration(text: &str) -> Option<SignedDuration> {
    let span: Span = text.parse().ok().filter(|_| !text.contains(char::is_whitespace))?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()
}

/// Returns the seconds from one time to a later one; 0 if it is not later, so that a range cannot tell whether it is.
pub fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    (to.as_second() - from.as_second()).max(0)
}

#[cfg(test)]
mod tests {
    use super::format_age;

    #[test]
    fn ages_read_as_kubectl_prints_them() {
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (192, "3m12s"),
            (600, "10m"),
            (3_600, "60m"),
            (10_800, "3h"),
            (19_200, "5h20m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (200_000, "2d7h"),
            (700_000, "8d"),
            (70_000_000, "2y80d"),
            (300_000_000, "9y"),
        ] {
            assert_eq!(format_age(seconds), text, "{seconds}");
        }
    }
}
