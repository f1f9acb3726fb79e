//! `autohet-sim completions` and `autohet-sim man`: made from the arguments themselves.

use super::args::{CompletionsArgs, ManArgs};
use super::{SimArgs, Verdict, files, print};
use anyhow::anyhow;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::path::{Path, PathBuf};

pub(super) fn run_completions(args: &CompletionsArgs) -> anyhow::Result<Verdict> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut SimArgs::command(), "autohet-sim", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(Verdict::Good)
}

pub(super) fn run_man(args: &ManArgs) -> anyhow::Result<Verdict> {
    let mut command = SimArgs::command();
    command.build();
    let Some(folder) = &args.out else {
        print(&String::from_utf8(page(&command)?)?)?;
        return Ok(Verdict::Good);
    };
    std::fs::create_dir_all(folder).map_err(|error| {
        anyhow!("cannot make `{}`: {error}\nhint: name a folder in a place that is yours", folder.display())
    })?;
    let mut pages = Vec::new();
    add_pages(&command, "autohet-sim", folder, &mut pages)?;
    let pages: Vec<(&Path, &[u8])> = pages.iter().map(|(path, page)| (path.as_path(), page.as_slice())).collect();
    files::write_files(&pages)?;
    Ok(Verdict::Good)
}

fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

/// The page of a command and those of the commands below it, named as git does: `autohet-sim-sweep-merge.1`.
fn add_pages(command: &Command, name: &str, folder: &Path, pages: &mut Vec<(PathBuf, Vec<u8>)>) -> anyhow::Result<()> {
    // `build` has named each command after all those above it.
    pages.push((folder.join(format!("{name}.1")), page(command)?));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        add_pages(below, &format!("{name}-{}", below.get_name()), folder, pages)?;
    }
    Ok(())
}
