//! One iteration, simulated or measured, as a timeline for ui.perfetto.dev.
//!
//! A process is a replica and a thread is a stream of a stage: its passes, and below them what it sends, receives and
//! reduces. Only tensor-parallel rank 0 of each stage is shown; the other ranks of the group do the same at the same
//! time. Numbers of processes and threads start at one, because viewers take zero for the idle thread.

mod event;

use crate::ids::ChunkId;
use crate::metrics::{MemoryChange, RankMemory};
use crate::plan::{Plan, Replica};
use crate::program::{Gradients, Op, Part, Program, Stream};
use crate::runtime::{Span, Timeline};
use crate::units::SimTime;
use event::{Event, FlowEnd, slice_args};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Streams in the order in which a stage's threads are shown.
const STREAMS: [(Stream, &str); Stream::COUNT] = [
    (Stream::Compute, "compute"),
    (Stream::SendDownstream, "send activations"),
    (Stream::ReceiveDownstream, "receive activations"),
    (Stream::SendUpstream, "send gradients"),
    (Stream::ReceiveUpstream, "receive gradients"),
    (Stream::Collective, "all_reduce gradients"),
];

#[derive(Serialize)]
struct File {
    #[serde(rename = "displayTimeUnit")]
    display_time_unit: &'static str,
    #[serde(rename = "otherData")]
    other_data: Value,
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

/// The timeline of one iteration of `plan` in the JSON of Chrome's trace viewer, times in microseconds to the nanosecond.
///
/// Beside passes and transfers it has arrows from each send to its receive, and per stage the micro batches in flight:
/// those whose forward pass has begun and whose backward pass hasn't ended, each chunk counted by itself.
/// Where it is known, a second counter shows the memory that one GPU of the stage holds.
pub fn perfetto_json(plan: &Plan, program: &Program, timeline: &Timeline, memory: Option<&[RankMemory]>) -> String {
    let mut spans: Vec<&Span> =
        timeline.spans.iter().filter(|span| program.ranks()[span.rank.index()].tensor_rank == 0).collect();
    spans.sort_by_key(|span| (span.rank, stream_of(program, span), span.start, span.id));
    let mut events = names(plan, program, &spans);
    events.extend(spans.iter().map(|span| slice(program, span)));
    events.extend(flows(program, &spans));
    events.extend(in_flight(program, &spans));
    events.extend(memory.into_iter().flatten().flat_map(|memory| memory_counter(program, memory)));
    let file = File { display_time_unit: "ms", other_data: about(plan, program, timeline), events };
    let mut json = serde_json::to_string(&file).expect("events have string keys only");
    json.push('\n');
    json
}

fn about(plan: &Plan, program: &Program, timeline: &Timeline) -> Value {
    let makespan = timeline.makespan();
    let times = timeline.rank_times(program);
    let bubble_s: f64 = times.iter().map(|time| time.bubble.as_seconds()).sum();
    json!({
        "model": plan.model.name(),
        "planner": plan.planner,
        "global_batch_size": plan.global_batch_size,
        "tensor_parallel_size": match plan.tensor_parallel_sizes()[..] {
            [one] => json!(one),
            _ => json!(plan.tensor_parallel_text()),
        },
        "iteration_s": makespan.as_seconds(),
        "bubble_fraction": super::figures::ratio(bubble_s, makespan.as_seconds() * times.len() as f64),
        "note": "tensor-parallel rank 0 of each stage; the other ranks of its group compute the same at the same time",
    })
}

fn stream_of(program: &Program, span: &Span) -> Stream {
    program.instruction(span.rank, span.id).stream()
}

/// Process and thread of a span.
fn track(program: &Program, span: &Span) -> (u32, u32) {
    let rank = &program.ranks()[span.rank.index()];
    let stream = stream_of(program, span);
    let place = STREAMS.iter().position(|&(shown, _)| shown == stream).unwrap_or(0);
    (rank.replica.0 + 1, thread_id(rank.stage.0, place))
}

fn thread_id(stage: u32, place: usize) -> u32 {
    stage * Stream::COUNT as u32 + place as u32 + 1
}

/// Names of all processes, and of those threads that have something to show.
fn names(plan: &Plan, program: &Program, spans: &[&Span]) -> Vec<Event> {
    let used: std::collections::BTreeSet<(u32, u32)> = spans.iter().map(|span| track(program, span)).collect();
    let mut events = Vec::new();
    for (j, replica) in plan.replicas.iter().enumerate() {
        let pid = j as u32 + 1;
        events.push(Event::name_of_process(pid, replica_name(j, replica)));
        events.push(Event::order_of_process(pid, pid));
        for (p, stage) in replica.stages.iter().enumerate() {
            for (place, (_, stream)) in STREAMS.iter().enumerate() {
                let tid = thread_id(p as u32, place);
                if used.contains(&(pid, tid)) {
                    let of = if place == 0 { format!(" ({}, {})", stage.gpu_type, stage.node) } else { String::new() };
                    events.push(Event::name_of_thread(pid, tid, format!("stage {p} {stream}{of}")));
                    events.push(Event::order_of_thread(pid, tid, tid));
                }
            }
        }
    }
    events
}

fn replica_name(j: usize, replica: &Replica) -> String {
    let mut types: Vec<&str> = replica.stages.iter().map(|stage| stage.gpu_type.as_str()).collect();
    types.dedup();
    let depth = replica.stages.len();
    let stages = if depth == 1 { "stage" } else { "stages" };
    format!("replica {j}: {depth} {stages}, {}", types.join(" > "))
}

fn slice(program: &Program, span: &Span) -> Event {
    let (pid, tid) = track(program, span);
    let (name, category, args) = match program.instruction(span.rank, span.id).op {
        Op::Forward { micro_batch, chunk } => {
            (format!("F mb{}{}", micro_batch.0, later(chunk)), "forward", slice_args(Some(micro_batch)))
        }
        Op::Backward { micro_batch, chunk, part, gradients } => {
            let (letter, category) = match gradients {
                Gradients::All => ("B", "backward"),
                Gradients::Inputs => ("B", "backward for the input"),
                Gradients::Weights => ("W", "backward for the weights"),
            };
            let of_block = match part {
                Part::Chunk => String::new(),
                Part::Block(block) => format!(" {block}"),
            };
            let name = format!("{letter} mb{}{}{of_block}", micro_batch.0, later(chunk));
            (name, category, slice_args(Some(micro_batch)))
        }
        Op::RedundantForward { micro_batch } => {
            (format!("F mb{} redundant", micro_batch.0), "redundant forward", slice_args(Some(micro_batch)))
        }
        Op::Send { micro_batch, .. } => (format!("send mb{}", micro_batch.0), "send", slice_args(Some(micro_batch))),
        Op::Receive { micro_batch, .. } => {
            (format!("receive mb{}", micro_batch.0), "receive", slice_args(Some(micro_batch)))
        }
        Op::AllReduce { block, .. } => (format!("all_reduce {block}"), "collective", slice_args(None)),
        Op::ReduceScatter { block, .. } => (format!("reduce_scatter {block}"), "collective", slice_args(None)),
        Op::AllGather { block, .. } => (format!("all_gather {block}"), "collective", slice_args(None)),
        Op::OptimizerStep => ("optimizer step".to_owned(), "optimizer", slice_args(None)),
    };
    Event::slice(name, category, (pid, tid), (span.start, span.end), args)
}

/// A chunk behind the first one, by its number.
fn later(chunk: ChunkId) -> String {
    if chunk.index() == 0 { String::new() } else { format!(" c{}", chunk.0) }
}

/// Arrows from sends to receives: a send on a channel meets the receive of the same micro batch over the same boundary.
fn flows(program: &Program, spans: &[&Span]) -> Vec<Event> {
    let receive = |span: &&Span| match program.instruction(span.rank, span.id).op {
        Op::Receive { micro_batch, boundary, channel, .. } => Some(((channel, boundary, micro_batch), **span)),
        _ => None,
    };
    let receives: HashMap<_, Span> = spans.iter().filter_map(receive).collect();
    let mut events = Vec::new();
    for span in spans {
        let Op::Send { micro_batch, boundary, channel, .. } = program.instruction(span.rank, span.id).op else {
            continue;
        };
        let Some(to) = receives.get(&(channel, boundary, micro_batch)) else { continue };
        let id = events.len() as u64 / 2 + 1;
        events.push(Event::flow(FlowEnd::Start, id, track(program, span), span.start));
        // An end belongs to the slice that it lies in, and a slice ends right before its last instant.
        let arrival = to.end.saturating_sub(SimTime(1)).max(to.start);
        events.push(Event::flow(FlowEnd::Finish, id, track(program, to), arrival));
    }
    events
}

/// Micro batches in flight at each stage, as a counter.
fn in_flight(program: &Program, spans: &[&Span]) -> Vec<Event> {
    let mut events = Vec::new();
    for of_rank in spans.chunk_by(|a, b| a.rank == b.rank) {
        let rank = &program.ranks()[of_rank[0].rank.index()];
        let mut changes: Vec<(SimTime, i64)> = Vec::new();
        let mut last_backward = HashMap::new();
        for span in of_rank {
            match program.instruction(span.rank, span.id).op {
                Op::Forward { .. } => changes.push((span.start, 1)),
                Op::Backward { micro_batch, chunk, .. } => {
                    let end = last_backward.entry((chunk, micro_batch)).or_insert(span.end);
                    *end = span.end.max(*end);
                }
                _ => {}
            }
        }
        changes.extend(last_backward.into_values().map(|end| (end, -1)));
        // Ends come before starts of the same instant: the bound on micro batches in flight is never overshot.
        changes.sort_unstable();
        let name = format!("stage {} micro batches in flight", rank.stage.0);
        let mut held = 0;
        for of_instant in changes.chunk_by(|a, b| a.0 == b.0) {
            held += of_instant.iter().map(|(_, change)| change).sum::<i64>();
            events.push(Event::counter(name.clone(), rank.replica.0 + 1, of_instant[0].0, held));
        }
    }
    events
}

/// Memory of a stage's first rank, as a counter.
fn memory_counter(program: &Program, memory: &RankMemory) -> Vec<Event> {
    let rank = &program.ranks()[memory.rank.index()];
    if rank.tensor_rank > 0 {
        return Vec::new();
    }
    let name = format!("stage {} memory, GB", rank.stage.0);
    let counter = |change: &MemoryChange| {
        let gigabytes = change.memory.total_bytes() as f64 / 1e9;
        Event::memory(name.clone(), rank.replica.0 + 1, change.at, gigabytes)
    };
    memory.changes.iter().map(counter).collect()
}

#[cfg(test)]
mod tests;
