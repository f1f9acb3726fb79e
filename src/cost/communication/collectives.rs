//! Collectives over groups that stand in several nodes, as alpha-beta closed forms.
//!
//! A collective is a latency and the bytes that its busiest link carries. With `n` ranks in `N` nodes, `m = n/N` in each,
//! and `S` bytes in each rank's whole buffer:
//!
//! | | latency | bytes |
//! |---|---|---|
//! | ring all-reduce | `2 (n-1)` steps | `2 (n-1)/n S` |
//! | ring reduce-scatter, all-gather | `n-1` steps | `(n-1)/n S` |
//! | all-to-all, pair by pair | `n-1` steps | `(n-1)/n S` |
//! | tree all-reduce | `2 (m-1)` steps within, `2 log₂ N` between | `2 S`, between two nodes `S` |
//!
//! The tree is NCCL's: two binary trees over the nodes, each for half of the bytes, in which who passes on in one is a leaf
//! in the other (Sanders et al. 2009), and chains within the nodes. An interface so sends twice what it would at least have
//! to, for a latency that grows with the logarithm of the nodes.

use super::nccl::{self, Medium};
use crate::cluster::Link;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Everybody gets the sum of all buffers.
    AllReduce,
    /// Everybody gets its share of the sum.
    ReduceScatter,
    /// Everybody gets everybody's share.
    AllGather,
    /// Everybody sends another share to everybody.
    AllToAll,
}

/// How a collective is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Each rank sends to the next, all the way round.
    Ring,
    /// Up and down two trees over the nodes.
    Tree,
}

/// Where the members of a group stand, and what connects them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupShape {
    /// Members.
    pub ranks: u32,
    /// Nodes in which they stand.
    pub nodes: u32,
    /// What connects two of them in one node.
    pub inside: Link,
    /// What that is made of.
    pub medium: Medium,
    /// What connects two nodes, over all interfaces that the members in a node use.
    pub between: Link,
}

/// A collective in terms of what it costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollectiveCost {
    /// How it is done.
    pub algorithm: Algorithm,
    /// Until the last byte would be there if links took no time for bytes.
    pub latency_s: f64,
    /// Bytes that its busiest link between nodes carries in each direction, or within the only node, flags and padding of the
    /// protocol included.
    pub link_bytes: f64,
    /// The same of the busiest link within a node.
    pub inside_bytes: f64,
}

impl GroupShape {
    /// Members in the same node as another one, the latter included.
    pub fn per_node(&self) -> u32 {
        self.ranks.div_ceil(self.nodes.max(1))
    }

    /// Steps that a share of the buffer makes, and how many of those go from node to node.
    pub(super) fn ring_steps(&self, collective: Collective) -> (f64, f64) {
        let rounds = if collective == Collective::AllReduce { 2.0 } else { 1.0 };
        (rounds * (f64::from(self.ranks.max(1)) - 1.0), rounds * (f64::from(self.nodes.max(1)) - 1.0))
    }

    /// A ring whose ranks send and receive in step: each step takes as long as its slowest edge.
    pub fn ring_in_step(&self, collective: Collective, bytes: f64) -> CollectiveCost {
        let (steps, _) = self.ring_steps(collective);
        let latency_s = if self.nodes > 1 { self.between.latency_s } else { self.inside.latency_s };
        let link_bytes = steps / f64::from(self.ranks.max(1)) * bytes;
        let latency_s = steps * latency_s;
        CollectiveCost { algorithm: Algorithm::Ring, latency_s, link_bytes, inside_bytes: link_bytes }
    }

    /// As NCCL does it, by whatever it expects to be fastest.
    pub fn nccl(&self, collective: Collective, bytes: f64) -> CollectiveCost {
        nccl::choose(self, collective, bytes)
    }

    /// An all-reduce by NCCL's trees, by the protocol that it expects to be fastest; none within one node.
    pub fn nccl_tree(&self, bytes: f64) -> Option<CollectiveCost> {
        nccl::tree_all_reduce(self, bytes)
    }

    /// Seconds of a collective on idle links.
    pub fn seconds(&self, cost: &CollectiveCost) -> f64 {
        if self.ranks < 2 {
            return 0.0;
        }
        let within_s = if self.per_node() > 1 { cost.inside_bytes / self.inside.bytes_per_s } else { 0.0 };
        let between_s = if self.nodes > 1 { cost.link_bytes / self.between.bytes_per_s } else { 0.0 };
        cost.latency_s + within_s.max(between_s)
    }

    /// Seconds of a hierarchical all-reduce on idle links: a reduce-scatter within each node, an all-reduce between those
    /// who hold the same share, each on its part of the interfaces, and an all-gather within.
    pub fn hierarchical_all_reduce_s(&self, bytes: f64) -> f64 {
        let [inside, between] = self.hierarchical(bytes).map(|(latency_s, bytes)| [latency_s, bytes]);
        let within_s = inside[0] + inside[1] / self.inside.bytes_per_s;
        2.0 * within_s + between[0] + between[1] * f64::from(self.per_node()) / self.between.bytes_per_s
    }

    /// Latency and bytes of a link, of either phase within the nodes and of the one between them.
    pub fn hierarchical(&self, bytes: f64) -> [(f64, f64); 2] {
        let (m, nodes) = (f64::from(self.per_node().max(1)), f64::from(self.nodes.max(1)));
        let inside = ((m - 1.0) * self.inside.latency_s, (m - 1.0) / m * bytes);
        let between_s = 2.0 * (nodes - 1.0) * self.between.latency_s;
        [inside, (between_s, 2.0 * (nodes - 1.0) / nodes * bytes / m)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::communication::{ring_all_gather_s, ring_all_reduce_s};
    use approx::assert_relative_eq;

    const SHAPE: GroupShape = GroupShape {
        ranks: 8,
        nodes: 1,
        inside: Link { bytes_per_s: 1e9, latency_s: 1e-3 },
        medium: Medium::NvLink,
        between: Link { bytes_per_s: 1e8, latency_s: 1e-2 },
    };

    #[test]
    fn a_ring_in_step_takes_its_closed_form() {
        for (collective, expected_s) in [
            (Collective::AllReduce, ring_all_reduce_s(8, 1 << 30, SHAPE.inside)),
            (Collective::AllGather, ring_all_gather_s(8, 1 << 30, SHAPE.inside)),
            (Collective::AllToAll, ring_all_gather_s(8, 1 << 30, SHAPE.inside)),
        ] {
            let cost = SHAPE.ring_in_step(collective, f64::from(1 << 30));
            assert_relative_eq!(SHAPE.seconds(&cost), expected_s);
        }
        let across = GroupShape { nodes: 4, ..SHAPE };
        let cost = across.ring_in_step(Collective::AllReduce, 8e8);
        // 14 steps of 10 ms; 1.4 GB over 100 MB/s.
        assert_relative_eq!(across.seconds(&cost), 0.14 + 14.0);
    }

    #[test]
    fn a_hierarchical_all_reduce_by_hand() {
        // Two nodes of four: 3 steps of 1 ms and 0.6 GB at 1 GB/s, twice; 2 steps of 10 ms and, for all four shares
        // together, 0.8 GB at 0.1 GB/s.
        let across = GroupShape { nodes: 2, ..SHAPE };
        assert_relative_eq!(across.hierarchical_all_reduce_s(8e8), 2.0 * (0.003 + 0.6) + 0.02 + 8.0);
    }

    #[test]
    fn nobody_waits_alone() {
        let alone = GroupShape { ranks: 1, ..SHAPE };
        assert!(alone.seconds(&alone.nccl(Collective::AllReduce, 1e9)) <= 0.0);
        assert!(alone.seconds(&alone.ring_in_step(Collective::AllToAll, 1e9)) <= 0.0);
    }
}
