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

/// State that was read: blocks as this rank needs them, and slices of others.
#[derive(Default)]
struct Gathered {
    blocks: BTreeMap<Block, BlockState>,
    shards: BTreeMap<Shard, BlockState>,
}

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
    let mut gathered = Gathered { blocks: own_blocks(assignment, part, tools, &mut read), ..Gathered::default() };
    let mut by_origin: BTreeMap<&ShardOrigin, Vec<Shard>> = BTreeMap::new();
    for source in assignment.shards.iter().filter(|source| !gathered.blocks.contains_key(&source.shard.block)) {
        by_origin.entry(&source.from).or_default().push(source.shard);
    }
    // All sources at once: they share nothing but this rank's interface.
    let read_one = |(origin, shards): (&ShardOrigin, Vec<Shard>)| {
        let reading = Reading { step: assignment.step, shards, part, tools, interrupt };
        reading.read(origin)
    };
    let outcomes: Vec<Result<(Gathered, BytesRead), DeviceError>> = thread::scope(|scope| {
        let running: Vec<_> = by_origin.into_iter().map(|one| scope.spawn(move || read_one(one))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or(Err(DeviceError::Panicked { thread: "recovery" }))
        };
        running.into_iter().map(join).collect()
    });
    for outcome in outcomes {
        let (found, bytes) = outcome?;
        gathered.blocks.extend(found.blocks);
        gathered.shards.extend(found.shards);
        read.add(&bytes);
    }
    let model = &assignment.job.model;
    let mut blocks = BTreeMap::new();
    for of_block in assignment.shards.chunk_by(|one, next| one.shard.block == next.shard.block) {
        let block = of_block[0].shard.block;
        // Weights are drawn before the first step only: whatever else isn't there is missing.
        let state = if let Some(whole) = gathered.blocks.remove(&block) {
            whole
        } else if of_block.iter().all(|source| source.from == ShardOrigin::Seed) {
            BlockState::initial(initial_part(model, block, part, assignment.job.seed))
        } else {
            whole_block(model, block, part, &mut gathered.shards)?
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
    shards: &mut BTreeMap<Shard, BlockState>,
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
    part: TensorPart,
    tools: &'a Tools,
    interrupt: &'a Interrupt,
}

impl Reading<'_> {
    fn read(self, origin: &ShardOrigin) -> Result<(Gathered, BytesRead), DeviceError> {
        let mut read = BytesRead::default();
        let gathered = match *origin {
            ShardOrigin::Seed => Gathered::default(),
            ShardOrigin::Own => self.read_own(&mut read.own)?,
            ShardOrigin::Memory(address) => self.read_peer(address, Shelf::Held, &mut read.memory)?,
            ShardOrigin::Copy(address) => self.read_peer(address, Shelf::Copies, &mut read.copies)?,
            ShardOrigin::Disk(address) => self.read_peer(address, Shelf::Disk, &mut read.disk)?,
            ShardOrigin::ObjectStore => self.read_object_store(&mut read.object_store)?,
        };
        Ok((gathered, read))
    }

    fn read_own(self, bytes: &mut u64) -> Result<Gathered, DeviceError> {
        let held = self.tools.held.get().filter(|holding| holding.state.step == self.step);
        let find = |&shard: &Shard| {
            let found = held.as_deref().and_then(|holding: &Holding| holding.shard(shard));
            let found = found.ok_or(DeviceError::NotHeld { block: shard.block, slice: shard.slice })?;
            *bytes += bytes_of(&found);
            Ok((shard, found))
        };
        let shards = self.shards.iter().map(find).collect::<Result<_, DeviceError>>()?;
        Ok(Gathered { shards, ..Gathered::default() })
    }

    /// Blocks of which all slices come from there are asked for in one piece; where the peer hasn't got them so, slice by
    /// slice.
    fn read_peer(self, address: SocketAddr, from: Shelf, bytes: &mut u64) -> Result<Gathered, DeviceError> {
        let of_blocks = self.shards.chunk_by(|one, next| one.block == next.block);
        let whole = of_blocks.filter(|shards| shards.len() == slices(self.part).len());
        let blocks: Vec<Block> = whole.map(|shards| shards[0].block).collect();
        let (in_blocks, sliced): (Vec<Shard>, Vec<Shard>) =
            self.shards.iter().partition(|shard| blocks.contains(&shard.block));
        let mut gathered = Gathered::default();
        self.ask(address, from, (blocks, sliced), &mut gathered)?;
        let missing: Vec<Shard> =
            in_blocks.into_iter().filter(|shard| !gathered.blocks.contains_key(&shard.block)).collect();
        if !missing.is_empty() {
            self.ask(address, from, (Vec::new(), missing), &mut gathered)?;
        }
        *bytes += gathered.blocks.values().chain(gathered.shards.values()).map(bytes_of).sum::<u64>();
        Ok(gathered)
    }

    fn ask(
        &self,
        address: SocketAddr,
        from: Shelf,
        (blocks, shards): (Vec<Block>, Vec<Shard>),
        gathered: &mut Gathered,
    ) -> Result<(), DeviceError> {
        let request = ReadRequest { step: self.step, shards, blocks, part: self.part, from };
        let Gathered { blocks, shards } = gathered;
        self.tools.peers.read(
            address,
            &request,
            self.interrupt,
            |block, state| drop(blocks.insert(block, state)),
            |shard, state| drop(shards.insert(shard, state)),
        )
    }

    fn read_object_store(self, bytes: &mut u64) -> Result<Gathered, DeviceError> {
        let lost = |shard: &Shard| DeviceError::NotHeld { block: shard.block, slice: shard.slice };
        let Some(vaults) = self.tools.vaults.get() else { return Err(lost(&self.shards[0])) };
        let unreadable =
            |error: StoreError| DeviceError::CopyLost { origin: ShardOrigin::ObjectStore, problem: error.to_string() };
        let stored = vaults.open_object_store(self.step).map_err(unreadable)?;
        let mut shards = BTreeMap::new();
        for shard in self.shards {
            self.interrupt.check()?;
            let found = stored.read(shard).map_err(unreadable)?;
            *bytes += bytes_of(&found);
            shards.insert(shard, found);
        }
        Ok(Gathered { shards, ..Gathered::default() })
    }
}

/// Three vectors of four-byte numbers.
fn bytes_of(shard: &BlockState) -> u64 {
    12 * shard.values.len() as u64
}
