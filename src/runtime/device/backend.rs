//! The backend of one rank: a thread for each stream, so that transfers go on while passes compute.

mod collective;
mod transfer;

use super::DeviceError;
use super::clock::Clock;
use super::mailbox::Mailbox;
use super::mesh::Wires;
use super::stage::Stage;
use crate::ids::Rank;
use crate::program::{Instruction, InstructionId, Op, Stream};
use crate::runtime::{Backend, Completion};
use crate::units::SimTime;
pub(super) use collective::Collective;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Done = Result<Completion, DeviceError>;

/// Executes the instructions of one rank and measures them. Its threads live as long as it does, for many iterations.
pub(super) struct DeviceBackend {
    rank: Rank,
    workers: Vec<Sender<(InstructionId, Instruction)>>,
    done: Receiver<Done>,
    under_way: usize,
    stage: Arc<Mutex<Stage>>,
}

impl DeviceBackend {
    /// Starts the threads of a rank whose stage is ready and whose peers are connected.
    pub(super) fn start(
        rank: Rank,
        stage: Stage,
        wires: Wires,
        mailbox: &Arc<Mailbox>,
        mut collective: Collective,
        clock: Clock,
    ) -> Self {
        let stage = Arc::new(Mutex::new(stage));
        let (done, completions) = channel();
        let start = Starter { rank, clock, done };
        let mut workers = Vec::with_capacity(Stream::COUNT);
        let computing = Arc::clone(&stage);
        workers.push(start.worker("compute", move |op, clock| {
            let begun = clock.now();
            compute(&mut computing.lock().unwrap_or_else(PoisonError::into_inner), op);
            Ok(begun)
        }));
        // In the order of `Stream`, whose number is a worker's place.
        let transfers = ["send activations", "send gradients", "receive activations", "receive gradients"];
        for (name, wire) in transfers.into_iter().zip(wires) {
            let mut transfer = transfer::Transfer::new(wire, Arc::clone(mailbox));
            workers.push(start.worker(name, move |op, clock| transfer.run(op, clock)));
        }
        workers.push(start.worker("all_reduce", move |op, clock| collective.run(op, clock)));
        Self { rank, workers, done: completions, under_way: 0, stage }
    }

    /// The sum of the losses of this rank's micro batches since it was last taken; zero without the head.
    pub(super) fn take_loss(&self) -> f64 {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).take_loss()
    }
}

fn compute(stage: &mut Stage, op: Op) {
    match op {
        Op::Forward { micro_batch } => stage.forward(micro_batch),
        Op::Backward { micro_batch, part } => stage.backward(micro_batch, part),
        Op::OptimizerStep => stage.optimizer_step(),
        Op::Send { .. } | Op::Receive { .. } | Op::AllReduce { .. } => unreachable!("{op} isn't computed"),
    }
}

impl Backend for DeviceBackend {
    type Error = DeviceError;

    fn issue(&mut self, rank: Rank, id: InstructionId, instruction: Instruction) -> Result<(), DeviceError> {
        assert_eq!(rank, self.rank, "a process hosts one rank");
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
    /// Starts a thread that runs what it is sent, in order, until the first error. `run` gives back when the operation
    /// began.
    fn worker(
        &self,
        name: &'static str,
        mut run: impl FnMut(Op, &Clock) -> Result<SimTime, DeviceError> + Send + 'static,
    ) -> Sender<(InstructionId, Instruction)> {
        let (issue, issued) = channel::<(InstructionId, Instruction)>();
        let (rank, clock, done) = (self.rank, self.clock, self.done.clone());
        thread::spawn(move || {
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
        issue
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
