//! Integration tests.

mod bad_input;
mod contract;
mod determinism;
mod replay_properties;
mod scenarios;
mod support;
mod tidy;
