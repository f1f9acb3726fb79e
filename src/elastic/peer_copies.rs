//! Copies of a checkpoint in the host memory of other nodes, so that the loss of all that hold a layer costs a read over the
//! network, and not one from the object store (Gemini; Wang et al., SOSP 2023).

use super::layout::{Shard, ShardIndex, StateLayout};
use crate::cluster::Cluster;
use crate::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Which shards of a checkpoint are sent from where to where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCopies {
    /// Each copy; those that go the same way in the order of their shards.
    pub copies: Vec<PeerCopy>,
}

/// One shard that a node sends to another one's host memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerCopy {
    /// Name of the node that holds the shard.
    pub from: Arc<str>,
    /// Name of the node that keeps the copy.
    pub to: Arc<str>,
    /// The shard.
    pub shard: Shard,
    /// Its size.
    pub bytes: u64,
}

impl PeerCopies {
    /// Sender, receiver and bytes of each way that is taken.
    pub fn transfers(&self) -> impl Iterator<Item = (&str, &str, u64)> {
        let ways = self.copies.chunk_by(|one, next| (&one.from, &one.to) == (&next.from, &next.to));
        ways.map(|copies| (&*copies[0].from, &*copies[0].to, copies.iter().map(|copy| copy.bytes).sum()))
    }
}

/// Shards that the same nodes hold, which go together: the fewer nodes a copy is spread over, the fewer losses hit it.
struct Group {
    /// Places in the ring.
    holders: BTreeSet<usize>,
    shards: Vec<ShardIndex>,
    bytes: u64,
    receivers: BTreeSet<usize>,
}

/// Gives each shard `count` keepers among `receivers` that don't hold it themselves, as far as there are any.
///
/// Shards that the same nodes hold go to the same keeper: the largest groups first, each to the node that would have received
/// it soonest by what it was given so far; among equal ones to one whose own state a holder of this group keeps already, so
/// that two nodes keep each other's and the loss of any other two hits nothing (Gemini's groups), then to the next in the ring of
/// nodes. The holders of a group share the sending.
pub fn place_copies(layout: &StateLayout, plan: &Plan, receivers: &Cluster, count: u32) -> PeerCopies {
    let ring = ring(plan, receivers);
    let place = |name: &str| ring.iter().position(|other| *other == name);
    let bytes_per_s: BTreeMap<usize, f64> =
        receivers.nodes.iter().filter_map(|node| Some((place(&node.name)?, node.nic.bytes_per_s))).collect();
    let mut groups = groups(layout, plan, &ring);
    let mut received_s = vec![0.0_f64; ring.len()];
    for _ in 0..count {
        for number in 0..groups.len() {
            let group = &groups[number];
            let first = group.holders.first().copied().unwrap_or(0);
            let keeps_mine = |candidate: usize| {
                let is_kept = |other: &Group| !other.receivers.is_disjoint(&group.holders);
                groups.iter().any(|other| other.holders.contains(&candidate) && is_kept(other))
            };
            let free =
                bytes_per_s.iter().filter(|(at, _)| !group.holders.contains(at) && !group.receivers.contains(at));
            let ranked = free.map(|(&at, &rate)| {
                let end_s = received_s[at] + group.bytes as f64 / rate;
                (end_s, !keeps_mine(at), (at + ring.len() - first) % ring.len(), at)
            });
            let best = ranked.min_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            let Some((end_s, .., keeper)) = best else { continue };
            received_s[keeper] = end_s;
            groups[number].receivers.insert(keeper);
        }
    }
    written_out(layout, &groups, &ring)
}

/// The plan's nodes in its order, then the others.
fn ring<'a>(plan: &'a Plan, receivers: &'a Cluster) -> Vec<&'a str> {
    let stages = plan.replicas.iter().flat_map(|replica| &replica.stages).map(|stage| stage.node.as_str());
    let mut seen = BTreeSet::new();
    stages.chain(receivers.nodes.iter().map(|node| node.name.as_str())).filter(|name| seen.insert(*name)).collect()
}

/// Largest first.
fn groups(layout: &StateLayout, plan: &Plan, ring: &[&str]) -> Vec<Group> {
    let places: BTreeMap<&str, usize> = ring.iter().enumerate().map(|(place, name)| (*name, place)).collect();
    let mut holders = vec![BTreeSet::new(); layout.shard_count()];
    for (name, shard) in layout.held(plan) {
        holders[shard].insert(places[name]);
    }
    let mut by_holders: BTreeMap<BTreeSet<usize>, Vec<ShardIndex>> = BTreeMap::new();
    for (shard, holders) in holders.into_iter().enumerate().filter(|(_, holders)| !holders.is_empty()) {
        by_holders.entry(holders).or_default().push(shard);
    }
    let group = |(holders, shards): (BTreeSet<usize>, Vec<ShardIndex>)| {
        let bytes = shards.iter().map(|&shard| layout.bytes(shard)).sum();
        Group { holders, shards, bytes, receivers: BTreeSet::new() }
    };
    let mut groups: Vec<Group> = by_holders.into_iter().map(group).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.bytes));
    groups
}

fn written_out(layout: &StateLayout, groups: &[Group], ring: &[&str]) -> PeerCopies {
    let names: Vec<Arc<str>> = ring.iter().map(|name| Arc::from(*name)).collect();
    let mut sent_bytes = vec![0_u64; ring.len()];
    let mut copies = Vec::new();
    for group in groups {
        for &to in &group.receivers {
            for &shard in &group.shards {
                let Some(&from) = group.holders.iter().min_by_key(|&&at| sent_bytes[at]) else { continue };
                let bytes = layout.bytes(shard);
                sent_bytes[from] += bytes;
                let (from, to) = (Arc::clone(&names[from]), Arc::clone(&names[to]));
                copies.push(PeerCopy { from, to, shard: layout.shard(shard), bytes });
            }
        }
    }
    copies.sort();
    PeerCopies { copies }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elastic::fixtures::{cluster, plan};

    fn ways(plan: &Plan, up: &[&str], count: u32) -> Vec<(String, String, u64)> {
        // Two layers of 800 bytes; an embedding and a head of 400.
        let copies = place_copies(&StateLayout::of_bytes(2, 400, 800, 400), plan, &cluster(up), count);
        copies.transfers().map(|(from, to, bytes)| (from.to_owned(), to.to_owned(), bytes)).collect()
    }

    fn way(from: &str, to: &str, bytes: u64) -> (String, String, u64) {
        (from.to_owned(), to.to_owned(), bytes)
    }

    #[test]
    fn the_stages_of_a_pipeline_keep_each_others_state() {
        let pipeline = plan(1, &[&[("a", 0, 1), ("b", 1, 1)]]);
        assert_eq!(ways(&pipeline, &["a", "b"], 1), [way("a", "b", 1200), way("b", "a", 1200)]);
        assert!(ways(&pipeline, &["a", "b"], 0).is_empty());
        // There is nobody for a second copy.
        assert_eq!(ways(&pipeline, &["a", "b"], 2), ways(&pipeline, &["a", "b"], 1));
    }

    #[test]
    fn equal_stages_pair_up() {
        let four = plan(1, &[&[("a", 0, 1), ("b", 1, 1), ("c", 2, 1), ("d", 3, 1)]]);
        let layout = StateLayout::of_bytes(4, 0, 800, 0);
        let copies = place_copies(&layout, &four, &cluster(&["a", "b", "c", "d"]), 1);
        let ways: Vec<_> = copies.transfers().collect();
        assert_eq!(ways, [("a", "b", 800), ("b", "a", 800), ("c", "d", 800), ("d", "c", 800)]);
    }

    #[test]
    fn what_all_hold_is_sent_to_nobody_and_holders_share_the_sending() {
        let replicas = plan(1, &[&[("a", 0, 2)], &[("b", 0, 2)]]);
        assert!(ways(&replicas, &["a", "b"], 1).is_empty());
        // A node without a part in the plan keeps everything; half comes from each.
        assert_eq!(ways(&replicas, &["a", "b", "idle"], 1), [way("a", "idle", 1200), way("b", "idle", 1200)]);
    }

    #[test]
    fn a_node_that_isnt_among_the_receivers_sends_and_gets_nothing() {
        // `b` is about to be lost.
        let pipeline = plan(1, &[&[("a", 0, 1), ("b", 1, 1)]]);
        assert_eq!(ways(&pipeline, &["a", "idle"], 1), [way("a", "idle", 1200), way("b", "a", 1200)]);
    }

    #[test]
    fn wide_interfaces_are_given_more() {
        let replicas = plan(1, &[&[("a", 0, 2)]]);
        let mut up = cluster(&["a", "narrow", "wide"]);
        up.nodes[2].nic.bytes_per_s = 300.0;
        let copies = place_copies(&StateLayout::of_bytes(2, 400, 800, 400), &replicas, &up, 1);
        assert_eq!(copies.transfers().collect::<Vec<_>>(), [("a", "wide", 2400)]);
    }
}
