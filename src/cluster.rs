//! Where it is trained: GPU types, nodes and the network between them.

mod catalog;
mod error;
mod file;
mod flow;
mod instances;
mod mix;
mod wiring;

pub use error::ClusterError;
#[cfg(test)]
pub(crate) use file::schema as file_schema;
pub use flow::FlowCurve;
pub use instances::InstanceType;
pub use wiring::{PcieSwitch, Wiring};

use crate::ids::NodeId;
use crate::units::format_number;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Most GPUs that a cluster may have: half as many again as the largest training runs that were published.
pub const MAX_GPUS: u64 = 24_576;

/// Bandwidths of network interfaces that are believed, in gigabits a second. Within them every transfer of every model
/// ends on the simulated clock.
pub const NIC_GBIT_PER_S: RangeInclusive<f64> = 1e-3..=1e6;

/// Latencies of network interfaces that are believed, in microseconds.
pub const NIC_LATENCY_US: RangeInclusive<f64> = 0.0..=1e6;

/// Latency added between availability zones, in each direction: an assumption, half a round trip of the millisecond or
/// so that clouds state for zones of one region.
pub const ZONE_LATENCY_S: f64 = 0.5e-3;

/// One GPU type, from its datasheet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuSpec {
    /// Canonical name: `A100-80`.
    pub name: String,
    /// Device memory.
    pub memory_bytes: u64,
    /// Dense matrix-product peak in fp32 (or TF32 where frameworks use it by default), flop/s.
    pub fp32_flops_per_s: f64,
    /// Dense fp16 tensor-core peak, flop/s.
    pub fp16_flops_per_s: f64,
    /// Dense bf16 peak; `None` where the hardware lacks it.
    pub bf16_flops_per_s: Option<f64>,
    /// Device memory bandwidth.
    pub hbm_bytes_per_s: f64,
    /// Streaming multiprocessors: products are dealt out to them tile by tile.
    pub multiprocessors: u32,
    /// Share of the peak that products reach whose tiles fill all multiprocessors.
    pub product_share: f64,
    /// Share of the memory's bandwidth that operations reach which only read and write.
    pub stream_share: f64,
    /// Link between GPUs of one node.
    pub intra_node: Link,
    /// Kind of that link, for people: `NVLink3`, `PCIe 4.0 x16`.
    pub intra_node_kind: String,
    /// Host link (PCIe) of one GPU, per direction: checkpoints pass through it.
    pub host_bytes_per_s: f64,
    /// Typical spot price of one GPU, used where a trace or cluster file names none.
    pub spot_usd_per_hour: f64,
    /// Price of one GPU of a node that nobody takes away.
    pub on_demand_usd_per_hour: f64,
}

/// A link: `time(bytes) = latency + bytes / bandwidth`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Bandwidth per direction.
    pub bytes_per_s: f64,
    /// Latency, `alpha`.
    pub latency_s: f64,
}

/// A node: equal GPUs behind one or more equal network interfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name, unique in the cluster; the same node keeps its name across re-planning.
    pub name: String,
    /// Type of its GPUs.
    pub gpu: Arc<GpuSpec>,
    /// Number of its GPUs.
    pub gpu_count: u32,
    /// Availability zone.
    pub zone: String,
    /// Price of the whole node.
    pub price_usd_per_hour: f64,
    /// All network interfaces of the node together, shared by its GPUs.
    pub nic: Link,
    /// How many interfaces that are, and what else GPUs share.
    pub wiring: Wiring,
    /// What a single flow over it reaches, where that is less.
    pub flow: Option<FlowCurve>,
}

/// The nodes that a plan may use.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Cluster {
    /// The nodes, in a fixed order.
    pub nodes: Vec<Node>,
}

/// What a node has where its description doesn't say.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeDefaults {
    /// One network interface of a node.
    pub nic: Link,
    /// How many of them a node has, and what else its GPUs share. With more interfaces than GPUs each GPU has one.
    pub wiring: Wiring,
    /// Availability zone.
    pub zone: String,
    /// What a single flow reaches, by GPU type of the node.
    pub flows: Vec<(String, FlowCurve)>,
}

impl Default for NodeDefaults {
    /// 100 Gbit/s and 20 µs, one zone called `default`. Cloud instances of 8 GPUs have 25 (AWS p3.16xlarge), 100
    /// (g4dn.metal) or 400 Gbit/s (p4d); the latency is that of TCP-less transports (EFA, `RoCE`), an assumption.
    fn default() -> Self {
        let nic = Link::from_gbit_per_s(100.0, 20e-6);
        Self { nic, wiring: Wiring::default(), zone: "default".to_owned(), flows: Vec::new() }
    }
}

impl NodeDefaults {
    /// What a single flow reaches at nodes of this GPU type.
    pub fn flow(&self, gpu: &GpuSpec) -> Option<FlowCurve> {
        self.flows.iter().find(|(gpu_type, _)| *gpu_type == gpu.name).map(|(_, flow)| *flow)
    }

    /// All network interfaces of a node of so many GPUs, and its wiring.
    pub fn interfaces(&self, gpu_count: u32) -> (Link, Wiring) {
        let nics = self.wiring.nics.clamp(1, gpu_count.max(1));
        let switch = self.wiring.switch.filter(|switch| switch.gpus < gpu_count);
        (Link { bytes_per_s: self.nic.bytes_per_s * f64::from(nics), ..self.nic }, Wiring { nics, switch })
    }

    /// The defaults with another bandwidth, as from `--nic-gbit-per-s`.
    pub fn with_nic_gbit_per_s(self, gbit_per_s: f64) -> Result<Self, ClusterError> {
        nic_gbit_per_s("nic_gbit_per_s", gbit_per_s)?;
        Ok(Self { nic: Link::from_gbit_per_s(gbit_per_s, self.nic.latency_s), ..self })
    }
}

impl Link {
    /// A link of so many gigabits (10⁹ bits) a second per direction.
    pub fn from_gbit_per_s(gbit_per_s: f64, latency_s: f64) -> Self {
        Self { bytes_per_s: gbit_per_s * 1e9 / 8.0, latency_s }
    }
}

impl Cluster {
    /// The cluster that a command-line argument describes: a TOML file where it ends in `.toml` or is one, the mix
    /// notation otherwise.
    pub fn from_argument(text: &str, defaults: &NodeDefaults) -> Result<Self, ClusterError> {
        let path = std::path::Path::new(text);
        let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
        if is_toml || path.is_file() { Self::from_file(path, defaults) } else { Self::parse_mix(text, defaults) }
    }

    /// GPUs of all nodes.
    pub fn gpu_count(&self) -> u32 {
        self.nodes.iter().map(|node| node.gpu_count).sum()
    }

    /// The node at this place.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// The place of the node of this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|node| node.name == name).map(NodeId::from)
    }

    /// The path between a GPU of one node and a GPU of another, uncontended: within a node its own link; between nodes
    /// the slower of their interfaces, both latencies, and [`ZONE_LATENCY_S`] where the zones differ.
    pub fn path(&self, from: NodeId, to: NodeId) -> Link {
        self.shared_path(from, to, 1)
    }

    /// What each of so many flows between two nodes gets that leave and enter them at once, over all their interfaces.
    /// Within a node each has a link of its own.
    pub fn shared_path(&self, from: NodeId, to: NodeId, flows: u32) -> Link {
        let (source, target) = (self.node(from), self.node(to));
        if from == to {
            return source.gpu.intra_node;
        }
        let zone_latency_s = if source.zone == target.zone { 0.0 } else { ZONE_LATENCY_S };
        Link {
            bytes_per_s: source.nic_share_bytes_per_s(flows).min(target.nic_share_bytes_per_s(flows)),
            latency_s: source.nic.latency_s + target.nic.latency_s + zone_latency_s,
        }
    }

    /// What a single flow between two nodes reaches with messages of so many bytes: the least of what both ends do.
    /// Infinite within a node, and where nobody says.
    pub fn flow_bytes_per_s(&self, from: NodeId, to: NodeId, bytes: f64) -> f64 {
        if from == to {
            return f64::INFINITY;
        }
        let flows = [from, to].into_iter().filter_map(|id| self.node(id).flow);
        flows.map(|flow| flow.bytes_per_s(bytes)).fold(f64::INFINITY, f64::min)
    }

    /// USD per hour of all nodes.
    pub fn price_usd_per_hour(&self) -> f64 {
        self.nodes.iter().map(|node| node.price_usd_per_hour).sum()
    }

    /// Appends `count` equal nodes, named after the GPU type and numbered on from those of that type already there.
    fn push_nodes(&mut self, count: u32, template: &Node) {
        let prefix = template.gpu.name.to_lowercase();
        let first = self.nodes.iter().filter(|node| node.gpu.name == template.gpu.name).count();
        let numbers = first..first + count as usize;
        self.nodes.extend(numbers.map(|number| Node { name: format!("{prefix}-{number}"), ..template.clone() }));
    }
}

/// Refuses bandwidths of network interfaces that aren't in [`NIC_GBIT_PER_S`].
fn nic_gbit_per_s(what: &str, value: f64) -> Result<f64, ClusterError> {
    within(what, value, NIC_GBIT_PER_S)
}

/// Refuses latencies of network interfaces that aren't in [`NIC_LATENCY_US`].
fn nic_latency_us(what: &str, value: f64) -> Result<f64, ClusterError> {
    within(what, value, NIC_LATENCY_US)
}

/// Refuses prices of nodes below zero, and beyond a billion dollars.
fn price_usd_per_hour(what: &str, value: f64) -> Result<f64, ClusterError> {
    within(what, value, 0.0..=1e9)
}

fn within(what: &str, value: f64, range: RangeInclusive<f64>) -> Result<f64, ClusterError> {
    if range.contains(&value) {
        return Ok(value);
    }
    let expected = format!("from {} to {}", range.start(), range.end());
    Err(ClusterError::Number { what: what.to_owned(), value: format_number(value), expected })
}

/// Refuses clusters without GPUs and absurdly large ones, before any node is made. Each group is a number of nodes and
/// the GPUs of one.
fn check_size(groups: impl Iterator<Item = (u32, u32)>) -> Result<(), ClusterError> {
    let gpus = groups.map(|(nodes, gpus)| u64::from(nodes) * u64::from(gpus)).fold(0, u64::saturating_add);
    match gpus {
        0 => Err(ClusterError::Empty),
        1..=MAX_GPUS => Ok(()),
        _ => Err(ClusterError::TooLarge { gpus, limit: MAX_GPUS }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_take_the_slower_interface_and_add_latencies() {
        let mut cluster = Cluster::parse_mix("2x8xA100-80+1x4xT4", &NodeDefaults::default()).unwrap();
        cluster.nodes[2].nic = Link { bytes_per_s: 3e9, latency_s: 50e-6 };
        cluster.nodes[2].zone = "elsewhere".to_owned();
        assert_eq!(cluster.path(NodeId(0), NodeId(0)), cluster.nodes[0].gpu.intra_node);
        let near = cluster.path(NodeId(0), NodeId(1));
        assert!((near.bytes_per_s - 12.5e9).abs() < 1.0 && (near.latency_s - 40e-6).abs() < 1e-12);
        let far = cluster.path(NodeId(2), NodeId(1));
        assert!((far.bytes_per_s - 3e9).abs() < 1.0 && (far.latency_s - 570e-6).abs() < 1e-12);
    }

    #[test]
    fn a_flow_is_as_slow_as_its_slower_end() {
        let flow = |c| FlowCurve { gbyte_per_s: [0.0, 1.0, c], from_bytes: 1e6, to_bytes: 1e9 };
        let flows = vec![("T4".to_owned(), flow(1.0)), ("A100-80".to_owned(), flow(2.0))];
        let defaults = NodeDefaults { flows, ..NodeDefaults::default() };
        let cluster = Cluster::parse_mix("2x8xA100-80+1x4xT4+1x4xL4", &defaults).unwrap();
        let gbyte_per_s = |from, to| cluster.flow_bytes_per_s(NodeId(from), NodeId(to), 2e6) * 1e-9;
        assert!((gbyte_per_s(0, 1) - 3.0).abs() < 1e-9 && (gbyte_per_s(0, 2) - 2.0).abs() < 1e-9);
        assert!((gbyte_per_s(3, 1) - 3.0).abs() < 1e-9);
        assert!(gbyte_per_s(2, 2).is_infinite());
    }

    #[test]
    fn an_argument_is_a_file_or_a_mix() {
        let defaults = NodeDefaults::default();
        assert_eq!(Cluster::from_argument("8xT4", &defaults).unwrap().gpu_count(), 8);
        let missing = Cluster::from_argument("nowhere/cluster.toml", &defaults).unwrap_err();
        assert!(matches!(missing, ClusterError::Read { .. }), "{missing}");
    }

    #[test]
    fn nic_bandwidth_must_be_a_positive_number() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = NodeDefaults::default().with_nic_gbit_per_s(bad).unwrap_err();
            assert!(error.to_string().contains("`nic_gbit_per_s`"), "{error}");
        }
        let fast = NodeDefaults::default().with_nic_gbit_per_s(400.0).unwrap();
        assert!((fast.nic.bytes_per_s - 50e9).abs() < 1.0);
    }
}
