//! A rank's process: joins, gets ready, runs one iteration whenever it is told to.

use super::backend::{Collective, DeviceBackend};
use super::clock::Clock;
use super::mailbox::Mailbox;
use super::mesh::{Mesh, mesh};
use super::messages::{FromRank, RankStep, Start, ToRank, hear, tell};
use super::stage::Stage;
use super::transport::{TcpTransport, Transport, connect, listen};
use super::{DataSet, DeviceError, Secret};
use crate::ids::Rank;
use crate::program::{LowerOptions, Program};
use crate::runtime::{DriveError, drive};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

const COORDINATOR: &str = "the coordinator";
/// Exit code of a rank that lost its coordinator.
const EXIT_ORPHANED: i32 = 3;

/// Runs the process of `rank` until its coordinator has no more work for it.
///
/// When the coordinator goes, for whatever reason, so does this process, at once.
///
/// # Errors
/// What went wrong; the coordinator has been told.
pub fn run_rank(coordinator: SocketAddr, secret: &Secret, rank: Rank) -> Result<(), DeviceError> {
    let mut control = connect(coordinator, secret, &[], COORDINATOR)?;
    let (listener, address) = listen()?;
    tell(&mut control, &FromRank::Joined { rank: rank.0, address })?;
    let outcome = serve(&mut control, &listener, secret, rank);
    if let Err(error) = &outcome {
        // Where the coordinator can't be told, it is gone, and so is this process in a moment.
        drop(tell(&mut control, &FromRank::Failed { message: error.to_string() }));
    }
    outcome
}

fn serve(control: &mut TcpTransport, listener: &TcpListener, secret: &Secret, rank: Rank) -> Result<(), DeviceError> {
    let ToRank::Start(start) = hear(control, COORDINATOR)? else {
        return Err(DeviceError::Protocol { from: COORDINATOR.to_owned() });
    };
    let data = if start.has_text { DataSet::Text(control.receive()?.into()) } else { DataSet::Synthetic };
    let orders = listen_to_coordinator(control)?;
    let options = LowerOptions { tie_word_embeddings: start.job.model.tie_word_embeddings };
    let program = Program::lower(&start.job.plan, options);
    let mesh = mesh(&program, rank, &start.addresses, listener, secret)?;
    let mut backend = get_ready(&start, &program, rank, data, mesh);
    tell(control, &FromRank::Ready)?;
    while let Ok(ToRank::Step) = orders.recv() {
        let timeline = drive(&program, &[rank], &mut backend).map_err(|error| match error {
            DriveError::Backend(error) => error,
            DriveError::Deadlock(_) => DeviceError::Deadlock(error.to_string()),
        })?;
        let spans = timeline.spans.iter().map(|span| (span.id.0, span.start, span.end)).collect();
        tell(control, &FromRank::Stepped(RankStep { loss: backend.take_loss(), spans }))?;
    }
    Ok(())
}

fn get_ready(start: &Start, program: &Program, rank: Rank, data: DataSet, mesh: Mesh) -> DeviceBackend {
    let Mesh { wires, rings } = mesh;
    let mailbox = Arc::new(Mailbox::default());
    let stage = Stage::new(&start.job, program, rank, data, Arc::clone(&mailbox));
    let collective = Collective::new(&start.job.model, rings, Arc::clone(&mailbox));
    DeviceBackend::start(rank, stage, wires, &mailbox, collective, Clock::with_origin(start.origin))
}

/// Hands on what the coordinator says, from a thread that has nothing else to do: a rank in the middle of a pass
/// notices too that its coordinator is gone.
fn listen_to_coordinator(control: &TcpTransport) -> Result<Receiver<ToRank>, DeviceError> {
    let mut control = control.duplicate()?;
    control.wait_forever()?;
    let (order, orders) = channel();
    thread::spawn(move || {
        loop {
            match hear(&mut control, COORDINATOR) {
                Ok(ToRank::End) => return,
                Ok(message) => drop(order.send(message)),
                // Nobody is left to train for, or to tell.
                Err(_) => std::process::exit(EXIT_ORPHANED),
            }
        }
    });
    Ok(orders)
}
