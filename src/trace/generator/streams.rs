//! Named streams of random numbers.

use rand_pcg::Pcg64;

/// The stream called `name` of `seed`: FNV-1a folds the name into 64 bits, `SplitMix64` spreads name and seed over the state
/// and the increment of the generator. Both are fixed by this file, so a seed means the same trace in every release.
pub(in crate::trace) fn stream(seed: u64, name: &str) -> Pcg64 {
    let mut seed = seed;
    let mut state = fnv_1a(name.as_bytes()) ^ splitmix_64(&mut seed);
    let mut wide = || u128::from(splitmix_64(&mut state)) << 64 | u128::from(splitmix_64(&mut state));
    Pcg64::new(wide(), wide())
}

/// The 64-bit FNV-1a hash.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// One step of `SplitMix64` (Steele, Lea and Flood 2014).
fn splitmix_64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn the_hashes_are_the_published_ones() {
        // Test vectors of the FNV reference code, and the first output of SplitMix64 from 1234567.
        assert_eq!(fnv_1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(splitmix_64(&mut 1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn seeds_and_names_make_different_streams() {
        let first = |seed, name| stream(seed, name).next_u64();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
    }
}
