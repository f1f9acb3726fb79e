//! `autohet-sim`: plans and simulates. The command line is in [`autohet::cli`].

use autohet::cli::{SimArgs, run_sim};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    run_sim(SimArgs::parse())
}
