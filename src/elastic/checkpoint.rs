//! Checkpoints: how often, how long training stands still for one, and when it is safe.

use super::layout::{SHARDS_PER_BLOCK, StateLayout};
use super::storage::{StorageBandwidths, StorageError};
use crate::cluster::{Cluster, Node};
use crate::cost::CostModel;
use crate::plan::Plan;
use crate::units::SimTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How checkpoints are taken. Every setting has a default.
///
/// ```
/// use autohet::elastic::checkpoint::{CheckpointInterval, CheckpointSettings};
/// let settings: CheckpointSettings = toml::from_str("interval = { fixed = { seconds = 600 } }").unwrap();
/// assert_eq!(settings.interval, CheckpointInterval::Fixed { seconds: 600.0 });
/// assert_eq!(settings.disk_bytes_per_s, 1e9);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointSettings {
    /// Time from one checkpoint to the next. `optimal` by default.
    pub interval: CheckpointInterval,
    /// Bandwidth of a node's local disk, per direction. 1e9 by default: an AWS gp3 volume at its limit.
    pub disk_bytes_per_s: f64,
    /// Bandwidth between one node and the object store, per direction. 9.7 Gbit/s by default, as measured for S3 within
    /// a region.
    pub object_store_bytes_per_s: f64,
    /// Bandwidth of the object store over all nodes together. No limit by default.
    pub object_store_total_bytes_per_s: Option<f64>,
    /// Nodes that don't hold a shard themselves and keep a copy of it in host memory, for each shard. None by default: state
    /// that survivors hold is there without it, and the rest is rarely read.
    pub peer_copies: u32,
}

/// Time from one checkpoint to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CheckpointInterval {
    /// Always the same.
    Fixed {
        /// Seconds.
        seconds: f64,
    },
    /// After so many iterations.
    Steps {
        /// Iterations.
        count: u64,
    },
    /// Never.
    Never,
    /// What costs least for the losses and recoveries to be expected: [`optimal_interval_s`].
    #[default]
    Optimal,
}

/// What a checkpoint costs and what it saves, in seconds: the arguments of [`optimal_interval_s`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// How long training stands still for one.
    pub save_s: f64,
    /// Mean time from one loss to the next.
    pub mean_time_between_failures_s: f64,
    /// How long a recovery takes.
    pub recovery_s: f64,
}

/// How long a checkpoint is written in the background, counted from the end of the snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PersistTimes {
    /// Until every node has what it holds on its local disk.
    pub disk: SimTime,
    /// Until the object store has one copy of everything.
    pub object_store: SimTime,
}

impl Default for CheckpointSettings {
    fn default() -> Self {
        let StorageBandwidths { disk_bytes_per_s, object_store_bytes_per_s, object_store_total_bytes_per_s } =
            StorageBandwidths::default();
        Self {
            interval: CheckpointInterval::default(),
            disk_bytes_per_s,
            object_store_bytes_per_s,
            object_store_total_bytes_per_s,
            peer_copies: 0,
        }
    }
}

impl CheckpointSettings {
    /// The bandwidths of disks and object store.
    pub fn bandwidths(&self) -> StorageBandwidths {
        StorageBandwidths {
            disk_bytes_per_s: self.disk_bytes_per_s,
            object_store_bytes_per_s: self.object_store_bytes_per_s,
            object_store_total_bytes_per_s: self.object_store_total_bytes_per_s,
        }
    }

    /// Refuses numbers that aren't finite and above zero.
    pub fn check(&self) -> Result<(), StorageError> {
        let usual = StorageBandwidths::default();
        let fixed_s = match self.interval {
            CheckpointInterval::Fixed { seconds } => Some(seconds),
            CheckpointInterval::Steps { .. } | CheckpointInterval::Never | CheckpointInterval::Optimal => None,
        };
        let count = match self.interval {
            CheckpointInterval::Steps { count } => Some(count as f64),
            _ => None,
        };
        let total = self.object_store_total_bytes_per_s;
        let given = [
            ("interval.fixed.seconds", fixed_s, 600.0),
            ("interval.steps.count", count, 50.0),
            ("disk_bytes_per_s", Some(self.disk_bytes_per_s), usual.disk_bytes_per_s),
            ("object_store_bytes_per_s", Some(self.object_store_bytes_per_s), usual.object_store_bytes_per_s),
            ("object_store_total_bytes_per_s", total, 100e9),
        ];
        let bad = given.into_iter().find_map(|(key, value, default)| {
            let value = value.filter(|value| !(value.is_finite() && *value > 0.0))?;
            Some(StorageError { key, value, default })
        });
        bad.map_or(Ok(()), Err)
    }

    /// Whether `iterations` and `elapsed_s` after the start of the last checkpoint the next is due; other arguments as
    /// for [`optimal_interval_s`].
    pub fn is_due(&self, iterations: u64, elapsed_s: f64, expected: Expected) -> bool {
        match self.interval {
            CheckpointInterval::Steps { count } => iterations >= count,
            _ => elapsed_s >= self.interval_s(expected),
        }
    }

    fn interval_s(&self, expected: Expected) -> f64 {
        let Expected { save_s, mean_time_between_failures_s, recovery_s } = expected;
        match self.interval {
            CheckpointInterval::Fixed { seconds } => seconds,
            CheckpointInterval::Steps { .. } | CheckpointInterval::Never => f64::INFINITY,
            CheckpointInterval::Optimal => optimal_interval_s(save_s, mean_time_between_failures_s, recovery_s),
        }
    }
}

/// The checkpoint interval that loses least time: `Ts + sqrt(2 (Tf + Tr) Ts + Ts²)` (arXiv 2410.18124), for saves that
/// stop training for `save_s` (`Ts`), losses every `mean_time_between_failures_s` (`Tf`) and recoveries of `recovery_s`
/// (`Tr`), all in seconds. It is the interval `T` at which a useful second costs least, `T / (T - Ts)` for the saves times
/// `1 + T / (2 (Tf + Tr))` for half an interval done again at each loss. For small `Ts` and no `Tr` it is the classic
/// `sqrt(2 Tf Ts)` (Young 1974).
pub fn optimal_interval_s(save_s: f64, mean_time_between_failures_s: f64, recovery_s: f64) -> f64 {
    save_s + (2.0 * (mean_time_between_failures_s + recovery_s) * save_s + save_s * save_s).sqrt()
}

/// How long training stands still while each GPU copies its state to host memory, over its own host link: the slowest
/// GPU's time. Nodes that the cluster doesn't have are left out.
pub fn snapshot_stall(plan: &Plan, cost: &CostModel, cluster: &Cluster) -> SimTime {
    let layout = StateLayout::new(cost, plan.precision);
    let nodes = by_name(cluster);
    let mut slowest_s = 0.0_f64;
    for replica in &plan.replicas {
        for (position, stage) in replica.stages.iter().enumerate() {
            let Some(node) = nodes.get(stage.node.as_str()) else { continue };
            let blocks = layout.stage_blocks(replica, position).into_iter();
            let bytes: u64 = blocks.map(|block| layout.block_bytes(block)).sum();
            let gpu_bytes = bytes.div_ceil(stage.gpus.len().max(1) as u64);
            slowest_s = slowest_s.max(gpu_bytes as f64 / node.gpu.host_bytes_per_s);
        }
    }
    SimTime::from_seconds(slowest_s)
}

/// How long a checkpoint of this plan is written in the background.
///
/// Every node writes what it holds to its own disk. Of each shard one holder writes it to the object store, through the
/// slower of its interface and its way to the store; the shards are spread so that the last holder ends early (greedy,
/// fewest holders first). Nodes that the cluster doesn't have are left out.
pub fn persist_times(plan: &Plan, cost: &CostModel, cluster: &Cluster, settings: &CheckpointSettings) -> PersistTimes {
    let layout = StateLayout::new(cost, plan.precision);
    let places: BTreeMap<&str, usize> =
        cluster.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
    let mut holders = vec![Vec::new(); layout.block_count()];
    for (name, blocks) in layout.held_blocks(plan) {
        let Some(place) = places.get(name) else { continue };
        for block in blocks {
            holders[block].push(*place);
        }
    }
    for places in &mut holders {
        places.sort_unstable();
        places.dedup();
    }
    let disk_s = disk_s(&layout, &holders, cluster.nodes.len(), settings);
    let object_store_s = object_store_s(&layout, &holders, cluster, settings);
    PersistTimes { disk: SimTime::from_seconds(disk_s), object_store: SimTime::from_seconds(object_store_s) }
}

fn disk_s(layout: &StateLayout, holders: &[Vec<usize>], nodes: usize, settings: &CheckpointSettings) -> f64 {
    let mut bytes = vec![0; nodes];
    for (block, places) in holders.iter().enumerate() {
        for &place in places {
            bytes[place] += layout.block_bytes(block);
        }
    }
    bytes.into_iter().max().unwrap_or(0) as f64 / settings.disk_bytes_per_s
}

fn object_store_s(
    layout: &StateLayout,
    holders: &[Vec<usize>],
    cluster: &Cluster,
    settings: &CheckpointSettings,
) -> f64 {
    let mut busy_s = vec![0.0_f64; cluster.nodes.len()];
    let mut order: Vec<usize> = (0..holders.len()).collect();
    order.sort_by_key(|&block| holders[block].len());
    for shard in order.into_iter().flat_map(StateLayout::block_shards) {
        let end_s = |place: usize| {
            let bytes_per_s = cluster.nodes[place].nic.bytes_per_s.min(settings.object_store_bytes_per_s);
            busy_s[place] + layout.bytes(shard) as f64 / bytes_per_s
        };
        let soonest = holders[shard / SHARDS_PER_BLOCK].iter().map(|&place| (end_s(place), place));
        if let Some((end_s, place)) = soonest.min_by(|a, b| a.0.total_cmp(&b.0)) {
            busy_s[place] = end_s;
        }
    }
    let together_s = settings.object_store_total_bytes_per_s.map_or(0.0, |cap| layout.total_bytes() as f64 / cap);
    busy_s.into_iter().fold(together_s, f64::max)
}

fn by_name(cluster: &Cluster) -> BTreeMap<&str, &Node> {
    cluster.nodes.iter().map(|node| (node.name.as_str(), node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::CostSettings;
    use crate::elastic::fixtures::{cluster, plan};
    use crate::model::ModelSpec;
    use approx::assert_relative_eq;

    /// GPT of four layers; a layer has `12 h² + 13 h` parameters of 14 bytes of state.
    fn cost() -> CostModel {
        let mut model = ModelSpec::preset("gpt3-6.7b").unwrap();
        model.num_layers = 4;
        CostModel::new(model, CostSettings::default(), None)
    }

    const LAYER_BYTES: u64 = 14 * (12 * 4096 * 4096 + 13 * 4096);

    #[test]
    fn the_optimal_interval_agrees_with_hand_computed_values() {
        // 2 (3600 + 120) 10 + 100 = 74500.
        assert_relative_eq!(optimal_interval_s(10.0, 3600.0, 120.0), 10.0 + 74_500_f64.sqrt(), epsilon = 1e-9);
        // 2 (4 + 0) 1 + 1 = 9.
        assert_relative_eq!(optimal_interval_s(1.0, 4.0, 0.0), 4.0);
        assert_relative_eq!(optimal_interval_s(0.0, 3600.0, 60.0), 0.0);
        assert!(optimal_interval_s(1.0, f64::INFINITY, 0.0).is_infinite());
    }

    #[test]
    fn for_short_saves_it_is_the_classic_interval() {
        for failures_s in [600.0, 3600.0, 86_400.0_f64] {
            let save_s = 1e-6 * failures_s;
            let classic = (2.0 * failures_s * save_s).sqrt();
            assert_relative_eq!(optimal_interval_s(save_s, failures_s, 0.0), classic, max_relative = 1e-3);
        }
    }

    #[test]
    fn it_is_the_minimum_of_the_expected_loss() {
        // Seconds per useful second: each interval of T holds T - Ts useful ones, and every Tf + Tr seconds half an
        // interval is done again.
        for (save_s, failures_s, recovery_s) in [(12.0, 1800.0, 90.0), (40.0, 300.0, 120.0), (1.0, 36_000.0, 30.0)] {
            let cost = |interval_s: f64| {
                interval_s / (interval_s - save_s) * (1.0 + interval_s / (2.0 * (failures_s + recovery_s)))
            };
            let tenths = (10 * save_s as u32 + 1..40_000).map(|tenths| f64::from(tenths) / 10.0);
            let best = tenths.min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap();
            assert_relative_eq!(optimal_interval_s(save_s, failures_s, recovery_s), best, epsilon = 0.06);
        }
    }

    #[test]
    fn training_stands_still_for_the_fullest_gpu() {
        // Three layers on `b` over two GPUs against embedding and one layer on `a`.
        let plan = plan(2, &[&[("a", 0, 1), ("b", 1, 2), ("a", 3, 1)]]);
        let mut cluster = cluster(&["a", "b"]);
        let slow = crate::cluster::GpuSpec { host_bytes_per_s: 1.0, ..(*cluster.nodes[1].gpu).clone() };
        cluster.nodes[1].gpu = slow.into();
        assert_relative_eq!(snapshot_stall(&plan, &cost(), &cluster).as_seconds(), LAYER_BYTES as f64);
    }

    #[test]
    fn every_node_writes_what_it_holds_and_one_of_each_uploads() {
        let cost = cost();
        let layout = StateLayout::new(&cost, crate::model::Precision::Fp16);
        let twice = plan(1, &[&[("a", 0, 4)], &[("b", 0, 4)], &[("a", 0, 4)]]);
        let nodes = cluster(&["a", "b"]);
        let settings = CheckpointSettings {
            disk_bytes_per_s: 1e9,
            object_store_bytes_per_s: 50.0,
            ..CheckpointSettings::default()
        };
        let times = persist_times(&twice, &cost, &nodes, &settings);
        let total = layout.total_bytes() as f64;
        assert_relative_eq!(times.disk.as_seconds(), total / 1e9, max_relative = 1e-6);
        assert_relative_eq!(times.object_store.as_seconds(), total / 2.0 / 50.0, max_relative = 0.02);
        // The interface binds when it is narrower than the way to the store: 100 bytes a second.
        let fast = CheckpointSettings { object_store_bytes_per_s: 1e9, ..settings.clone() };
        let times = persist_times(&twice, &cost, &nodes, &fast);
        assert_relative_eq!(times.object_store.as_seconds(), total / 2.0 / 100.0, max_relative = 0.02);
        let capped = CheckpointSettings { object_store_total_bytes_per_s: Some(10.0), ..settings };
        let times = persist_times(&twice, &cost, &nodes, &capped);
        assert_relative_eq!(times.object_store.as_seconds(), total / 10.0, max_relative = 1e-6);
    }

    #[test]
    fn settings_have_defaults_and_refuse_unknown_keys() {
        let read = toml::from_str::<CheckpointSettings>;
        assert_eq!(read("").unwrap(), CheckpointSettings::default());
        assert_eq!(read("interval = \"optimal\"").unwrap().interval, CheckpointInterval::Optimal);
        assert!(read("disk = 1").unwrap_err().to_string().contains("unknown field `disk`"));
        assert!(read("interval = { fixed = { minutes = 1 } }").is_err());
    }

    #[test]
    fn settings_must_be_positive_numbers() {
        assert_eq!(CheckpointSettings::default().check(), Ok(()));
        let zero = CheckpointSettings {
            interval: CheckpointInterval::Fixed { seconds: 0.0 },
            ..CheckpointSettings::default()
        };
        assert!(zero.check().unwrap_err().to_string().starts_with("`interval.fixed.seconds` is `0`"));
        let never_training =
            CheckpointSettings { interval: CheckpointInterval::Steps { count: 0 }, ..CheckpointSettings::default() };
        assert_eq!(never_training.check().unwrap_err().key, "interval.steps.count");
        let negative = CheckpointSettings { disk_bytes_per_s: -1.0, ..CheckpointSettings::default() };
        assert_eq!(negative.check().unwrap_err().key, "disk_bytes_per_s");
        let unlimited =
            CheckpointSettings { object_store_total_bytes_per_s: Some(f64::INFINITY), ..CheckpointSettings::default() };
        assert_eq!(unlimited.check().unwrap_err().key, "object_store_total_bytes_per_s");
    }

    #[test]
    fn a_checkpoint_is_due_by_time_by_count_or_never() {
        let every = |interval| CheckpointSettings { interval, ..CheckpointSettings::default() };
        let expected = Expected { save_s: 10.0, mean_time_between_failures_s: 3600.0, recovery_s: 120.0 };
        let fixed = every(CheckpointInterval::Fixed { seconds: 600.0 });
        assert!(!fixed.is_due(1000, 599.0, expected) && fixed.is_due(0, 600.0, expected));
        let counted = every(CheckpointInterval::Steps { count: 10 });
        assert!(!counted.is_due(9, 1e9, expected) && counted.is_due(10, 0.0, expected));
        assert!(!every(CheckpointInterval::Never).is_due(u64::MAX, f64::MAX, expected));
        let classic = Expected { save_s: 1.0, mean_time_between_failures_s: 4.0, recovery_s: 0.0 };
        let optimal = CheckpointSettings::default();
        assert!(!optimal.is_due(0, 3.99, classic) && optimal.is_due(0, 4.0, classic));
    }
}
