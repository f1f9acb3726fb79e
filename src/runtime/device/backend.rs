//! The backend of one rank: a thread for each stream, so that transfers go on while passes compute.

mod collective;
mod transfer;

use super::DeviceError;
use super::ballot::Ballot;
use super::clock::Clock;
use super::compute::{Compute, Measured, TrainingState, Update};
use super::mailbox::Mailbox;
use super::mesh::Wires;
use crate::ids::Rank;
use crate::program::{Instruction, InstructionId, Op};
use crate::runtime::{Backend, Completion};
use crate::units::SimTime;
pub(super) use collective::Collective;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
pub(super) use transfer::MessageShape;

type Done = Result<Completion, DeviceError>;
/// Runs one operation and says when it began.
type Run = dyn FnMut(Op, &Clock) -> Result<SimTime, DeviceError> + Send;

/// Executes the instructions of one rank and measures them. Its threads live as long as it does, for many iterations.
pub(super) struct DeviceBackend {
    rank: Rank,
    workers: Vec<Sender<(InstructionId, Instruction)>>,
    threads: Vec<JoinHandle<()>>,
    done: Receiver<Done>,
    under_way: usize,
    stage: Arc<Mutex<Box<dyn Compute>>>,
    /// Called with each operation before it is issued.
    watch: Box<dyn FnMut(Op) + Send>,
}

/// What a rank's backend is made of.
pub(super) struct Parts {
    /// The rank.
    pub(super) rank: Rank,
    /// Its stage, ready.
    pub(super) stage: Box<dyn Compute>,
    /// Its connections to neighbouring stages.
    pub(super) wires: Wires,
    /// What it holds of what goes over them.
    pub(super) shape: MessageShape,
    /// Where its threads meet.
    pub(super) mailbox: Arc<Mailbox>,
    /// Its reductions.
    pub(super) collective: Collective,
    /// Its voice in whether a step counts.
    pub(super) ballot: Box<dyn Ballot>,
    /// The common time axis.
    pub(super) clock: Clock,
    /// Called with each operation before it is issued.
    pub(super) watch: Box<dyn FnMut(Op) + Send>,
}

impl DeviceBackend {
    /// Starts the threads.
    pub(super) fn start(parts: Parts) -> Self {
        let Parts { rank, stage, wires, shape, mailbox, mut collective, mut ballot, clock, watch } = parts;
        let stage = Arc::new(Mutex::new(stage));
        let (done, completions) = channel();
        let start = Starter { rank, clock, done };
        let computing = Arc::clone(&stage);
        let compute = move |op, clock: &Clock| {
            let mut stage = computing.lock().unwrap_or_else(PoisonError::into_inner);
            compute(&mut **stage, op, &mut *ballot, clock)
        };
        let mut started = vec![start.worker("compute", Box::new(compute))];
        // In the order of `Stream`, whose number is a worker's place.
        let transfers = ["send activations", "send gradients", "receive activations", "receive gradients"];
        for (name, wires) in transfers.into_iter().zip(wires) {
            let mut transfer = transfer::Transfer::new(wires, shape, Arc::clone(&mailbox));
            started.push(start.worker(name, Box::new(move |op, clock: &Clock| transfer.run(op, clock))));
        }
        started.push(start.worker("all_reduce", Box::new(move |op, clock: &Clock| collective.run(op, clock))));
        let (workers, threads) = started.into_iter().unzip();
        Self { rank, workers, threads, done: completions, under_way: 0, stage, watch }
    }

    /// What this rank measured itself since it was last taken.
    pub(super) fn take_measured(&self) -> Measured {
        self.stage().take_measured()
    }

    /// A copy of the state, between two iterations.
    pub(super) fn state(&self) -> TrainingState {
        self.stage().state()
    }

    /// Ends the threads and gives back the state of the last step. Whatever they wait for must have been
    /// [interrupted](super::interrupt::Interrupt).
    pub(super) fn stop(self) -> TrainingState {
        drop(self.workers);
        for thread in self.threads {
            // One that panicked has said so; the state is that of the last step all the same.
            drop(thread.join());
        }
        let stage = Arc::into_inner(self.stage).expect("only the threads shared it");
        let mut stage = stage.into_inner().unwrap_or_else(PoisonError::into_inner);
        stage.abandon_iteration();
        stage.into_state()
    }

    fn stage(&self) -> MutexGuard<'_, Box<dyn Compute>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs one operation and says when it began: the optimizer once the step counts.
fn compute(stage: &mut dyn Compute, op: Op, ballot: &mut dyn Ballot, clock: &Clock) -> Result<SimTime, DeviceError> {
    let begun = clock.now();
    match op {
        // Jobs of several chunks, and of backward passes in two, are refused beforehand.
        Op::Forward { micro_batch, .. } => stage.forward(micro_batch)?,
        Op::Backward { micro_batch, part, .. } => stage.backward(micro_batch, part)?,
        Op::OptimizerStep => {
            let commit = ballot.vote(stage.squared_gradient_norm(), stage.loss())?;
            let begun = clock.now();
            stage.optimizer_step(Update { gradient_scale: commit.gradient_scale })?;
            return Ok(begun);
        }
        _ => unreachable!("{op} isn't computed"),
    }
    Ok(begun)
}

impl Backend for DeviceBackend {
    type Error = DeviceError;

    fn issue(&mut self, rank: Rank, id: InstructionId, instruction: Instruction) -> Result<(), DeviceError> {
        assert_eq!(rank, self.rank, "a process hosts one rank");
        (self.watch)(instruction.op);
        self.under_way += 1;
        // A worker that is gone has left its error where completions are read.
        self.workers[instruction.stream() as usize].send((id, instruction)).ok();
        Ok(())
    }

    /// In the order in which threads say so: that of time, but for instructions that end within the same microseconds.
    fn next_completion(&mut self) -> Result<Option<Completion>, DeviceError> {
        if self.under_way == 0 {
            return Ok(None);
        }
        self.under_way -= 1;
        let done = self.done.recv().map_err(|_| DeviceError::Panicked { thread: "driver" })?;
        done.map(Some)
    }
}

/// What all workers share.
struct Starter {
    rank: Rank,
    clock: Clock,
    done: Sender<Done>,
}

impl Starter {
    /// Starts a thread that runs what it is sent, in order, until the first error.
    fn worker(&self, name: &'static str, mut run: Box<Run>) -> (Sender<(InstructionId, Instruction)>, JoinHandle<()>) {
        let (issue, issued) = channel::<(InstructionId, Instruction)>();
        let (rank, clock, done) = (self.rank, self.clock, self.done.clone());
        let thread = thread::spawn(move || {
            let alarm = Alarm { thread: name, done: done.clone() };
            for (id, instruction) in issued {
                let ended = run(instruction.op, &clock);
                let ended = ended.map(|start| Completion { rank, id, start, end: clock.now() });
                let is_over = ended.is_err();
                if done.send(ended).is_err() || is_over {
                    break;
                }
            }
            drop(alarm);
        });
        (issue, thread)
    }
}

/// Tells the driver when its thread panics: it would wait for ever.
struct Alarm {
    thread: &'static str,
    done: Sender<Done>,
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            // Where nobody listens any more, nobody waits.
            drop(self.done.send(Err(DeviceError::Panicked { thread: self.thread })));
        }
    }
}
