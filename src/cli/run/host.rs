//! This machine as devices to plan for.

use super::args::Backend;
use crate::cluster::{Cluster, ClusterError, GpuSpec, Link, Node, NodeDefaults};
use crate::cost::{CostModel, CostSettings};
use crate::elastic::StateLayout;
use crate::model::ModelSpec;
use crate::plan::Plan;
use crate::training::memory;
use crate::units::format_bytes;
use anyhow::anyhow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a core is called in plans.
pub(super) const CPU: &str = GpuSpec::CORE;

/// What a device of this machine is called in profiles.
pub(super) fn device_name(backend: Backend) -> &'static str {
    if backend == Backend::Cuda { "cuda" } else { CPU }
}

/// What a core is assumed to do in fp32 matrix products: 16 lanes that multiply and add once a cycle at about 2.5 GHz. Plans
/// only compare with it; `autohet-run profile` measures.
const CORE_FLOPS_PER_S: f64 = 80e9;
/// What a core is assumed to read and write.
const CORE_BYTES_PER_S: f64 = 8e9;
/// Sockets of the loopback interface, assumed.
const LOOPBACK: Link = Link { bytes_per_s: 2e9, latency_s: 50e-6 };
/// What a process takes beside its tensors: program, buffers of its connections, the allocator's slack.
const PROCESS_BYTES: u64 = 64_000_000;
/// What this machine is taken to have where the system doesn't say.
const UNKNOWN_MEMORY_BYTES: u64 = 8_000_000_000;

/// Cores that this process may use.
pub(super) fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// Memory that processes can get without swapping.
pub(super) fn available_memory_bytes() -> u64 {
    memory::available_bytes().unwrap_or(UNKNOWN_MEMORY_BYTES)
}

/// A core with its share of the memory.
pub(super) fn core_spec(memory_bytes: u64) -> Arc<GpuSpec> {
    Arc::new(GpuSpec {
        name: CPU.to_owned(),
        memory_bytes,
        fp32_flops_per_s: CORE_FLOPS_PER_S,
        fp16_flops_per_s: CORE_FLOPS_PER_S,
        bf16_flops_per_s: Some(CORE_FLOPS_PER_S),
        hbm_bytes_per_s: CORE_BYTES_PER_S,
        multiprocessors: 1,
        product_share: GpuSpec::USUAL_PRODUCT_SHARE,
        stream_share: GpuSpec::USUAL_STREAM_SHARE,
        intra_node: LOOPBACK,
        intra_node_kind: "loopback".to_owned(),
        host_bytes_per_s: CORE_BYTES_PER_S,
        spot_usd_per_hour: 0.0,
        on_demand_usd_per_hour: 0.0,
    })
}

/// One node for each rank, so that the loss of a process is the loss of its own state only.
pub(super) fn cores_as_nodes(ranks: u32) -> Cluster {
    let gpu = core_spec(available_memory_bytes() / u64::from(ranks.max(1)));
    let node = |number| Node {
        name: format!("{CPU}-{number}"),
        gpu: Arc::clone(&gpu),
        gpu_count: 1,
        zone: NodeDefaults::default().zone,
        price_usd_per_hour: 0.0,
        nic: LOOPBACK,
        wiring: crate::cluster::Wiring::default(),
        flow: None,
    };
    Cluster { nodes: (0..ranks).map(node).collect() }
}

/// The GPU type of this name, or a core of this machine.
pub(super) fn device_spec(name: &str) -> Result<Arc<GpuSpec>, ClusterError> {
    if name == CPU { Ok(core_spec(available_memory_bytes())) } else { GpuSpec::lookup(name) }
}

/// What the cost model takes as given of processes on the CPU.
pub(super) fn cost_settings() -> CostSettings {
    CostSettings { reserve_bytes: PROCESS_BYTES, ..CostSettings::default() }
}

/// Refuses what the memory of this machine won't hold: all ranks at their peak, the data once for each and once for the
/// coordinator, and checkpoints of which `peer_copies` nodes keep copies. Nodes that are `elsewhere` have memory of their own.
pub(super) fn check_memory(
    plan: &Plan,
    model: &ModelSpec,
    data_bytes: u64,
    elsewhere: &BTreeSet<String>,
    peer_copies: u32,
) -> anyhow::Result<()> {
    let cost = CostModel::new(model.clone(), cost_settings(), None);
    let (mut needed, mut processes) = (0_u64, 1_u64);
    for (place, stage) in plan.stages().filter(|(_, stage)| !elsewhere.contains(&stage.node)) {
        let ranks = stage.gpus.len() as u64;
        needed = needed.saturating_add(ranks.saturating_mul(plan.stage_memory(place, &cost).total_bytes()));
        processes += ranks;
    }
    let data = data_bytes.saturating_mul(processes);
    let needed = needed.saturating_add(data).saturating_add(copies_bytes(plan, &cost, peer_copies));
    let available = available_memory_bytes();
    if needed <= available {
        return Ok(());
    }
    let (needed, available) = (format_bytes(needed), format_bytes(available));
    Err(anyhow!(
        "the ranks of `{}` take {needed}, this machine has {available} available\nhint: train a smaller model, plan with a smaller global batch or with `--ranks`, or free some memory",
        model.name
    ))
}

/// Copies of checkpoints in memory: what each node holds itself and what is sent to others, of one checkpoint and of the next
/// while it is on its way.
fn copies_bytes(plan: &Plan, cost: &CostModel, peer_copies: u32) -> u64 {
    if peer_copies == 0 {
        return 0;
    }
    let layout = StateLayout::new(cost, plan.precision);
    let own: u64 = layout.held(plan).map(|(_, shard)| layout.bytes(shard)).sum();
    2 * own.saturating_add(layout.total_bytes().saturating_mul(u64::from(peer_copies)))
}

/// What plans for this machine's cores go by, for people.
pub(super) fn assumptions() -> String {
    let gflops = CORE_FLOPS_PER_S / 1e9;
    format!("at an assumed {gflops:.0} GFLOP/s a core")
}
