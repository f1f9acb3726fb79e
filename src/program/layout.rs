//! Numbers of ranks and channels, and which ranks of neighbouring stages speak to each other.

use super::{Channel, Share};
use crate::ids::Rank;
use crate::plan::Plan;

/// Numbers of ranks and channels.
pub(super) struct Layout {
    /// First rank of each stage of each replica.
    first_rank: Vec<Vec<u32>>,
    /// Per rank, its channels.
    neighbours: Vec<Neighbours>,
    pub(super) channels: Vec<Channel>,
}

/// A rank's channels: where it receives from and sends to, in order; none at the pipeline's ends, which only speak to each
/// other where there are several chunks.
#[derive(Clone, Default)]
pub(super) struct Neighbours {
    pub(super) receive_activation: Vec<u32>,
    pub(super) send_activation: Vec<u32>,
    pub(super) receive_gradient: Vec<u32>,
    pub(super) send_gradient: Vec<u32>,
}

/// Of a transfer between two stages the sender's and the receiver's tensor rank, and what is sent.
type Pair = (u32, u32, Share);

impl Layout {
    /// `partitioned` says whether ranks hold, or send, their own part of an activation only.
    pub(super) fn new(plan: &Plan, partitioned: bool) -> Self {
        let mut layout = Self {
            first_rank: Vec::new(),
            neighbours: vec![Neighbours::default(); plan.world_size()],
            channels: Vec::new(),
        };
        let mut next_rank = 0;
        for replica in &plan.replicas {
            let mut first = Vec::with_capacity(replica.stages.len());
            for stage in &replica.stages {
                first.push(next_rank);
                next_rank += stage.tensor_parallel_size();
            }
            for (boundary, firsts) in replica.stages.windows(2).zip(first.windows(2)) {
                let degrees = [boundary[0].tensor_parallel_size(), boundary[1].tensor_parallel_size()];
                layout.connect([firsts[0], firsts[1]], degrees, partitioned);
            }
            // Behind the last stage of a chunk comes the first one of the next.
            if let ([from, .., to], true) = (&replica.stages[..], replica.chunk_count() > 1) {
                let degrees = [to.tensor_parallel_size(), from.tensor_parallel_size()];
                layout.connect([first[first.len() - 1], first[0]], degrees, partitioned);
            }
            layout.first_rank.push(first);
        }
        layout
    }

    /// The channels of a boundary, there and back in turn.
    fn connect(&mut self, [before, after]: [u32; 2], degrees: [u32; 2], partitioned: bool) {
        let mut there = pairs(degrees, partitioned).into_iter();
        let mut back = pairs([degrees[1], degrees[0]], partitioned).into_iter();
        loop {
            let (activation, gradient) = (there.next(), back.next());
            if let Some((from, to, share)) = activation {
                let (from, to) = (before + from, after + to);
                let channel = self.open(from, to, share);
                self.neighbours[from as usize].send_activation.push(channel);
                self.neighbours[to as usize].receive_activation.push(channel);
            }
            if let Some((from, to, share)) = gradient {
                let (from, to) = (after + from, before + to);
                let channel = self.open(from, to, share);
                self.neighbours[from as usize].send_gradient.push(channel);
                self.neighbours[to as usize].receive_gradient.push(channel);
            }
            if activation.is_none() && gradient.is_none() {
                return;
            }
        }
    }

    fn open(&mut self, from: u32, to: u32, share: Share) -> u32 {
        self.channels.push(Channel { from: Rank(from), to: Rank(to), share });
        self.channels.len() as u32 - 1
    }

    pub(super) fn rank(&self, replica: usize, stage: usize, tensor_rank: u32) -> Rank {
        Rank(self.first_rank[replica][stage] + tensor_rank)
    }

    pub(super) fn neighbours(&self, rank: Rank) -> &Neighbours {
        &self.neighbours[rank.index()]
    }
}

/// Who sends what to whom, from a stage of `degrees[0]` ranks to one of `degrees[1]`.
///
/// Where every rank sends the whole tensor, receiver `j` gets it from sender `j t_s / t_r`, so that a sender serves several
/// receivers where there are more of those, and some senders serve nobody where there are fewer. Where each rank sends its
/// share of the rows, as under sequence parallelism, everybody gets each part of its own share from who has it.
fn pairs([senders, receivers]: [u32; 2], partitioned: bool) -> Vec<Pair> {
    if !partitioned {
        return (0..receivers).map(|to| (to * senders / receivers, to, Share::WHOLE)).collect();
    }
    let pair = |from, to| {
        let share = Share::of_rank(from, senders).overlap(Share::of_rank(to, receivers))?;
        Some((from, to, share))
    };
    (0..senders).flat_map(|from| (0..receivers).filter_map(move |to| pair(from, to))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quarters of the whole.
    fn quarter(rank: u32) -> Share {
        Share::of_rank(rank, 4)
    }

    #[test]
    fn whole_tensors_go_to_each_receiver_from_one_sender() {
        let whole = |from, to| (from, to, Share::WHOLE);
        assert_eq!(pairs([2, 1], false), [whole(0, 0)]);
        assert_eq!(pairs([1, 4], false), [whole(0, 0), whole(0, 1), whole(0, 2), whole(0, 3)]);
        assert_eq!(pairs([4, 2], false), [whole(0, 0), whole(2, 1)]);
        assert_eq!(pairs([2, 4], false), [whole(0, 0), whole(0, 1), whole(1, 2), whole(1, 3)]);
        assert_eq!(pairs([2, 2], false), [whole(0, 0), whole(1, 1)]);
    }

    #[test]
    fn rows_are_cut_and_put_together() {
        let half = |rank| Share::of_rank(rank, 2);
        assert_eq!(pairs([2, 1], true), [(0, 0, half(0)), (1, 0, half(1))]);
        assert_eq!(pairs([1, 4], true), [0, 1, 2, 3].map(|to| (0, to, quarter(to))));
        assert_eq!(pairs([4, 2], true), [0, 1, 2, 3].map(|from| (from, from / 2, quarter(from))));
        assert_eq!(pairs([2, 2], true), [(0, 0, half(0)), (1, 1, half(1))]);
        assert_eq!(pairs([1, 1], true), [(0, 0, Share::WHOLE)]);
    }
}
