//! What others may rely on: the shapes of everything that is written for machines, and what its figures satisfy.

mod formats;
mod plans;
mod rented;
mod replays;
mod traces;

use serde_json::Value;

/// A number that must be there.
fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("`{key}` is no number in {value}"))
}

/// A whole number that must be there.
fn whole(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("`{key}` is no whole number in {value}"))
}
