//! Recovery plans: closed forms, and properties against a naive account of every copy.

use super::fixtures::{cluster, plan, shards_of};
use super::*;
use crate::plan::Plan;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn layout(num_layers: u32) -> StateLayout {
    StateLayout::of_bytes(num_layers, 1600, 800, 2400)
}

fn bandwidths() -> StorageBandwidths {
    StorageBandwidths { disk_bytes_per_s: 50.0, object_store_bytes_per_s: 400.0, object_store_total_bytes_per_s: None }
}

fn options(sources: AllowedSources) -> RecoveryOptions {
    RecoveryOptions { sources, bandwidths: bandwidths() }
}

fn recover(bitmap: &LayerBitmap, plan: &Plan, up: &[&str]) -> RecoveryPlan {
    plan_recovery(bitmap, plan, &cluster(up), &options(AllowedSources::All))
}

fn transfers(recovery: &RecoveryPlan) -> Vec<(&str, Source, u64)> {
    recovery.transfers.iter().map(|transfer| (&*transfer.to, transfer.source.clone(), transfer.bytes)).collect()
}

fn peer(node: &str, tier: Tier) -> Source {
    Source::Peer { node: node.into(), tier }
}

#[test]
fn nothing_anywhere_starts_from_initial_weights() {
    let recovery = recover(&LayerBitmap::new(layout(2)), &plan(1, &[&[("a", 0, 2)]]), &["a"]);
    assert_eq!((recovery.resume_step, recovery.origin), (0, Origin::InitialWeights));
    assert!(recovery.transfers.is_empty() && recovery.shards.is_empty());
}

#[test]
fn the_same_plan_again_moves_nothing() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let same = plan(1, &[&[("a", 0, 2)]]);
    bitmap.set_live(&same, 7);
    let recovery = recover(&bitmap, &same, &["a"]);
    assert_eq!((recovery.resume_step, recovery.origin), (7, Origin::Live));
    assert_eq!(transfers(&recovery), [("a", Source::OwnMemory, 1600 + 2 * 800 + 2400)]);
    assert_eq!(fetch_time(&recovery, &cluster(&["a"]), &bandwidths()), crate::units::SimTime::ZERO);
}

#[test]
fn a_survivor_keeps_its_layers_and_reads_the_rest_from_the_other_replica() {
    let mut bitmap = LayerBitmap::new(layout(2));
    bitmap.set_live(&plan(1, &[&[("a", 0, 1), ("b", 1, 1)], &[("c", 0, 2)]]), 7);
    bitmap.forget_node("b");
    // Another tensor-parallel degree reads the same shards.
    let recovery = recover(&bitmap, &plan(2, &[&[("a", 0, 2)], &[("c", 0, 2)]]), &["a", "c"]);
    let expected = [
        ("a", Source::OwnMemory, 1600 + 800),
        ("a", peer("c", Tier::Memory), 800 + 2400),
        ("c", Source::OwnMemory, 1600 + 2 * 800 + 2400),
    ];
    assert_eq!((recovery.resume_step, transfers(&recovery)), (7, expected.to_vec()));
}

#[test]
fn a_change_of_degrees_moves_what_a_node_lacks_and_nothing_else() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let before = plan(2, &[&[("a", 0, 1), ("b", 1, 1)]]);
    bitmap.set_live(&before, 7);
    // The same layers on the same nodes, on one GPU and on four.
    let mut after = before.clone();
    after.replicas[0].stages[0].gpus = vec![0];
    after.replicas[0].stages[1].gpus = vec![0, 1, 2, 3];
    let own = recover(&bitmap, &after, &["a", "b"]);
    assert!(own.transfers.iter().all(|transfer| transfer.source == Source::OwnMemory), "{own:?}");
    // A new node takes over the second stage: it reads each slice once, however many GPUs share it.
    after.replicas[0].stages[1].node = "c".to_owned();
    let moved = recover(&bitmap, &after, &["a", "b", "c"]);
    assert_eq!(transfers(&moved)[1..], [("c", peer("b", Tier::Memory), 800 + 2400)]);
}

#[test]
fn peers_share_the_sending_evenly() {
    let mut bitmap = LayerBitmap::new(layout(2));
    bitmap.set_live(&plan(1, &[&[("a", 0, 2)], &[("b", 0, 2)]]), 7);
    let recovery = recover(&bitmap, &plan(1, &[&[("new", 0, 2)]]), &["a", "b", "new"]);
    let expected = [("new", peer("a", Tier::Memory), 2800), ("new", peer("b", Tier::Memory), 2800)];
    assert_eq!(transfers(&recovery), expected);
    assert_eq!(recovery.bytes_from(|source| matches!(source, Source::Peer { .. })), 5600);
}

#[test]
fn wider_interfaces_send_more() {
    let mut bitmap = LayerBitmap::new(layout(2));
    bitmap.set_live(&plan(1, &[&[("a", 0, 2)], &[("b", 0, 2)]]), 7);
    let mut up = cluster(&["a", "b", "new"]);
    up.nodes[0].nic.bytes_per_s = 300.0;
    let recovery = plan_recovery(&bitmap, &plan(1, &[&[("new", 0, 2)]]), &up, &options(AllowedSources::All));
    let from_a = recovery.bytes_from(|source| *source == peer("a", Tier::Memory));
    assert!((4000..=4400).contains(&from_a), "three quarters of 5600 are 4200, not {from_a}");
}

#[test]
fn rolled_back_nodes_read_their_own_disk_then_a_peers() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let first = plan(1, &[&[("a", 0, 1), ("b", 1, 1)]]);
    bitmap.set_live(&first, 10);
    bitmap.begin_checkpoint(&first, 10);
    bitmap.record_disk(10);
    // Training goes on on `a` and another node, which is lost with half of what is in memory.
    bitmap.set_live(&plan(1, &[&[("a", 0, 1), ("c", 1, 1)]]), 10);
    bitmap.advance_live(12);
    bitmap.forget_node("c");
    let recovery = recover(&bitmap, &plan(1, &[&[("a", 0, 2)]]), &["a", "b"]);
    let expected = [("a", Source::OwnDisk, 2400), ("a", peer("b", Tier::Disk), 3200)];
    assert_eq!((recovery.resume_step, recovery.origin), (10, Origin::Checkpoint));
    assert_eq!(transfers(&recovery), expected);
}

#[test]
fn the_store_serves_what_no_survivor_has_even_if_it_is_faster() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let first = plan(1, &[&[("a", 0, 1), ("b", 1, 1)]]);
    bitmap.set_live(&first, 10);
    bitmap.begin_checkpoint(&first, 10);
    bitmap.record_disk(10);
    assert!(bitmap.record_object_store(10));
    bitmap.advance_live(12);
    bitmap.forget_node("b");
    let next = plan(1, &[&[("c", 0, 2)]]);
    let recovery = recover(&bitmap, &next, &["a", "c"]);
    let expected = [("c", peer("a", Tier::Disk), 2400), ("c", Source::ObjectStore, 3200)];
    assert_eq!((recovery.resume_step, transfers(&recovery)), (10, expected.to_vec()));
    // A policy that knows only the store reads everything from there, also what survivors have.
    let up = cluster(&["a", "c"]);
    let recovery = plan_recovery(&bitmap, &next, &up, &options(AllowedSources::ObjectStore));
    assert_eq!(transfers(&recovery), [("c", Source::ObjectStore, 5600)]);
}

#[test]
fn copies_in_memory_and_store_of_one_step_complete_each_other() {
    let mut bitmap = LayerBitmap::new(layout(2));
    let first = plan(1, &[&[("a", 0, 1), ("b", 1, 1)]]);
    bitmap.set_live(&first, 10);
    bitmap.begin_checkpoint(&first, 10);
    assert!(bitmap.record_object_store(10));
    bitmap.forget_node("b");
    let recovery = recover(&bitmap, &plan(1, &[&[("a", 0, 2)]]), &["a"]);
    let expected = [("a", Source::OwnMemory, 2400), ("a", Source::ObjectStore, 3200)];
    assert_eq!((recovery.resume_step, recovery.origin), (10, Origin::Live));
    assert_eq!(transfers(&recovery), expected);
}

#[test]
#[should_panic(expected = "node `b`, which isn't up")]
fn a_plan_for_a_node_that_is_not_up_is_a_bug() {
    let mut bitmap = LayerBitmap::new(layout(2));
    bitmap.set_live(&plan(1, &[&[("a", 0, 2)]]), 1);
    recover(&bitmap, &plan(1, &[&[("b", 0, 2)]]), &["a"]);
}

const NAMES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
const LAYERS: u32 = 3;

type Copies = BTreeSet<(String, usize)>;

/// Every copy in a list: what the bitmap must agree with.
#[derive(Debug, Default)]
struct Account {
    up: BTreeSet<usize>,
    step: u64,
    live: Option<(u64, Copies)>,
    saving: BTreeMap<u64, Copies>,
    disk: BTreeMap<u64, Copies>,
    store: BTreeSet<u64>,
}

fn all_shards() -> Vec<usize> {
    shards_of(0..LAYERS as usize + 2)
}

fn is_whole(copies: &Copies) -> bool {
    all_shards().iter().all(|shard| copies.iter().any(|(_, held)| held == shard))
}

/// What the plan's nodes hold, worked out from the rule in words: a stage holds its layers, the first stage the embedding
/// (block 0) too, the last one the head (block L + 1).
fn holdings(plan: &Plan) -> Copies {
    let mut copies = Copies::new();
    for replica in &plan.replicas {
        for (position, stage) in replica.stages.iter().enumerate() {
            let layers = stage.first_layer..stage.first_layer + stage.num_layers;
            let mut blocks: Vec<usize> = layers.map(|layer| layer as usize + 1).collect();
            blocks.extend((position == 0).then_some(0));
            blocks.extend((position + 1 == replica.stages.len()).then_some(LAYERS as usize + 1));
            let shards = blocks.into_iter().flat_map(|block| shards_of(block..block + 1));
            copies.extend(shards.map(|shard| (stage.node.clone(), shard)));
        }
    }
    copies
}

impl Account {
    /// A plan over nodes that are up, from random bytes.
    fn plan(&self, bytes: [u8; 8]) -> Option<Plan> {
        let up: Vec<usize> = self.up.iter().copied().collect();
        let node = |byte: u8| Some(NAMES[*up.get(usize::from(byte) % up.len().max(1))?]);
        let cut = 1 + u32::from(bytes[1]) % (LAYERS - 1);
        let whole = [(node(bytes[2])?, 0, LAYERS)];
        let split = [(node(bytes[3])?, 0, cut), (node(bytes[4])?, cut, LAYERS - cut)];
        let degree = [1, 2, 4, 8][usize::from(bytes[5]) % 4];
        Some(match bytes[6] % 3 {
            0 => plan(degree, &[&whole]),
            1 => plan(degree, &[&split]),
            _ => plan(degree, &[&whole, &split]),
        })
    }

    fn names(&self) -> Vec<&'static str> {
        self.up.iter().map(|node| NAMES[*node]).collect()
    }

    /// One thing happens, here and in the bitmap.
    fn happen(&mut self, bytes: [u8; 8], bitmap: &mut LayerBitmap) {
        let node = usize::from(bytes[7]) % NAMES.len();
        match bytes[0] % 10 {
            0 | 1 => drop(self.up.insert(node)),
            2 | 9 => self.lose(node, bitmap),
            3 => self.start(self.step + 1, bytes, bitmap),
            4 => self.start(self.step.saturating_sub(u64::from(bytes[1] % 3)), bytes, bitmap),
            5 => {
                self.step += 1;
                self.live.iter_mut().for_each(|(step, _)| *step = self.step);
                bitmap.advance_live(self.step);
            }
            6 => {
                let Some(plan) = self.plan(bytes) else { return };
                self.saving.insert(self.step, holdings(&plan));
                bitmap.begin_checkpoint(&plan, self.step);
            }
            7 => self.written(bitmap),
            _ => {
                let chosen = usize::from(bytes[1]) % self.saving.len().max(1);
                let Some((&step, copies)) = self.saving.iter().nth(chosen) else { return };
                let whole = is_whole(copies);
                assert_eq!(bitmap.record_object_store(step), whole);
                if bytes[2].is_multiple_of(2) {
                    self.saving.remove(&step);
                    bitmap.end_checkpoint(step);
                }
                self.store.extend(whole.then_some(step));
                let kept = self.store.iter().rev().take(2).copied().collect();
                self.store = kept;
            }
        }
    }

    fn lose(&mut self, node: usize, bitmap: &mut LayerBitmap) {
        self.up.remove(&node);
        let others = |copies: &mut Copies| copies.retain(|(name, _)| name != NAMES[node]);
        self.live.iter_mut().for_each(|(_, copies)| others(copies));
        self.saving.values_mut().for_each(others);
        self.disk.values_mut().for_each(others);
        bitmap.forget_node(NAMES[node]);
    }

    fn start(&mut self, step: u64, bytes: [u8; 8], bitmap: &mut LayerBitmap) {
        let Some(plan) = self.plan(bytes) else { return };
        self.step = step;
        self.live = Some((step, holdings(&plan)));
        self.saving.retain(|at, _| *at <= step);
        self.disk.retain(|at, _| *at <= step);
        self.store.retain(|at| *at <= step);
        bitmap.set_live(&plan, step);
    }

    fn written(&mut self, bitmap: &mut LayerBitmap) {
        let Some((&step, copies)) = self.saving.last_key_value() else { return };
        self.disk.insert(step, copies.clone());
        bitmap.record_disk(step);
        let newest = |whole: bool| {
            let steps = self.disk.iter().rev().filter(move |(_, copies)| is_whole(copies) == whole);
            steps.map(|(at, _)| *at).take(2).collect::<Vec<_>>()
        };
        let (whole, partial) = (newest(true), newest(false));
        let oldest = if whole.len() == 2 { whole[1] } else { 0 };
        self.disk.retain(|at, _| whole.contains(at) || (partial.contains(at) && *at >= oldest));
    }

    /// Who holds a shard of a step, as the sources allow: in memory, on disk, in the store.
    fn copies(&self, step: u64, shard: usize, sources: AllowedSources) -> (BTreeSet<&str>, BTreeSet<&str>, bool) {
        let of = |copies: &'_ Copies| {
            let holders = copies.iter().filter(|(_, held)| *held == shard);
            holders.map(|(name, _)| NAMES[NAMES.iter().position(|known| known == name).unwrap()]).collect()
        };
        let live = self.live.as_ref().filter(|(at, _)| *at == step && sources != AllowedSources::ObjectStore);
        let memory = live.map(|(_, copies)| of(copies)).unwrap_or_default();
        let disk = self.disk.get(&step).filter(|_| sources == AllowedSources::All).map(of).unwrap_or_default();
        (memory, disk, self.store.contains(&step))
    }

    fn newest(&self, sources: AllowedSources) -> Option<u64> {
        let has = |step, shard| {
            let (memory, disk, store) = self.copies(step, shard, sources);
            !memory.is_empty() || !disk.is_empty() || store
        };
        (0..=self.step).rev().find(|step| all_shards().into_iter().all(|shard| has(*step, shard)))
    }

    fn check(&self, recovery: &RecoveryPlan, plan: &Plan, sources: AllowedSources) {
        let newest = self.newest(sources);
        assert_eq!(newest.unwrap_or(0), recovery.resume_step);
        assert_eq!(newest.is_none(), recovery.origin == Origin::InitialWeights);
        if newest.is_none() {
            return assert!(recovery.shards.is_empty() && recovery.transfers.is_empty());
        }
        let layout = layout(LAYERS);
        let index = |shard: Shard| (0..layout.shard_count()).find(|at| layout.shard(*at) == shard).unwrap();
        let read: Vec<_> = recovery.shards.iter().map(|copy| (copy.to.to_string(), index(copy.shard))).collect();
        assert_eq!(read, holdings(plan).into_iter().collect::<Vec<_>>(), "each shard once, in order");
        let mut bytes: BTreeMap<(&str, &Source), u64> = BTreeMap::new();
        for copy in &recovery.shards {
            let shard = index(copy.shard);
            *bytes.entry((&copy.to, &copy.source)).or_default() += layout.bytes(shard);
            let (memory, disk, store) = self.copies(recovery.resume_step, shard, sources);
            let nobody = memory.is_empty() && disk.is_empty();
            match &copy.source {
                Source::OwnMemory => assert!(memory.contains(&*copy.to)),
                Source::OwnDisk => assert!(disk.contains(&*copy.to) && !memory.contains(&*copy.to)),
                Source::ObjectStore => assert!(store && nobody, "the store only for what is missing"),
                Source::Peer { node, tier } => {
                    assert!(!memory.contains(&*copy.to) && !disk.contains(&*copy.to), "own copies first");
                    assert!(self.names().contains(&&**node));
                    assert!(if *tier == Tier::Memory { memory.contains(&**node) } else { disk.contains(&**node) });
                }
            }
        }
        let summed: BTreeMap<_, _> =
            recovery.transfers.iter().map(|sum| ((&*sum.to, &sum.source), sum.bytes)).collect();
        assert_eq!(summed, bytes);
        assert_eq!(summed.len(), recovery.transfers.len());
    }
}

proptest! {
    #[test]
    fn any_history_is_recovered_from_as_far_as_its_copies_allow(
        history in prop::collection::vec(any::<[u8; 8]>(), 0..60),
        next in any::<[u8; 8]>(),
    ) {
        let mut account = Account { up: (0..NAMES.len()).collect(), ..Account::default() };
        let mut bitmap = LayerBitmap::new(layout(LAYERS));
        for bytes in history {
            account.happen(bytes, &mut bitmap);
        }
        let Some(plan) = account.plan(next) else { return Ok(()) };
        let up = cluster(&account.names());
        for sources in [AllowedSources::All, AllowedSources::MemoryAndObjectStore, AllowedSources::ObjectStore] {
            let recovery = plan_recovery(&bitmap, &plan, &up, &options(sources));
            account.check(&recovery, &plan, sources);
            prop_assert_eq!(&recovery, &plan_recovery(&bitmap, &plan, &up, &options(sources)));
        }
    }

    #[test]
    fn fetching_takes_no_less_than_any_one_link_needs(
        history in prop::collection::vec(any::<[u8; 8]>(), 0..40),
        next in any::<[u8; 8]>(),
    ) {
        let mut account = Account { up: (0..NAMES.len()).collect(), ..Account::default() };
        let mut bitmap = LayerBitmap::new(layout(LAYERS));
        for bytes in history {
            account.happen(bytes, &mut bitmap);
        }
        let Some(plan) = account.plan(next) else { return Ok(()) };
        let up = cluster(&account.names());
        let recovery = plan_recovery(&bitmap, &plan, &up, &options(AllowedSources::All));
        let time_s = fetch_time(&recovery, &up, &bandwidths()).as_seconds();
        let crosses_network = |source: &Source| matches!(source, Source::Peer { .. } | Source::ObjectStore);
        let mut sum_s = 0.0;
        for name in account.names() {
            let received = recovery.transfers.iter().filter(|t| &*t.to == name && crosses_network(&t.source));
            let sent = |source: &Source| matches!(source, Source::Peer { node, .. } if &**node == name);
            let received_s = received.map(|transfer| transfer.bytes).sum::<u64>() as f64 / 100.0;
            prop_assert!(time_s >= received_s - 1e-6);
            prop_assert!(time_s >= recovery.bytes_from(sent) as f64 / 100.0 - 1e-6);
            sum_s += received_s;
        }
        // One after the other, at the slowest rate there is, is the longest that it can take.
        sum_s += recovery.bytes_from(|source| !matches!(source, Source::OwnMemory)) as f64 / 50.0;
        prop_assert!(time_s <= sum_s + 1e-6);
    }
}
