//! Recovery plans against a naive account of every copy.

use super::{bandwidths, layout, options};
use crate::elastic::fixtures::{cluster, plan, shards_of};
use crate::elastic::*;
use crate::plan::Plan;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const NAMES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
const LAYERS: u32 = 3;

type Copies = BTreeSet<(String, usize)>;

/// Every copy in a list: what the bitmap must agree with.
#[derive(Debug, Default)]
struct Account {
    up: BTreeSet<usize>,
    step: u64,
    live: Option<(u64, Copies)>,
    /// Who took part, and who is sent copies.
    saving: BTreeMap<u64, (Copies, Copies)>,
    host: Option<(u64, Copies)>,
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

    /// Some of what a plan's first node holds, for some node.
    fn copies_of(&self, plan: &Plan, chosen: u8) -> PeerCopies {
        let up = self.names();
        let Some(to) = up.get(usize::from(chosen) % up.len().max(1)) else { return PeerCopies::default() };
        let from = &plan.replicas[0].stages[0].node;
        let layout = layout(LAYERS);
        let held = holdings(plan).into_iter().filter(|(name, shard)| name == from && shard % 5 != 0);
        let copy = |(_, shard)| PeerCopy {
            from: from.as_str().into(),
            to: (*to).into(),
            shard: layout.shard(shard),
            bytes: layout.bytes(shard),
        };
        PeerCopies { copies: held.map(copy).collect() }
    }

    fn names(&self) -> Vec<&'static str> {
        self.up.iter().map(|node| NAMES[*node]).collect()
    }

    /// One thing happens, here and in the bitmap.
    fn happen(&mut self, bytes: [u8; 8], bitmap: &mut LayerBitmap) {
        let node = usize::from(bytes[7]) % NAMES.len();
        match bytes[0] % 11 {
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
                let copies = self.copies_of(&plan, bytes[7]);
                let to = |copy: &PeerCopy| (copy.to.to_string(), layout(LAYERS).index_of(copy.shard));
                self.saving.insert(self.step, (holdings(&plan), copies.copies.iter().map(to).collect()));
                bitmap.begin_checkpoint(&plan, self.step, &copies);
            }
            10 => {
                let Some((&step, (holders, receivers))) = self.saving.last_key_value() else { return };
                self.host = Some((step, holders | receivers));
                bitmap.record_host(step);
            }
            7 => self.written(bitmap),
            _ => {
                let chosen = usize::from(bytes[1]) % self.saving.len().max(1);
                let Some((&step, (copies, _))) = self.saving.iter().nth(chosen) else { return };
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
        self.saving.values_mut().for_each(|(holders, receivers)| [holders, receivers].into_iter().for_each(others));
        self.host.iter_mut().for_each(|(_, copies)| others(copies));
        self.disk.values_mut().for_each(others);
        bitmap.forget_node(NAMES[node]);
    }

    fn start(&mut self, step: u64, bytes: [u8; 8], bitmap: &mut LayerBitmap) {
        let Some(plan) = self.plan(bytes) else { return };
        self.step = step;
        self.live = Some((step, holdings(&plan)));
        self.saving.retain(|at, _| *at <= step);
        self.host = self.host.take().filter(|(at, _)| *at <= step);
        self.disk.retain(|at, _| *at <= step);
        self.store.retain(|at| *at <= step);
        bitmap.set_live(&plan, step);
    }

    fn written(&mut self, bitmap: &mut LayerBitmap) {
        let Some((&step, (copies, _))) = self.saving.last_key_value() else { return };
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

    /// Who holds a shard of a step, as the sources allow: in memory, in host memory, on disk; and whether the store does.
    fn copies(&self, step: u64, shard: usize, sources: AllowedSources) -> ([BTreeSet<&str>; 3], bool) {
        let of = |copies: &'_ Copies| {
            let holders = copies.iter().filter(|(_, held)| *held == shard);
            holders.map(|(name, _)| NAMES[NAMES.iter().position(|known| known == name).unwrap()]).collect()
        };
        let live = self.live.as_ref().filter(|(at, _)| *at == step && sources != AllowedSources::ObjectStore);
        let memory = live.map(|(_, copies)| of(copies)).unwrap_or_default();
        let disk = self.disk.get(&step).filter(|_| sources == AllowedSources::All).map(of).unwrap_or_default();
        let host = self.host.as_ref().filter(|(at, _)| *at == step && sources != AllowedSources::ObjectStore);
        let host = host.map(|(_, copies)| of(copies)).unwrap_or_default();
        ([memory, host, disk], self.store.contains(&step))
    }

    fn newest(&self, sources: AllowedSources) -> Option<u64> {
        let has = |step, shard| {
            let (near, store) = self.copies(step, shard, sources);
            near.iter().any(|holders| !holders.is_empty()) || store
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
            let ([memory, host, disk], store) = self.copies(recovery.resume_step, shard, sources);
            let nobody = memory.is_empty() && host.is_empty() && disk.is_empty();
            match &copy.source {
                Source::OwnMemory => assert!(memory.contains(&*copy.to)),
                Source::OwnHost => assert!(host.contains(&*copy.to) && !memory.contains(&*copy.to)),
                Source::OwnDisk => {
                    assert!(disk.contains(&*copy.to) && !memory.contains(&*copy.to) && !host.contains(&*copy.to));
                }
                Source::ObjectStore => assert!(store && nobody, "the store only for what is missing"),
                Source::Peer { node, tier } => {
                    assert!([&memory, &host, &disk].iter().all(|own| !own.contains(&*copy.to)), "own copies first");
                    assert!(self.names().contains(&&**node));
                    let holders = match tier {
                        Tier::Memory => &memory,
                        Tier::Host => &host,
                        Tier::Disk => &disk,
                    };
                    assert!(holders.contains(&**node));
                }
            }
        }
        let summed: BTreeMap<_, _> =
            recovery.transfers.iter().map(|sum| ((&*sum.to, &sum.source), sum.bytes)).collect();
        assert_eq!(summed, bytes);
        assert_eq!(summed.len(), recovery.transfers.len());
    }
}

/// A history from the start, in the account and in the bitmap.
fn lived(history: Vec<[u8; 8]>) -> (Account, LayerBitmap) {
    let mut account = Account { up: (0..NAMES.len()).collect(), ..Account::default() };
    let mut bitmap = LayerBitmap::new(layout(LAYERS));
    for bytes in history {
        account.happen(bytes, &mut bitmap);
    }
    (account, bitmap)
}

proptest! {
    #[test]
    fn any_history_is_recovered_from_as_far_as_its_copies_allow(
        history in prop::collection::vec(any::<[u8; 8]>(), 0..60),
        next in any::<[u8; 8]>(),
    ) {
        let (account, bitmap) = lived(history);
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
        let (account, bitmap) = lived(history);
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
