//! The ranges in which a scenario's numbers make sense.
//!
//! They are wide: nobody's cluster lies outside. Inside them no product of two settings leaves the 584 years of the
//! simulated clock or the 64 bits of a byte count, so that what is computed from them is right, however odd.

use super::{Scenario, ScenarioError};
use crate::cluster::{GpuSpec, NIC_GBIT_PER_S, NIC_LATENCY_US};
use crate::cost::Buckets;
use crate::elastic::checkpoint::CheckpointInterval;
use crate::units::format_number;
use std::collections::BTreeSet;

/// Most samples per optimizer step: 32 times the largest batch of BERT with LAMB (You et al. 2020). Each micro batch is
/// simulated.
const MOST_SAMPLES: u32 = 1 << 20;
/// Most samples per micro batch.
const MOST_SAMPLES_IN_MICRO_BATCH: u32 = 4096;
/// Most GPUs in a node, and so in a tensor-parallel group.
const MOST_GPUS_IN_NODE: u32 = 1024;
/// Most entries of a list that the planner chooses from.
const MOST_CHOICES: usize = 16;
/// Longest part of a change of plan: a day.
const LONGEST_PART_S: f64 = 86_400.0;
/// Longest trace, a century.
const LONGEST_HORIZON_S: f64 = 3.1536e9;
/// Highest price of a gigabyte.
const MOST_USD_PER_GB: f64 = 1e6;
/// Times between checkpoints.
const LEAST_INTERVAL_S: f64 = 1e-3;
const LONGEST_INTERVAL_S: f64 = 1e9;
/// More copies of a checkpoint in host memory save nobody anything.
const MOST_PEER_COPIES: u32 = 8;

/// A number with the place that it has in the file and on the command line.
struct Number {
    key: &'static str,
    /// The option that sets it too, if there is one.
    option: Option<&'static str>,
    value: f64,
    /// What it is where it's left out.
    default: f64,
}

impl Scenario {
    /// Refuses values that no replay can be made with.
    pub fn check(&self) -> Result<(), ScenarioError> {
        self.check_choices()?;
        self.check_network()?;
        self.check_training()?;
        self.check_checkpoint()?;
        self.check_reconfiguration()?;
        self.check_prices()?;
        self.check_cost()
    }

    /// The names of policies, and what the trace leaves open.
    fn check_choices(&self) -> Result<(), ScenarioError> {
        if self.policies.is_empty() {
            let hint = "leave the key out to replay all of them".into();
            return Err(refuse("policies", "[]", "at least one policy", hint));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.policies.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(refuse("policies", twice, "each policy once", format!("name `{twice}` once only")));
        }
        if let Some(count) = self.trace.gpus_per_node {
            Number::new("trace.gpus_per_node", f64::from(count), 1.0)
                .option("--gpus-per-node")
                .within(1.0, f64::from(MOST_GPUS_IN_NODE))?;
        }
        if let Some(horizon_s) = self.trace.horizon_s {
            let number = Number::new("trace.horizon_s", horizon_s, 86_400.0).option("--horizon");
            number.within(1e-9, LONGEST_HORIZON_S)?;
        }
        Ok(())
    }

    fn check_network(&self) -> Result<(), ScenarioError> {
        let (network, usual) = (&self.network, super::NetworkSettings::default());
        Number::new("network.nic_gbit_per_s", network.nic_gbit_per_s, usual.nic_gbit_per_s)
            .option("--nic-gbit-per-s")
            .within(*NIC_GBIT_PER_S.start(), *NIC_GBIT_PER_S.end())?;
        Number::new("network.nic_latency_us", network.nic_latency_us, usual.nic_latency_us)
            .option("--nic-latency-us")
            .within(*NIC_LATENCY_US.start(), *NIC_LATENCY_US.end())?;
        Number::new("network.nics_per_node", f64::from(network.nics_per_node), f64::from(usual.nics_per_node))
            .option("--nics-per-node")
            .within(1.0, f64::from(MOST_GPUS_IN_NODE))?;
        if let Buckets::Parameters(parameters) = self.framework.buckets {
            Number::new("framework.buckets.parameters", parameters as f64, 4e7).within(1.0, 1e15)?;
        }
        network.flows.iter().try_for_each(check_flow)
    }

    fn check_training(&self) -> Result<(), ScenarioError> {
        let training = &self.training;
        Number::new("training.global_batch_size", f64::from(training.global_batch_size), 512.0)
            .option("--global-batch-size")
            .within(1.0, f64::from(MOST_SAMPLES))?;
        check_list("training.micro_batch_sizes", &training.micro_batch_sizes, MOST_SAMPLES_IN_MICRO_BATCH)?;
        check_list("training.tensor_parallel_sizes", &training.tensor_parallel_sizes, MOST_GPUS_IN_NODE)?;
        if (1..=MOST_CHOICES).contains(&training.recompute.len()) {
            return Ok(());
        }
        let found = format!("{} entries", training.recompute.len());
        let hint = "leave the key out to let the planner choose from all three".into();
        Err(refuse("training.recompute", &found, "one to three of none, selective, full", hint))
    }

    fn check_checkpoint(&self) -> Result<(), ScenarioError> {
        let (settings, usual) = (&self.checkpoint, crate::elastic::checkpoint::CheckpointSettings::default());
        Number::new("checkpoint.peer_copies", f64::from(settings.peer_copies), f64::from(usual.peer_copies))
            .within(0.0, f64::from(MOST_PEER_COPIES))?;
        if let CheckpointInterval::Fixed { seconds } = settings.interval
            && !(LEAST_INTERVAL_S..=LONGEST_INTERVAL_S).contains(&seconds)
        {
            let expected = format!("a number from {LEAST_INTERVAL_S} to {LONGEST_INTERVAL_S}");
            let hint = "set it with `--checkpoint-interval-s`, or leave it out for the interval that loses least time";
            let key = "checkpoint.interval.fixed.seconds";
            return Err(refuse(key, &format_number(seconds), &expected, hint.to_owned()));
        }
        let bandwidths = [
            ("checkpoint.disk_bytes_per_s", settings.disk_bytes_per_s, usual.disk_bytes_per_s),
            ("checkpoint.object_store_bytes_per_s", settings.object_store_bytes_per_s, usual.object_store_bytes_per_s),
            (
                "checkpoint.object_store_total_bytes_per_s",
                settings.object_store_total_bytes_per_s.unwrap_or(100e9),
                100e9,
            ),
        ];
        bandwidths.into_iter().try_for_each(|(key, value, default)| Number::new(key, value, default).within(1e3, 1e15))
    }

    fn check_reconfiguration(&self) -> Result<(), ScenarioError> {
        let (change, usual) = (&self.reconfiguration, crate::elastic::ReconfigurationSettings::default());
        let parts = [
            ("reconfiguration.detection_s", change.detection_s, usual.detection_s),
            ("reconfiguration.planning_s", change.planning_s, usual.planning_s),
            ("reconfiguration.rendezvous_s", change.rendezvous_s, usual.rendezvous_s),
            ("reconfiguration.communicators_s", change.communicators_s, usual.communicators_s),
            (
                "reconfiguration.communicators_per_node_s",
                change.communicators_per_node_s,
                usual.communicators_per_node_s,
            ),
            ("reconfiguration.coordinator_s", change.coordinator_s, usual.coordinator_s),
            ("reconfiguration.boot_s", change.boot_s, usual.boot_s),
            ("reconfiguration.min_up_s", change.min_up_s, usual.min_up_s),
        ];
        parts
            .into_iter()
            .try_for_each(|(key, value, default)| Number::new(key, value, default).within(0.0, LONGEST_PART_S))
    }

    fn check_prices(&self) -> Result<(), ScenarioError> {
        let crate::replay::Tariff {
            storage_usd_per_gb_month,
            checkpoints_kept,
            egress_usd_per_gb,
            cross_zone_usd_per_gb,
        } = self.prices.tariff();
        let number = |key, option, value| Number::new(key, value, 0.0).option(option).within(0.0, MOST_USD_PER_GB);
        number("prices.storage_usd_per_gb_month", "--storage-usd-per-gb-month", storage_usd_per_gb_month)?;
        number("prices.egress_usd_per_gb", "--egress-usd-per-gb", egress_usd_per_gb)?;
        number("prices.cross_zone_usd_per_gb", "--cross-zone-usd-per-gb", cross_zone_usd_per_gb)?;
        Number::new("prices.checkpoints_kept", f64::from(checkpoints_kept), 1.0).within(1.0, 1e6)?;
        if self.prices.history.is_none() && !self.prices.instances.is_empty() {
            let hint = "name a file with `--prices`, or leave the key out".to_owned();
            let found = self.prices.instances.join(", ");
            return Err(refuse("prices.instances", &found, "a history of prices that they are taken from", hint));
        }
        Ok(())
    }

    fn check_cost(&self) -> Result<(), ScenarioError> {
        let (cost, usual) = (&self.cost, crate::cost::CostSettings::default());
        let bytes = [
            ("cost.reserve_bytes", cost.reserve_bytes, usual.reserve_bytes, 0.0, 1e12),
            (
                "cost.optimizer_bytes_per_parameter",
                cost.optimizer_bytes_per_parameter,
                usual.optimizer_bytes_per_parameter,
                0.0,
                64.0,
            ),
            (
                "cost.gradient_bytes_per_parameter",
                cost.gradient_bytes_per_parameter,
                usual.gradient_bytes_per_parameter,
                1.0,
                8.0,
            ),
            (
                "cost.profiled_bytes_per_parameter",
                cost.profiled_bytes_per_parameter,
                usual.profiled_bytes_per_parameter,
                0.0,
                128.0,
            ),
            (
                "cost.profiled_tensor_parallel_reserve_bytes",
                cost.profiled_tensor_parallel_reserve_bytes,
                usual.profiled_tensor_parallel_reserve_bytes,
                0.0,
                1e12,
            ),
        ];
        bytes.into_iter().try_for_each(|(key, value, default, least, most)| {
            Number::new(key, value as f64, default as f64).within(least, most)
        })
    }
}

impl Number {
    fn new(key: &'static str, value: f64, default: f64) -> Self {
        Self { key, option: None, value, default }
    }

    fn option(self, option: &'static str) -> Self {
        Self { option: Some(option), ..self }
    }

    fn within(self, least: f64, most: f64) -> Result<(), ScenarioError> {
        if (least..=most).contains(&self.value) {
            return Ok(());
        }
        let option = self.option.map_or(String::new(), |option| format!("set it with `{option}`, or "));
        let hint = format!("{option}leave it out for its default, `{}`", self.default);
        Err(refuse(self.key, &format_number(self.value), &format!("a number from {least} to {most}"), hint))
    }
}

fn check_flow(flow: &super::FlowSettings) -> Result<(), ScenarioError> {
    let checked = GpuSpec::lookup(&flow.gpu_type).map(|_| ()).and_then(|()| flow.curve().check("network.flows"));
    checked.map_err(|error| {
        let text = error.to_string();
        let (expected, hint) = text.split_once("\nhint: ").unwrap_or((&text, "correct it"));
        refuse("network.flows", &flow.gpu_type, &format!("the curve of a GPU type: {expected}"), hint.to_owned())
    })
}

fn check_list(key: &'static str, sizes: &[u32], most: u32) -> Result<(), ScenarioError> {
    if (1..=MOST_CHOICES).contains(&sizes.len()) && sizes.iter().all(|size| (1..=most).contains(size)) {
        return Ok(());
    }
    let expected = format!("1 to {MOST_CHOICES} numbers from 1 to {most}");
    let hint = "leave the key out to let the planner choose from 1, 2, 4 and 8".into();
    let bad = sizes.iter().find(|size| !(1..=most).contains(*size));
    let found = bad.map_or_else(|| format!("{} entries", sizes.len()), |bad| format!("[…, {bad}, …]"));
    Err(refuse(key, &found, &expected, hint))
}

fn refuse(key: &'static str, value: &str, expected: &str, hint: String) -> ScenarioError {
    ScenarioError::Value { key, value: value.to_owned(), expected: expected.to_owned(), hint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn the_defaults_are_in_range() {
        Scenario::default().check().unwrap();
    }

    #[rstest]
    #[case("[network]\nnic_gbit_per_s = nan", "`network.nic_gbit_per_s` is `NaN`")]
    #[case("[network]\nnic_gbit_per_s = -1.0", "from 0.001 to 1000000\nhint: set it with `--nic-gbit-per-s`")]
    #[case("[network]\nnic_gbit_per_s = 1e-300", "leave it out for its default, `100`")]
    #[case("[network]\nnic_latency_us = inf", "`network.nic_latency_us` is `inf`")]
    #[case("[training]\nglobal_batch_size = 0", "`training.global_batch_size` is `0`")]
    #[case("[training]\nglobal_batch_size = 4294967295", "`4294967295`, expected a number from 1 to 1048576")]
    #[case("[training]\nmicro_batch_sizes = []", "`0 entries`")]
    #[case("[training]\nmicro_batch_sizes = [1, 4000000]", "`[…, 4000000, …]`")]
    #[case("[training]\ntensor_parallel_sizes = [0]", "1 to 16 numbers from 1 to 1024")]
    #[case("[training]\nrecompute = []", "one to three of none, selective, full")]
    #[case("[reconfiguration]\ndetection_s = -0.5", "`reconfiguration.detection_s`")]
    #[case("[reconfiguration]\nplanning_s = 1e300", "from 0 to 86400")]
    #[case("[checkpoint]\ndisk_bytes_per_s = 0.0", "`checkpoint.disk_bytes_per_s`")]
    #[case("[checkpoint]\nobject_store_total_bytes_per_s = nan", "`NaN`")]
    #[case("[checkpoint]\ninterval = { fixed = { seconds = 0.0 } }", "`checkpoint.interval.fixed.seconds` is `0`")]
    #[case("[checkpoint]\ninterval = { fixed = { seconds = 0.0 } }", "the interval that loses least time")]
    #[case("[checkpoint]\npeer_copies = 9", "`checkpoint.peer_copies` is `9`, expected a number from 0 to 8")]
    #[case("[cost]\noptimizer_bytes_per_parameter = 9000000000000000000", "from 0 to 64")]
    #[case("[cost]\nreserve_bytes = 9000000000000000000", "`cost.reserve_bytes`")]
    #[case("[trace]\ngpus_per_node = 0", "`trace.gpus_per_node` is `0`")]
    #[case("policies = []", "at least one policy")]
    #[case("policies = [\"varuna\", \"varuna\"]", "each policy once")]
    fn numbers_that_make_no_sense_are_refused(#[case] text: &str, #[case] part: &str) {
        let error = Scenario::parse(text, "t").unwrap().check().unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("\nhint: "), "{error}");
    }
}
