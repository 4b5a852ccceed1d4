//! How much of the exhaustive or random nightly tests is run on each change.

use super::random::Random;

/// Tells whether all is tried that is tried exhaustively or at random, as at night: on a change it is a tenth of that.
pub fn all_is_tried() -> bool {
    std::env::var_os("KUBECTL_DS_ALL").is_some()
}

/// Returns how often something is tried that is tried so often at night.
pub fn times(at_night: usize) -> usize {
    if all_is_tried() { at_night } else { at_night.div_ceil(10) }
}

/// Returns how many random cases a property is tried with that is tried with so many at night.
pub fn cases(at_night: u32) -> u32 {
    if all_is_tried() { at_night } else { at_night.div_ceil(10) }
}

/// Returns those that are tried of what is tried exhaustively at night; on a change these are always the same ones.
pub fn share<T>(at_night: Vec<T>) -> Vec<T> {
    let (all, mut random) = (all_is_tried(), Random::new(1));
    at_night.into_iter().filter(|_| random.percent(10) || all).collect()
}
