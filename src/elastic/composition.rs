//! Nodes by what they are, which is all that plans depend on.

use super::placement::NodeClass;
use crate::cluster::{Cluster, Node};
use std::collections::BTreeMap;

/// Nodes of the cluster by class.
pub(super) type Mix = Vec<(NodeClass, usize)>;

/// Nodes, and how many of them are alike: worked out once for as long as they are there.
#[derive(Clone, Debug, Default)]
pub(super) struct Composition {
    /// The nodes.
    pub(super) cluster: Cluster,
    /// How many there are of each class.
    pub(super) mix: Mix,
}

impl Composition {
    /// Of these nodes.
    pub(super) fn of(nodes: Vec<Node>) -> Self {
        let mut counts: BTreeMap<NodeClass, usize> = BTreeMap::new();
        for node in &nodes {
            *counts.entry(NodeClass::of(node)).or_default() += 1;
        }
        Self { cluster: Cluster { nodes }, mix: counts.into_iter().collect() }
    }

    /// Whether the node is among them.
    pub(super) fn has(&self, name: &str) -> bool {
        self.cluster.nodes.iter().any(|node| node.name == name)
    }
}

/// The same nodes in the order of their classes, named after class and number only.
pub fn nameless(cluster: &Cluster) -> Cluster {
    let mut nodes: Vec<Node> = cluster.nodes.clone();
    nodes.sort_by_cached_key(NodeClass::of);
    let mut seen: BTreeMap<NodeClass, usize> = BTreeMap::new();
    for node in &mut nodes {
        let class = NodeClass::of(node);
        let number = seen.entry(class.clone()).or_default();
        node.name = class.name(*number);
        *number += 1;
    }
    Cluster { nodes }
}
