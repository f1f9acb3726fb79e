//! What one message or one collective takes where nothing else is going on: priced as in an iteration, executed on the same
//! network.

use super::SimError;
use super::network::Network;
use super::pricing::GroupPrice;
use super::reduction::{hierarchical, price_as, price_collective};
use super::topology::Topology;
use crate::cluster::Cluster;
use crate::cost::Collectives;
use crate::cost::communication::{Collective, GroupShape};
use crate::ids::{NodeId, Rank};
use crate::units::SimTime;

/// What some GPUs do together, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Communication {
    /// The first one sends to the last one.
    Send,
    /// All of them, as a framework with this setting does it.
    Collective(Collective, Collectives),
    /// An all-reduce by NCCL's trees over the nodes, whatever it would choose.
    TreeAllReduce,
}

impl Communication {
    /// All that there is, each collective by a ring first.
    pub const ALL: [Self; 10] = [
        Self::Send,
        Self::Collective(Collective::AllReduce, Collectives::Ring),
        Self::TreeAllReduce,
        Self::Collective(Collective::AllReduce, Collectives::Hierarchical),
        Self::Collective(Collective::AllReduce, Collectives::Nccl),
        Self::Collective(Collective::ReduceScatter, Collectives::Ring),
        Self::Collective(Collective::ReduceScatter, Collectives::Nccl),
        Self::Collective(Collective::AllGather, Collectives::Ring),
        Self::Collective(Collective::AllGather, Collectives::Nccl),
        Self::Collective(Collective::AllToAll, Collectives::Nccl),
    ];

    /// Its name, and that of how it is done.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Send => ("send", "direct"),
            Self::TreeAllReduce => ("all_reduce", "tree"),
            Self::Collective(Collective::AllToAll, _) => ("all_to_all", "pairs"),
            Self::Collective(collective, how) => {
                let name = match collective {
                    Collective::AllReduce => "all_reduce",
                    Collective::ReduceScatter => "reduce_scatter",
                    Collective::AllGather => "all_gather",
                    Collective::AllToAll => "all_to_all",
                };
                let how = match how {
                    Collectives::Ring => "ring",
                    Collectives::Nccl => "nccl",
                    Collectives::Hierarchical => "hierarchical",
                };
                (name, how)
            }
        }
    }

    /// Bytes that the busiest of so many GPUs has to send at least for each byte of the buffer: what nccl-tests multiplies
    /// its bandwidths by.
    pub fn least_share_sent(self, gpus: usize) -> f64 {
        let others = gpus.saturating_sub(1) as f64 / gpus.max(1) as f64;
        match self {
            Self::Send => 1.0,
            Self::TreeAllReduce | Self::Collective(Collective::AllReduce, _) => 2.0 * others,
            Self::Collective(..) => others,
        }
    }

    /// Time that it takes these GPUs, at least two of the cluster's nodes, for a buffer of `bytes` on each. `None` where it
    /// can't be done that way: trees and hierarchies need several nodes, the latter as many GPUs, more than one, in each.
    ///
    /// # Errors
    /// Where the cluster has no such node or GPU.
    pub fn time(self, cluster: &Cluster, gpus: &[(NodeId, u32)], bytes: u64) -> Result<Option<SimTime>, SimError> {
        for &(node, gpu) in gpus {
            if cluster.nodes.get(node.index()).is_none_or(|node| gpu >= node.gpu_count) {
                return Err(SimError::UnknownNode(format!("{}:{gpu}", node.index())));
            }
        }
        let ranks: Vec<Rank> = (0..gpus.len()).map(Rank::from).collect();
        let (Some(&first), Some(&last)) = (ranks.first(), ranks.last()) else { return Ok(None) };
        let mut topology = Topology::of(cluster, gpus);
        let bytes = bytes as f64;
        let price = match self {
            Self::Send => {
                let route = topology.message(first, last, bytes);
                Some(GroupPrice { ring_bytes: bytes, route, ..GroupPrice::default() })
            }
            Self::Collective(Collective::AllReduce, Collectives::Hierarchical) => {
                hierarchical(&ranks, bytes, &mut topology)
            }
            Self::Collective(collective, how) => Some(price_collective(collective, &ranks, bytes, how, &mut topology)),
            Self::TreeAllReduce => {
                let tree = topology.shape(&ranks).nccl_tree(bytes);
                tree.map(|cost| price_as(Collective::AllReduce, &cost, &ranks, bytes, &mut topology))
            }
        };
        Ok(price.filter(|_| first != last).map(|price| executed(topology, &price)))
    }
}

/// One phase after the other.
fn executed(topology: Topology<'_>, price: &GroupPrice) -> SimTime {
    let mut network: Network<super::backend::Meeting> = topology.network;
    let phases = std::iter::once((price.route, price.ring_bytes)).chain(price.then.iter().copied());
    phases.fold(SimTime::ZERO, |now, (route, bytes)| {
        network.start(now, route, bytes, super::backend::Meeting::alone(now));
        network.next_end().map_or(now, |(end, _)| end)
    })
}

/// What a group of these GPUs depends on: its shape, for whoever compares closed forms with what is executed.
pub fn group_shape(cluster: &Cluster, gpus: &[(NodeId, u32)]) -> GroupShape {
    let ranks: Vec<Rank> = (0..gpus.len()).map(Rank::from).collect();
    Topology::of(cluster, gpus).shape(&ranks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Link, NodeDefaults, Wiring};
    use crate::cost::communication::{all_to_all_s, ring_all_reduce_s, transfer_s};
    use approx::assert_relative_eq;

    const BYTES: u64 = 1 << 28;

    fn cluster(mix: &str) -> Cluster {
        Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap()
    }

    fn all(cluster: &Cluster) -> Vec<(NodeId, u32)> {
        let of_node = |(index, node): (usize, &crate::cluster::Node)| {
            (0..node.gpu_count).map(move |gpu| (NodeId::from(index), gpu)).collect::<Vec<_>>()
        };
        cluster.nodes.iter().enumerate().flat_map(of_node).collect()
    }

    fn seconds(what: Communication, cluster: &Cluster, gpus: &[(NodeId, u32)]) -> Option<f64> {
        what.time(cluster, gpus, BYTES).unwrap().map(SimTime::as_seconds)
    }

    fn by_ring(collective: Collective) -> Communication {
        Communication::Collective(collective, Collectives::Ring)
    }

    #[test]
    fn in_a_node_they_take_the_closed_forms() {
        let cluster = cluster("1x8xA100-80");
        let (gpus, link) = (all(&cluster), cluster.nodes[0].gpu.intra_node);
        for (what, expected_s) in [
            (Communication::Send, transfer_s(BYTES, link)),
            (by_ring(Collective::AllReduce), ring_all_reduce_s(8, BYTES, link)),
            (by_ring(Collective::ReduceScatter), ring_all_reduce_s(8, BYTES, link) / 2.0),
            (by_ring(Collective::AllGather), ring_all_reduce_s(8, BYTES, link) / 2.0),
            (by_ring(Collective::AllToAll), all_to_all_s(8, BYTES, link)),
        ] {
            assert_relative_eq!(seconds(what, &cluster, &gpus).unwrap(), expected_s, max_relative = 1e-6);
        }
        assert_eq!(seconds(Communication::TreeAllReduce, &cluster, &gpus), None);
        let hierarchical = Communication::Collective(Collective::AllReduce, Collectives::Hierarchical);
        assert_eq!(seconds(hierarchical, &cluster, &gpus), None);
    }

    /// Each of 4 GPUs in either node sends an eighth of its buffer to each of 4 others over there: two buffers leave the node,
    /// by one interface or by four. Seven steps of the network's latency.
    #[test]
    fn an_all_to_all_shares_the_interfaces() {
        let mut cluster = cluster("2x4xA100-80");
        let latency_s = cluster.path(NodeId(0), NodeId(1)).latency_s;
        for nics in [1, 4] {
            cluster.nodes.iter_mut().for_each(|node| node.wiring = Wiring { nics, switch: None });
            let expected_s = 2.0 * BYTES as f64 / cluster.nodes[0].nic.bytes_per_s + 7.0 * latency_s;
            let taken_s = seconds(by_ring(Collective::AllToAll), &cluster, &all(&cluster)).unwrap();
            assert_relative_eq!(taken_s, expected_s, max_relative = 1e-6);
            cluster.nodes.iter_mut().for_each(|node| node.nic.bytes_per_s *= 4.0);
        }
    }

    #[test]
    fn what_is_executed_over_nodes_is_what_the_shape_says() {
        let mut cluster = cluster("4x8xA100-80");
        cluster.nodes.iter_mut().for_each(|node| node.nic = Link { bytes_per_s: 5e9, latency_s: 7e-6 });
        let gpus = all(&cluster);
        let shape = group_shape(&cluster, &gpus);
        let bytes = BYTES as f64;
        let closed_s = |cost| shape.seconds(&cost);
        for (what, expected_s) in [
            (by_ring(Collective::AllReduce), closed_s(shape.ring_in_step(Collective::AllReduce, bytes))),
            (
                Communication::Collective(Collective::AllReduce, Collectives::Nccl),
                closed_s(shape.nccl(Collective::AllReduce, bytes)),
            ),
            (Communication::TreeAllReduce, closed_s(shape.nccl_tree(bytes).unwrap())),
            (
                Communication::Collective(Collective::AllReduce, Collectives::Hierarchical),
                shape.hierarchical_all_reduce_s(bytes),
            ),
        ] {
            assert_relative_eq!(seconds(what, &cluster, &gpus).unwrap(), expected_s, max_relative = 1e-6);
        }
    }

    #[test]
    fn nobody_communicates_alone_and_strangers_are_refused() {
        let cluster = cluster("2x4xT4");
        assert_eq!(seconds(Communication::Send, &cluster, &[(NodeId(1), 3)]), None);
        assert_eq!(seconds(Communication::Send, &cluster, &[]), None);
        assert!(Communication::Send.time(&cluster, &[(NodeId(0), 0), (NodeId(2), 0)], 1).is_err());
        assert!(Communication::Send.time(&cluster, &[(NodeId(0), 0), (NodeId(1), 4)], 1).is_err());
    }
}
