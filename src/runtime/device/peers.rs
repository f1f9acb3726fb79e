//! A worker's door: peers come here, to train together or to read state.

use super::compute::BlockState;
use super::copies::Copies;
use super::holding::{Found, Held, shard_from_bytes};
use super::interrupt::Interrupt;
use super::messages::{ShardOrigin, hear, tell};
use super::tensor_parallel::TensorPart;
use super::transport::{TcpTransport, Transport, TransportError, accept, connect, listen};
use super::{DeviceError, Secret, Vaults};
use crate::model::{Block, Shard};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long peers may take to connect.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time between looks at whether waiting still makes sense.
const PAUSE: Duration = Duration::from_millis(20);

/// What a peer that connects wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Wish {
    /// To train: this is a lane of the mesh of change of plan `epoch`.
    Lane {
        /// Number of the change of plan.
        epoch: u64,
        /// Kind and number of the lane.
        lane: (u8, u32),
    },
    /// To read state.
    Read,
    /// To leave copies of a checkpoint.
    Keep,
}

/// What is to be read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReadRequest {
    /// Optimizer steps done.
    pub(super) step: u64,
    /// The shards.
    pub(super) shards: Vec<Shard>,
    /// Blocks of which all slices of a part are wanted: they come before the shards, as they are where the worker has just
    /// that part, else as empty messages.
    pub(super) blocks: Vec<Block>,
    /// The part.
    pub(super) part: TensorPart,
    /// Where all of it is.
    pub(super) from: Shelf,
}

/// Where a worker has state that others may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Shelf {
    /// Its memory, between two plans.
    Held,
    /// Copies of checkpoints in its host memory.
    Copies,
    /// Its node's disk.
    Disk,
}

impl Shelf {
    /// This shelf of the worker that listens there.
    pub(super) fn of(self, address: SocketAddr) -> ShardOrigin {
        match self {
            Self::Held => ShardOrigin::Memory(address),
            Self::Copies => ShardOrigin::Copy(address),
            Self::Disk => ShardOrigin::Disk(address),
        }
    }
}

/// What is to be kept: the shards follow, a message each.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeepRequest {
    /// Optimizer steps done.
    step: u64,
    /// The shards.
    shards: Vec<Shard>,
}

/// What others may read here, and leave.
pub(super) trait Library: Send + Sync + 'static {
    /// A shard of this step, or why there is none.
    fn read(&self, step: u64, shard: Shard, from: Shelf) -> Result<Found, String>;

    /// A block of this step where all that is here of it is this part.
    fn read_part(&self, step: u64, block: Block, part: TensorPart, from: Shelf) -> Option<Found>;

    /// Keeps a copy of a shard of this step.
    fn keep(&self, step: u64, shard: Shard, bytes: Vec<u8>);
}

/// A lane by the number of its change of plan, its kind and its own number.
type LaneId = (u64, (u8, u32));

/// Connections that have come and wait to be used.
#[derive(Debug, Default)]
struct Hall {
    lanes: Mutex<BTreeMap<LaneId, TcpTransport>>,
    changed: Condvar,
}

/// The door of one worker.
#[derive(Clone, Debug)]
pub(super) struct Peers {
    hall: Arc<Hall>,
    secret: Secret,
}

impl Peers {
    /// Opens the door on this interface, for as long as the process lives; returns its address as well.
    pub(super) fn open(
        interface: IpAddr,
        secret: &Secret,
        library: Arc<dyn Library>,
    ) -> Result<(Self, SocketAddr), DeviceError> {
        let (listener, address) = listen(SocketAddr::new(interface, 0))?;
        let peers = Self { hall: Arc::default(), secret: secret.clone() };
        let door = peers.clone();
        thread::spawn(move || door.keep(&listener, &library));
        Ok((peers, address))
    }

    /// Each visitor has a thread, so that a slow one keeps nobody waiting.
    fn keep(&self, listener: &TcpListener, library: &Arc<dyn Library>) {
        loop {
            let Ok((stream, _)) = listener.accept() else {
                thread::sleep(PAUSE);
                continue;
            };
            let (visited, library) = (self.clone(), Arc::clone(library));
            // A visitor without the secret or without a wish is turned away without further ado.
            thread::spawn(move || drop(visited.welcome(stream, &*library)));
        }
    }

    fn welcome(&self, stream: TcpStream, library: &dyn Library) -> Result<(), DeviceError> {
        let (mut visitor, greeting) = accept(stream, &self.secret)?;
        let stranger = || DeviceError::Protocol { from: "a peer".to_owned() };
        match serde_json::from_slice(&greeting).map_err(|_| stranger())? {
            Wish::Lane { epoch, lane } => {
                let mut lanes = self.hall.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                // Those of earlier changes of plan have nobody who waits for them.
                lanes.retain(|(other, _), _| *other >= epoch);
                lanes.insert((epoch, lane), visitor);
                self.hall.changed.notify_all();
                Ok(())
            }
            Wish::Read => {
                let ReadRequest { step, shards, blocks, part, from } = hear(&mut visitor, "a peer")?;
                for block in blocks {
                    match library.read_part(step, block, part, from) {
                        Some(found) => found.send(&mut visitor)?,
                        None => visitor.send(&[])?,
                    }
                }
                for shard in shards {
                    match library.read(step, shard, from) {
                        Ok(found) => found.send(&mut visitor)?,
                        Err(problem) => {
                            visitor.send(&[])?;
                            visitor.send(problem.as_bytes())?;
                        }
                    }
                }
                Ok(())
            }
            Wish::Keep => {
                let KeepRequest { step, shards } = hear(&mut visitor, "a peer")?;
                for shard in shards {
                    library.keep(step, shard, visitor.receive()?);
                }
                // All are here: nothing more is said.
                Ok(visitor.send(&[])?)
            }
        }
    }

    /// Connects to the worker at `address`, whom errors call `name`, as a lane.
    pub(super) fn connect(
        &self,
        address: SocketAddr,
        wish: Wish,
        name: &str,
        interrupt: &Interrupt,
    ) -> Result<TcpTransport, DeviceError> {
        let greeting = serde_json::to_vec(&wish).expect("a wish has string keys only");
        let connection = connect(address, &self.secret, &greeting, name)?;
        interrupt.cover(&connection)?;
        Ok(connection)
    }

    /// Waits for the peer that connects as this lane, whom errors call `name`.
    pub(super) fn await_lane(
        &self,
        epoch: u64,
        lane: (u8, u32),
        name: &str,
        interrupt: &Interrupt,
    ) -> Result<TcpTransport, DeviceError> {
        let deadline = Instant::now() + PATIENCE;
        let mut lanes = self.hall.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            interrupt.check()?;
            if let Some(connection) = lanes.remove(&(epoch, lane)) {
                drop(lanes);
                interrupt.cover(&connection)?;
                return Ok(connection.named(&name));
            }
            if Instant::now() > deadline {
                return Err(TransportError::TimedOut { peer: name.to_owned() }.into());
            }
            lanes = self.hall.changed.wait_timeout(lanes, PAUSE).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has the worker at `address` keep copies of shards of this step; returns once it has them.
    pub(super) fn deliver<'a>(
        &self,
        address: SocketAddr,
        step: u64,
        shards: &[Shard],
        cut: impl Fn(Shard) -> Option<BlockState> + 'a,
    ) -> Result<(), DeviceError> {
        let name = format!("the worker at {address}");
        let mut connection = self.connect(address, Wish::Keep, &name, &Interrupt::default())?;
        tell(&mut connection, &KeepRequest { step, shards: shards.to_vec() })?;
        for &shard in shards {
            let found = cut(shard).ok_or(DeviceError::NotHeld { block: shard.block, slice: shard.slice })?;
            Found::Slice(found).send(&mut connection)?;
        }
        connection.receive()?;
        Ok(())
    }

    /// Reads from the worker at `address`. Gives each shard to `take` as it comes, and each block that comes in one piece to
    /// `take_block`.
    pub(super) fn read(
        &self,
        address: SocketAddr,
        request: &ReadRequest,
        interrupt: &Interrupt,
        mut take_block: impl FnMut(Block, BlockState),
        mut take: impl FnMut(Shard, BlockState),
    ) -> Result<(), DeviceError> {
        let name = format!("the worker at {address}");
        let mut connection = self.connect(address, Wish::Read, &name, interrupt)?;
        tell(&mut connection, request)?;
        for &block in &request.blocks {
            let bytes = connection.receive()?;
            if !bytes.is_empty() {
                take_block(block, shard_from_bytes(&bytes, &name)?);
            }
        }
        for &shard in &request.shards {
            let bytes = connection.receive()?;
            if bytes.is_empty() {
                // Who has nothing says why.
                let problem = String::from_utf8_lossy(&connection.receive()?).into_owned();
                return Err(DeviceError::CopyLost { origin: request.from.of(address), problem });
            }
            take(shard, shard_from_bytes(&bytes, &name)?);
        }
        Ok(())
    }
}

/// What a worker lets others read.
#[derive(Clone)]
pub(super) struct Shelves {
    /// Between two plans, its memory.
    pub(super) held: Held,
    /// Copies of checkpoints.
    pub(super) copies: Copies,
    /// Its node's disk, once it is known where that is.
    pub(super) vaults: Arc<OnceLock<Vaults>>,
}

impl Library for Shelves {
    fn read(&self, step: u64, shard: Shard, from: Shelf) -> Result<Found, String> {
        let found = match from {
            Shelf::Held => {
                let held = self.held.get().filter(|holding| holding.state.step == step);
                held.and_then(|holding| holding.shard(shard)).map(Found::Slice)
            }
            Shelf::Copies => self.copies.shard(step, shard),
            Shelf::Disk => {
                let vaults = self.vaults.get().ok_or("there are no checkpoints")?;
                Some(Found::Slice(vaults.read_disk(step, shard).map_err(|error| error.to_string())?))
            }
        };
        found.ok_or_else(|| DeviceError::NotHeld { block: shard.block, slice: shard.slice }.to_string())
    }

    fn read_part(&self, step: u64, block: Block, part: TensorPart, from: Shelf) -> Option<Found> {
        match from {
            Shelf::Held => self.held.get().filter(|holding| holding.state.step == step)?.part(block, part),
            Shelf::Copies => self.copies.part(step, block, part),
            Shelf::Disk => None,
        }
    }

    fn keep(&self, step: u64, shard: Shard, bytes: Vec<u8>) {
        self.copies.keep(step, shard, bytes);
    }
}
