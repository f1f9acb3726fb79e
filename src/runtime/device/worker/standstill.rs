//! Where a rank stands still, so that its coordinator can have it lost at a chosen moment.

use crate::program::Op;
use crate::runtime::device::control::Control;
use crate::runtime::device::messages::{FromWorker, StopPhase, StopPoint};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[derive(Clone)]
pub(super) struct Standstill {
    at: Option<StopPoint>,
    /// The iteration under way, from one.
    step: Arc<AtomicU64>,
    control: Control,
}

impl Standstill {
    /// `step` iterations are done.
    pub(super) fn new(at: Option<StopPoint>, step: u64, control: &Control) -> Self {
        Self { at, step: Arc::new(AtomicU64::new(step)), control: control.clone() }
    }

    /// An iteration begins.
    pub(super) fn begin_step(&self) {
        self.step.fetch_add(1, Ordering::SeqCst);
    }

    /// To be called with each operation before it is issued.
    pub(super) fn at_operations(&self) -> Box<dyn FnMut(Op) + Send> {
        let this = self.clone();
        Box::new(move |op| match op {
            Op::Forward { .. } => this.stop_if(StopPhase::WarmUp),
            Op::Backward { .. } => this.stop_if(StopPhase::Steady),
            Op::AllReduce { .. } => this.stop_if(StopPhase::AllReduce),
            _ => {}
        })
    }

    /// To be called once the iteration counts.
    pub(super) fn at_commit(&self) -> Box<dyn FnMut() + Send> {
        let this = self.clone();
        Box::new(move || this.stop_if(StopPhase::Optimizer))
    }

    /// To be called when state is about to be read.
    pub(super) fn at_recovery(&self) {
        if self.at.is_some_and(|at| at.phase == StopPhase::Recovery) {
            stand_still(&self.control);
        }
    }

    fn stop_if(&self, phase: StopPhase) {
        if self.at == Some(StopPoint { step: self.step.load(Ordering::SeqCst), phase }) {
            stand_still(&self.control);
        }
    }
}

/// Says so, and does nothing more.
pub(super) fn stand_still(control: &Control) {
    // Where the coordinator can't be told, it is gone, and so is this process in a moment.
    drop(control.tell(&FromWorker::AtStopPoint));
    loop {
        thread::park();
    }
}
