//! How far the closed forms of collectives are from published measurements.
//!
//! `cargo run --release --example communication -- comm_microbench.csv [results/benchmarks/communication.md]`
//!
//! The table has columns `source`, `hardware`, `op`, `ranks`, `size_mb` and `time_ms`; rows without a size or a time are left
//! out. Two predictions are put beside each time: a ring in step on the catalog's link of the GPU that was measured, and what
//! NCCL would choose there. Nothing is fitted here. What is measured but not said by the link is the number of NVLink lanes
//! between the GPUs of a group: a V100 has six, four of which go to the other three GPUs of its half of the node, so that
//! groups of two and four have fewer of them than eight; rows of these have their share of the link (two, four and six of
//! six).

use autohet::cluster::{GpuSpec, Link};
use autohet::cost::communication::{Collective, GroupShape, Medium};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;

#[derive(serde::Deserialize)]
struct Record {
    source: String,
    hardware: String,
    op: String,
    ranks: u32,
    size_mb: Option<f64>,
    time_ms: Option<f64>,
}

/// Bandwidth of a V100's memory, from its datasheet.
const V100_HBM_BYTES_PER_S: f64 = 900e9;

/// Errors of some rows.
#[derive(Default)]
struct Errors {
    ring: Vec<f64>,
    nccl: Vec<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file? see the head of this example")?;
    let mut groups: BTreeMap<(String, String, u32, &str), Errors> = BTreeMap::new();
    for record in csv::Reader::from_path(&path)?.deserialize() {
        let record: Record = record?;
        let (Some(size_mb), Some(time_ms)) = (record.size_mb, record.time_ms) else { continue };
        let Some(collective) = collective(&record.op) else { continue };
        let shape = shape(&record)?;
        let bytes = size_mb * 1e6 * whole(&record, collective);
        let measured_s = time_ms * 1e-3;
        let copied_s = if is_list(&record, collective) { 2.0 * bytes / V100_HBM_BYTES_PER_S } else { 0.0 };
        let errors = groups.entry((record.source, record.op, record.ranks, size_class(size_mb))).or_default();
        let error = |cost| (shape.seconds(&cost) + copied_s) / measured_s - 1.0;
        errors.ring.push(error(shape.ring_in_step(collective, bytes)));
        errors.nccl.push(error(shape.nccl(collective, bytes)));
    }
    let text = table(&groups);
    print!("{text}");
    if let Some(out) = arguments.next() {
        std::fs::write(out, text)?;
    }
    Ok(())
}

fn collective(op: &str) -> Option<Collective> {
    match op {
        "all_reduce" | "allreduce" => Some(Collective::AllReduce),
        "reduce_scatter" => Some(Collective::ReduceScatter),
        "all_gather" => Some(Collective::AllGather),
        "all_to_all" | "all2all" => Some(Collective::AllToAll),
        _ => None,
    }
}

/// Whole buffers for each that the size says: Aceso's are the input of each rank, so that a gathered buffer is as many
/// times larger as there are ranks.
fn whole(record: &Record, collective: Collective) -> f64 {
    let is_input = record.source.starts_with("Aceso") && collective == Collective::AllGather;
    if is_input { f64::from(record.ranks) } else { 1.0 }
}

/// Aceso measures the forms of PyTorch that take a list of tensors, which are copied into one buffer, or out of it.
fn is_list(record: &Record, collective: Collective) -> bool {
    record.source.starts_with("Aceso") && matches!(collective, Collective::AllGather | Collective::ReduceScatter)
}

fn shape(record: &Record) -> Result<GroupShape, Box<dyn Error>> {
    let (gpu, share) = if record.hardware.starts_with("V100") {
        ("V100-32", f64::from(record.ranks.min(6)) / 6.0)
    } else {
        // Not stated; bus bandwidths of 150 to 160 GB/s are beyond NVLink2 and below what A100s reach.
        ("A100-80", 1.0)
    };
    let link = GpuSpec::lookup(gpu)?.intra_node;
    let inside = Link { bytes_per_s: link.bytes_per_s * share, ..link };
    Ok(GroupShape { ranks: record.ranks, nodes: 1, inside, medium: Medium::NvLink, between: link })
}

fn size_class(size_mb: f64) -> &'static str {
    match size_mb {
        size if size < 4.0 => "1: below 4 MB",
        size if size < 32.0 => "2: 4 to 32 MB",
        size if size < 128.0 => "3: 32 to 128 MB",
        _ => "4: from 128 MB",
    }
}

fn table(groups: &BTreeMap<(String, String, u32, &str), Errors>) -> String {
    let mut text = String::from(
        "| source | collective | ranks | size | rows | ring: mean error | mean absolute | NCCL: mean error | mean absolute |\n\
         |---|---|--:|---|--:|--:|--:|--:|--:|\n",
    );
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64 * 100.0;
    let absolute = |values: &[f64]| mean(&values.iter().map(|value| value.abs()).collect::<Vec<_>>());
    for ((source, op, ranks, size), Errors { ring, nccl }) in groups {
        writeln!(
            text,
            "| {source} | {op} | {ranks} | {} | {} | {:+.0} % | {:.0} % | {:+.0} % | {:.0} % |",
            &size[3..],
            ring.len(),
            mean(ring),
            absolute(ring),
            mean(nccl),
            absolute(nccl)
        )
        .expect("writing to a string doesn't fail");
    }
    text
}
