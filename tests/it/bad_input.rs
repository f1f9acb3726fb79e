//! Bad input ends with exit 2, one error that names the place, a hint, and nothing written.

mod clusters;
mod numbers;
#[cfg(unix)]
mod outputs;
mod places;
mod profiles;
mod scenarios;
mod settings;
mod traces;
