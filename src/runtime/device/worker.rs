//! A worker: the process of one device. It takes part in one plan after the other, keeps the state in between, and lets
//! its peers read it.

mod gather;
mod part;
mod saving;
mod standstill;

use super::control::{Control, Order, hear_begin};
use super::copies::Copies;
use super::holding::Held;
use super::interrupt::Interrupt;
use super::messages::{Assignment, Begin, FromWorker, SnapshotOrder, ToWorker, WorkerName};
use super::peers::{Peers, Shelves};
use super::transport::{TransportError, connect};
use super::{DataSet, DeviceError, Secret, Vaults};
use part::Part;
use saving::Saving;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

/// Runs a worker until its coordinator has no more work for it.
///
/// Its peers reach it on the interface from which it reaches the coordinator: on one machine that is the loopback interface.
/// When the coordinator goes, for whatever reason, so does this process, at once.
///
/// # Errors
/// What went wrong; the coordinator has been told.
pub fn run_worker(coordinator: SocketAddr, secret: &Secret, who: WorkerName) -> Result<(), DeviceError> {
    let mut transport = connect(coordinator, secret, &[], "the coordinator").map_err(|error| match error {
        TransportError::Io { source, .. } => DeviceError::NoCoordinator { coordinator, problem: source.to_string() },
        other => other.into(),
    })?;
    let held = Held::default();
    let vaults = Arc::<OnceLock<Vaults>>::default();
    let copies = Copies::default();
    let shelves = Shelves { held: held.clone(), copies: copies.clone(), vaults: Arc::clone(&vaults) };
    let (peers, address) = Peers::open(transport.local_ip()?, secret, Arc::new(shelves))?;
    super::messages::tell(&mut transport, &FromWorker::Joined { who, address })?;
    let control = Control::new(transport.duplicate()?);
    control.give_signs_of_life();
    let (begin, data) = hear_begin(&mut transport, &control).map_err(|error| match error {
        DeviceError::Transport(TransportError::Closed { .. }) => DeviceError::NotLetIn { coordinator },
        other => other,
    })?;
    if let Some(places) = &begin.vaults {
        vaults.get_or_init(|| Vaults::new(places));
    }
    let orders = control.orders()?;
    let tools = Tools { control: control.clone(), peers, begin, data, held, copies, vaults };
    let mut worker = Worker { tools, part: None, is_adopted: false, writing: None };
    for order in orders {
        match worker.obey(order) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                // Where the coordinator can't be told, it is gone, and so is this process in a moment.
                drop(control.tell(&FromWorker::Failed { message: error.to_string() }));
                return Err(error);
            }
        }
    }
    Ok(())
}

/// What stays the same for as long as the worker runs, and what it holds between two plans.
struct Tools {
    control: Control,
    peers: Peers,
    begin: Begin,
    data: DataSet,
    /// What it held before its part in the plan; let go when all have theirs.
    held: Held,
    /// Copies of checkpoints in host memory.
    copies: Copies,
    /// Where checkpoints are kept; nowhere where there are none.
    vaults: Arc<OnceLock<Vaults>>,
}

struct Worker {
    tools: Tools,
    part: Option<Part>,
    is_adopted: bool,
    /// The thread that writes the last checkpoint, and of which step that is.
    writing: Option<(u64, JoinHandle<()>)>,
}

impl Worker {
    /// Carries out an order; returns whether to go on.
    fn obey(&mut self, (order, interrupt): Order) -> Result<bool, DeviceError> {
        match order {
            ToWorker::Assign(assignment) => self.assign(*assignment, &interrupt)?,
            ToWorker::Adopt { step } => {
                self.tools.held.set(None);
                // Later ones belong to a history that is given up.
                self.tools.copies.forget_after(step);
                self.is_adopted = true;
            }
            ToWorker::Keep { earlier, from } => self.tools.copies.keep_only(earlier, from),
            ToWorker::Step => self.step(&interrupt)?,
            ToWorker::Snapshot(order) => self.snapshot(*order)?,
            ToWorker::Park { epoch } => self.park(epoch)?,
            ToWorker::End => {
                drop(self.writing.take().map(|(_, thread)| thread.join()));
                return Ok(false);
            }
            ToWorker::Begin(_) | ToWorker::Commit(_) => {
                return Err(DeviceError::Protocol { from: "the coordinator".to_owned() });
            }
        }
        Ok(true)
    }

    fn assign(&mut self, assignment: Assignment, interrupt: &Arc<Interrupt>) -> Result<(), DeviceError> {
        if let Some(vaults) = self.tools.vaults.get() {
            // What is written of later steps belongs to a history that is given up; earlier ones hold nobody up.
            let is_given_up = |writing: &mut (u64, JoinHandle<()>)| writing.0 > assignment.step;
            drop(self.writing.take_if(is_given_up).map(|(_, thread)| thread.join()));
            vaults.own_disk.forget_after(assignment.step)?;
        }
        let epoch = assignment.epoch;
        let taken = Part::take(assignment, &self.tools, interrupt);
        let Some((part, read)) = self.unless_peers_failed(taken, epoch, interrupt)? else { return Ok(()) };
        (self.part, self.is_adopted) = (Some(part), false);
        self.tools.control.tell(&FromWorker::Ready { epoch, read })?;
        Ok(())
    }

    fn step(&mut self, interrupt: &Interrupt) -> Result<(), DeviceError> {
        let Some(part) = &mut self.part else { return Ok(()) };
        let stepped = part.step();
        let epoch = part.epoch();
        let Some(stepped) = self.unless_peers_failed(stepped, epoch, interrupt)? else { return Ok(()) };
        self.tools.control.tell(&FromWorker::Stepped(stepped))?;
        Ok(())
    }

    /// Copies the state; the copy is written in the background, after that of an earlier checkpoint.
    fn snapshot(&mut self, order: SnapshotOrder) -> Result<(), DeviceError> {
        let (Some(part), Some(vaults)) = (&self.part, self.tools.vaults.get()) else { return Ok(()) };
        let copy = Arc::new(part.copy());
        if order.keep {
            self.tools.copies.keep_own(Arc::clone(&copy));
        }
        self.tools.control.tell(&FromWorker::Snapshotted { step: order.step })?;
        let (peers, control) = (self.tools.peers.clone(), self.tools.control.clone());
        let saving = Saving { copy, order, vaults: vaults.clone(), peers, control };
        let (before, step) = (self.writing.take(), saving.order.step);
        let write = move || {
            // One that panicked has left a checkpoint that never counts.
            drop(before.map(|(_, thread)| thread.join()));
            saving.run();
        };
        self.writing = Some((step, thread::spawn(write)));
        Ok(())
    }

    /// Leaves the part in the plan: its state, if it counts, is what this worker holds from now on.
    fn park(&mut self, epoch: u64) -> Result<(), DeviceError> {
        if let Some(part) = self.part.take() {
            let holding = part.leave();
            if self.is_adopted {
                self.tools.held.set(Some(holding));
            }
        }
        self.is_adopted = false;
        self.tools.control.tell(&FromWorker::Parked { epoch })?;
        Ok(())
    }

    /// What came of something that takes peers; nothing where they failed, of which the coordinator has been told, or
    /// where it was interrupted by the coordinator itself.
    fn unless_peers_failed<T>(
        &self,
        outcome: Result<T, DeviceError>,
        epoch: u64,
        interrupt: &Interrupt,
    ) -> Result<Option<T>, DeviceError> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(_) if interrupt.is_raised() => Ok(None),
            Err(DeviceError::Transport(error)) => {
                self.tools.control.tell(&FromWorker::PeerLost { epoch, message: error.to_string() })?;
                Ok(None)
            }
            Err(DeviceError::CopyLost { origin, problem }) => {
                self.tools.control.tell(&FromWorker::CopyLost { epoch, origin, message: problem })?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
