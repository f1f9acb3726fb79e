//! What reducing gradients takes at least.
//!
//! Each block is reduced by a ring through its holders, one for each tensor-parallel rank. A ring of `n` members passes
//! `2 (n - 1)/n` times the bytes over each of its links, after `2 (n - 1)` times the latency of its slowest edge. Where the
//! holders stand in more than one node, it leaves each of these nodes through the network interface, which the rings of
//! all tensor-parallel ranks share: they start together, as the ranks of a unit do everything at once. A rank reduces one
//! block after the other, so the times of a stage's blocks add up. Of frameworks that reduce otherwise only bytes count.

use crate::planner::autohet::setting::{ClassCosts, Setting};
use std::sync::Arc;

/// Least seconds of reductions for a number of replicas, by class of the unit that takes part.
#[derive(Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "the unit")]
pub struct Reductions {
    /// Of one layer.
    pub layer_s: Vec<f64>,
    /// Of the head, where it has a gradient of its own.
    pub head_s: Vec<f64>,
    /// Of the embedding, held by single-stage replicas only: tied or not, there are as many holders as replicas.
    pub embedding_s: f64,
    /// Of the embedding where some replica has more stages than one: a tied matrix has one holder more at least.
    pub embedding_of_many_s: f64,
    /// Of all blocks through the interface of one node, where a replica is within it and others can't all be.
    pub of_node_s: f64,
    /// Of one layer through its node's interface, latencies aside, by class; nothing where all holders can be in the node.
    pub layer_across_s: Vec<f64>,
}

impl Reductions {
    /// Works them out for so many replicas.
    pub fn new(setting: &Setting, replicas: u32) -> Self {
        let least = |members: u32, bytes: f64| {
            let of_class = |class: &ClassCosts| ring_s(setting, class, members, bytes);
            setting.classes.iter().map(of_class).fold(f64::INFINITY, f64::min)
        };
        let each = |bytes: f64| setting.classes.iter().map(|class| ring_s(setting, class, replicas, bytes)).collect();
        let tied = u32::from(setting.head_gradient_bytes <= 0.0);
        Self {
            layer_s: each(setting.layer_gradient_bytes),
            head_s: each(setting.head_gradient_bytes),
            embedding_s: least(replicas, setting.embedding_gradient_bytes),
            embedding_of_many_s: least(replicas + tied, setting.embedding_gradient_bytes),
            of_node_s: of_node_s(setting, replicas),
            layer_across_s: setting
                .classes
                .iter()
                .map(|class| across_s(setting, class, replicas, setting.layer_gradient_bytes))
                .collect(),
        }
    }
}

/// [`Reductions::embedding_s`] alone, which is all that a first look takes.
pub fn embedding_s(setting: &Setting, replicas: u32) -> f64 {
    let of_class = |class: &ClassCosts| ring_s(setting, class, replicas, setting.embedding_gradient_bytes);
    setting.classes.iter().map(of_class).fold(f64::INFINITY, f64::min)
}

/// All blocks over the fastest interface.
fn of_node_s(setting: &Setting, replicas: u32) -> f64 {
    let layers = f64::from(setting.num_layers) * setting.layer_gradient_bytes;
    let bytes = layers + setting.embedding_gradient_bytes + setting.head_gradient_bytes;
    let of_class = |class: &ClassCosts| across_s(setting, class, replicas, bytes);
    setting.classes.iter().map(of_class).fold(f64::INFINITY, f64::min)
}

/// What so many holders' sum of gradients keeps the interface of a class's node busy for at least: nothing if all may be in
/// the node.
fn across_s(setting: &Setting, class: &ClassCosts, members: u32, bytes: f64) -> f64 {
    if members < 2 || room_of(setting, class) >= members {
        return 0.0;
    }
    passed(setting, members, bytes) / class.nic.bytes_per_s
}

/// Bytes over each link of a ring, at least.
fn passed(setting: &Setting, members: u32, bytes: f64) -> f64 {
    match setting.least_share_reduced {
        Some(share) => bytes * share,
        None => bytes * 2.0 * f64::from(members - 1) / f64::from(members),
    }
}

/// Units that a node of the class holds; of a smaller degree they take less room.
fn room_of(setting: &Setting, class: &ClassCosts) -> u32 {
    let is_gpu = |other: &ClassCosts| Arc::ptr_eq(&other.gpu, &class.gpu) || other.gpu == class.gpu;
    let same = |other: &&ClassCosts| other.nic == class.nic && is_gpu(other);
    setting.classes.iter().filter(same).map(|other| other.units_per_node).max().unwrap_or(0)
}

/// A ring of so many members, one of them of this class: through the network, or within a node that has so many units.
fn ring_s(setting: &Setting, class: &ClassCosts, members: u32, bytes: f64) -> f64 {
    if members < 2 || bytes <= 0.0 {
        return 0.0;
    }
    let passed = passed(setting, members, bytes);
    // A latency may be paid once for many layers.
    let steps = if setting.least_share_reduced.is_some() { 0.0 } else { 2.0 * f64::from(members - 1) };
    let nearest_s = setting.classes.iter().map(|other| other.nic.latency_s).fold(f64::INFINITY, f64::min);
    let across_s = steps * (class.nic.latency_s + nearest_s) + passed / class.nic.bytes_per_s;
    if room_of(setting, class) < members {
        return across_s;
    }
    let link = class.gpu.intra_node;
    let of_rank = passed / f64::from(setting.execution.tensor_parallel_size);
    across_s.min(steps * link.latency_s + of_rank / link.bytes_per_s)
}
