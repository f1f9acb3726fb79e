//! `autohet-sim validate`: what the simulator says of runs that others measured.

use super::args::Format;
use super::{Verdict, print, print_json};
use crate::measured::{Accuracy, Dataset};
use crate::report::{
    ResultsFolder, Screen, accuracy_csv, accuracy_json, accuracy_markdown, accuracy_svg, accuracy_table,
};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  autohet-sim validate tests/data/published.csv
  autohet-sim validate measurements.csv validation.json --profiles profiles --format json";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ValidateArgs {
    /// Measured runs: a CSV table or Sailor's JSON, recognised by content (docs/formats.md describes both)
    #[arg(required = true, value_name = "DATASET")]
    datasets: Vec<PathBuf>,
    /// File of measured layer times, or a folder of such files; may be repeated. Models that none measures are estimated
    #[arg(long = "profiles", value_name = "FILE|FOLDER")]
    profiles: Vec<PathBuf>,
    /// Folder for the results
    #[arg(long, value_name = "FOLDER", default_value = "results/validation")]
    out: PathBuf,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Print nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(args: &ValidateArgs) -> anyhow::Result<Verdict> {
    let dataset = Dataset::read(&args.datasets)?;
    ResultsFolder::check(&args.out)?;
    let accuracy = Accuracy::of(&dataset, &args.profiles)?;
    let json = accuracy_json(&accuracy);
    let markdown = accuracy_markdown(&accuracy, &command(args));
    let folder = ResultsFolder::create(&args.out)?;
    folder.write("summary.json", serde_json::to_string_pretty(&json)? + "\n")?;
    folder.write("records.csv", accuracy_csv(&accuracy))?;
    folder.write("scatter.svg", accuracy_svg(&accuracy))?;
    folder.write("README.md", &markdown)?;
    let written = folder.commit()?;
    match args.format {
        Format::Table => print(&accuracy_table(&accuracy, Screen::of_stdout()))?,
        Format::Json => print_json(&json)?,
        Format::Markdown => print(&markdown)?,
        Format::Csv => print(&accuracy_csv(&accuracy))?,
    }
    if !args.quiet {
        eprintln!("details: {} (start with README.md)", written.display());
    }
    Ok(Verdict::Good)
}

/// The command with file names only: where they lie is another matter on every machine.
fn command(args: &ValidateArgs) -> String {
    let name = |path: &PathBuf| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let datasets = args.datasets.iter().map(name);
    let profiles = args.profiles.iter().map(|path| format!("--profiles {}", name(path)));
    let words: Vec<String> = datasets.chain(profiles).collect();
    format!("autohet-sim validate {}", words.join(" "))
}
