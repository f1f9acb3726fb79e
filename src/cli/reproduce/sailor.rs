//! `autohet-sim reproduce sailor`: the six settings in which Sailor (SOSP'25) was compared, by its own judge.

use crate::cli::args::Format;
use crate::cli::files;
use crate::cli::{Verdict, job, print, print_as};
use crate::cluster::Cluster;
use crate::plan::{PlanRequest, PlannedIteration, Planner};
use crate::planner::autohet::AutoHet;
use crate::planner::sailor::{SailorJudge, SailorPlan};
use crate::report::{PeerRow, Screen, peer_csv, peer_records, peer_table};
use crate::scenario::Scenario;
use anyhow::anyhow;
use clap::Args;
use std::fs;
use std::path::PathBuf;

const EXAMPLES: &str = "\
The profiles are Sailor's, which docs/formats.md says where to get.

Example:
  autohet-sim reproduce sailor --profile sailor/profiles --out results/planner";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct SailorArgs {
    /// Folder of Sailor's profiles, or files of them; may be repeated
    #[arg(long, value_name = "FILE|FOLDER", required = true)]
    profile: Vec<PathBuf>,
    /// Folder for `sailor.csv` and the plans as Sailor writes them
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// What to print on stdout
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Print nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

/// A setting, and iterations a second of Sailor's own plan as its judge counts them.
struct Setting {
    name: &'static str,
    scenario: &'static str,
    peer_per_s: f64,
}

/// Sailor's figures are those of the plans that its planner gives in these settings, by its own simulator.
const SETTINGS: [Setting; 6] = [
    setting("sailor-32a100", include_str!("../../../scenarios/sailor-32a100.toml"), 0.1251),
    setting("sailor-80a100", include_str!("../../../scenarios/sailor-80a100.toml"), 0.2722),
    setting("sailor-128a100", include_str!("../../../scenarios/sailor-128a100.toml"), 0.4175),
    setting("sailor-32a100-96v100", include_str!("../../../scenarios/sailor-32a100-96v100.toml"), 0.1700),
    setting("sailor-80a100-240v100", include_str!("../../../scenarios/sailor-80a100-240v100.toml"), 0.3609),
    setting("sailor-128a100-384v100", include_str!("../../../scenarios/sailor-128a100-384v100.toml"), 0.5229),
];

const fn setting(name: &'static str, scenario: &'static str, peer_per_s: f64) -> Setting {
    Setting { name, scenario, peer_per_s }
}

pub(in crate::cli) fn run_sailor(args: &SailorArgs) -> anyhow::Result<Verdict> {
    if let Some(folder) = &args.out {
        fs::create_dir_all(folder).map_err(|error| {
            anyhow!("`--out {}`: {error}\nhint: name a folder that can be written to", folder.display())
        })?;
    }
    let mut rows = Vec::new();
    let mut written = Vec::new();
    for setting in &SETTINGS {
        if !args.quiet {
            eprintln!("planning {}", setting.name);
        }
        let planned = plan(setting, &args.profile)?;
        if let Some(folder) = &args.out {
            written.push((folder.join(format!("{}.json", setting.name)), SailorPlan::of(&planned.plan).to_json()));
        }
        rows.push(PeerRow { setting: setting.name, peer_per_s: setting.peer_per_s, planned });
    }
    if let Some(folder) = &args.out {
        written.push((folder.join("sailor.csv"), peer_csv(&rows)));
    }
    let files: Vec<_> = written.iter().map(|(path, text)| (path.as_path(), text.as_bytes())).collect();
    files::write_files(&files)?;
    match args.format {
        Format::Csv => print(&peer_csv(&rows))?,
        format => print_as(
            format,
            || peer_table(&rows, Screen::of_stdout()),
            &peer_records(&rows).json(),
            &peer_records(&rows),
        )?,
    }
    let is_met = rows.iter().all(PeerRow::is_met);
    Ok(if is_met { Verdict::Good } else { Verdict::Bad })
}

fn plan(setting: &Setting, profile: &[PathBuf]) -> anyhow::Result<PlannedIteration> {
    let scenario = Scenario::parse(setting.scenario, setting.name)?;
    let scenario = Scenario { profile: profile.to_vec(), ..scenario };
    let cost = job::cost_model(&scenario)?;
    let described = scenario.cluster.as_deref().unwrap_or_default();
    let cluster = Cluster::from_argument(described, &job::node_defaults(&scenario.network))?;
    let request = PlanRequest {
        cluster: &cluster,
        cost: &cost,
        training: &scenario.training,
        judge: &SailorJudge,
        limits: crate::plan::PlanLimits::default(),
    };
    Ok(AutoHet::default().plan(&request)?)
}
