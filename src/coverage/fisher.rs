//! Fisher's exact test for a 2×2 table.

use crate::report::common_cause::Split;

/// The natural logarithms of the factorials up to a number.
pub(super) struct LogFactorials(Vec<f64>);

impl LogFactorials {
    /// Computes the logarithms of 0! to `most`!.
    pub(super) fn up_to(most: usize) -> Self {
        let mut sum = 0.0;
        let mut logarithms = vec![0.0];
        logarithms.extend((1..=most).map(|number| {
            sum += as_float(number).ln();
            sum
        }));
        LogFactorials(logarithms)
    }

    /// Returns the logarithm of the number of ways to choose `part` of `whole`.
    fn choose(&self, whole: usize, part: usize) -> f64 {
        self.0[whole] - self.0[part] - self.0[whole - part]
    }

    /// Returns the probability that at least `failing_with` nodes with the value are among the failing ones, if as many
    /// nodes as fail are drawn at random: the one-sided test.
    pub(super) fn probability(&self, split: &Split) -> f64 {
        let Split { failing, failing_with, available, available_with } = *split;
        let (with, without) = (failing_with + available_with, failing - failing_with + available - available_with);
        let all = self.choose(with + without, failing);
        let probability: f64 = (failing_with..=failing.min(with))
            .map(|drawn| (self.choose(with, drawn) + self.choose(without, failing - drawn) - all).exp())
            .sum();
        probability.min(1.0)
    }
}

/// Returns a count as a floating-point number, exact for any number of nodes.
pub(super) fn as_float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::LogFactorials;
    use crate::report::common_cause::Split;

    #[test]
    fn probabilities_are_those_of_the_hypergeometric_distribution() {
        let logarithms = LogFactorials::up_to(1_000);
        // Computed by hand: the number of ways that are at least as extreme, divided by all ways to choose the failing nodes.
        let cases = [
            // Fisher's lady: all four cups right is 1 of 70, at least three right is 17 of 70.
            ((4, 4, 4, 0), 1.0 / 70.0),
            ((4, 3, 4, 1), 17.0 / 70.0),
            ((6, 6, 18, 1), 7.0 / 134_596.0),
            ((3, 3, 5, 0), 1.0 / 56.0),
            ((2, 0, 2, 1), 1.0),
            ((1, 1, 999, 0), 1.0 / 1_000.0),
        ];
        for ((failing, failing_with, available, available_with), expected) in cases {
            let split = Split { failing, failing_with, available, available_with };
            let probability = logarithms.probability(&split);
            assert!((probability / expected - 1.0).abs() < 1e-9, "{split:?}: {probability}, not {expected}");
        }
    }
}
