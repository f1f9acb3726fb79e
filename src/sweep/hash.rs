//! A hash of texts that stays the same from release to release.

/// FNV-1a in 128 bits. It tells texts apart that weren't made to collide; where a collision would do harm the text is
/// kept beside it and compared.
pub(super) fn hash(parts: &[&[u8]]) -> u128 {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let mut take = |byte: u8| hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    for part in parts {
        part.iter().copied().for_each(&mut take);
        // So that what ends a part doesn't begin the next.
        (part.len() as u64).to_le_bytes().into_iter().for_each(&mut take);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart_by_where_they_end() {
        assert_ne!(hash(&[b"ab", b"c"]), hash(&[b"a", b"bc"]));
        assert_ne!(hash(&[b"ab"]), hash(&[b"ab", b""]));
        assert_eq!(hash(&[b"ab", b"c"]), hash(&[b"ab", b"c"]));
    }
}
