//! Small clusters and plans for the tests of this module.

use super::layout::{SHARDS_PER_BLOCK, ShardIndex};
use crate::cluster::{Cluster, GpuSpec, Link, Node};
use crate::model::{Precision, Recompute};
use crate::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, Stage};
use std::ops::Range;
use std::sync::Arc;

/// A plan from `(node, first layer, layers)` of each stage of each replica.
pub(super) fn plan(tensor_parallel_size: u32, replicas: &[&[(&str, u32, u32)]]) -> Plan {
    let stage = |&(node, first_layer, num_layers): &(&str, u32, u32)| Stage {
        node: node.to_owned(),
        gpus: (0..tensor_parallel_size).collect(),
        gpu_type: "T4".to_owned(),
        first_layer,
        num_layers,
        later_chunks: Vec::new(),
    };
    let replica =
        |stages: &&[(&str, u32, u32)]| Replica { micro_batches: 1, stages: stages.iter().map(stage).collect() };
    Plan {
        schema_version: SCHEMA_VERSION,
        planner: "test".to_owned(),
        model: "test".into(),
        global_batch_size: replicas.len() as u32,
        micro_batch_size: 1,
        sequence_parallel: false,
        recompute: Recompute::None,
        precision: Precision::Fp16,
        schedule: ScheduleKind::default(),
        replicas: replicas.iter().map(replica).collect(),
    }
}

/// Nodes of one GPU, 100 bytes a second on the network and 1000 to the GPU, without latency.
pub(super) fn cluster(names: &[&str]) -> Cluster {
    let gpu = GpuSpec { host_bytes_per_s: 1000.0, ..GpuSpec::clone(&*GpuSpec::lookup("T4").unwrap()) };
    let gpu = Arc::new(gpu);
    let node = |name: &&str| Node {
        name: (*name).to_owned(),
        gpu: Arc::clone(&gpu),
        gpu_count: 1,
        zone: "zone".to_owned(),
        price_usd_per_hour: 1.0,
        nic: Link { bytes_per_s: 100.0, latency_s: 0.0 },
        wiring: crate::cluster::Wiring::default(),
        flow: None,
    };
    Cluster { nodes: names.iter().map(node).collect() }
}

/// All shards of these blocks, counted from the embedding.
pub(super) fn shards_of(blocks: Range<usize>) -> Vec<ShardIndex> {
    (blocks.start * SHARDS_PER_BLOCK..blocks.end * SHARDS_PER_BLOCK).collect()
}
