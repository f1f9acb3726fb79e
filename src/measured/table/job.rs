//! What a row says of the job: model, nodes, degrees.

use super::row::Row;
use crate::cluster::{Cluster, GpuSpec, Link, NodeDefaults};
use crate::cost::{CostSettings, Framework, Kernels, OptimizerState};
use crate::measured::layout::{Network, Places, cluster_of, even_layers};
use crate::measured::{MeasuredError, gpus};
use crate::model::{Architecture, ModelSpec, Precision, Recompute};
use crate::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleChoice, ScheduleKind};
use std::sync::Arc;

pub(super) struct Job {
    pub(super) model: ModelSpec,
    pub(super) cluster: Cluster,
    pub(super) plan: Plan,
    pub(super) cost: CostSettings,
    pub(super) framework: Framework,
    /// Whether what a GPU holds can be told.
    pub(super) is_memory_known: bool,
}

/// `Err` within says why the run can't be told or isn't of a kind that is simulated.
type Told<T> = Result<Result<T, String>, MeasuredError>;

/// Goes on with what was told, or gives back why it wasn't.
macro_rules! told {
    ($told:expr) => {
        match $told {
            Ok(value) => value,
            Err(reason) => return Ok(Err(reason)),
        }
    };
}

/// Degrees of parallelism.
#[derive(Clone, Copy)]
struct Degrees {
    tensor: u32,
    pipeline: u32,
    data: u32,
}

pub(super) fn read(row: &Row) -> Told<Job> {
    told!(unsupported(row)?);
    let model = told!(model(row)?);
    let precision = told!(precision(row.text("precision")));
    let recompute = told!(recompute(row.text("recompute")));
    let nodes = told!(nodes(row)?);
    let cluster = cluster_of(&nodes, told!(network(row, nodes.len())?));
    let degrees = told!(degrees(row, cluster.gpu_count())?);
    let (batch, size) = told!(batch(row, degrees.data)?);
    let layers = told!(layers(row, model.num_layers, degrees.pipeline));
    let places = Places::new(&cluster);
    let mut replicas = Vec::new();
    for replica in 0..degrees.data {
        let stage = |(stage, layers): (usize, &(u32, u32))| {
            // Ranks are numbered along tensor, then data, then pipeline parallelism, as Megatron-LM and DeepSpeed do.
            let first = stage * (degrees.data * degrees.tensor) as usize + (replica * degrees.tensor) as usize;
            places.stage(first, degrees.tensor, *layers)
        };
        let stages: Option<Vec<_>> = layers.iter().enumerate().map(stage).collect();
        let stages = told!(stages.ok_or_else(|| "a tensor-parallel group spans several nodes".to_owned()));
        replicas.push(Replica { micro_batches: batch / size / degrees.data, stages });
    }
    let plan = Plan {
        schema_version: SCHEMA_VERSION,
        planner: "measured".to_owned(),
        model: (&model).into(),
        global_batch_size: batch,
        micro_batch_size: size,
        sequence_parallel: row.text("sequence_parallel").eq_ignore_ascii_case("y") && degrees.tensor > 1,
        recompute,
        precision,
        schedule: ScheduleKind::OneForwardOneBackward,
        replicas,
    };
    let chunks = row.count("vpp")?.unwrap_or(1);
    let interleaved = plan.rescheduled(ScheduleChoice::with_chunks(chunks));
    let plan = told!(interleaved.ok_or_else(|| format!("{chunks} virtual stages a GPU don't go with its degrees")));
    let (cost, framework) = software(row);
    Ok(Ok(Job { model, cluster, plan, cost, framework, is_memory_known: !is_sharded(row) }))
}

/// What trained: DeepSpeed's pipeline engine where the row names it, else Megatron-LM. Both sum gradients up in fp32
/// (`fp32_allreduce`), as Korthikanti et al. 2022 count them. vTrain's runs are of `Megatron-DeepSpeed`, as its repository
/// says of its data; its own model of them has gradients of 2 bytes, and layers of Megatron's fused kernels.
///
/// Runs with sharded weights (FSDP) are executed as if the optimizer's state alone were: gradients are scattered and weights
/// gathered while the backward pass goes on, once and not twice. They use `FlashAttention`.
fn software(row: &Row) -> (CostSettings, Framework) {
    if is_sharded(row) {
        let cost = CostSettings { kernels: Kernels::Flash, ..CostSettings::default() };
        return (cost, Framework { optimizer: OptimizerState::Sharded, ..Framework::default() });
    }
    let is_deepspeed = ["schedule", "precision"].iter().any(|column| row.text(column).contains("DeepSpeed"));
    let (kernels, name, gradient_bytes_per_parameter) = if row.text("source").starts_with("vTrain") {
        (Kernels::Fused, "deepspeed", 2)
    } else if is_deepspeed {
        (Kernels::Separate, "deepspeed", 4)
    } else {
        (Kernels::Fused, "megatron-lm", 4)
    };
    let preset = Framework::preset(name).unwrap_or_default();
    let shards_state = row.text("zero").starts_with('1');
    let optimizer = if shards_state { OptimizerState::Sharded } else { OptimizerState::Replicated };
    let cost = CostSettings { gradient_bytes_per_parameter, kernels, ..CostSettings::default() };
    (cost, Framework { optimizer, ..preset })
}

/// Kinds of parallelism that the simulator doesn't have.
fn unsupported(row: &Row) -> Told<()> {
    for (column, what) in [("ep", "expert"), ("cp", "context")] {
        if row.count(column)?.is_some_and(|degree| degree > 1) {
            return Ok(Err(format!("{what} parallelism isn't simulated")));
        }
    }
    if is_sharded(row) && row.text("recompute").starts_with("selective") {
        // With FSDP it means every so many layers, or single operations.
        return Ok(Err("selective recomputation of another kind than Megatron-LM's isn't simulated".to_owned()));
    }
    Ok(Ok(()))
}

/// Whether weights or gradients are sharded: ZeRO-2, ZeRO-3, FSDP.
fn is_sharded(row: &Row) -> bool {
    row.text("zero").starts_with(['2', '3'])
}

fn missing(column: &str) -> String {
    format!("`{column}` isn't given")
}

fn model(row: &Row) -> Told<ModelSpec> {
    let mut sizes = [0; 4];
    for (size, column) in sizes.iter_mut().zip(["layers", "hidden", "heads", "seq_len"]) {
        *size = told!(row.count(column)?.ok_or_else(|| missing(column)));
    }
    let [num_layers, hidden_size, num_attention_heads, seq_length] = sizes;
    let name = row.text("model").to_owned();
    let family = name.to_lowercase();
    let architecture = if family.contains("llama") {
        Architecture::Llama
    } else if family.contains("bert") {
        Architecture::Bert
    } else {
        Architecture::Gpt
    };
    let vocab_size = told!(row.count("vocab")?.ok_or_else(|| missing("vocab")));
    let model = ModelSpec {
        name,
        architecture,
        num_layers,
        hidden_size,
        num_attention_heads,
        num_key_value_heads: row.count("kv_heads")?.unwrap_or(num_attention_heads),
        head_dim: hidden_size / num_attention_heads,
        ffn_hidden_size: row.count("ffn")?.unwrap_or(4 * hidden_size),
        gated_mlp: architecture == Architecture::Llama,
        vocab_size,
        seq_length,
        tie_word_embeddings: architecture != Architecture::Llama,
    };
    match model.validate() {
        Ok(()) => Ok(Ok(model)),
        Err(error) => {
            let message = error.to_string();
            let problem = message.lines().next().unwrap_or_default();
            Err(row.wrong("model", "a model that can be built", problem))
        }
    }
}

fn precision(text: &str) -> Result<Precision, String> {
    let text = text.to_lowercase();
    let known = [("fp16", Precision::Fp16), ("bf16", Precision::Bf16), ("amp_bf16", Precision::Bf16)];
    let known = known.into_iter().chain([("fp32", Precision::Fp32), ("tf32", Precision::Fp32)]);
    let found = known.into_iter().find(|(name, _)| text.starts_with(name));
    let word = text.split(' ').next().unwrap_or_default().to_owned();
    found.map(|(_, precision)| precision).ok_or_else(|| match word.as_str() {
        "" => missing("precision"),
        word => format!("number format `{word}` isn't simulated"),
    })
}

fn recompute(text: &str) -> Result<Recompute, String> {
    let text = text.to_lowercase();
    match text.split([' ', '(']).next().unwrap_or_default() {
        _ if text.contains("0 layers") => Ok(Recompute::None),
        "none" => Ok(Recompute::None),
        "selective" => Ok(Recompute::Selective),
        "full" => Ok(Recompute::Full),
        "" => Err(missing("recompute")),
        word => Err(format!("recomputation `{word}` isn't simulated")),
    }
}

/// The nodes in the order of ranks.
fn nodes(row: &Row) -> Told<Vec<(Arc<GpuSpec>, u32)>> {
    let total = told!(row.count("n_gpus")?.ok_or_else(|| missing("n_gpus")));
    let of_node = told!(row.count("gpus_per_node")?.ok_or_else(|| missing("gpus_per_node")));
    if u64::from(total) > crate::cluster::MAX_GPUS {
        return Err(row.wrong("n_gpus", &format!("at most {}", crate::cluster::MAX_GPUS), "split the run"));
    }
    let types = match gpus::parse(row.text("gpu")) {
        Ok(types) => types,
        Err(name) => return Ok(Err(format!("GPU type `{name}` isn't in the catalog"))),
    };
    let [(only, _)] = types.as_slice() else {
        let mut nodes = Vec::new();
        for (gpu, count) in types {
            let Some(count) = count else {
                return Ok(Err("how many GPUs there are of each type isn't given".to_owned()));
            };
            nodes.extend(
                (0..count.div_ceil(of_node)).map(|node| (Arc::clone(&gpu), of_node.min(count - node * of_node))),
            );
        }
        let sum: u32 = nodes.iter().map(|(_, gpus)| gpus).sum();
        let expected = format!("{sum}, the sum over types");
        return if sum == total { Ok(Ok(nodes)) } else { Err(row.wrong("n_gpus", &expected, "correct one of them")) };
    };
    let gpu = with_link(only, row.text("intra_link"));
    let node = |node: u32| (Arc::clone(&gpu), of_node.min(total - node * of_node));
    Ok(Ok((0..total.div_ceil(of_node)).map(node).collect()))
}

/// The type with the link between GPUs of a node that a row states: `PCIe (50 Gb/s)`, `150 GB/s`. What some program was
/// configured with is no statement about the link.
fn with_link(gpu: &Arc<GpuSpec>, text: &str) -> Arc<GpuSpec> {
    let rate = |unit: &str, bytes: f64| {
        let (before, _) = text.split_once(unit)?;
        let number = before.trim_end().rsplit([' ', '(', ':']).next()?.parse::<f64>().ok()?;
        Some(number * bytes).filter(|rate| (1e8..1e13).contains(rate))
    };
    if ["code", "config"].iter().any(|word| text.contains(word)) {
        return Arc::clone(gpu);
    }
    let Some(bytes_per_s) = rate("GB/s", 1e9).or_else(|| rate("Gb/s", 1e9 / 8.0)) else { return Arc::clone(gpu) };
    let intra_node = Link { bytes_per_s, ..gpu.intra_node };
    Arc::new(GpuSpec { intra_node, ..GpuSpec::clone(gpu) })
}

/// The network between nodes: what the row says of a node's interfaces, and how many they are.
fn network(row: &Row, nodes: usize) -> Told<Network> {
    let Some(gbit_per_s) = row.number("inter_gbps_per_node")? else {
        let known = nodes == 1;
        return Ok(if known {
            Ok(Network::unused())
        } else {
            Err("the bandwidth between nodes isn't given".to_owned())
        });
    };
    let adapters = row.text("inter_link").split('x').next().and_then(|count| count.trim().parse::<u32>().ok());
    let nic = Link::from_gbit_per_s(gbit_per_s, NodeDefaults::default().nic.latency_s);
    Ok(Ok(Network { nic, nics: adapters.unwrap_or(1), flow: None }))
}

fn degrees(row: &Row, gpus: u32) -> Told<Degrees> {
    let tensor = told!(row.count("tp")?.ok_or_else(|| missing("tp")));
    let pipeline = told!(row.count("pp")?.ok_or_else(|| missing("pp")));
    let data = told!(row.count("dp")?.ok_or_else(|| missing("dp")));
    let product = u64::from(tensor) * u64::from(pipeline) * u64::from(data);
    if product != u64::from(gpus) {
        return Ok(Err("the degrees don't multiply to the number of GPUs".to_owned()));
    }
    Ok(Ok(Degrees { tensor, pipeline, data }))
}

/// Global batch and micro batch.
fn batch(row: &Row, data: u32) -> Told<(u32, u32)> {
    let batch = told!(row.count("global_batch")?.ok_or_else(|| missing("global_batch")));
    let size = told!(row.count("micro_batch")?.ok_or_else(|| missing("micro_batch")));
    let of_replica = u64::from(size) * u64::from(data);
    Ok(if u64::from(batch).is_multiple_of(of_replica) {
        Ok((batch, size))
    } else {
        Err("the global batch isn't a multiple of micro batch and data parallelism".to_owned())
    })
}

/// First layer and number of layers of each stage: as the notes say, or evenly.
fn layers(row: &Row, num_layers: u32, depth: u32) -> Result<Vec<(u32, u32)>, String> {
    let stages = match boundaries(row.text("notes")) {
        Some((bounds, before)) if bounds.len() == depth as usize + 1 => {
            let layer = |bound: &u32| bound.saturating_sub(before).min(num_layers);
            bounds.windows(2).map(|ends| (layer(&ends[0]), layer(&ends[1]) - layer(&ends[0]))).collect()
        }
        _ => even_layers(num_layers, depth),
    };
    if stages.iter().any(|(_, count)| *count == 0) {
        return Err("a stage without a transformer layer".to_owned());
    }
    Ok(stages)
}

/// `stage boundaries over … (2 pre: …) = [0, 9, 15, 21, 30]`: the ascending bounds, and how many entries stand before the
/// first layer.
fn boundaries(notes: &str) -> Option<(Vec<u32>, u32)> {
    let (_, rest) = notes.split_once("stage boundaries")?;
    let (described, list) = rest.split_once('[')?;
    let list = list.split(']').next()?;
    let bounds: Vec<u32> = list.split(',').map(|bound| bound.trim().parse().ok()).collect::<Option<_>>()?;
    let before = described.split_once(" pre").and_then(|(start, _)| start.rsplit(['(', ' ']).next()?.parse().ok());
    bounds.is_sorted().then(|| (bounds, before.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_read_from_notes() {
        let notes = "stage boundaries over 30 pipeline \"layers\" (2 pre: embed,noop; 24 transformer; 4 post) = [0, 9, 15, 21, 30]; more";
        assert_eq!(boundaries(notes), Some((vec![0, 9, 15, 21, 30], 2)));
        assert_eq!(boundaries("stage boundaries = [0, 12, 24]"), Some((vec![0, 12, 24], 0)));
        assert_eq!(boundaries("stage boundaries = [0, 12, 6]"), None);
        assert_eq!(boundaries("nothing of the kind [0, 1]"), None);
    }

    #[test]
    fn links_that_are_stated_go_before_the_catalog() {
        let gpu = GpuSpec::lookup("T4").unwrap();
        let rate = |text: &str| with_link(&gpu, text).intra_node.bytes_per_s;
        assert!((rate("PCIe (50 Gb/s)") - 6.25e9).abs() < 1.0);
        assert!((rate("NVLink2 (50 GB/s per note)") - 50e9).abs() < 1.0);
        assert!((rate("PCIe (code: 50 Gb/s)") - gpu.intra_node.bytes_per_s).abs() < 1.0);
    }

    #[test]
    fn words_for_formats_and_recomputation() {
        assert_eq!(precision("fp16 (DeepSpeed, fp32_allreduce)"), Ok(Precision::Fp16));
        assert_eq!(precision("amp_bf16 (MP mode DEFAULT)"), Ok(Precision::Bf16));
        assert_eq!(precision("fp8 linear"), Err("number format `fp8` isn't simulated".to_owned()));
        assert_eq!(recompute("selective config block, 0 layers"), Ok(Recompute::None));
        assert_eq!(recompute("full (memory)"), Ok(Recompute::Full));
        assert_eq!(recompute(""), Err("`recompute` isn't given".to_owned()));
    }
}
