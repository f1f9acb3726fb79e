//! Integration tests.

mod bad_input;
mod bounds;
mod browser;
mod collectives;
mod contract;
mod determinism;
mod documents;
mod explain;
mod iteration;
mod markets;
mod own_model;
mod policies;
mod replanning;
mod replay_properties;
mod reproduce;
#[cfg(all(feature = "burn-cpu", target_os = "linux"))]
mod run;
mod scenarios;
mod schemas;
mod stories;
mod support;
mod sweep;
mod terminal;
mod tidy;
mod trace_events;
mod validate;
