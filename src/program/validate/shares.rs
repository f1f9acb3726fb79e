//! Proof that every rank gets what it needs: of each activation and gradient exactly its share, from ranks that have it, and
//! of each block that others hold too a reduction of each slice.

use super::ProgramError;
use crate::ids::{Rank, ReplicaId};
use crate::model::Block;
use crate::plan::{Plan, StagePosition};
use crate::program::share::lcm;
use crate::program::{Direction, Group, Op, Program, Share};
use std::collections::{BTreeMap, BTreeSet};

impl Program {
    /// Every micro batch comes whole over each boundary of each chunk: what a rank receives makes up what it is to have, and
    /// comes from ranks of the stage on the other side that have it.
    pub(super) fn validate_transfers(&self, plan: &Plan) -> Result<(), ProgramError> {
        for (index, rank) in self.ranks().iter().enumerate() {
            let wrong = |what| ProgramError::Share { rank: Rank::from(index), what };
            let replica = &plan.replicas[rank.replica.index()];
            let own = rank.activation_share();
            let mut received: BTreeMap<(Direction, u32, u32), Vec<Share>> = BTreeMap::new();
            for instruction in &rank.instructions {
                let Op::Receive { micro_batch, direction, boundary, channel } = instruction.op else { continue };
                let channel = self.channels()[channel as usize];
                let from = &self.ranks()[channel.from.index()];
                let source = source(direction, boundary) as usize % replica.stages.len();
                if from.replica != rank.replica || from.stage.index() != source {
                    return Err(wrong("receives from a stage that isn't next to its own"));
                }
                if !from.activation_share().contains(channel.share) {
                    return Err(wrong("receives what its sender doesn't have"));
                }
                received.entry((direction, boundary, micro_batch.0)).or_default().push(channel.share);
            }
            let is_whole = received.values().all(|shares| make_up(shares, own));
            if !received.into_keys().eq(expected(&replica.position(rank.stage.index()))) || !is_whole {
                return Err(wrong("doesn't receive each micro batch once and whole"));
            }
        }
        Ok(())
    }

    /// Every group has a holder of its slice in each replica, and a rank that reduces a block reduces all that it holds
    /// of it.
    pub(super) fn validate_reductions(&self, plan: &Plan) -> Result<(), ProgramError> {
        let mut reduced: BTreeMap<(usize, Block), Vec<Share>> = BTreeMap::new();
        for (Group { share, ranks, .. }, block) in self.groups().iter().flat_map(each_block) {
            let mut replicas: BTreeSet<ReplicaId> = BTreeSet::new();
            for &rank in ranks {
                let place = &self.ranks()[rank.index()];
                let blocks = plan.replicas[place.replica.index()].blocks(place.stage.index());
                let is_tied = block == Block::Embedding && blocks.contains(&Block::Head);
                if !(blocks.contains(&block) || is_tied) || !place.block_share().contains(*share) {
                    return Err(ProgramError::Share { rank, what: "reduces what it doesn't hold" });
                }
                replicas.insert(place.replica);
                reduced.entry((rank.index(), block)).or_default().push(*share);
            }
            if replicas.len() != plan.replicas.len() {
                return Err(ProgramError::Share { rank: ranks[0], what: "reduces without one of the replicas" });
            }
        }
        for ((rank, _), shares) in reduced {
            if !make_up(&shares, self.ranks()[rank].block_share()) {
                let rank = Rank::from(rank);
                return Err(ProgramError::Share { rank, what: "doesn't reduce each slice of a block once" });
            }
        }
        Ok(())
    }
}

fn each_block(group: &Group) -> impl Iterator<Item = (&Group, Block)> {
    group.blocks.iter().map(move |block| (group, *block))
}

/// The virtual stage that sends over a boundary.
fn source(direction: Direction, boundary: u32) -> u32 {
    match direction {
        Direction::Downstream => boundary,
        Direction::Upstream => boundary + 1,
    }
}

/// What a stage is to receive, in order: activations over the boundary before each of its virtual stages, gradients over
/// the one behind it.
fn expected(position: &StagePosition) -> impl Iterator<Item = (Direction, u32, u32)> {
    let StagePosition { stage, depth, chunks, micro_batches } = *position;
    let places = move || (0..chunks).map(move |chunk| (chunk * depth + stage) as u32);
    let last = (depth * chunks) as u32 - 1;
    let activations = places().filter_map(|place| Some((Direction::Downstream, place.checked_sub(1)?)));
    let gradients = places().filter(move |place| *place < last).map(|place| (Direction::Upstream, place));
    let boundaries = activations.chain(gradients);
    boundaries.flat_map(move |(direction, boundary)| (0..micro_batches).map(move |batch| (direction, boundary, batch)))
}

/// Whether these shares, none of them twice, are the whole of another.
fn make_up(shares: &[Share], whole: Share) -> bool {
    let of = shares.iter().map(|share| share.of).fold(whole.of, lcm);
    let mut parts: Vec<u32> = shares.iter().flat_map(|share| share.in_parts(of)).collect();
    parts.sort_unstable();
    parts.into_iter().eq(whole.in_parts(of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Precision, Recompute};
    use crate::plan::{Replica, SCHEMA_VERSION, ScheduleKind, Stage};
    use crate::program::LowerOptions;

    /// Two replicas: stages of two GPUs and of one, with sequence parallelism.
    fn lowered() -> (Plan, Program) {
        let stage = |(first_layer, degree): (u32, u32)| Stage {
            node: format!("n{first_layer}-{degree}"),
            gpus: (0..degree).collect(),
            gpu_type: "T4".to_owned(),
            first_layer,
            num_layers: 1,
            later_chunks: Vec::new(),
        };
        let replica =
            |stages: [(u32, u32); 2]| Replica { micro_batches: 1, stages: stages.into_iter().map(stage).collect() };
        let plan = Plan {
            schema_version: SCHEMA_VERSION,
            planner: "test".to_owned(),
            model: "test".into(),
            global_batch_size: 2,
            micro_batch_size: 1,
            sequence_parallel: true,
            recompute: Recompute::None,
            precision: Precision::Fp16,
            schedule: ScheduleKind::default(),
            replicas: vec![replica([(0, 2), (1, 1)]), replica([(0, 1), (1, 2)])],
        };
        let program = Program::lower(&plan, LowerOptions::default());
        (plan, program)
    }

    fn complaint(change: impl Fn(&mut Program)) -> String {
        let (plan, mut program) = lowered();
        assert_eq!(program.validate(&plan), Ok(()));
        change(&mut program);
        program.validate(&plan).unwrap_err().to_string()
    }

    #[test]
    fn wrong_shares_are_noticed() {
        let half = Share::of_rank(1, 2);
        assert_eq!(complaint(|p| p.channels[0].share = half), "rank 2: receives what its sender doesn't have");
        let quarter = Share::of_rank(0, 4);
        assert_eq!(
            complaint(|p| p.channels[0].share = quarter),
            "rank 2: doesn't receive each micro batch once and whole"
        );
        assert_eq!(
            complaint(|p| p.channels[0].from = Rank(4)),
            "rank 2: receives from a stage that isn't next to its own"
        );
    }

    #[test]
    fn wrong_groups_are_noticed() {
        assert_eq!(complaint(|p| p.groups[0].share = Share::of_rank(1, 2)), "rank 0: reduces what it doesn't hold");
        let found = complaint(|p| p.groups[0].share = Share::of_rank(0, 4));
        assert!(found.ends_with(": doesn't reduce each slice of a block once"), "{found}");
    }
}
