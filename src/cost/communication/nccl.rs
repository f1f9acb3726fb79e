//! Which algorithm and protocol NCCL takes: its own model of what each would take, `src/graph/tuning.cc` of its release
//! 2.8, with the cluster's latencies and bandwidths in the place of its built-in ones.
//!
//! A protocol trades bandwidth for latency: `Simple` moves large chunks and waits for each; `LL` sends a flag with every
//! four bytes, which halves the bandwidth at least; `LL128` sends eight bytes of flags with 120 of data, over NVLink. What
//! the tuning table says of their latencies is kept relative to a step of a `Simple` ring, which is what a [`Link`]'s
//! latency stands for.
//!
//! [`Link`]: crate::cluster::Link

use super::collectives::{Algorithm, Collective, CollectiveCost, GroupShape};
use serde::{Deserialize, Serialize};

/// What a link is made of, as far as protocols depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// NVIDIA's links between GPUs.
    NvLink,
    /// PCIe, and whatever else passes the host.
    Pcie,
}

impl Medium {
    /// By the name of a kind of link, as in the GPU catalog: `NVLink3`, `PCIe 4.0 x16`.
    pub fn of_kind(kind: &str) -> Self {
        if kind.to_lowercase().contains("nvlink") { Self::NvLink } else { Self::Pcie }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    LowLatency,
    LowLatency128,
    Simple,
}

/// By protocol, in the order of the enum.
type Table = [f64; 3];

/// Seconds of any collective by a ring, and of a tree.
const BASE_S: [Table; 2] = [[3.6e-6, 10.0e-6, 8.4e-6], [4.4e-6, 4.4e-6, 0.0]];
/// Of a step over NVLink, PCIe and the network by a ring, in microseconds.
const RING_US: [Table; 3] = [[0.47, 1.9, 3.4], [1.0, 2.5, 5.7], [2.7, 4.0, 9.6]];
/// The same by a tree.
const TREE_US: [Table; 3] = [[0.52, 1.2, 28.0], [1.0, 1.9, 28.0], [5.0, 8.5, 50.0]];
const NETWORK: usize = 2;
/// Share of a link's bandwidth that an all-reduce by a tree gets.
const TREE_SHARE: f64 = 0.9;
/// Steps within a node take so much longer by `LL` where others go between nodes.
const LOW_LATENCY_ACROSS: f64 = 1.8;

/// What NCCL would choose.
pub(super) fn choose(shape: &GroupShape, collective: Collective, bytes: f64) -> CollectiveCost {
    // Only all-reduces are done by trees.
    let tree = if collective == Collective::AllReduce { tree_all_reduce(shape, bytes) } else { None };
    let ring = |protocol| ring(shape, collective, protocol, bytes);
    // Sends and receives, of which an all-to-all is made, are `Simple`.
    let protocols = protocols(shape).filter(|&p| collective != Collective::AllToAll || p == Protocol::Simple);
    let rings = protocols.map(ring);
    fastest(shape, rings.chain(tree)).expect("a ring is always possible")
}

/// By trees over the nodes, where there are several.
pub(super) fn tree_all_reduce(shape: &GroupShape, bytes: f64) -> Option<CollectiveCost> {
    let trees = protocols(shape).filter(|_| shape.nodes > 1).map(|protocol| tree(shape, protocol, bytes));
    fastest(shape, trees)
}

fn protocols(shape: &GroupShape) -> impl Iterator<Item = Protocol> {
    let has_low_latency_128 = shape.medium == Medium::NvLink && shape.nodes == 1;
    let all = [Protocol::Simple, Protocol::LowLatency, Protocol::LowLatency128];
    all.into_iter().filter(move |&protocol| protocol != Protocol::LowLatency128 || has_low_latency_128)
}

/// The first of those that take the least time.
fn fastest(shape: &GroupShape, costs: impl Iterator<Item = CollectiveCost>) -> Option<CollectiveCost> {
    costs.min_by(|a, b| shape.seconds(a).total_cmp(&shape.seconds(b)))
}

fn ring(shape: &GroupShape, collective: Collective, protocol: Protocol, bytes: f64) -> CollectiveCost {
    let (steps, between) = shape.ring_steps(collective);
    let (inside_s, between_s) = step_s(shape, protocol, &RING_US);
    let latency_s = BASE_S[0][protocol as usize] + (steps - between) * inside_s + between * between_s;
    let payload = steps / f64::from(shape.ranks.max(1)) * bytes;
    let reduces_all = collective == Collective::AllReduce;
    let share = match protocol {
        Protocol::Simple => 1.0,
        Protocol::LowLatency if shape.nodes > 1 || reduces_all => 1.0 / 4.0,
        Protocol::LowLatency => 1.0 / 3.0,
        Protocol::LowLatency128 => 120.0 / 128.0,
    };
    let link_bytes = payload / share;
    CollectiveCost { algorithm: Algorithm::Ring, latency_s, link_bytes, inside_bytes: link_bytes }
}

fn tree(shape: &GroupShape, protocol: Protocol, bytes: f64) -> CollectiveCost {
    let (inside_s, between_s) = step_s(shape, protocol, &TREE_US);
    let levels = f64::from(shape.nodes.max(1)).log2().ceil();
    let steps = 2.0 * (f64::from(shape.per_node()) - 1.0);
    let latency_s = BASE_S[1][protocol as usize] + steps * inside_s + 2.0 * levels * between_s;
    let payload = if shape.nodes > 2 { 2.0 * bytes } else { bytes };
    let share = match protocol {
        Protocol::Simple => TREE_SHARE,
        Protocol::LowLatency => TREE_SHARE / 3.8,
        Protocol::LowLatency128 => TREE_SHARE * 120.0 / 128.0,
    };
    let (link_bytes, inside_bytes) = (payload / share, 2.0 * bytes / share);
    CollectiveCost { algorithm: Algorithm::Tree, latency_s, link_bytes, inside_bytes }
}

/// Seconds of a step within a node and of one between nodes.
fn step_s(shape: &GroupShape, protocol: Protocol, table: &[Table; 3]) -> (f64, f64) {
    let simple = Protocol::Simple as usize;
    let relative = |medium: usize| table[medium][protocol as usize] / RING_US[medium][simple];
    let slower = if shape.nodes > 1 && protocol == Protocol::LowLatency { LOW_LATENCY_ACROSS } else { 1.0 };
    let inside_s = shape.inside.latency_s * relative(shape.medium as usize) * slower;
    (inside_s, shape.between.latency_s * relative(NETWORK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Link;
    use approx::assert_relative_eq;
    use proptest::prelude::*;

    /// Nodes of eight on NVLink with a 100 Gbit/s network.
    fn shape(ranks: u32, nodes: u32) -> GroupShape {
        GroupShape {
            ranks,
            nodes,
            inside: Link { bytes_per_s: 240e9, latency_s: 3.4e-6 },
            medium: Medium::NvLink,
            between: Link { bytes_per_s: 12.5e9, latency_s: 9.6e-6 },
        }
    }

    #[test]
    fn large_messages_go_round_a_ring_and_small_ones_up_a_tree() {
        let many = shape(128, 128);
        assert_eq!(many.nccl(Collective::AllReduce, 1e3).algorithm, Algorithm::Tree);
        assert_eq!(many.nccl(Collective::AllReduce, 1e10).algorithm, Algorithm::Ring);
        assert_eq!(many.nccl(Collective::AllGather, 1e3).algorithm, Algorithm::Ring);
        assert_eq!(shape(8, 1).nccl(Collective::AllReduce, 1e3).algorithm, Algorithm::Ring);
    }

    #[test]
    fn a_large_ring_is_alpha_beta() {
        let cost = shape(32, 4).nccl(Collective::AllReduce, 16e9);
        // 56 steps within nodes and 6 between them; 31 GB of each link.
        assert_relative_eq!(cost.latency_s, 8.4e-6 + 56.0 * 3.4e-6 + 6.0 * 9.6e-6, epsilon = 1e-12);
        assert_relative_eq!(cost.link_bytes, 31e9);
        // Between two nodes a tree sends everything once, a ring nearly twice.
        let two = shape(16, 2).nccl(Collective::AllReduce, 16e9);
        assert_eq!(two.algorithm, Algorithm::Tree);
        assert_relative_eq!(two.link_bytes, 16e9 / 0.9);
    }

    #[test]
    fn a_small_tree_takes_the_latency_of_its_levels() {
        let cost = shape(64, 64).nccl(Collective::AllReduce, 8.0);
        assert_relative_eq!(cost.latency_s, 4.4e-6 + 2.0 * 6.0 * 5.0e-6, epsilon = 1e-12);
    }

    #[test]
    fn media_are_told_by_their_names() {
        assert_eq!([Medium::of_kind("NVLink3"), Medium::of_kind("PCIe 4.0 x16")], [Medium::NvLink, Medium::Pcie]);
    }

    proptest! {
        #[test]
        fn more_bytes_never_take_less_time(
            nodes in 1..64_u32, per_node in 1..9_u32, small in 1.0..1e9_f64, more in 1.0..1e9_f64,
        ) {
            let shape = shape(nodes * per_node, nodes);
            for collective in [Collective::AllReduce, Collective::AllGather, Collective::AllToAll] {
                let seconds = |bytes| shape.seconds(&shape.nccl(collective, bytes));
                prop_assert!(seconds(small) <= seconds(small + more) * (1.0 + 1e-12));
            }
        }
    }
}
