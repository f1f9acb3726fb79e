//! Where each rank sits, and the links of the network around them.
//!
//! A GPU has a port to the other GPUs of its node and shares a network interface with some of them, or all. GPUs that hang
//! on one PCIe switch share its link on their way to other switches and to the network. All links are full duplex.

use super::SimError;
use super::network::{LinkIndex, Network, Route};
use crate::cluster::{Cluster, Link, Node};
use crate::cost::communication::{GroupShape, Medium};
use crate::ids::{NodeId, Rank};
use crate::plan::Plan;
use crate::units::SimTime;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A link out and a link in.
type Pair = (LinkIndex, LinkIndex);

/// The ranks' places and the network between them.
pub(super) struct Topology<'a> {
    cluster: &'a Cluster,
    /// Node and local GPU of each rank.
    ranks: Vec<(NodeId, u32)>,
    pub(super) network: Network<super::backend::Meeting>,
    /// Network interfaces in use.
    nics: BTreeMap<(NodeId, u32), Pair>,
    /// Per GPU in use, its port to the other GPUs of the node.
    ports: BTreeMap<(NodeId, u32), Pair>,
    /// PCIe switches in use: up and down.
    switches: BTreeMap<(NodeId, u32), Pair>,
}

/// How often a route crosses each link.
#[derive(Default)]
struct Crossings(BTreeMap<LinkIndex, f64>);

impl Crossings {
    fn add(&mut self, link: LinkIndex, times: f64) {
        *self.0.entry(link).or_default() += times;
    }

    fn add_evenly(&mut self, links: &BTreeSet<LinkIndex>, times: f64) {
        for &link in links {
            self.add(link, times / links.len() as f64);
        }
    }
}

impl<'a> Topology<'a> {
    pub(super) fn new(plan: &Plan, cluster: &'a Cluster) -> Result<Self, SimError> {
        let by_name: HashMap<&str, NodeId> =
            cluster.nodes.iter().enumerate().map(|(index, node)| (node.name.as_str(), NodeId::from(index))).collect();
        let mut topology = Self::of(cluster, &[]);
        for stage in plan.replicas.iter().flat_map(|replica| &replica.stages) {
            let id = *by_name.get(stage.node.as_str()).ok_or_else(|| SimError::UnknownNode(stage.node.clone()))?;
            for &gpu in &stage.gpus {
                topology.place(id, gpu, cluster.node(id));
            }
        }
        Ok(topology)
    }

    /// Of ranks that sit on these GPUs.
    pub(super) fn of(cluster: &'a Cluster, places: &[(NodeId, u32)]) -> Self {
        let mut topology = Self {
            cluster,
            ranks: Vec::new(),
            network: Network::new(),
            nics: BTreeMap::new(),
            ports: BTreeMap::new(),
            switches: BTreeMap::new(),
        };
        for &(id, gpu) in places {
            topology.place(id, gpu, cluster.node(id));
        }
        topology
    }

    fn place(&mut self, id: NodeId, gpu: u32, node: &Node) {
        let network = &mut self.network;
        let mut pair = |bytes_per_s| (network.add_link(bytes_per_s), network.add_link(bytes_per_s));
        self.nics.entry((id, node.nic_of(gpu))).or_insert_with(|| pair(node.nic_bytes_per_s()));
        self.ports.entry((id, gpu)).or_insert_with(|| pair(node.gpu.intra_node.bytes_per_s));
        if let (Some(switch), Some(kind)) = (node.switch_of(gpu), node.wiring.switch) {
            self.switches.entry((id, switch)).or_insert_with(|| pair(kind.gbyte_per_s * 1e9));
        }
        self.ranks.push((id, gpu));
    }

    pub(super) fn node(&self, rank: Rank) -> NodeId {
        self.ranks[rank.index()].0
    }

    /// The way of one message.
    pub(super) fn message(&mut self, from: Rank, to: Rank, bytes: f64) -> u32 {
        let mut crossings = Crossings::default();
        self.cross(from, to, &mut crossings);
        let latency_s = self.cluster.path(self.node(from), self.node(to)).latency_s;
        let route = self.add_route(crossings, SimTime::from_seconds(latency_s));
        self.limit_flow(route, &[(from, to, 1)], bytes, 1.0);
        route
    }

    /// A way over all links of a ring at once. Where several members stand in one node, as many rings as they have network
    /// interfaces leave it, each by another, as NCCL's channels do.
    pub(super) fn ring(&mut self, ranks: &[Rank], latency: SimTime, message_bytes: f64) -> u32 {
        self.rings(&[ranks.to_vec()], latency, message_bytes)
    }

    /// A way over all links of several rings at once.
    pub(super) fn rings(&mut self, rings: &[Vec<Rank>], latency: SimTime, message_bytes: f64) -> u32 {
        let mut crossings = Crossings::default();
        let mut all_edges = Vec::new();
        for ranks in rings {
            let members = self.by_node(ranks);
            let edges = (0..ranks.len()).map(|i| (ranks[i], ranks[(i + 1) % ranks.len()]));
            for (from, to) in edges {
                if self.node(from) == self.node(to) {
                    self.cross(from, to, &mut crossings);
                    continue;
                }
                let ends = [from, to].map(|rank| &members[&self.node(rank)]);
                all_edges.push((
                    from,
                    to,
                    ends.map(|members| self.exits(members).0.len()).into_iter().min().unwrap_or(1),
                ));
                self.leave(ends[0], &mut crossings);
                self.enter(ends[1], &mut crossings);
            }
        }
        let route = self.add_route(crossings, latency);
        self.limit_flow(route, &all_edges, message_bytes, 1.0);
        route
    }

    /// A way over all links of two trees over nodes and of the chains within them: every node is left and entered once, and
    /// every chain is passed in both directions.
    pub(super) fn tree(&mut self, ranks: &[Rank], latency: SimTime, message_bytes: f64) -> u32 {
        let mut crossings = Crossings::default();
        let nodes = self.by_node(ranks);
        // All bytes go up and come down; an interface sends twice of them, or once between two nodes.
        let share = if nodes.len() > 2 { 0.5 } else { 1.0 };
        for members in nodes.values() {
            self.leave(members, &mut crossings);
            self.enter(members, &mut crossings);
            for pair in members.windows(2) {
                let [a, b] = [pair[0], pair[1]].map(|(rank, _)| rank);
                for (from, to) in [(a, b), (b, a)] {
                    let mut once = Crossings::default();
                    self.cross(from, to, &mut once);
                    once.0.into_iter().for_each(|(link, times)| crossings.add(link, times * share));
                }
            }
        }
        let ends: Vec<_> = nodes.values().map(|members| (members[0].0, self.exits(members).0.len())).collect();
        let edges: Vec<_> = ends.windows(2).map(|pair| (pair[0].0, pair[1].0, pair[0].1.min(pair[1].1))).collect();
        let route = self.add_route(crossings, latency);
        self.limit_flow(route, &edges, message_bytes, 1.0);
        route
    }

    /// A way over all links between any two ranks at once; the bytes that take it are those from one of them to one other.
    pub(super) fn every_pair(&mut self, ranks: &[Rank], latency: SimTime, message_bytes: f64) -> u32 {
        let mut crossings = Crossings::default();
        let nodes = self.by_node(ranks);
        let mut farthest = 0;
        for members in nodes.values() {
            let away = ranks.len() - members.len();
            farthest = farthest.max(away);
            for &(from, gpu) in members {
                for (to, _) in members.iter().filter(|(to, _)| *to != from) {
                    self.cross(from, *to, &mut crossings);
                }
                let mut once = Crossings::default();
                self.leave(&[(from, gpu)], &mut once);
                self.enter(&[(from, gpu)], &mut once);
                once.0.into_iter().for_each(|(link, times)| crossings.add(link, times * away as f64));
            }
        }
        let firsts: Vec<Rank> = nodes.values().map(|members| members[0].0).collect();
        let edges: Vec<_> = firsts.windows(2).map(|pair| (pair[0], pair[1], 1)).collect();
        let route = self.add_route(crossings, latency);
        // A rank sends to one after the other.
        self.limit_flow(route, &edges, message_bytes, farthest as f64);
        route
    }

    /// What a group's collectives depend on: the slowest links of its ring.
    pub(super) fn shape(&self, ranks: &[Rank]) -> GroupShape {
        let members = self.by_node(ranks);
        let mut inside = Link { bytes_per_s: f64::INFINITY, latency_s: 0.0 };
        let mut between = inside;
        let mut medium = Medium::NvLink;
        for index in 0..ranks.len() {
            let [from, to] = [index, (index + 1) % ranks.len()].map(|at| self.node(ranks[at]));
            let path = self.cluster.path(from, to);
            let (link, bytes_per_s) = if from == to {
                if Medium::of_kind(&self.cluster.node(from).gpu.intra_node_kind) == Medium::Pcie {
                    medium = Medium::Pcie;
                }
                (&mut inside, path.bytes_per_s)
            } else {
                let exits = |node: NodeId| {
                    self.exits(&members[&node]).0.len() as f64 * self.cluster.node(node).nic_bytes_per_s()
                };
                (&mut between, exits(from).min(exits(to)))
            };
            link.bytes_per_s = link.bytes_per_s.min(bytes_per_s);
            link.latency_s = link.latency_s.max(path.latency_s);
        }
        GroupShape { ranks: ranks.len() as u32, nodes: members.len() as u32, inside, medium, between }
    }

    /// The members in each node, with their GPUs.
    pub(super) fn by_node(&self, ranks: &[Rank]) -> BTreeMap<NodeId, Vec<(Rank, u32)>> {
        let mut members: BTreeMap<NodeId, Vec<(Rank, u32)>> = BTreeMap::new();
        for &rank in ranks {
            let (node, gpu) = self.ranks[rank.index()];
            members.entry(node).or_default().push((rank, gpu));
        }
        members
    }

    fn cross(&self, from: Rank, to: Rank, crossings: &mut Crossings) {
        let (source, target) = (self.ranks[from.index()], self.ranks[to.index()]);
        if source.0 != target.0 {
            self.leave(&[(from, source.1)], crossings);
            self.enter(&[(to, target.1)], crossings);
            return;
        }
        crossings.add(self.ports[&source].0, 1.0);
        crossings.add(self.ports[&target].1, 1.0);
        let node = self.cluster.node(source.0);
        if let (Some(own), Some(other)) = (node.switch_of(source.1), node.switch_of(target.1))
            && own != other
        {
            crossings.add(self.switches[&(source.0, own)].0, 1.0);
            crossings.add(self.switches[&(source.0, other)].1, 1.0);
        }
    }

    /// Out of a node, evenly over what its members have to leave it by.
    fn leave(&self, members: &[(Rank, u32)], crossings: &mut Crossings) {
        let (nics, switches) = self.exits(members);
        crossings.add_evenly(&nics.iter().map(|pair| pair.0).collect(), 1.0);
        crossings.add_evenly(&switches.iter().map(|pair| pair.0).collect(), 1.0);
    }

    fn enter(&self, members: &[(Rank, u32)], crossings: &mut Crossings) {
        let (nics, switches) = self.exits(members);
        crossings.add_evenly(&nics.iter().map(|pair| pair.1).collect(), 1.0);
        crossings.add_evenly(&switches.iter().map(|pair| pair.1).collect(), 1.0);
    }

    fn exits(&self, members: &[(Rank, u32)]) -> (BTreeSet<Pair>, BTreeSet<Pair>) {
        let id = self.node(members[0].0);
        let node = self.cluster.node(id);
        let nics = members.iter().map(|(_, gpu)| self.nics[&(id, node.nic_of(*gpu))]).collect();
        let switches = members.iter().filter_map(|(_, gpu)| node.switch_of(*gpu));
        (nics, switches.map(|switch| self.switches[&(id, switch)]).collect())
    }

    fn add_route(&mut self, crossings: Crossings, latency: SimTime) -> u32 {
        self.network.add_route(Route { links: crossings.0.into_iter().collect(), latency })
    }

    /// Has a route take no more than flows of such messages reach on the slowest of its edges, one for each interface that an
    /// end leaves or enters its node by. The route's links are shared with others as before; this limit is its own, and so many
    /// times what takes the route passes it.
    fn limit_flow(&mut self, route: u32, edges: &[(Rank, Rank, usize)], message_bytes: f64, times: f64) {
        let flow =
            |(from, to): (Rank, Rank)| self.cluster.flow_bytes_per_s(self.node(from), self.node(to), message_bytes);
        let least = edges.iter().map(|&(from, to, flows)| flow((from, to)) * flows as f64);
        let least = least.fold(f64::INFINITY, f64::min);
        if least.is_finite() {
            let limit = self.network.add_link(least);
            self.network.extend_route(route, limit, times, SimTime::ZERO);
        }
    }
}
