//! `autohet-sim show`.

use super::args::{ShowCommand, ShowGpuArgs, ShowModelArgs, ShowSchemaArgs};
use super::list::print_records;
use super::{Verdict, collectives, print};
use crate::cluster::GpuSpec;
use crate::ids::LayerId;
use crate::model::{Block, ModelSpec};
use crate::report::{Records, rounded};
use crate::{schemas, suggest};
use anyhow::anyhow;
use serde_json::Value;

pub(super) fn run(command: &ShowCommand) -> anyhow::Result<Verdict> {
    match command {
        ShowCommand::Gpu(args) => run_gpu(args),
        ShowCommand::Model(args) => run_model(args),
        ShowCommand::Collectives(args) => collectives::run(args),
        ShowCommand::Schema(args) => run_schema(args),
    }
}

/// The shapes that a preset or a file stands for, and what follows from them.
fn run_model(args: &ShowModelArgs) -> anyhow::Result<Verdict> {
    let model = ModelSpec::from_argument(&args.model)?.with_seq_length(args.seq_length)?;
    let layer = Block::Layer(LayerId(0));
    let billion = |count: u64| rounded(count as f64 * 1e-9);
    let shapes = serde_json::to_value(&model)?;
    let shapes = shapes.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value.clone(), ""));
    let followed = [
        ("parameters", billion(model.parameters()), "billion"),
        ("parameters of a layer", billion(model.block_parameters(layer)), "billion"),
        ("training on a sample", rounded(model.model_flops_per_iteration(1) * 1e-12), "Tflop"),
    ];
    let mut records = Records::new(&[("figure", "figure"), ("value", "value"), ("unit", "unit")]);
    for (figure, value, unit) in shapes.chain(followed) {
        records.push(vec![figure.into(), value, unit.into()]);
    }
    print_records(&records, args.format)
}

/// The schema as it is kept.
fn run_schema(args: &ShowSchemaArgs) -> anyhow::Result<Verdict> {
    let name = &args.name;
    let known = schemas::ALL.map(|schema| schema.name);
    let schema = schemas::by_name(name)
        .ok_or_else(|| anyhow!("there is no schema of `{name}`\nhint: {}", suggest::hint(name, known)))?;
    print(schema.text)?;
    Ok(Verdict::Good)
}

/// Each figure with its unit, and the source that the catalog names for it.
fn run_gpu(args: &ShowGpuArgs) -> anyhow::Result<Verdict> {
    let gpu = GpuSpec::lookup(&args.gpu_type)?;
    let source = |key: &str| gpu.sources().find(|(figure, _)| *figure == key).map_or("", |(_, source)| source);
    let shares = "share that most types reach, unless the catalog says otherwise";
    let or_shares = |key: &'static str| if source(key).is_empty() { shares } else { source(key) };
    let optional = |value: Option<f64>| value.map_or(Value::Null, rounded);
    let rows: [(&str, Value, &str, &str); 13] = [
        ("name", gpu.name.as_str().into(), "", ""),
        ("memory", rounded(gpu.memory_bytes as f64 * 1e-9), "GB", source("memory")),
        ("fp32", rounded(gpu.fp32_flops_per_s * 1e-12), "Tflop/s", source("fp32")),
        ("fp16", rounded(gpu.fp16_flops_per_s * 1e-12), "Tflop/s", source("fp16")),
        ("bf16", optional(gpu.bf16_flops_per_s.map(|flops| flops * 1e-12)), "Tflop/s", source("bf16")),
        ("hbm", rounded(gpu.hbm_bytes_per_s * 1e-9), "GB/s", source("hbm")),
        ("multiprocessors", gpu.multiprocessors.into(), "", source("multiprocessors")),
        ("product share", rounded(gpu.product_share), "of the peak", or_shares("product_share")),
        ("stream share", rounded(gpu.stream_share), "of HBM", or_shares("stream_share")),
        ("link within a node", rounded(gpu.intra_node.bytes_per_s * 1e-9), "GB/s", source("intra_node")),
        ("its latency", rounded(gpu.intra_node.latency_s * 1e6), "µs", gpu.intra_node_kind.as_str()),
        ("host link", rounded(gpu.host_bytes_per_s * 1e-9), "GB/s", source("host")),
        ("spot price", rounded(gpu.spot_usd_per_hour), "USD/h", source("price")),
    ];
    let columns = [("figure", "figure"), ("value", "value"), ("unit", "unit"), ("source", "source")];
    let mut records = Records::new(&columns);
    for (figure, value, unit, source) in rows {
        records.push(vec![figure.into(), value, unit.into(), source.into()]);
    }
    print_records(&records, args.format)
}
