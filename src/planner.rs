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

/// What a planner is after, and the shape of its plans, in a line each; nothing of names that aren't ours.
pub fn about(name: &str) -> (&'static str, &'static str) {
    match name {
        "autohet" => ("AutoHet (arXiv 2512.20953)", "replicas of unlike depth, GPU types, layers and degrees"),
        "megatron" => ("Megatron-LM (SC 2021)", "symmetric grids: the same layers on each stage"),
        "whale" => ("Whale (ATC 2022)", "one shape for all replicas, loads in proportion to the devices' power"),
        "varuna" => ("Varuna (EuroSys 2022)", "pipeline depth x replicas, without tensor parallelism"),
        "amp" => ("AMP (NeurIPS 2022)", "symmetric degrees, devices in order, layers by an optimal split"),
        "metis" => ("Metis (ATC 2024)", "a tensor-parallel degree for each GPU type, loads by capacity"),
        "alpa" => ("Alpa (OSDI 2022)", "stages on sub-meshes of one type, chosen by a dynamic program"),
        _ => ("", ""),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_planner_says_what_it_is() {
        for name in super::names() {
            assert!(!super::about(name).0.is_empty() && super::by_name(name).is_some(), "{name}");
        }
    }
}
