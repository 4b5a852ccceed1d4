//! Random numbers that are repeatable with a seed.

use serde_json::Value;

/// Random numbers that a seed repeats: splitmix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below the bound.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// Returns true so many times of a hundred.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub fn word(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len())]
    }

    /// Returns one of the usual words so many times of a hundred, and else one of the odd.
    pub fn mostly(&mut self, percent: usize, usual: &[&'static str], odd: &[&'static str]) -> &'static str {
        let from = if self.percent(percent) { usual } else { odd };
        self.word(from)
    }

    /// Makes up to `most` things, fewer more often.
    pub fn some(&mut self, most: usize, mut make: impl FnMut(&mut Random) -> Value) -> Vec<Value> {
        let count = self.below(most + 1).min(self.below(most + 1));
        (0..count).map(|_| make(self)).collect()
    }
}
