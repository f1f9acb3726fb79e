//! What a generated market is made of, and the ranges in which that makes sense.

use super::recorded::RecordedMarket;
use crate::units::format_number;
use serde::{Deserialize, Serialize};

/// The most node-hours that one trace may hold, so that a slip of a digit doesn't fill the memory.
const MOST_NODE_HOURS: f64 = 1e7;

/// The most nodes that come and go in one trace: a million lives make some hundred megabytes of events.
const MOST_LIVES: f64 = 1e6;

/// A market.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeneratorSettings {
    /// The seed of all randomness; 0 where it is left out.
    pub seed: u64,
    /// The length of the trace, 24 where it is left out; more than 0, at most 8784 (a leap year).
    pub hours: f64,
    /// The hour of the day at time zero, 0 (included) to 24 (excluded); 12 UTC where it is left out, the morning in the
    /// eastern US.
    pub start_hour_utc: f64,
    /// The hour of the day at which the market is busiest; 19 UTC where it is left out, noon on the US west coast.
    pub busiest_hour_utc: f64,
    /// The pools, at least one where no market is recorded.
    pub pools: Vec<PoolSettings>,
    /// A market taken from a trace, beside the pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedMarket>,
}

impl Default for GeneratorSettings {
    fn default() -> Self {
        Self { seed: 0, hours: 24.0, start_hour_utc: 12.0, busiest_hour_utc: 19.0, pools: Vec::new(), recorded: None }
    }
}

/// The nodes of one type in one zone. Only the first three fields are needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    /// The GPU's name, as the trace shall have it.
    pub gpu_type: String,
    /// GPUs in a node, 1 to 1024.
    pub gpu_count: u32,
    /// The most nodes that the pool has up at once, 1 to 10 000.
    pub nodes: u32,
    /// The zone; pools without one share no losses.
    #[serde(default)]
    pub zone: Option<String>,
    /// The mean price of a node; left out, the trace has no prices.
    #[serde(default)]
    pub price_usd_per_hour: Option<f64>,
    /// The price of each node that comes is even between `1 − price_swing` and `1 + price_swing` times the mean.
    #[serde(default = "default::price_swing")]
    pub price_swing: f64,
    /// The mean time that a node stays up, bulk losses included (about: see the module), 0.1 hours or more.
    #[serde(default = "default::up_time_mean_hours")]
    pub up_time_mean_hours: f64,
    /// The standard deviation of the logarithm of the lifetimes that end by themselves, 0 to 3: 0 makes all of them alike,
    /// 1.2 is a heavy tail.
    #[serde(default = "default::up_time_sigma")]
    pub up_time_sigma: f64,
    /// The share of loss events that take other nodes along, where there are others.
    #[serde(default = "default::bulk_share")]
    pub bulk_share: f64,
    /// The mean share of the pool's other nodes that a bulk loss takes, above 0 to 1: 0.5 draws the share evenly, less
    /// makes small bulks likelier.
    #[serde(default = "default::bulk_take")]
    pub bulk_take: f64,
    /// The share of the bulk losses that reach the other pools of the zone.
    #[serde(default = "default::zone_bulk_share")]
    pub zone_bulk_share: f64,
    /// The share of the losses that reach the zone that reach the other zones of its region too: 0 where it is left out.
    #[serde(default)]
    pub region_bulk_share: f64,
    /// The median time until lost capacity comes back, 1 minute or more.
    #[serde(default = "default::return_median_minutes")]
    pub return_median_minutes: f64,
    /// The standard deviation of the logarithm of that time, 0 to 3: the mean is `exp(sigma² / 2)` times the median.
    #[serde(default = "default::return_sigma")]
    pub return_sigma: f64,
    /// The notice before a loss, in whole seconds, at most 86 400; a younger node has it from the moment it came up.
    #[serde(default = "default::notice_s")]
    pub notice_s: u32,
    /// The share of loss events without notice.
    #[serde(default = "default::no_notice_share")]
    pub no_notice_share: f64,
    /// How much the busiest hour is above the mean, and the quietest below, 0 to 0.9.
    #[serde(default = "default::day_swing")]
    pub day_swing: f64,
}

/// The defaults of a pool: they put the statistics of a day among those of real traces.
mod default {
    pub(super) fn price_swing() -> f64 {
        0.1
    }
    pub(super) fn up_time_mean_hours() -> f64 {
        2.0
    }
    pub(super) fn up_time_sigma() -> f64 {
        1.2
    }
    pub(super) fn bulk_share() -> f64 {
        0.4
    }
    pub(super) fn bulk_take() -> f64 {
        0.5
    }
    pub(super) fn zone_bulk_share() -> f64 {
        0.25
    }
    pub(super) fn return_median_minutes() -> f64 {
        25.0
    }
    pub(super) fn return_sigma() -> f64 {
        1.4
    }
    pub(super) fn notice_s() -> u32 {
        120
    }
    pub(super) fn no_notice_share() -> f64 {
        0.1
    }
    pub(super) fn day_swing() -> f64 {
        0.5
    }
}

impl PoolSettings {
    /// A pool with the defaults for all that isn't given.
    pub fn new(nodes: u32, gpu_count: u32, gpu_type: impl Into<String>) -> Self {
        Self {
            gpu_type: gpu_type.into(),
            gpu_count,
            nodes,
            zone: None,
            price_usd_per_hour: None,
            price_swing: default::price_swing(),
            up_time_mean_hours: default::up_time_mean_hours(),
            up_time_sigma: default::up_time_sigma(),
            bulk_share: default::bulk_share(),
            bulk_take: default::bulk_take(),
            zone_bulk_share: default::zone_bulk_share(),
            region_bulk_share: 0.0,
            return_median_minutes: default::return_median_minutes(),
            return_sigma: default::return_sigma(),
            notice_s: default::notice_s(),
            no_notice_share: default::no_notice_share(),
            day_swing: default::day_swing(),
        }
    }

    /// The share of its slots that the pool has up in the long run.
    pub(super) fn availability(&self) -> f64 {
        self.up_time_mean_hours / self.cycle_hours()
    }

    /// The mean time from one coming up of a slot to the next.
    fn cycle_hours(&self) -> f64 {
        let return_mean_hours = self.return_median_minutes / 60.0 * (self.return_sigma.powi(2) / 2.0).exp();
        self.up_time_mean_hours + return_mean_hours
    }
}

/// A market that can't be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratorError {
    /// A setting is out of its range.
    #[error(
        "generator setting `{setting}`: expected {expected}, found `{found}`\nhint: change or leave out `{setting}`"
    )]
    Setting {
        /// The setting, with the pool it belongs to.
        setting: String,
        /// The range.
        expected: String,
        /// The value.
        found: String,
    },
    /// A pool isn't written as it should be.
    #[error(
        "pool `{text}`: expected {expected}, found {found}\nhint: a pool is NODESxGPUSxTYPE[@ZONE][:PRICE], like \
         `5x8xA100-40@us-east-1a:8.2` (5 nodes of 8 GPUs, 8.2 US dollars per node-hour)"
    )]
    Pool {
        /// The whole text.
        text: String,
        /// What belongs there.
        expected: String,
        /// What is there.
        found: String,
    },
}

impl GeneratorSettings {
    /// Checks every range.
    ///
    /// # Errors
    ///
    /// [`GeneratorError::Setting`] for the first value that is out of its range.
    pub fn validate(&self) -> Result<(), GeneratorError> {
        within("hours", self.hours, f64::MIN_POSITIVE, 8784.0)?;
        within("start_hour_utc", self.start_hour_utc, 0.0, 24.0_f64.next_down())?;
        within("busiest_hour_utc", self.busiest_hour_utc, 0.0, 24.0_f64.next_down())?;
        let fault = |setting: &str, expected: &str, found: String| {
            Err(GeneratorError::Setting { setting: setting.to_owned(), expected: expected.to_owned(), found })
        };
        if let Some(recorded) = &self.recorded {
            recorded.validate(self.hours)?;
        } else if self.pools.is_empty() {
            return fault("pools", "at least one pool", "none".to_owned());
        }
        for (index, pool) in self.pools.iter().enumerate() {
            pool.validate(index)?;
        }
        let node_hours = self.pools.iter().map(|pool| f64::from(pool.nodes)).sum::<f64>() * self.hours;
        if node_hours > MOST_NODE_HOURS {
            return fault("hours", "at most 10 million node-hours over all pools", format_number(node_hours));
        }
        let lives = self.pools.iter().map(|pool| f64::from(pool.nodes) * self.hours / pool.cycle_hours()).sum::<f64>();
        if lives > MOST_LIVES {
            return fault(
                "hours",
                "at most a million nodes that come and go",
                format!("about {}", format_number(lives.round())),
            );
        }
        Ok(())
    }
}

impl PoolSettings {
    fn validate(&self, index: usize) -> Result<(), GeneratorError> {
        let name = |field: &str| format!("pools[{index}].{field}");
        let texts = [("gpu_type", Some(&self.gpu_type)), ("zone", self.zone.as_ref())];
        for (field, text) in texts {
            let Some(text) = text else { continue };
            if text.is_empty() || text.trim() != text || text.chars().any(char::is_control) {
                let expected = "a name without blanks around it or control characters".to_owned();
                return Err(GeneratorError::Setting {
                    setting: name(field),
                    expected,
                    found: text.escape_debug().to_string(),
                });
            }
        }
        let numbers = [
            ("gpu_count", f64::from(self.gpu_count), 1.0, 1024.0),
            ("nodes", f64::from(self.nodes), 1.0, 10_000.0),
            ("price_usd_per_hour", self.price_usd_per_hour.unwrap_or_default(), 0.0, 1e6),
            ("price_swing", self.price_swing, 0.0, 1.0),
            ("up_time_mean_hours", self.up_time_mean_hours, 0.1, 1e6),
            ("up_time_sigma", self.up_time_sigma, 0.0, 3.0),
            ("bulk_share", self.bulk_share, 0.0, 1.0),
            ("bulk_take", self.bulk_take, 0.01, 1.0),
            ("zone_bulk_share", self.zone_bulk_share, 0.0, 1.0),
            ("region_bulk_share", self.region_bulk_share, 0.0, 1.0),
            ("return_median_minutes", self.return_median_minutes, 1.0, 1e6),
            ("return_sigma", self.return_sigma, 0.0, 3.0),
            ("notice_s", f64::from(self.notice_s), 0.0, 86_400.0),
            ("no_notice_share", self.no_notice_share, 0.0, 1.0),
            ("day_swing", self.day_swing, 0.0, 0.9),
        ];
        numbers.into_iter().try_for_each(|(field, value, least, most)| within(&name(field), value, least, most))
    }
}

pub(super) fn within(setting: &str, value: f64, least: f64, most: f64) -> Result<(), GeneratorError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    // The smallest and the next smaller number stand for "more than 0" and "less than 24".
    let expected = match (least, most) {
        (f64::MIN_POSITIVE, most) => format!("a number above 0, at most {most}"),
        (least, most) if most.fract() > 0.99 => format!("a number from {least} to less than {}", most.ceil()),
        (least, most) => format!("a number from {least} to {most}"),
    };
    Err(GeneratorError::Setting { setting: setting.to_owned(), expected, found: format_number(value) })
}
