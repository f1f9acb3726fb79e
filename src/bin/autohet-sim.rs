//! `autohet-sim`: plans and simulates. The command line is in [`autohet::cli`].

use autohet::cli::{SimArgs, parse_arguments, run_sim};
use std::process::ExitCode;

fn main() -> ExitCode {
    parse_arguments::<SimArgs>().map_or_else(|code| code, run_sim)
}
