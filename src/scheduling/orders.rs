//! What becomes of pods that are equally important: which of them have room depends on an order that is not known.

/// Of how many pods every order is tried.
pub const MAX_PODS: usize = 9;

/// Returns which of some pods have room together in one order or another, as bits: each time so many that no other one would fit.
///
/// `fits` tells whether pods fit together; fewer of them then fit, too.
pub fn fullest(count: usize, fits: impl Fn(usize) -> bool) -> Vec<usize> {
    let fitting: Vec<bool> = (0..1 << count).map(fits).collect();
    let is_full = |stay: &usize| (0..count).all(|number| has(*stay, number) || !fitting[stay | 1 << number]);
    (0..fitting.len()).filter(|stay| fitting[*stay] && is_full(stay)).collect()
}

/// Returns whether a pod is among those of some bits.
pub fn has(bits: usize, number: usize) -> bool {
    bits >> number & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::{fullest, has};

    #[test]
    fn every_order_is_tried() {
        let sizes = [3, 3, 1];
        let fits =
            |bits: usize| (0..3).filter(|number| has(bits, *number)).map(|number| sizes[number]).sum::<i32>() <= 4;
        assert_eq!(fullest(3, fits), [0b101, 0b110]);
        assert_eq!(fullest(0, |_| true), [0]);
    }
}
