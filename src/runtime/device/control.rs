//! A worker's connection to its coordinator.

use super::clock::{origin_here, since_epoch};
use super::interrupt::Interrupt;
use super::messages::{FromWorker, ToWorker, hear, tell};
use super::transport::{TcpTransport, Transport, TransportError};
use super::{Corpus, DataOrigin, DataSet, DeviceError};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const COORDINATOR: &str = "the coordinator";
/// Exit code of a worker that lost its coordinator.
const EXIT_ORPHANED: i32 = 3;
/// Time between two signs of life: several in the shortest silence that a coordinator bears.
const PULSE: Duration = Duration::from_millis(500);

/// Where any thread of a worker says something to the coordinator.
#[derive(Clone, Debug)]
pub(super) struct Control(Arc<Mutex<TcpTransport>>);

/// An order, and what ends the waits of the part that it gives.
pub(super) type Order = (ToWorker, Arc<Interrupt>);

impl Control {
    pub(super) fn new(transport: TcpTransport) -> Self {
        Self(Arc::new(Mutex::new(transport)))
    }

    pub(super) fn tell(&self, message: &FromWorker) -> Result<(), TransportError> {
        tell(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), message)
    }

    /// Says every now and then that this process is alive, for as long as the coordinator can be told.
    pub(super) fn give_signs_of_life(&self) {
        let control = self.clone();
        thread::spawn(move || {
            while control.tell(&FromWorker::Alive).is_ok() {
                thread::sleep(PULSE);
            }
        });
    }

    /// Hands on the coordinator's orders, from a thread that has nothing else to do: a rank in the middle of a pass is
    /// told at once to leave it, and notices too that its coordinator is gone.
    pub(super) fn orders(&self) -> Result<Receiver<Order>, DeviceError> {
        let mut transport = self.0.lock().unwrap_or_else(PoisonError::into_inner).duplicate()?;
        transport.wait_forever()?;
        let (give, orders) = channel();
        thread::spawn(move || {
            let mut interrupt = Arc::<Interrupt>::default();
            loop {
                // Nobody is left to train for, or to tell.
                let Ok(message) = hear(&mut transport, COORDINATOR) else { std::process::exit(EXIT_ORPHANED) };
                match message {
                    ToWorker::Commit(commit) => {
                        interrupt.commit(commit);
                        continue;
                    }
                    ToWorker::Assign(_) => interrupt = Arc::default(),
                    ToWorker::Park { .. } => interrupt.raise(),
                    _ => {}
                }
                let is_last = matches!(message, ToWorker::End);
                if give.send((message, Arc::clone(&interrupt))).is_err() || is_last {
                    return;
                }
            }
        });
        Ok(orders)
    }
}

/// The first words of the coordinator: what stays the same for as long as the worker runs.
pub(super) fn hear_begin(
    transport: &mut TcpTransport,
    control: &Control,
) -> Result<(super::messages::Begin, DataSet), DeviceError> {
    let ToWorker::Begin(mut begin) = hear(transport, COORDINATOR)? else {
        return Err(DeviceError::Protocol { from: COORDINATOR.to_owned() });
    };
    if !transport.is_within_this_machine()? {
        begin.origin = origin_here(begin.origin, begin.now, since_epoch());
    }
    match data(begin.data.clone(), transport) {
        Ok(data) => Ok((*begin, data)),
        Err(error) => {
            // Where the coordinator can't be told, it knows already.
            drop(control.tell(&FromWorker::Failed { message: error.to_string() }));
            Err(error)
        }
    }
}

fn data(origin: DataOrigin, transport: &mut TcpTransport) -> Result<DataSet, DeviceError> {
    Ok(match origin {
        DataOrigin::Synthetic => DataSet::Synthetic,
        DataOrigin::Path(format, file) => DataSet::Corpus(Corpus::read_again(format, file)?),
        DataOrigin::Message(format) => DataSet::Corpus(Corpus::from_bytes(format, transport.receive()?)),
    })
}
