//! `autohet-run`: trains. The command line is in [`autohet::cli`].

use autohet::cli::{RunArgs, run_training};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    run_training(&RunArgs::parse())
}
