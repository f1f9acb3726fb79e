//! The coordinator's hold on its workers: processes, connections, and what they say.

use super::TrainingError;
use super::elsewhere::Elsewhere;
use super::processes::{Processes, WorkerCommand};
use crate::runtime::device::messages::{Begin, FromWorker, ToWorker, WorkerId, WorkerName, hear, tell};
use crate::runtime::device::{
    DataSet, DeviceError, Secret, TcpTransport, Transport, TransportError, VaultPlaces, accept, listen, since_epoch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a process may take to join.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long one may take that somebody starts by hand.
const PATIENCE_ELSEWHERE: Duration = Duration::from_mins(10);
/// Time between looks at processes that haven't joined yet.
const PAUSE: Duration = Duration::from_millis(50);

/// Places that wait for a worker which somebody else starts.
type Places = Arc<Mutex<BTreeMap<(String, u32), WorkerId>>>;

/// Something that a worker did.
pub(super) enum Heard {
    /// It is there.
    Joined(WorkerId),
    /// It said something.
    Said(WorkerId, FromWorker),
    /// It is gone, or has given no sign of life for so long.
    Gone { worker: WorkerId, silent_for: Option<Duration> },
    /// One that somebody else has started wasn't let in, and why.
    TurnedAway(String),
}

/// From the threads that listen.
enum Arrival {
    Joined { worker: WorkerId, control: TcpTransport, address: SocketAddr },
    Said(WorkerId, FromWorker),
    Closed { worker: WorkerId, is_silent: bool },
    TurnedAway(String),
}

/// A worker that has joined.
struct Joined {
    control: TcpTransport,
    address: SocketAddr,
}

/// All workers of a run.
pub(super) struct Workers {
    command: WorkerCommand,
    secret: Secret,
    data: DataSet,
    origin: Duration,
    address: SocketAddr,
    silence: Duration,
    /// Tells the thread at the door that the run is over.
    is_closed: Arc<AtomicBool>,
    /// Workers that others start, once they may join.
    places: Places,
    /// Nodes whose workers others start.
    elsewhere: BTreeSet<String>,
    arrivals: Receiver<Arrival>,
    processes: Processes,
    /// Those that haven't joined yet: until when they may, and where they will keep checkpoints.
    expected: BTreeMap<WorkerId, (Instant, Option<VaultPlaces>)>,
    joined: BTreeMap<WorkerId, Joined>,
    next: u32,
}

impl Workers {
    /// Opens the coordinator's door; `origin` is that of the common time axis, `silence` for how long a worker may give no
    /// sign of life.
    pub(super) fn new(
        command: WorkerCommand,
        data: DataSet,
        elsewhere: &Elsewhere,
        origin: Duration,
        silence: Duration,
    ) -> Result<Self, TrainingError> {
        let secret = elsewhere.secret.clone().map_or_else(Secret::random, Ok)?;
        let asked = elsewhere.listen;
        let (listener, address) = listen(asked).map_err(|source| TrainingError::Listen { address: asked, source })?;
        let (arrive, arrivals) = channel();
        let places = Places::default();
        let is_closed = Arc::<AtomicBool>::default();
        let door = Door {
            secret: secret.clone(),
            places: Arc::clone(&places),
            silence,
            is_closed: Arc::clone(&is_closed),
            arrive,
        };
        thread::spawn(move || door.keep(&listener));
        Ok(Self {
            command,
            secret,
            data,
            origin,
            address,
            silence,
            is_closed,
            places,
            elsewhere: elsewhere.nodes.clone(),
            arrivals,
            processes: Processes::default(),
            expected: BTreeMap::new(),
            joined: BTreeMap::new(),
            next: 0,
        })
    }

    /// Starts the process of a node's device, or waits for the one that somebody else starts; it keeps its checkpoints in
    /// these places, and [joins](Heard::Joined) later.
    pub(super) fn start(
        &mut self,
        node: &str,
        gpu: u32,
        vaults: Option<VaultPlaces>,
    ) -> Result<WorkerId, TrainingError> {
        let worker = WorkerId(self.next);
        self.next += 1;
        let patience = if self.elsewhere.contains(node) {
            lock(&self.places).insert((node.to_owned(), gpu), worker);
            PATIENCE_ELSEWHERE
        } else {
            self.processes.start(&self.command, worker, self.address, &self.secret)?;
            PATIENCE
        };
        self.expected.insert(worker, (Instant::now() + patience, vaults));
        Ok(worker)
    }

    /// Where workers find the coordinator.
    pub(super) fn door(&self) -> SocketAddr {
        self.address
    }

    /// Ends a worker; says how it ended.
    pub(super) fn end(&mut self, worker: WorkerId) -> String {
        self.expected.remove(&worker);
        self.joined.remove(&worker);
        lock(&self.places).retain(|_, other| *other != worker);
        self.processes.end(worker)
    }

    /// Where a worker listens.
    pub(super) fn address(&self, worker: WorkerId) -> Option<SocketAddr> {
        self.joined.get(&worker).map(|joined| joined.address)
    }

    /// Who listens there.
    pub(super) fn at(&self, address: SocketAddr) -> Option<WorkerId> {
        self.joined.iter().find(|(_, joined)| joined.address == address).map(|(&worker, _)| worker)
    }

    /// Memory that a worker has in use.
    pub(super) fn memory_bytes(&self, worker: WorkerId) -> Option<u64> {
        self.processes.memory_bytes(worker)
    }

    /// All that have joined and aren't gone.
    pub(super) fn present(&self) -> Vec<WorkerId> {
        self.joined.keys().copied().collect()
    }

    /// Says something to a worker. One that can't be told is gone, as its listening thread finds out too.
    pub(super) fn tell(&mut self, worker: WorkerId, message: &ToWorker) {
        if let Some(joined) = self.joined.get_mut(&worker) {
            drop(tell(&mut joined.control, message));
        }
    }

    /// The next thing that a worker does; nothing by `deadline` is nothing.
    pub(super) fn next(&mut self, deadline: Instant) -> Option<Heard> {
        loop {
            if let Some(late) = self.find_late() {
                return Some(Heard::Gone { worker: late, silent_for: None });
            }
            let mut wait = deadline.saturating_duration_since(Instant::now());
            if !self.expected.is_empty() {
                wait = wait.min(PAUSE);
            }
            match self.arrivals.recv_timeout(wait) {
                Ok(arrival) => {
                    if let Some(heard) = self.take(arrival) {
                        return Some(heard);
                    }
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    unreachable!("the door is kept for as long as the process lives")
                }
            }
        }
    }

    /// Tells all that there is nothing more to do, and waits for them to end.
    pub(super) fn dismiss(mut self) {
        for worker in self.present() {
            self.tell(worker, &ToWorker::End);
        }
        std::mem::take(&mut self.processes).wait();
    }

    /// A process that has ended or run out of time before it joined.
    fn find_late(&mut self) -> Option<WorkerId> {
        if self.expected.is_empty() {
            return None;
        }
        let now = Instant::now();
        let ended = self.processes.find_ended().map(|(worker, _)| worker);
        let late = self.expected.iter().find(|(worker, (until, _))| *until < now || Some(**worker) == ended);
        late.map(|(worker, _)| *worker)
    }

    fn take(&mut self, arrival: Arrival) -> Option<Heard> {
        match arrival {
            Arrival::Joined { worker, mut control, address } => {
                // Whoever isn't expected is a stranger who knows the secret: a worker that was given up.
                let (_, vaults) = self.expected.remove(&worker)?;
                self.begin(&mut control, vaults);
                self.joined.insert(worker, Joined { control, address });
                Some(Heard::Joined(worker))
            }
            Arrival::Said(worker, message) => self.joined.contains_key(&worker).then_some(Heard::Said(worker, message)),
            // Where all workers are ours, it is some program that looks for another, and nobody's concern.
            Arrival::TurnedAway(message) => (!self.elsewhere.is_empty()).then_some(Heard::TurnedAway(message)),
            Arrival::Closed { worker, is_silent } => {
                let silent_for = is_silent.then_some(self.silence);
                self.joined.contains_key(&worker).then_some(Heard::Gone { worker, silent_for })
            }
        }
    }

    fn begin(&self, control: &mut TcpTransport, vaults: Option<VaultPlaces>) {
        let (data, content) = self.data.origin();
        let begin = ToWorker::Begin(Box::new(Begin { origin: self.origin, now: since_epoch(), data, vaults }));
        let told = tell(control, &begin);
        if let (Ok(()), Some(bytes)) = (told, content) {
            // One that can't be told is gone, as its listening thread finds out.
            drop(control.send(bytes));
        }
    }
}

impl Drop for Workers {
    /// Closes the door: whoever waits there for somebody to come in is woken by us.
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::SeqCst);
        drop(TcpStream::connect_timeout(&self.address, PAUSE));
    }
}

/// The coordinator's side of the door.
#[derive(Clone)]
struct Door {
    secret: Secret,
    places: Places,
    /// How long a worker may give no sign of life.
    silence: Duration,
    is_closed: Arc<AtomicBool>,
    arrive: Sender<Arrival>,
}

impl Door {
    /// Lets workers in, each with a thread that listens to it, until the run is over.
    fn keep(&self, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.is_closed.load(Ordering::SeqCst) {
                return;
            }
            let Ok((stream, _)) = accepted else {
                thread::sleep(PAUSE);
                continue;
            };
            let door = self.clone();
            // Where somebody connects and says nothing, nobody is told.
            thread::spawn(move || {
                let heard = door.listen_to(stream);
                if let Err(TrainingError::Transport(error @ TransportError::Refused { .. })) = heard {
                    door.give(Arrival::TurnedAway(error.to_string()));
                }
            });
        }
    }

    /// Hands something on; where nobody takes it, the run is over.
    fn give(&self, arrival: Arrival) {
        drop(self.arrive.send(arrival));
    }

    /// Hands on what a worker says, until it is gone.
    fn listen_to(&self, stream: TcpStream) -> Result<(), TrainingError> {
        let (mut control, _) = accept(stream, &self.secret)?;
        let FromWorker::Joined { who, address } = hear(&mut control, "a worker")? else { return Ok(()) };
        let worker = match who {
            WorkerName::Given(worker) => worker,
            // Of two that claim a place, the first has it.
            WorkerName::Place { node, gpu } => {
                let claimed = lock(&self.places).remove(&(node.clone(), gpu));
                let Some(worker) = claimed else {
                    let message = format!("no worker is waited for as device {gpu} of node `{node}`");
                    self.give(Arrival::TurnedAway(message));
                    return Ok(());
                };
                worker
            }
        };
        let mut listening = control.duplicate()?;
        listening.wait_at_most(self.silence)?;
        self.give(Arrival::Joined { worker, control: control.named(&worker), address });
        loop {
            match hear(&mut listening, "a worker") {
                Ok(FromWorker::Alive) => {}
                Ok(message) => self.give(Arrival::Said(worker, message)),
                Err(error) => {
                    let is_silent = matches!(error, DeviceError::Transport(TransportError::TimedOut { .. }));
                    self.give(Arrival::Closed { worker, is_silent });
                    return Ok(());
                }
            }
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::SIGN_OF_LIFE;

    #[test]
    fn an_address_of_another_machine_is_refused_as_input() {
        // Of the range that is kept for documentation.
        let listen = SocketAddr::from(([192, 0, 2, 1], 7999));
        let command = WorkerCommand { program: "none".into(), arguments: Vec::new() };
        let elsewhere = Elsewhere { listen, ..Elsewhere::default() };
        let Err(error) = Workers::new(command, DataSet::Synthetic, &elsewhere, Duration::ZERO, SIGN_OF_LIFE) else {
            panic!("nobody has that address");
        };
        assert!(!error.happened_while_training());
        assert!(error.to_string().contains("`192.0.2.1:7999`") && error.to_string().contains("\nhint: "), "{error}");
    }
}
