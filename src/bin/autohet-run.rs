//! `autohet-run`: trains. The command line is in [`autohet::cli`].

use autohet::cli::{RunArgs, parse_arguments, run_training};
use std::process::ExitCode;

fn main() -> ExitCode {
    parse_arguments::<RunArgs>().map_or_else(|code| code, |args| run_training(&args))
}
