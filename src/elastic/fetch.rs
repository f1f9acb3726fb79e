//! How long a recovery plan's transfers take when all run at once and share links.

use super::peer_copies::PeerCopies;
use super::recovery::{RecoveryPlan, Source, Tier};
use super::storage::StorageBandwidths;
use crate::cluster::Cluster;
use crate::ids::NodeId;
use crate::runtime::sim::network::{LinkIndex, Network, Route};
use crate::units::SimTime;
use std::collections::BTreeMap;

/// Time until the last byte of the recovery plan has arrived, all transfers starting at once.
///
/// Each node has its network interface, one link per direction; its disk; the host links of its GPUs together, one link
/// per direction; and its way to the object store. Transfers share them fairly. State from a peer's memory crosses the
/// sender's host links and interface, and the receiver's; from a copy in its host memory, no host links of the sender; from
/// a disk, the disk instead; from the store, the receiver's share of the store (and the store's limit over all nodes, where it has one), interface and
/// host links. State in a node's own memory takes no time: it moves within the node, if at all. Storage answers at once.
///
/// `cluster` holds all nodes that take part, those under notice included.
///
/// # Panics
///
/// If a transfer names a node that isn't in the cluster.
pub fn fetch_time(recovery: &RecoveryPlan, cluster: &Cluster, bandwidths: &StorageBandwidths) -> SimTime {
    let mut network = Network::new();
    let links = Links::new(cluster, bandwidths, &mut network);
    let places: BTreeMap<&str, usize> =
        cluster.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
    let place = |name: &str| *places.get(name).unwrap_or_else(|| panic!("node `{name}` isn't in the cluster"));
    for transfer in &recovery.transfers {
        let to = place(&transfer.to);
        let route = match &transfer.source {
            Source::OwnMemory => continue,
            Source::OwnHost => links.own_host(to),
            Source::OwnDisk => links.own_disk(to),
            Source::Peer { node, tier } => {
                let from = place(node);
                let latency_s = cluster.path(NodeId::from(from), NodeId::from(to)).latency_s;
                links.peer(from, to, *tier, SimTime::from_seconds(latency_s))
            }
            Source::ObjectStore => links.object_store(to),
        };
        let route = network.add_route(route);
        network.start(SimTime::ZERO, route, transfer.bytes as f64, ());
    }
    last_end(&mut network)
}

/// Time until the last of a checkpoint's copies has arrived in another node's host memory, all starting at once. They take
/// what training leaves of the interfaces: of each node, the share that `free` says.
///
/// Copies from or to nodes that aren't in the cluster are left out.
pub fn copy_time(copies: &PeerCopies, cluster: &Cluster, free: impl Fn(&str) -> f64) -> SimTime {
    if copies.copies.is_empty() {
        return SimTime::ZERO;
    }
    let mut network = Network::new();
    let mut ends = BTreeMap::new();
    for (place, node) in cluster.nodes.iter().enumerate() {
        let bytes_per_s = node.nic.bytes_per_s * free(&node.name).clamp(LEAST_FREE, 1.0);
        ends.insert(&*node.name, (place, network.add_link(bytes_per_s), network.add_link(bytes_per_s)));
    }
    for (from, to, bytes) in copies.transfers() {
        let (Some(&(from, out, _)), Some(&(to, _, into))) = (ends.get(from), ends.get(to)) else { continue };
        let latency_s = cluster.path(NodeId::from(from), NodeId::from(to)).latency_s;
        let route = network.add_route(route([out, into], SimTime::from_seconds(latency_s)));
        network.start(SimTime::ZERO, route, bytes as f64, ());
    }
    last_end(&mut network)
}

/// What is left of an interface at least, so that copies arrive some time.
const LEAST_FREE: f64 = 0.01;

fn last_end(network: &mut Network<()>) -> SimTime {
    std::iter::from_fn(|| network.next_end()).map(|(time, ())| time).max().unwrap_or(SimTime::ZERO)
}

/// The links of a cluster, as far as state moves over them.
struct Links {
    nodes: Vec<NodeLinks>,
    object_store_total: Option<LinkIndex>,
}

struct NodeLinks {
    interface_out: LinkIndex,
    interface_in: LinkIndex,
    disk: LinkIndex,
    from_gpus: LinkIndex,
    to_gpus: LinkIndex,
    object_store: LinkIndex,
}

impl Links {
    fn new(cluster: &Cluster, bandwidths: &StorageBandwidths, network: &mut Network<()>) -> Self {
        let mut node_links = |node: &crate::cluster::Node| {
            let host_bytes_per_s = node.gpu.host_bytes_per_s * f64::from(node.gpu_count);
            NodeLinks {
                interface_out: network.add_link(node.nic.bytes_per_s),
                interface_in: network.add_link(node.nic.bytes_per_s),
                disk: network.add_link(bandwidths.disk_bytes_per_s),
                from_gpus: network.add_link(host_bytes_per_s),
                to_gpus: network.add_link(host_bytes_per_s),
                object_store: network.add_link(bandwidths.object_store_bytes_per_s),
            }
        };
        let nodes = cluster.nodes.iter().map(&mut node_links).collect();
        let total = bandwidths.object_store_total_bytes_per_s;
        Self { nodes, object_store_total: total.map(|bytes_per_s| network.add_link(bytes_per_s)) }
    }

    fn own_host(&self, node: usize) -> Route {
        route([self.nodes[node].to_gpus], SimTime::ZERO)
    }

    fn own_disk(&self, node: usize) -> Route {
        let node = &self.nodes[node];
        route([node.disk, node.to_gpus], SimTime::ZERO)
    }

    fn peer(&self, from: usize, to: usize, tier: Tier, latency: SimTime) -> Route {
        let (from, to) = (&self.nodes[from], &self.nodes[to]);
        let read = match tier {
            Tier::Memory => Some(from.from_gpus),
            Tier::Host => None,
            Tier::Disk => Some(from.disk),
        };
        route(read.into_iter().chain([from.interface_out, to.interface_in, to.to_gpus]), latency)
    }

    fn object_store(&self, to: usize) -> Route {
        let to = &self.nodes[to];
        let own = [to.object_store, to.interface_in, to.to_gpus];
        route(own.into_iter().chain(self.object_store_total), SimTime::ZERO)
    }
}

fn route(links: impl IntoIterator<Item = LinkIndex>, latency: SimTime) -> Route {
    Route { links: links.into_iter().map(|link| (link, 1.0)).collect(), latency }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elastic::fixtures::cluster;
    use crate::elastic::recovery::{Origin, ShardTransfer};

    const BANDWIDTHS: StorageBandwidths = StorageBandwidths {
        disk_bytes_per_s: 50.0,
        object_store_bytes_per_s: 40.0,
        object_store_total_bytes_per_s: None,
    };

    fn memory(node: &str) -> Source {
        Source::Peer { node: node.into(), tier: Tier::Memory }
    }

    fn disk(node: &str) -> Source {
        Source::Peer { node: node.into(), tier: Tier::Disk }
    }

    fn seconds_with(transfers: &[(&str, Source, u64)], cluster: &Cluster, bandwidths: &StorageBandwidths) -> f64 {
        let transfers = transfers.iter().cloned();
        let transfers = transfers.map(|(to, source, bytes)| ShardTransfer { to: to.into(), source, bytes, shards: 1 });
        let transfers = transfers.collect();
        let recovery = RecoveryPlan { resume_step: 1, origin: Origin::Live, transfers, shards: Vec::new() };
        fetch_time(&recovery, cluster, bandwidths).as_seconds()
    }

    fn seconds(transfers: &[(&str, Source, u64)]) -> f64 {
        seconds_with(transfers, &cluster(&["a", "b", "c", "d"]), &BANDWIDTHS)
    }

    fn assert_seconds(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-6, "{found} s, expected {expected} s");
    }

    #[test]
    fn one_transfer_takes_its_bytes_over_the_narrowest_link() {
        assert_seconds(seconds(&[("a", memory("b"), 600)]), 6.0);
        assert_seconds(seconds(&[("a", disk("b"), 600)]), 12.0);
        assert_seconds(seconds(&[("a", Source::OwnDisk, 600)]), 12.0);
        assert_seconds(seconds(&[("a", Source::ObjectStore, 600)]), 15.0);
        assert_seconds(seconds(&[("a", Source::OwnMemory, 600)]), 0.0);
        assert_seconds(seconds(&[]), 0.0);
    }

    #[test]
    fn copies_in_host_memory_cross_the_receivers_host_links_only() {
        let mut cluster = cluster(&["a", "b"]);
        let slow = crate::cluster::GpuSpec { host_bytes_per_s: 20.0, ..(*cluster.nodes[1].gpu).clone() };
        cluster.nodes[1].gpu = slow.into();
        let host = |node: &str| Source::Peer { node: node.into(), tier: Tier::Host };
        assert_seconds(seconds_with(&[("a", host("b"), 600)], &cluster, &BANDWIDTHS), 6.0);
        assert_seconds(seconds_with(&[("b", host("a"), 600)], &cluster, &BANDWIDTHS), 30.0);
        assert_seconds(seconds_with(&[("a", Source::OwnHost, 600)], &cluster, &BANDWIDTHS), 0.6);
    }

    #[test]
    fn copies_take_what_training_leaves_of_the_interfaces() {
        use crate::elastic::peer_copies::PeerCopy;
        let copy = |from: &str, to: &str, bytes| PeerCopy {
            from: from.into(),
            to: to.into(),
            shard: crate::model::Shard { block: crate::model::Block::Embedding, slice: 0 },
            bytes,
        };
        let copies = PeerCopies { copies: vec![copy("a", "b", 600), copy("b", "a", 200), copy("c", "gone", 900)] };
        let cluster = cluster(&["a", "b", "c"]);
        assert_seconds(copy_time(&copies, &cluster, |_| 1.0).as_seconds(), 6.0);
        // `b` has half of its 100 bytes a second to spare, `a` a quarter.
        let free = |node: &str| if node == "b" { 0.5 } else { 0.25 };
        assert_seconds(copy_time(&copies, &cluster, free).as_seconds(), 24.0);
        assert_seconds(copy_time(&PeerCopies::default(), &cluster, |_| 1.0).as_seconds(), 0.0);
    }

    #[test]
    fn narrow_host_links_bind_at_either_end() {
        let mut cluster = cluster(&["a", "b"]);
        let slow = crate::cluster::GpuSpec { host_bytes_per_s: 10.0, ..(*cluster.nodes[0].gpu).clone() };
        cluster.nodes[0].gpu = slow.into();
        cluster.nodes[0].gpu_count = 2;
        assert_seconds(seconds_with(&[("a", memory("b"), 600)], &cluster, &BANDWIDTHS), 30.0);
        assert_seconds(seconds_with(&[("b", memory("a"), 600)], &cluster, &BANDWIDTHS), 30.0);
        // From its disk the state doesn't pass its GPUs.
        assert_seconds(seconds_with(&[("b", disk("a"), 600)], &cluster, &BANDWIDTHS), 12.0);
    }

    #[test]
    fn two_that_fetch_from_one_share_its_interface() {
        assert_seconds(seconds(&[("a", memory("c"), 600), ("b", memory("c"), 600)]), 12.0);
    }

    #[test]
    fn two_sources_halve_the_time_until_the_receiver_is_full() {
        let mut wide = cluster(&["a", "b", "c"]);
        wide.nodes[0].nic.bytes_per_s = 200.0;
        let one = seconds_with(&[("a", memory("b"), 600)], &wide, &BANDWIDTHS);
        let two = seconds_with(&[("a", memory("b"), 300), ("a", memory("c"), 300)], &wide, &BANDWIDTHS);
        assert_seconds(one, 6.0);
        assert_seconds(two, 3.0);
        // With a receiver no wider than one sender a second source brings nothing.
        assert_seconds(seconds(&[("a", memory("b"), 300), ("a", memory("c"), 300)]), 6.0);
    }

    #[test]
    fn directions_of_an_interface_are_separate() {
        assert_seconds(seconds(&[("a", memory("b"), 600), ("b", memory("a"), 600)]), 6.0);
    }

    #[test]
    fn own_and_peers_reads_share_a_disk() {
        assert_seconds(seconds(&[("a", Source::OwnDisk, 300), ("b", disk("a"), 300)]), 12.0);
    }

    #[test]
    fn the_object_store_scales_with_nodes_up_to_its_limit() {
        let all = [("a", Source::ObjectStore, 600), ("b", Source::ObjectStore, 600), ("c", Source::ObjectStore, 600)];
        assert_seconds(seconds(&all), 15.0);
        let limited = StorageBandwidths { object_store_total_bytes_per_s: Some(60.0), ..BANDWIDTHS };
        assert_seconds(seconds_with(&all, &cluster(&["a", "b", "c"]), &limited), 30.0);
    }

    #[test]
    fn a_peer_answers_after_the_latency_of_the_path() {
        let mut far = cluster(&["a", "b"]);
        far.nodes[1].nic.latency_s = 0.25;
        assert_seconds(seconds_with(&[("a", memory("b"), 600)], &far, &BANDWIDTHS), 6.25);
    }
}
