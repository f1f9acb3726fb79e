//! A worker's part in one plan: one rank, with its state and its connections.

use super::Tools;
use super::gather::gather;
use super::standstill::Standstill;
use crate::ids::Rank;
use crate::program::{LowerOptions, Program};
use crate::runtime::device::DeviceError;
use crate::runtime::device::all_reduce::Ring;
use crate::runtime::device::backend::{Collective, DeviceBackend, MessageShape, Parts};
use crate::runtime::device::ballot::ByCoordinator;
use crate::runtime::device::clock::Clock;
use crate::runtime::device::compute::{Compute, TrainingState};
use crate::runtime::device::devices::compute_on_device;
use crate::runtime::device::emulated::{Emulated, Slowed};
use crate::runtime::device::holding::Holding;
use crate::runtime::device::interrupt::Interrupt;
use crate::runtime::device::mailbox::Mailbox;
use crate::runtime::device::mesh::{Meeting, Mesh, mesh};
use crate::runtime::device::messages::{Assignment, BytesRead, Job, RankStep};
use crate::runtime::device::stage::StageSetting;
use crate::runtime::device::tensor_parallel::{TensorGroup, TensorPart};
use crate::runtime::device::transport::throttle::Links;
use crate::runtime::{DriveError, drive};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct Part {
    assignment: Assignment,
    program: Program,
    shared: TensorPart,
    backend: DeviceBackend,
    links: Links,
    interrupt: Arc<Interrupt>,
    standstill: Standstill,
}

impl Part {
    /// Gets the state together and connects to the peers.
    pub(super) fn take(
        assignment: Assignment,
        tools: &Tools,
        interrupt: &Arc<Interrupt>,
    ) -> Result<(Self, BytesRead), DeviceError> {
        let job = &assignment.job;
        let rank = assignment.rank;
        let options = LowerOptions { tie_word_embeddings: job.model.tie_word_embeddings, ..LowerOptions::default() };
        let program = Program::lower(&job.plan, options);
        let place = &program.ranks()[rank.index()];
        let shared = TensorPart::of(place);
        let standstill = Standstill::new(assignment.stop_at, assignment.step, &tools.control);
        let (state, read) = gather(&assignment, shared, tools, interrupt, &standstill)?;
        let clock = Clock::with_origin(tools.begin.origin);
        let links = Links::new(rank, &job.conditions.interfaces, clock);
        let meeting = Meeting {
            addresses: &assignment.addresses,
            epoch: assignment.epoch,
            peers: &tools.peers,
            links: &links,
            interrupt,
        };
        let Mesh { wires, rings, tensor_ring } = mesh(&program, rank, &meeting)?;
        let mailbox = Arc::new(Mailbox::new(place));
        let shape = job.conditions.emulated.get(rank.index()).map_or_else(
            || MessageShape::new(place, tokens(job), job.model.hidden_size as usize),
            |emulated| MessageShape::holding(place, emulated.boundary_numbers()),
        );
        let (stage, collective) = compute(
            StageSetting {
                job,
                program: &program,
                rank,
                data: tools.data.clone(),
                mailbox: Arc::clone(&mailbox),
                state,
                group: TensorGroup::new(&job.plan, place, tensor_ring),
            },
            rings,
        );
        let backend = DeviceBackend::start(Parts {
            rank,
            stage,
            wires,
            shape,
            collective,
            mailbox,
            ballot: Box::new(ByCoordinator {
                control: tools.control.clone(),
                commits: interrupt.commits(),
                committed: standstill.at_commit(),
            }),
            clock,
            watch: standstill.at_operations(),
        });
        let interrupt = Arc::clone(interrupt);
        Ok((Self { assignment, program, shared, backend, links, interrupt, standstill }, read))
    }

    /// Number of the change of plan that gave it.
    pub(super) fn epoch(&self) -> u64 {
        self.assignment.epoch
    }

    /// Runs one iteration.
    pub(super) fn step(&mut self) -> Result<RankStep, DeviceError> {
        self.standstill.begin_step();
        let rank: Rank = self.assignment.rank;
        let timeline = drive(&self.program, &[rank], &mut self.backend).map_err(|error| match error {
            DriveError::Backend(error) => error,
            DriveError::Deadlock(_) => DeviceError::Deadlock(error.to_string()),
        })?;
        let spans = timeline.spans.iter().map(|span| (span.id.0, span.start, span.end)).collect();
        let measured = self.backend.take_measured();
        let (sent_bytes, process_id) = (self.links.take_sent_bytes(), std::process::id());
        Ok(RankStep { block_times: measured.block_times, sent_bytes, process_id, spans })
    }

    /// A copy of the state, between two iterations.
    pub(super) fn copy(&self) -> Holding {
        self.holding(self.backend.state())
    }

    /// Ends the part: what is left is its state.
    pub(super) fn leave(self) -> Holding {
        self.interrupt.raise();
        let Self { assignment, shared: part, backend, .. } = self;
        Holding { model: assignment.job.model, part, state: backend.stop() }
    }

    fn holding(&self, state: TrainingState) -> Holding {
        Holding { model: self.assignment.job.model.clone(), part: self.shared, state }
    }
}

/// Tokens of a micro batch.
fn tokens(job: &Job) -> usize {
    (job.plan.micro_batch_size * job.model.seq_length) as usize
}

/// What computes, and what reduces: tensors, or a device that is emulated; slower than that where it is meant to be.
fn compute(setting: StageSetting<'_>, rings: BTreeMap<u32, Ring>) -> (Box<dyn Compute>, Collective) {
    let (job, rank, mailbox) = (setting.job, setting.rank, Arc::clone(&setting.mailbox));
    let (stage, collective): (Box<dyn Compute>, _) = if let Some(emulated) = job.conditions.emulated.get(rank.index()) {
        let stage = Emulated::new(emulated, Arc::clone(&mailbox), setting.state);
        (Box::new(stage), Collective::untied(rings, mailbox))
    } else {
        let collective = Collective::new(&job.model, setting.group.part, setting.program.groups(), rings, mailbox);
        (compute_on_device(setting), collective)
    };
    match job.conditions.slowdown.get(rank.index()) {
        Some(&factor) if factor > 1.0 => (Box::new(Slowed::new(stage, factor)), collective),
        _ => (stage, collective),
    }
}
