//! Getting a rank's state together, shard by shard, from wherever each shard is.

use super::Tools;
use super::standstill::Standstill;
use crate::model::{Block, ModelSpec, Shard};
use crate::runtime::device::compute::{BlockState, TrainingState};
use crate::runtime::device::holding::Holding;
use crate::runtime::device::interrupt::Interrupt;
use crate::runtime::device::messages::{Assignment, BytesRead, ShardOrigin};
use crate::runtime::device::model::{assemble_state, initial_part, slices};
use crate::runtime::device::peers::{ReadRequest, Shelf};
use crate::runtime::device::tensor_parallel::TensorPart;
use crate::runtime::device::{DeviceError, StoreError};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;

type Shards = BTreeMap<Shard, BlockState>;

/// The state of the assigned rank, and what was read for it.
pub(super) fn gather(
    assignment: &Assignment,
    part: TensorPart,
    tools: &Tools,
    interrupt: &Interrupt,
    standstill: &Standstill,
) -> Result<(TrainingState, BytesRead), DeviceError> {
    standstill.at_recovery();
    let mut read = BytesRead::default();
    let mut own_blocks = own_blocks(assignment, part, tools, &mut read);
    let mut by_origin: BTreeMap<&ShardOrigin, Vec<Shard>> = BTreeMap::new();
    for source in assignment.shards.iter().filter(|source| !own_blocks.contains_key(&source.shard.block)) {
        by_origin.entry(&source.from).or_default().push(source.shard);
    }
    // All sources at once: they share nothing but this rank's interface.
    let read_one = |(origin, shards): (&ShardOrigin, Vec<Shard>)| {
        let reading = Reading { step: assignment.step, shards, tools, interrupt };
        reading.read(origin)
    };
    let outcomes: Vec<Result<(Shards, BytesRead), DeviceError>> = thread::scope(|scope| {
        let running: Vec<_> = by_origin.into_iter().map(|one| scope.spawn(move || read_one(one))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or(Err(DeviceError::Panicked { thread: "recovery" }))
        };
        running.into_iter().map(join).collect()
    });
    let mut shards = Shards::new();
    for outcome in outcomes {
        let (found, bytes) = outcome?;
        shards.extend(found);
        read.add(&bytes);
    }
    let model = &assignment.job.model;
    let mut blocks = BTreeMap::new();
    for of_block in assignment.shards.chunk_by(|one, next| one.shard.block == next.shard.block) {
        let block = of_block[0].shard.block;
        // Weights are drawn before the first step only: whatever else isn't there is missing.
        let state = if let Some(own) = own_blocks.remove(&block) {
            own
        } else if of_block.iter().all(|source| source.from == ShardOrigin::Seed) {
            BlockState::initial(initial_part(model, block, part, assignment.job.seed))
        } else {
            whole_block(model, block, part, &mut shards)?
        };
        blocks.insert(block, state);
    }
    Ok((TrainingState { step: assignment.step, blocks }, read))
}

/// Blocks of which this worker already has just the part that it needs: they need neither be cut nor put together.
fn own_blocks(
    assignment: &Assignment,
    part: TensorPart,
    tools: &Tools,
    read: &mut BytesRead,
) -> BTreeMap<Block, BlockState> {
    let held = tools.held.get().filter(|held| held.state.step == assignment.step && held.part == part);
    let Some(held) = held else { return BTreeMap::new() };
    let mut blocks = BTreeMap::new();
    for of_block in assignment.shards.chunk_by(|one, next| one.shard.block == next.shard.block) {
        let block = of_block[0].shard.block;
        let is_own = of_block.iter().all(|source| source.from == ShardOrigin::Own);
        if let Some(state) = held.state.blocks.get(&block).filter(|_| is_own) {
            read.own += bytes_of(state);
            blocks.insert(block, state.clone());
        }
    }
    blocks
}

/// A block from its shards.
fn whole_block(
    model: &ModelSpec,
    block: Block,
    part: TensorPart,
    shards: &mut Shards,
) -> Result<BlockState, DeviceError> {
    let take = |slice: usize| {
        let shard = Shard { block, slice: slice as u8 };
        shards.remove(&shard).ok_or(DeviceError::NotHeld { block, slice: shard.slice })
    };
    let slices: Vec<BlockState> = slices(part).map(take).collect::<Result<_, _>>()?;
    Ok(assemble_state(model, block, part, &slices))
}

/// Shards that are read from one place.
struct Reading<'a> {
    step: u64,
    shards: Vec<Shard>,
    tools: &'a Tools,
    interrupt: &'a Interrupt,
}

impl Reading<'_> {
    fn read(self, origin: &ShardOrigin) -> Result<(Shards, BytesRead), DeviceError> {
        let mut read = BytesRead::default();
        let shards = match *origin {
            ShardOrigin::Seed => Shards::new(),
            ShardOrigin::Own => self.read_own(&mut read.own)?,
            ShardOrigin::Memory(address) => self.read_peer(address, Shelf::Held, &mut read.memory)?,
            ShardOrigin::Copy(address) => self.read_peer(address, Shelf::Copies, &mut read.copies)?,
            ShardOrigin::Disk(address) => self.read_peer(address, Shelf::Disk, &mut read.disk)?,
            ShardOrigin::ObjectStore => self.read_object_store(&mut read.object_store)?,
        };
        Ok((shards, read))
    }

    fn read_own(self, bytes: &mut u64) -> Result<Shards, DeviceError> {
        let held = self.tools.held.get().filter(|holding| holding.state.step == self.step);
        let find = |&shard: &Shard| {
            let found = held.as_deref().and_then(|holding: &Holding| holding.shard(shard));
            let found = found.ok_or(DeviceError::NotHeld { block: shard.block, slice: shard.slice })?;
            *bytes += bytes_of(&found);
            Ok((shard, found))
        };
        self.shards.iter().map(find).collect()
    }

    fn read_peer(self, address: SocketAddr, from: Shelf, bytes: &mut u64) -> Result<Shards, DeviceError> {
        let mut shards = Shards::new();
        let request = ReadRequest { step: self.step, shards: self.shards, from };
        self.tools.peers.read(address, &request, self.interrupt, |shard, state, length| {
            *bytes += length;
            shards.insert(shard, state);
        })?;
        Ok(shards)
    }

    fn read_object_store(self, bytes: &mut u64) -> Result<Shards, DeviceError> {
        let lost = |shard: &Shard| DeviceError::NotHeld { block: shard.block, slice: shard.slice };
        let Some(vaults) = self.tools.vaults.get() else { return Err(lost(&self.shards[0])) };
        let unreadable =
            |error: StoreError| DeviceError::CopyLost { origin: ShardOrigin::ObjectStore, problem: error.to_string() };
        let stored = vaults.open_object_store(self.step).map_err(unreadable)?;
        let mut shards = Shards::new();
        for shard in self.shards {
            self.interrupt.check()?;
            let found = stored.read(shard).map_err(unreadable)?;
            *bytes += bytes_of(&found);
            shards.insert(shard, found);
        }
        Ok(shards)
    }
}

/// Three vectors of four-byte numbers.
fn bytes_of(shard: &BlockState) -> u64 {
    12 * shard.values.len() as u64
}
