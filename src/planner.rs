//! Planners: who computes what.

pub mod autohet;
pub mod baselines;
pub mod estimate;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod objective;
mod ranking;
pub mod replan;
mod room;
pub mod sailor;
mod scheduled;
#[cfg(feature = "scip")]
pub mod scip;

pub use scheduled::Scheduled;

use crate::plan::Planner;

/// The planner of this name.
///
/// ```
/// use autohet::planner;
/// assert_eq!(planner::by_name("whale").unwrap().name(), "whale");
/// assert!(planner::by_name("wale").is_none());
/// ```
pub fn by_name(name: &str) -> Option<Box<dyn Planner>> {
    match name {
        "autohet" => Some(Box::new(autohet::AutoHet::default())),
        "alpa" => Some(Box::new(baselines::Alpa)),
        "amp" => Some(Box::new(baselines::Amp)),
        "megatron" => Some(Box::new(baselines::Megatron)),
        "metis" => Some(Box::new(baselines::Metis)),
        "varuna" => Some(Box::new(baselines::Varuna)),
        "whale" => Some(Box::new(baselines::Whale)),
        _ => None,
    }
}

/// Names of all planners, the recommended one first.
pub fn names() -> &'static [&'static str] {
    &["autohet", "megatron", "whale", "varuna", "amp", "metis", "alpa"]
}
