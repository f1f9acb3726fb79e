//! The interface of one rank's GPU.

use crate::cluster::{Link, Node, ZONE_LATENCY_S};
use serde::{Deserialize, Serialize};

/// Where a rank sits in the emulated network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interface {
    /// Number of its node.
    pub node: u32,
    /// Availability zone of the node.
    pub zone: String,
    /// To other nodes.
    pub nic: Link,
    /// To GPUs of the same node.
    pub port: Link,
    /// What is added to the latency between zones, in seconds.
    pub zone_latency_s: f64,
}

impl Interface {
    /// That of each GPU of a node, slower than it is by a factor.
    pub(in super::super::super) fn of(node: &Node, number: u32, time_scale: f64) -> Self {
        let scaled =
            |link: Link| Link { bytes_per_s: link.bytes_per_s / time_scale, latency_s: link.latency_s * time_scale };
        Self {
            node: number,
            zone: node.zone.clone(),
            nic: scaled(node.nic),
            port: scaled(node.gpu.intra_node),
            zone_latency_s: ZONE_LATENCY_S * time_scale,
        }
    }

    /// The path to another one, as [`Cluster::path`](crate::cluster::Cluster::path) has it.
    pub(super) fn path(&self, to: &Self) -> Link {
        if self.node == to.node {
            return self.port;
        }
        let zone_latency_s = if self.zone == to.zone { 0.0 } else { self.zone_latency_s };
        Link {
            bytes_per_s: self.nic.bytes_per_s.min(to.nic.bytes_per_s),
            latency_s: self.nic.latency_s + to.nic.latency_s + zone_latency_s,
        }
    }
}
