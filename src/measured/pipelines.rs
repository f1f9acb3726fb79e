//! Plans with measurements as Sailor (SOSP'25) publishes them: nodes of equal size, a pipeline for each replica, and
//! bandwidths as parabolas (`a x² + b x + c` GB/s with `x = log₂(bytes / 10⁶)`), by how many pairs of GPUs send at once.

mod network;

use super::dataset::{Placed, source_of};
use super::layout::{Network as NodeNetwork, Places, cluster_of};
use super::{MeasuredError, MeasuredRun, MemoryScope, Quantity, Reading, Skip, gpus};
use crate::cluster::{Cluster, GpuSpec, Wiring};
use crate::cost::{CostSettings, Framework};
use crate::model::{Architecture, ModelSpec, Precision, Recompute};
use crate::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, Stage as PlanStage};
use crate::profile::model_of_sailor;
use network::Network;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Deserialize)]
struct File {
    gpus_per_node: GpusPerNode,
    network: Network,
    configs: Vec<Config>,
}

/// Of all nodes, or of those of a GPU type.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a number, or one for each GPU type")]
enum GpusPerNode {
    All(u32),
    ByType(BTreeMap<String, u32>),
}

impl GpusPerNode {
    /// Zero where nothing is said of a type.
    fn of(&self, gpu_type: &str) -> u32 {
        match self {
            Self::All(count) => *count,
            Self::ByType(counts) => counts.get(gpu_type).copied().unwrap_or(0),
        }
    }

    fn has_none(&self) -> bool {
        match self {
            Self::All(count) => *count == 0,
            Self::ByType(counts) => counts.values().any(|count| *count == 0),
        }
    }
}

#[derive(Deserialize)]
struct Config {
    id: String,
    model: String,
    seq_len: u32,
    hidden: u32,
    heads: u32,
    vocab: u32,
    num_layers_all: u32,
    precision: String,
    global_batch_size: u32,
    micro_batch_size: u32,
    pipelines: Vec<Vec<Stage>>,
    measured: Measured,
    #[serde(rename = "use", default = "yes")]
    is_used: bool,
}

#[derive(Deserialize)]
struct Stage {
    gpu_type: String,
    tp: u32,
    layers: Vec<u32>,
}

#[derive(Deserialize)]
struct Measured {
    iteration_time_s: Option<f64>,
    max_memory_bytes_over_all_gpus: Option<f64>,
}

fn yes() -> bool {
    true
}

/// Reads all records.
pub(super) fn read(text: &str, path: &str) -> Result<Vec<Placed>, MeasuredError> {
    let file: File = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let problem = message.rsplit_once(" at line ").map_or(message.as_str(), |(problem, _)| problem).to_owned();
        MeasuredError::Json { path: path.to_owned(), line: error.line(), column: error.column(), problem }
    })?;
    if file.gpus_per_node.has_none() {
        return Err(wrong(text, path, "\"gpus_per_node\"", "gpus_per_node", "`0`", "a number above zero"));
    }
    let record = |config: &Config| {
        let line = line_of(text, &format!("\"{}\"", config.id));
        let reading = reading(config, &file, &|key: &str, found: String, expected: &str| {
            wrong(text, path, &format!("\"{}\"", config.id), key, &found, expected)
        })?;
        Ok(Placed { line, reading })
    };
    file.configs.iter().map(record).collect()
}

/// The line where some text first stands.
fn line_of(text: &str, part: &str) -> u64 {
    let offset = text.find(part).unwrap_or(0);
    1 + text[..offset].matches('\n').count() as u64
}

fn wrong(text: &str, path: &str, part: &str, key: &str, found: &str, expected: &str) -> MeasuredError {
    MeasuredError::Value {
        path: path.into(),
        line: line_of(text, part),
        key: key.into(),
        found: found.into(),
        expected: expected.into(),
        hint: "take the record as it was published, or mark it with `\"use\": false`".into(),
    }
}

/// Makes the error of a record's key, what it is and what was expected.
type Refuse<'a> = &'a dyn Fn(&str, String, &str) -> MeasuredError;

fn reading(config: &Config, file: &File, refuse: Refuse) -> Result<Reading, MeasuredError> {
    let source = source_of(&config.id);
    let skip = |reason: &str| {
        Ok(Reading::Skipped(Skip { id: config.id.clone(), source: source.clone(), reason: reason.into() }))
    };
    if !config.is_used {
        return skip("marked as not to be used");
    }
    let measured = figures(config, refuse)?;
    if measured.is_empty() {
        return skip("no time or memory");
    }
    let model = model(config, refuse)?;
    let precision = precision(&config.precision).ok_or_else(|| {
        refuse("precision", format!("`{}`", config.precision), "a text that begins with fp32, fp16 or bf16")
    })?;
    let placed = match place(config, file, refuse)? {
        Ok(placed) => placed,
        Err(reason) => return skip(&reason),
    };
    let plan = Plan {
        schema_version: SCHEMA_VERSION,
        planner: "measured".into(),
        model: (&model).into(),
        global_batch_size: config.global_batch_size,
        micro_batch_size: config.micro_batch_size,
        sequence_parallel: false,
        recompute: Recompute::None,
        precision,
        schedule: ScheduleKind::OneForwardOneBackward,
        replicas: replicas(config, placed.stages, refuse)?,
    };
    Ok(Reading::Run(Box::new(MeasuredRun {
        id: config.id.clone(),
        source,
        is_unconfirmed: false,
        model,
        // The models of these runs are Sailor's own, of which the profiles are: its GPT-Neo takes the loss of what the final
        // norm gives (`gpt_neo_model.py` of its repository), without a projection to the vocabulary.
        is_as_profiled: true,
        cluster: placed.cluster,
        plan,
        cost: megatron_deepspeed(),
        framework: Framework::preset("deepspeed").unwrap_or_default(),
        measured,
    })))
}

/// What a GPU holds in these runs beside what the profile knows.
///
/// Communicators: the framework makes three whose ranks are neighbours in a node (all ranks, a tensor-parallel group, the ranks
/// of a replica). In each NCCL has 24 channels on `NVLink3` and later, with three connections that receive (a ring's, and a
/// tree's from above and below), each with a buffer of 4 MiB, one of 4.7 MiB and one of 640 KiB for its three protocols: 0.7 GB.
/// What lies idle between tensors isn't counted: nothing but these runs measures it.
fn megatron_deepspeed() -> CostSettings {
    const COMMUNICATORS: u64 = 3;
    const CHANNELS: u64 = 24;
    const CONNECTIONS: u64 = 3;
    const BUFFERS_BYTES: u64 = (4 << 20) + 4_915_200 + 655_360;
    CostSettings {
        profiled_tensor_parallel_reserve_bytes: COMMUNICATORS * CHANNELS * CONNECTIONS * BUFFERS_BYTES,
        ..CostSettings::default()
    }
}

fn figures(config: &Config, refuse: Refuse) -> Result<Vec<(Quantity, f64)>, MeasuredError> {
    let Measured { iteration_time_s, max_memory_bytes_over_all_gpus: memory } = config.measured;
    let keys = [
        ("measured.iteration_time_s", Quantity::IterationTime, iteration_time_s),
        ("measured.max_memory_bytes_over_all_gpus", Quantity::Memory(MemoryScope::Device), memory),
    ];
    let mut found = Vec::new();
    for (key, quantity, value) in keys {
        let Some(value) = value else { continue };
        if !(value > 0.0 && value < 1e18) {
            return Err(refuse(key, format!("`{value}`"), "a number above zero"));
        }
        found.push((quantity, value));
    }
    Ok(found)
}

/// The model: the first and the last of its layers are the embedding and the head.
fn model(config: &Config, refuse: Refuse) -> Result<ModelSpec, MeasuredError> {
    let counts =
        [("num_layers_all", config.num_layers_all, 3), ("heads", config.heads, 1), ("hidden", config.hidden, 1)];
    if let Some((key, value, least)) = counts.into_iter().find(|(_, value, least)| value < least) {
        return Err(refuse(key, format!("`{value}`"), &format!("a whole number from {least} on")));
    }
    let is_llama = config.model.to_lowercase().contains("llama");
    let model = ModelSpec {
        name: model_of_sailor(&config.model),
        architecture: if is_llama { Architecture::Llama } else { Architecture::Gpt },
        num_layers: config.num_layers_all - 2,
        hidden_size: config.hidden,
        num_attention_heads: config.heads,
        num_key_value_heads: config.heads,
        head_dim: config.hidden / config.heads,
        ffn_hidden_size: 4 * config.hidden,
        gated_mlp: is_llama,
        vocab_size: config.vocab,
        seq_length: config.seq_len,
        tie_word_embeddings: !is_llama,
    };
    let problem = |error: crate::model::ModelError| error.to_string().lines().next().unwrap_or_default().to_owned();
    model.validate().map_err(|error| refuse("model", problem(error), "a model that can be built"))?;
    Ok(model)
}

fn precision(text: &str) -> Option<Precision> {
    let known = [("fp32", Precision::Fp32), ("fp16", Precision::Fp16), ("bf16", Precision::Bf16)];
    known.into_iter().find(|(name, _)| text.starts_with(name)).map(|(_, precision)| precision)
}

/// A type's name in the file, the type, and its groups: replica, stage and tensor-parallel degree.
type OfType = (String, Arc<GpuSpec>, Vec<(usize, usize, u32)>);

struct Assigned {
    cluster: Cluster,
    stages: Vec<Vec<PlanStage>>,
}

/// GPUs for all stages: types in the order in which they first occur, each with nodes of its own; ranks stage by stage over
/// all replicas.
fn place(config: &Config, file: &File, refuse: Refuse) -> Result<Result<Assigned, String>, MeasuredError> {
    let depth = config.pipelines.iter().map(Vec::len).max().unwrap_or(0);
    if depth == 0 || config.pipelines.iter().any(Vec::is_empty) {
        return Err(refuse("pipelines", "empty".to_owned(), "a pipeline of one stage or more for each replica"));
    }
    let mut types: Vec<OfType> = Vec::new();
    for stage in 0..depth {
        for (replica, pipeline) in config.pipelines.iter().enumerate() {
            let Some(found) = pipeline.get(stage) else { continue };
            let size = file.gpus_per_node.of(&found.gpu_type);
            if size == 0 {
                return Ok(Err(format!("`gpus_per_node` isn't given for `{}`", found.gpu_type)));
            }
            if found.tp == 0 || found.tp > size {
                let expected = format!("from 1 to {size}, the GPUs of a node");
                return Err(refuse(&format!("pipelines[{replica}][{stage}].tp"), format!("`{}`", found.tp), &expected));
            }
            if !types.iter().any(|(name, ..)| *name == found.gpu_type) {
                let Some((gpu, _)) = gpus::parse(&found.gpu_type).ok().and_then(|found| found.into_iter().next())
                else {
                    return Ok(Err(format!("GPU type `{}` isn't in the catalog", found.gpu_type)));
                };
                let gpu = file.network.within(&found.gpu_type, gpu);
                types.push((found.gpu_type.clone(), gpu, Vec::new()));
            }
            let of_type = types.iter_mut().find(|(name, ..)| *name == found.gpu_type);
            of_type.expect("it was just put there").2.push((replica, stage, found.tp));
        }
    }
    Ok(Ok(fill(config, file, &types)))
}

/// Fills nodes one after the other; a group that doesn't fit in what is left of one begins the next.
fn fill(config: &Config, file: &File, types: &[OfType]) -> Assigned {
    let mut nodes: Vec<(Arc<GpuSpec>, u32)> = Vec::new();
    let mut taken: BTreeMap<(usize, usize), (usize, u32)> = BTreeMap::new();
    let mut networks = Vec::new();
    // GPUs before the node that is being filled.
    let mut before = 0;
    for (name, gpu, groups) in types {
        let size = file.gpus_per_node.of(name);
        let mut used = size;
        for &(replica, stage, tp) in groups {
            if used + tp > size {
                before = nodes.iter().map(|(_, size)| *size as usize).sum();
                nodes.push((Arc::clone(gpu), size));
                networks.push(file.network.between(name));
                used = 0;
            }
            taken.insert((replica, stage), (before + used as usize, tp));
            used += tp;
        }
    }
    let mut cluster = cluster_of(&nodes, NodeNetwork::unused());
    for (node, network) in cluster.nodes.iter_mut().zip(networks) {
        (node.nic, node.flow) = (network.nic, network.flow);
        node.wiring = Wiring { nics: network.nics.clamp(1, node.gpu_count), switch: None };
    }
    let places = Places::new(&cluster);
    let stage = |replica: usize, stage: usize| {
        let (first, tp) = taken[&(replica, stage)];
        places.stage(first, tp, (0, 0)).expect("a group was put in one node")
    };
    let pipeline = |(replica, pipeline): (usize, &Vec<Stage>)| (0..pipeline.len()).map(|p| stage(replica, p)).collect();
    let stages = config.pipelines.iter().enumerate().map(pipeline).collect();
    Assigned { cluster, stages }
}

/// Gives each stage its transformer layers and each replica its micro batches.
fn replicas(config: &Config, stages: Vec<Vec<PlanStage>>, refuse: Refuse) -> Result<Vec<Replica>, MeasuredError> {
    let data = stages.len() as u32;
    let of_replica = config.micro_batch_size.saturating_mul(data);
    if config.micro_batch_size == 0 || !config.global_batch_size.is_multiple_of(of_replica) {
        let expected = format!("a multiple of {of_replica}, one micro batch for each replica");
        return Err(refuse("global_batch_size", format!("`{}`", config.global_batch_size), &expected));
    }
    let last = config.num_layers_all - 1;
    let mut replicas = Vec::new();
    for (replica, mut stages) in stages.into_iter().enumerate() {
        let mut next = 0;
        for (index, stage) in stages.iter_mut().enumerate() {
            let layers = &config.pipelines[replica][index].layers;
            let key = format!("pipelines[{replica}][{index}].layers");
            let expected = format!("consecutive layers from {next} on, the last of them {last}");
            let is_next = layers.iter().zip(next..).all(|(layer, expected)| *layer == expected);
            if layers.is_empty() || !is_next || layers.iter().any(|layer| *layer > last) {
                return Err(refuse(&key, format!("{layers:?}"), &expected));
            }
            next += layers.len() as u32;
            let transformer: Vec<u32> = layers.iter().copied().filter(|layer| (1..last).contains(layer)).collect();
            let Some(&first) = transformer.first() else {
                return Err(refuse(&key, format!("{layers:?}"), "a transformer layer in each stage"));
            };
            (stage.first_layer, stage.num_layers) = (first - 1, transformer.len() as u32);
        }
        if next != last + 1 {
            let found = format!("{next} layers");
            return Err(refuse(&format!("pipelines[{replica}]"), found, &format!("{} layers", last + 1)));
        }
        replicas.push(Replica { micro_batches: config.global_batch_size / of_replica, stages });
    }
    Ok(replicas)
}
