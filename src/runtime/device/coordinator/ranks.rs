//! The coordinator's hold on its ranks: processes, connections, and what to make of one that fails.

use crate::ids::Rank;
use crate::runtime::device::clock::Clock;
use crate::runtime::device::messages::{FromRank, Job, Start, ToRank, hear, tell};
use crate::runtime::device::processes::{Processes, RankCommand};
use crate::runtime::device::transport::{SILENCE, TcpTransport, Transport, accept, listen};
use crate::runtime::device::{DataSet, DeviceError, Secret};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long processes may take to join.
const PATIENCE: Duration = Duration::from_mins(1);
/// Pause between looks at the listener.
const PAUSE: Duration = Duration::from_millis(1);
/// How long to wait after a failure for others, of which one may be its cause.
const AFTERMATH: Duration = Duration::from_millis(500);

type Heard = (Rank, Result<FromRank, DeviceError>);

/// All ranks of a run.
pub(super) struct Ranks {
    controls: Vec<TcpTransport>,
    heard: Receiver<Heard>,
    processes: Processes,
}

impl Ranks {
    /// Starts all processes, waits until they have joined, and has them get ready.
    pub(super) fn start(
        job: &Job,
        data: &DataSet,
        command: &RankCommand,
        world_size: usize,
    ) -> Result<Self, DeviceError> {
        let secret = Secret::random()?;
        let (_, origin) = Clock::start();
        let (listener, address) = listen()?;
        let mut processes = Processes::start(command, world_size, address, &secret)?;
        let joined = join(&listener, &secret, &mut processes, world_size)?;
        let (hear_from, heard) = channel();
        let (mut controls, addresses): (Vec<_>, Vec<_>) = joined.into_iter().unzip();
        for (index, control) in controls.iter().enumerate() {
            listen_to_rank(Rank::from(index), control, hear_from.clone())?;
        }
        let has_text = matches!(data, DataSet::Text(_));
        let start = ToRank::Start(Box::new(Start { job: job.clone(), addresses, origin, has_text }));
        for control in &mut controls {
            tell(control, &start)?;
            if let DataSet::Text(bytes) = data {
                control.send(bytes)?;
            }
        }
        Ok(Self { controls, heard, processes })
    }

    /// Says the same to all. One that can't be told is gone, as [`gather`](Self::gather) finds out with its reason.
    pub(super) fn tell_all(&mut self, message: &ToRank) -> Result<(), DeviceError> {
        for index in 0..self.controls.len() {
            if tell(&mut self.controls[index], message).is_err() {
                return Err(self.explain(Vec::new()));
            }
        }
        Ok(())
    }

    /// One message of each rank, by rank; `take` gives nothing for messages that don't belong here.
    pub(super) fn gather<T>(
        &mut self,
        during: &'static str,
        take: impl Fn(FromRank) -> Option<T>,
    ) -> Result<Vec<T>, DeviceError> {
        let mut gathered: Vec<Option<T>> = self.controls.iter().map(|_| None).collect();
        let mut missing = gathered.len();
        while missing > 0 {
            let (rank, message) = match self.heard.recv_timeout(SILENCE) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(DeviceError::Silent { waited_s: SILENCE.as_secs(), during });
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.explain(Vec::new())),
            };
            if let Err(_) | Ok(FromRank::Failed { .. }) = message {
                return Err(self.explain(vec![(rank, message)]));
            }
            let taken = message.ok().and_then(&take);
            if taken.is_none() || gathered[rank.index()].is_some() {
                return Err(DeviceError::Protocol { from: rank.to_string() });
            }
            gathered[rank.index()] = taken;
            missing -= 1;
        }
        Ok(gathered.into_iter().flatten().collect())
    }

    /// Tells all that there is nothing more to do, and waits for them to end.
    pub(super) fn end(mut self) -> Result<(), DeviceError> {
        self.tell_all(&ToRank::End)?;
        self.processes.wait();
        Ok(())
    }

    /// The cause of a failure. A rank that dies takes its peers' connections with it, so that they fail too: one that
    /// went without a word comes first, then whoever complained first.
    fn explain(&mut self, mut heard: Vec<Heard>) -> DeviceError {
        let deadline = Instant::now() + AFTERMATH;
        while let Ok(next) = self.heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            heard.push(next);
        }
        let mut complaints = heard.iter().filter_map(|(rank, message)| match message {
            Ok(FromRank::Failed { message }) => Some((*rank, message.clone())),
            _ => None,
        });
        let silent = heard.iter().find(|(rank, message)| {
            let complained = |(other, said): &Heard| other == rank && matches!(said, Ok(FromRank::Failed { .. }));
            message.is_err() && !heard.iter().any(complained)
        });
        if let Some(&(rank, _)) = silent {
            let how = self.processes.ended(rank).unwrap_or_else(|| "closed its connection".to_owned());
            return DeviceError::Gone { rank, how };
        }
        match complaints.next() {
            Some((rank, message)) => DeviceError::Failed { rank, message },
            None => DeviceError::Protocol { from: "the ranks".to_owned() },
        }
    }
}

/// Accepts until every rank has joined: its connection and the address where its peers find it.
fn join(
    listener: &TcpListener,
    secret: &Secret,
    processes: &mut Processes,
    world_size: usize,
) -> Result<Vec<(TcpTransport, SocketAddr)>, DeviceError> {
    let mut joined: Vec<Option<(TcpTransport, SocketAddr)>> = (0..world_size).map(|_| None).collect();
    let deadline = Instant::now() + PATIENCE;
    while joined.iter().any(Option::is_none) {
        if let Some((rank, how)) = processes.find_ended() {
            return Err(DeviceError::Gone { rank, how });
        }
        if Instant::now() > deadline {
            return Err(DeviceError::Silent { waited_s: PATIENCE.as_secs(), during: "starting" });
        }
        // Strangers are turned away without further ado.
        let Ok(Some((mut control, _))) = accept(listener, secret) else {
            thread::sleep(PAUSE);
            continue;
        };
        let FromRank::Joined { rank, address } = hear(&mut control, "a rank")? else {
            return Err(DeviceError::Protocol { from: "a rank".to_owned() });
        };
        match joined.get_mut(rank as usize) {
            Some(place @ None) => *place = Some((control.named(&Rank(rank)), address)),
            _ => return Err(DeviceError::Protocol { from: Rank(rank).to_string() }),
        }
    }
    Ok(joined.into_iter().flatten().collect())
}

/// Hands on what a rank says, until it is gone.
fn listen_to_rank(rank: Rank, control: &TcpTransport, heard: Sender<Heard>) -> Result<(), DeviceError> {
    let mut control = control.duplicate()?;
    control.wait_forever()?;
    thread::spawn(move || {
        loop {
            let message = hear(&mut control, "a rank");
            let is_last = message.is_err();
            if heard.send((rank, message)).is_err() || is_last {
                return;
            }
        }
    });
    Ok(())
}
