//! Random numbers from a seed of their own (SplitMix64), so that every run tells the same.

/// A source of them.
pub struct Random(u64);

impl Random {
    /// The source of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias is below one in 2^32 for every bound used here.
        self.next() % bound
    }

    /// A span between half of `mean` and half as much again.
    pub fn around(&mut self, mean: u64) -> u64 {
        mean / 2 + self.below(mean + 1)
    }
}
