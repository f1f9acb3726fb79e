//! Integration tests.

mod bad_input;
mod contract;
mod determinism;
mod replanning;
mod replay_properties;
#[cfg(all(feature = "burn-cpu", target_os = "linux"))]
mod run;
mod scenarios;
mod support;
mod tidy;
