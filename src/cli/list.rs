//! `autohet-sim list`: what there is by name.

use super::args::{Format, ListArgs, ListedKind};
use super::{Verdict, print_as};
use crate::cluster::GpuSpec;
use crate::elastic::policies;
use crate::model::ModelSpec;
use crate::planner;
use crate::report::{Records, Screen, rounded};
use crate::schemas;
use crate::trace::TraceFormat;
use serde_json::Value;

pub(super) fn run(args: &ListArgs) -> anyhow::Result<Verdict> {
    let records = match args.what {
        ListedKind::Models => models()?,
        ListedKind::Gpus => gpus(),
        ListedKind::Policies => policies(),
        ListedKind::Planners => planners(),
        ListedKind::Formats => formats(),
        ListedKind::Schemas => schemas(),
    };
    print_records(&records, args.format)
}

/// Prints records in the format that was asked for.
pub(super) fn print_records(records: &Records, format: Format) -> anyhow::Result<Verdict> {
    print_as(format, || records.table(Screen::of_stdout()), &records.json(), records)?;
    Ok(Verdict::Good)
}

fn models() -> anyhow::Result<Records> {
    let mut records = Records::new(&[
        ("name", "name"),
        ("parameters_billion", "parameters,\nbillion"),
        ("num_layers", "layers"),
        ("hidden_size", "hidden\nsize"),
        ("num_attention_heads", "heads"),
        ("ffn_hidden_size", "MLP"),
        ("vocab_size", "vocabulary"),
        ("seq_length", "sequence"),
    ]);
    for name in ModelSpec::preset_names() {
        let model = ModelSpec::preset(name)?;
        let sizes = [
            model.num_layers,
            model.hidden_size,
            model.num_attention_heads,
            model.ffn_hidden_size,
            model.vocab_size,
            model.seq_length,
        ];
        let mut row: Vec<Value> = vec![name.into(), rounded(model.parameters() as f64 * 1e-9)];
        row.extend(sizes.map(Value::from));
        records.push(row);
    }
    Ok(records)
}

fn gpus() -> Records {
    let mut records = Records::new(&[
        ("name", "name"),
        ("memory_gb", "memory,\nGB"),
        ("fp16_tflops_per_s", "fp16,\nTflop/s"),
        ("hbm_gb_per_s", "HBM,\nGB/s"),
        ("link", "link within\na node"),
        ("link_gb_per_s", "link,\nGB/s"),
        ("spot_usd_per_hour", "spot,\nUSD/h"),
    ]);
    for gpu in GpuSpec::catalog() {
        records.push(vec![
            gpu.name.as_str().into(),
            rounded(gpu.memory_bytes as f64 * 1e-9),
            rounded(gpu.fp16_flops_per_s * 1e-12),
            rounded(gpu.hbm_bytes_per_s * 1e-9),
            gpu.intra_node_kind.as_str().into(),
            rounded(gpu.intra_node.bytes_per_s * 1e-9),
            rounded(gpu.spot_usd_per_hour),
        ]);
    }
    records
}

fn policies() -> Records {
    let mut records = Records::new(&[("name", "name"), ("summary", "what it does"), ("planner", "planner")]);
    for policy in policies::NAMES.iter().filter_map(|name| policies::by_name(name)) {
        records.push(vec![policy.name.into(), policy.summary.into(), policy.planner.name().into()]);
    }
    records
}

fn planners() -> Records {
    let mut records = Records::new(&[("name", "name"), ("after", "after"), ("shape", "shape of its plans")]);
    for name in planner::names() {
        let (after, shape) = planner::about(name);
        records.push(vec![(*name).into(), after.into(), shape.into()]);
    }
    records
}

fn schemas() -> Records {
    let mut records = Records::new(&[("name", "name"), ("summary", "files")]);
    for schema in schemas::ALL {
        records.push(vec![schema.name.into(), schema.summary.into()]);
    }
    records
}

fn formats() -> Records {
    let mut records = Records::new(&[("name", "name"), ("description", "format")]);
    for format in TraceFormat::all() {
        records.push(vec![format.word().into(), format.to_string().into()]);
    }
    records
}
