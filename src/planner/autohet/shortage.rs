//! Why nothing fits, and what would help.

use super::pipeline::Pipelines;
use super::setting::{Composition, Setting, executions};
use crate::cluster::{Cluster, GpuSpec, Node};
use crate::cost::{CostModel, StageMemory, StageShape};
use crate::model::{Execution, Recompute};
use crate::plan::{PlanError, PlanRequest, TrainingSettings};
use crate::units::format_bytes;
use std::sync::Arc;

/// Tensor-parallel degrees that a hint may propose.
const DEGREES: [u32; 4] = [1, 2, 4, 8];
/// Most nodes that a hint proposes to add.
const MAX_ADDED_NODES: usize = 64;
const GIGABYTE: u64 = 1_000_000_000;
/// Most memory of a GPU that a hint asks for.
const MOST_GIGABYTES: u64 = 1024;

/// A grouping of one replica that fits, if there is one: the units with most memory, as few of them as will do.
pub fn one_replica_that_fits(setting: &Setting) -> Option<Composition> {
    let mut by_memory: Vec<usize> = (0..setting.classes.len()).collect();
    by_memory.sort_by_key(|&class| std::cmp::Reverse(setting.classes[class].gpu.memory_bytes));
    let units = by_memory.iter().flat_map(|&class| std::iter::repeat_n(class, setting.classes[class].units as usize));
    let mut pipelines = Pipelines::new(setting, setting.micro_batches, 1);
    let mut composition = Composition::default();
    for class in units.take(setting.num_layers as usize) {
        composition.0[class] += 1;
        if pipelines.get(&composition).is_some() {
            return Some(composition);
        }
    }
    None
}

/// The error for a request that no plan fits.
pub fn explain(request: &PlanRequest) -> PlanError {
    let PlanRequest { cluster, cost, training, .. } = *request;
    let leanest = leanest_execution(cluster, cost, training);
    let (reason, short_bytes) = match leanest {
        None => ("no node has enough GPUs for the tensor parallel sizes allowed".to_owned(), 0),
        Some(execution) => binding_reason(cluster, cost, &execution),
    };
    PlanError::DoesNotFit { reason, hint: smallest_change(request, short_bytes) }
}

/// The execution of the request under which one layer takes the least memory of a GPU.
fn leanest_execution(cluster: &Cluster, cost: &CostModel, training: &TrainingSettings) -> Option<Execution> {
    let possible = executions(cost, training).ok()?.into_iter();
    let formable = |e: &Execution| cluster.nodes.iter().any(|node| node.gpu_count >= e.tensor_parallel_size);
    possible.filter(formable).min_by_key(|execution| one_layer(cost, execution).total_bytes())
}

fn one_layer(cost: &CostModel, execution: &Execution) -> StageMemory {
    let shape = StageShape { num_layers: 1, has_embedding: false, has_head: false, in_flight: 1 };
    cost.stage_memory(&shape, execution)
}

/// What binds under this execution, and by how many bytes.
fn binding_reason(cluster: &Cluster, cost: &CostModel, execution: &Execution) -> (String, u64) {
    let t = execution.tensor_parallel_size;
    let layer = one_layer(cost, execution);
    let usable = |memory_bytes: u64| memory_bytes.saturating_sub(layer.reserve_bytes);
    let nodes = || cluster.nodes.iter().filter(|node| node.gpu_count >= t);
    let largest = nodes().map(|node| usable(node.gpu.memory_bytes)).max().unwrap_or(0);
    let needed = layer.total_bytes() - layer.reserve_bytes;
    if needed > largest {
        let reason = format!(
            "one layer needs {} per GPU at micro batch size {} and tensor parallel size {t}, the largest GPU has {} usable",
            format_bytes(needed),
            execution.micro_batch_size,
            format_bytes(largest)
        );
        return (reason, needed - largest);
    }
    let shape = StageShape { num_layers: cost.model().num_layers, has_embedding: true, has_head: true, in_flight: 1 };
    let whole = cost.stage_memory(&shape, execution);
    let state = (whole.parameters_bytes + whole.gradients_bytes + whole.optimizer_bytes) * u64::from(t);
    let available: u64 = nodes().map(|node| u64::from(node.gpu_count / t * t) * usable(node.gpu.memory_bytes)).sum();
    if state > available {
        let reason = format!(
            "the model needs {} for weights, gradients and optimizer state, the cluster has {} usable",
            format_bytes(state),
            format_bytes(available)
        );
        return (reason, state - available);
    }
    let reason = format!(
        "weights, gradients and optimizer state take {} of the cluster's {} usable, and no split into stages has room for \
         the activations in flight beside them",
        format_bytes(state),
        format_bytes(available)
    );
    (reason, 0)
}

/// The first change that helps, in the order of what it costs the user; each is tried before it's proposed.
fn smallest_change(request: &PlanRequest, short_bytes: u64) -> String {
    let largest = |request: &PlanRequest| {
        let node = request.cluster.nodes.iter().max_by_key(|node| (node.gpu.memory_bytes, node.gpu_count))?;
        more_nodes(request, node)
    };
    let found = setting_changes(request).next().or_else(|| largest(request));
    found.unwrap_or_else(|| match short_bytes {
        0 => "use GPUs with more memory, or a smaller model".to_owned(),
        short => format!("use GPUs with more memory ({} are missing), or a smaller model", format_bytes(short)),
    })
}

/// Every change that helps by itself: settings, more nodes of each type, more memory; in the order of what it costs the
/// user.
pub fn fitting_changes(request: &PlanRequest) -> Vec<String> {
    let mut kinds: Vec<&Node> = Vec::new();
    for node in &request.cluster.nodes {
        if !kinds.iter().any(|kind| (&kind.gpu, kind.gpu_count) == (&node.gpu, node.gpu_count)) {
            kinds.push(node);
        }
    }
    let nodes = kinds.iter().filter_map(|node| more_nodes(request, node));
    setting_changes(request).chain(nodes).chain(more_memory(request)).collect()
}

/// Settings that make it fit.
fn setting_changes<'a>(request: &'a PlanRequest) -> impl Iterator<Item = String> + 'a {
    let training = request.training;
    let helps = move |change: &dyn Fn(&mut TrainingSettings)| {
        let mut changed = training.clone();
        change(&mut changed);
        fits(request, request.cluster, &changed)
    };
    let recompute = (!training.recompute.contains(&Recompute::Full))
        .then_some(())
        .filter(|()| helps(&|changed| changed.recompute.push(Recompute::Full)))
        .map(|()| "allow `full` recompute".to_owned());
    let micro_batch = (!training.micro_batch_sizes.contains(&1))
        .then_some(())
        .filter(|()| helps(&|changed| changed.micro_batch_sizes.push(1)))
        .map(|()| "allow micro batch size `1`".to_owned());
    let degrees = DEGREES.into_iter().filter(|degree| !training.tensor_parallel_sizes.contains(degree));
    let degrees = degrees
        .filter(move |&degree| helps(&|changed| changed.tensor_parallel_sizes.push(degree)))
        .map(|degree| format!("allow tensor parallel size `{degree}`"));
    recompute.into_iter().chain(micro_batch).chain(degrees)
}

/// How many more of these nodes would do.
fn more_nodes(request: &PlanRequest, node: &Node) -> Option<String> {
    let added = |count: usize| {
        let mut cluster = request.cluster.clone();
        cluster.nodes.extend((0..count).map(|_| node.clone()));
        fits(request, &cluster, request.training)
    };
    let (mut too_few, mut enough) = (0, 1);
    while !added(enough) {
        too_few = enough;
        enough *= 2;
        if enough > MAX_ADDED_NODES {
            return None;
        }
    }
    while enough - too_few > 1 {
        let middle = usize::midpoint(too_few, enough);
        *(if added(middle) { &mut enough } else { &mut too_few }) = middle;
    }
    let plural = if enough == 1 { "" } else { "s" };
    Some(format!("add {enough} more node{plural} of {} x `{}`", node.gpu_count, node.gpu.name))
}

/// How much memory each GPU would need, were there as many of them; GPUs that have more keep it.
fn more_memory(request: &PlanRequest) -> Option<String> {
    let with = |bytes: u64| {
        let mut cluster = request.cluster.clone();
        for node in &mut cluster.nodes {
            let memory_bytes = node.gpu.memory_bytes.max(bytes);
            node.gpu = Arc::new(GpuSpec { memory_bytes, ..GpuSpec::clone(&node.gpu) });
        }
        fits(request, &cluster, request.training)
    };
    let (mut too_few, mut enough) = (0_u64, MOST_GIGABYTES);
    if !with(enough * GIGABYTE) {
        return None;
    }
    while enough - too_few > 1 {
        let middle = u64::midpoint(too_few, enough);
        *(if with(middle * GIGABYTE) { &mut enough } else { &mut too_few }) = middle;
    }
    Some(format!("use GPUs of {enough} GB or more in place of those that have less"))
}

fn fits(request: &PlanRequest, cluster: &Cluster, training: &TrainingSettings) -> bool {
    let Ok(possible) = executions(request.cost, training) else { return false };
    possible.into_iter().any(|execution| {
        Setting::new(cluster, request.cost, training.global_batch_size, execution)
            .is_ok_and(|setting| setting.is_some_and(|setting| one_replica_that_fits(&setting).is_some()))
    })
}
