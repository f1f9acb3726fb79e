//! Single events of Chrome's trace format.

use crate::ids::MicroBatch;
use crate::units::SimTime;
use serde::Serialize;
use std::borrow::Cow;

/// One event. Absent fields aren't written.
#[derive(Serialize)]
pub(super) struct Event {
    name: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    /// `X` slice, `M` metadata, `C` counter, `s` and `f` ends of a flow.
    ph: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// `e`: a flow's end belongs to the slice around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    /// Microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    /// Microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Args>,
}

/// Details of an event; what each kind holds is fixed by the format.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Args {
    Name { name: String },
    Order { sort_index: u32 },
    Slice { micro_batch: u32 },
    Counter { micro_batches: i64 },
    Memory { gigabytes: f64 },
}

/// The two ends of an arrow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowEnd {
    Start,
    Finish,
}

/// Microseconds; exact to the nanosecond within the first hundred days.
fn microseconds(time: SimTime) -> f64 {
    time.0 as f64 / 1e3
}

/// What a slice's details show beside its name.
pub(super) fn slice_args(micro_batch: Option<MicroBatch>) -> Option<Args> {
    micro_batch.map(|micro_batch| Args::Slice { micro_batch: micro_batch.0 })
}

impl Event {
    fn bare(name: impl Into<Cow<'static, str>>, ph: &'static str, pid: u32) -> Self {
        Self { name: name.into(), cat: None, ph, id: None, bp: None, ts: None, dur: None, pid, tid: None, args: None }
    }

    pub(super) fn name_of_process(pid: u32, name: String) -> Self {
        Self { args: Some(Args::Name { name }), ..Self::bare("process_name", "M", pid) }
    }

    pub(super) fn order_of_process(pid: u32, place: u32) -> Self {
        Self { args: Some(Args::Order { sort_index: place }), ..Self::bare("process_sort_index", "M", pid) }
    }

    pub(super) fn name_of_thread(pid: u32, tid: u32, name: String) -> Self {
        Self { tid: Some(tid), args: Some(Args::Name { name }), ..Self::bare("thread_name", "M", pid) }
    }

    pub(super) fn order_of_thread(pid: u32, tid: u32, place: u32) -> Self {
        Self {
            tid: Some(tid),
            args: Some(Args::Order { sort_index: place }),
            ..Self::bare("thread_sort_index", "M", pid)
        }
    }

    /// Something that takes from `start` to `end`.
    pub(super) fn slice(
        name: String,
        category: &'static str,
        (pid, tid): (u32, u32),
        (start, end): (SimTime, SimTime),
        args: Option<Args>,
    ) -> Self {
        Self {
            cat: Some(category),
            ts: Some(microseconds(start)),
            dur: Some(microseconds(end - start)),
            tid: Some(tid),
            args,
            ..Self::bare(name, "X", pid)
        }
    }

    pub(super) fn flow(end: FlowEnd, id: u64, (pid, tid): (u32, u32), at: SimTime) -> Self {
        let is_start = end == FlowEnd::Start;
        Self {
            cat: Some("transfer"),
            id: Some(id),
            bp: (!is_start).then_some("e"),
            ts: Some(microseconds(at)),
            tid: Some(tid),
            ..Self::bare("transfer", if is_start { "s" } else { "f" }, pid)
        }
    }

    pub(super) fn memory(name: String, pid: u32, at: SimTime, gigabytes: f64) -> Self {
        Self { ts: Some(microseconds(at)), args: Some(Args::Memory { gigabytes }), ..Self::bare(name, "C", pid) }
    }

    pub(super) fn counter(name: String, pid: u32, at: SimTime, value: i64) -> Self {
        Self {
            ts: Some(microseconds(at)),
            args: Some(Args::Counter { micro_batches: value }),
            ..Self::bare(name, "C", pid)
        }
    }
}
