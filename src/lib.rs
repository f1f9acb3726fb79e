//! autohet plans and simulates asymmetric 3D-parallel training (data × pipeline × tensor) on heterogeneous, spot-priced
//! GPUs, after AutoHet (arXiv 2512.20953).
//!
//! The modules below stand in the order in which data flows; each imports only from those before it.

pub mod units;

pub mod ids;

mod suggest;

mod input;

pub mod model;

pub mod cluster;

pub mod trace;

pub mod profile;

pub mod cost;

pub mod plan;

pub mod planner;

pub mod program;

pub mod runtime;

pub mod measured;

pub mod metrics;

pub mod explain;

pub mod elastic;

pub mod replay;

#[cfg(feature = "burn-cpu")]
pub mod training;

#[cfg(feature = "burn-cpu")]
pub mod validation;

pub mod report;

pub mod scenario;

pub mod schemas;

pub mod sweep;

pub mod recommend;

pub mod cli;
