//! Gradients in buckets: blocks that the same ranks hold the same slice of, reduced at once.

use super::{Group, LowerOptions, Share};
use crate::cost::Buckets;
use std::collections::BTreeMap;

/// Puts the groups of single blocks together. With them comes, for each group that there was, the bucket that is complete
/// with it; none where more blocks follow in its bucket.
///
/// All members of a group see the same blocks in the same order, and so make the same buckets: a bucket ends where it is
/// full, and where the next block has other holders.
pub(super) fn in_buckets(groups: &[Group], options: LowerOptions) -> (Vec<Group>, Vec<Option<u32>>) {
    let least = match options.framework.buckets {
        Buckets::Layer => return (groups.to_vec(), (0..groups.len() as u32).map(Some).collect()),
        Buckets::Whole => u64::MAX,
        Buckets::Parameters(least) => least,
    };
    let mut order: Vec<usize> = (0..groups.len()).collect();
    // A stable sort: slices of a block stay in order.
    order.sort_by(|&a, &b| groups[b].block().cmp(&groups[a].block()));
    let mut buckets: Vec<Bucket> = Vec::new();
    let mut open: BTreeMap<(u32, u32, u32), usize> = BTreeMap::new();
    for index in order {
        let group = &groups[index];
        let Share { start, end, of } = group.share;
        let parameters = options.parameters(group.block()) / u64::from(of);
        let current = open.get(&(start, end, of)).copied();
        let current = current.filter(|&at| buckets[at].parameters < least && buckets[at].group.ranks == group.ranks);
        if let Some(at) = current {
            buckets[at].group.blocks.push(group.block());
            buckets[at].parameters += parameters;
            buckets[at].last = index;
        } else {
            open.insert((start, end, of), buckets.len());
            buckets.push(Bucket { group: group.clone(), parameters, last: index });
        }
    }
    let mut complete = vec![None; groups.len()];
    for (number, bucket) in buckets.iter().enumerate() {
        complete[bucket.last] = Some(number as u32);
    }
    (buckets.into_iter().map(|bucket| bucket.group).collect(), complete)
}

struct Bucket {
    group: Group,
    parameters: u64,
    /// The group of a single block that was put in last.
    last: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Framework;
    use crate::ids::{LayerId, Rank};
    use crate::model::Block;

    fn group(block: Block, ranks: [u32; 2]) -> Group {
        Group { blocks: vec![block], share: Share::WHOLE, ranks: ranks.map(Rank).to_vec() }
    }

    fn options(buckets: Buckets) -> LowerOptions {
        let framework = Framework { buckets, ..Framework::default() };
        LowerOptions { framework, block_parameters: [50, 10, 60], ..LowerOptions::default() }
    }

    /// Embedding, four layers, head; the first three blocks on other ranks than the rest.
    fn groups() -> Vec<Group> {
        let layer = |index: u32| Block::Layer(LayerId(index));
        let first = [Block::Embedding, layer(0), layer(1)].map(|block| group(block, [0, 2]));
        let last = [layer(2), layer(3), Block::Head].map(|block| group(block, [1, 3]));
        [first, last].concat()
    }

    fn blocks(buckets: Buckets) -> Vec<usize> {
        in_buckets(&groups(), options(buckets)).0.iter().map(|group| group.blocks.len()).collect()
    }

    #[test]
    fn buckets_end_where_they_are_full_and_where_holders_change() {
        assert_eq!(blocks(Buckets::Layer), [1; 6]);
        assert_eq!(blocks(Buckets::Whole), [3, 3]);
        // The head alone is enough; two layers are; a layer and the embedding.
        assert_eq!(blocks(Buckets::Parameters(20)), [1, 2, 2, 1]);
        assert_eq!(blocks(Buckets::Parameters(15)), [1, 2, 2, 1]);
    }

    #[test]
    fn a_bucket_is_complete_with_the_block_that_goes_backward_last() {
        let (buckets, complete) = in_buckets(&groups(), options(Buckets::Whole));
        assert_eq!(complete, [Some(1), None, None, Some(0), None, None]);
        assert_eq!([buckets[0].block(), buckets[1].block()], [Block::Layer(LayerId(2)), Block::Embedding]);
    }
}
