//! Prices over time, and of what isn't a GPU.

use crate::scenario::Scenario;
use crate::trace::Zero;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct PriceArgs {
    /// History of spot prices, as `aws ec2 describe-spot-price-history` prints it, instead of the trace's prices
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = "Prices")]
    pub(in crate::cli) prices: Option<PathBuf>,
    /// What time the trace's zero stands for, where its file doesn't say, or to say otherwise
    #[arg(long, value_name = "ISO-TIME", hide_short_help = true, help_heading = "Prices")]
    pub(in crate::cli) trace_start: Option<Zero>,
    /// Instance type whose prices are taken from the history; may be repeated [default: all]
    #[arg(long, value_name = "TYPE", requires = "prices", hide_short_help = true, help_heading = "Prices")]
    pub(in crate::cli) price_instance: Vec<String>,
    /// Price of a gigabyte of checkpoints kept in the object store for a month [default: 0]
    #[arg(long, value_name = "USD", allow_negative_numbers = true, hide_short_help = true, help_heading = "Prices")]
    pub(in crate::cli) storage_usd_per_gb_month: Option<f64>,
    /// Price of a gigabyte read from the object store [default: 0]
    #[arg(long, value_name = "USD", allow_negative_numbers = true, hide_short_help = true, help_heading = "Prices")]
    pub(in crate::cli) egress_usd_per_gb: Option<f64>,
    /// Price of a gigabyte that training sends from one zone to another [default: 0]
    #[arg(long, value_name = "USD", allow_negative_numbers = true, hide_short_help = true, help_heading = "Prices")]
    pub(in crate::cli) cross_zone_usd_per_gb: Option<f64>,
}

impl PriceArgs {
    /// Puts what was given in the scenario's place.
    pub(in crate::cli) fn apply(&self, scenario: &mut Scenario) {
        let prices = &mut scenario.prices;
        prices.history = self.prices.clone().or_else(|| prices.history.take());
        if !self.price_instance.is_empty() {
            prices.instances.clone_from(&self.price_instance);
        }
        let set = |target: &mut f64, value: Option<f64>| *target = value.unwrap_or(*target);
        set(&mut prices.storage_usd_per_gb_month, self.storage_usd_per_gb_month);
        set(&mut prices.egress_usd_per_gb, self.egress_usd_per_gb);
        set(&mut prices.cross_zone_usd_per_gb, self.cross_zone_usd_per_gb);
        scenario.trace.start = self.trace_start.or(scenario.trace.start);
    }
}
