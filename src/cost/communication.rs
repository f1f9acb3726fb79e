//! Alpha-beta times of transfers and collectives: here on one kind of link, in [`GroupShape`] over nodes.
//!
//! With latency `α` and bandwidth `β`, a ring of `n` ranks takes `2 (n-1)` steps for an all-reduce of `S` bytes, each
//! moving `S/n` (Thakur et al. 2005; Patarasuk and Yuan 2009): `2 (n-1)/n · S/β + 2 (n-1) α`.

mod collectives;
mod nccl;

pub use collectives::{Algorithm, Collective, CollectiveCost, GroupShape};
pub use nccl::Medium;

use crate::cluster::Link;

/// Seconds to send `bytes` over an idle link.
pub fn transfer_s(bytes: u64, link: Link) -> f64 {
    link.latency_s + bytes as f64 / link.bytes_per_s
}

/// Seconds of a ring all-reduce of `bytes` (the size of each rank's whole buffer) over `ranks`; none for one rank.
pub fn ring_all_reduce_s(ranks: u32, bytes: u64, link: Link) -> f64 {
    2.0 * ring_half_s(ranks, bytes, link)
}

/// Seconds of a ring all-gather whose result has `bytes` on every rank.
pub fn ring_all_gather_s(ranks: u32, bytes: u64, link: Link) -> f64 {
    ring_half_s(ranks, bytes, link)
}

/// Seconds of a ring reduce-scatter of a buffer of `bytes` on every rank.
pub fn ring_reduce_scatter_s(ranks: u32, bytes: u64, link: Link) -> f64 {
    ring_half_s(ranks, bytes, link)
}

/// Seconds of an all-to-all in which each rank has `bytes` in all to send, a share to each rank: pair by pair.
pub fn all_to_all_s(ranks: u32, bytes: u64, link: Link) -> f64 {
    ring_half_s(ranks, bytes, link)
}

/// `n - 1` steps of `S/n` bytes.
fn ring_half_s(ranks: u32, bytes: u64, link: Link) -> f64 {
    let steps = f64::from(ranks.saturating_sub(1));
    let step_bytes = bytes as f64 / f64::from(ranks.max(1));
    steps * (link.latency_s + step_bytes / link.bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    const LINK: Link = Link { bytes_per_s: 1e9, latency_s: 1e-3 };

    #[test]
    fn closed_forms_by_hand() {
        assert_relative_eq!(transfer_s(1_000_000_000, LINK), 1.001);
        // 2 · 7/8 · 8 GB / 1 GB/s + 2 · 7 · 1 ms
        assert_relative_eq!(ring_all_reduce_s(8, 8_000_000_000, LINK), 14.0 + 0.014);
        assert_relative_eq!(ring_all_gather_s(4, 4_000_000_000, LINK), 3.0 + 0.003);
        assert_relative_eq!(all_to_all_s(4, 4_000_000_000, LINK), 3.0 + 0.003);
    }

    #[test]
    fn an_all_reduce_is_a_reduce_scatter_and_an_all_gather() {
        for ranks in [2, 3, 8, 64] {
            let parts = ring_reduce_scatter_s(ranks, 12_345, LINK) + ring_all_gather_s(ranks, 12_345, LINK);
            assert_relative_eq!(ring_all_reduce_s(ranks, 12_345, LINK), parts);
        }
    }

    #[test]
    fn one_rank_has_nobody_to_wait_for() {
        assert!(ring_all_reduce_s(1, 1 << 30, LINK) <= 0.0);
        assert!(ring_all_reduce_s(0, 1 << 30, LINK) <= 0.0);
    }
}
