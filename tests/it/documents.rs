//! The documents: what they point to is there.

use autohet::cli::SimArgs;
use clap::{Command, CommandFactory};
use std::fs;
use std::path::{Path, PathBuf};

/// Markdown files of a folder.
fn markdown_in(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Targets of a text's links and pictures.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// The anchor that a heading gets: lower case, hyphens for spaces, nothing else but letters and figures.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-'].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_within_the_repository_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = markdown_in(root);
    for folder in ["docs", "traces", "results", "examples/ci", "scenarios"] {
        files.extend(markdown_in(&root.join(folder)));
    }
    let mut dead = Vec::new();
    let mut seen = 0;
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        for target in targets(&text).filter(|target| !target.contains("://")) {
            seen += 1;
            let (path, section) = target.split_once('#').unwrap_or((target, ""));
            let to = if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            let is_there = to.exists()
                && (section.is_empty() || {
                    let text = fs::read_to_string(&to).unwrap();
                    text.lines()
                        .filter_map(|line| line.strip_prefix('#'))
                        .any(|line| anchor(line.trim_start_matches('#')) == section)
                });
            if !is_there {
                dead.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
    assert!(seen > 20, "{seen}");
}

#[test]
fn every_chapter_is_in_the_book_once() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut listed: Vec<PathBuf> = targets(&summary).map(|target| docs.join(target)).collect();
    let mut chapters: Vec<PathBuf> =
        markdown_in(&docs).into_iter().filter(|path| !path.ends_with("SUMMARY.md")).collect();
    listed.sort();
    chapters.sort();
    assert_eq!(listed, chapters);
}

/// The messages of a file's errors, with `…` for what is filled in, without the place that they begin with.
fn messages(source: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(source)).unwrap();
    let starts = text.split("#[error(").skip(1).filter_map(|rest| rest.split('"').nth(1));
    let message = |text: &str| {
        let text = text.strip_prefix("{place}: ").or(text.strip_prefix("{rank}: ")).unwrap_or(text);
        let mut parts = text.split('{');
        let first = parts.next().unwrap_or_default().to_owned();
        let rest: String = parts.flat_map(|part| ["…", part.split_once('}').map_or("", |(_, rest)| rest)]).collect();
        (first + &rest).replace('`', "")
    };
    starts.map(message).filter(|message| message.contains(char::is_alphabetic)).collect()
}

#[test]
fn every_reason_against_a_plan_is_explained() {
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors.md")).unwrap().replace('`', "");
    let all = [messages("src/plan/violation.rs"), messages("src/program/validate.rs")].concat();
    assert!(all.len() > 20, "{all:?}");
    let missing: Vec<&String> = all.iter().filter(|message| !guide.contains(*message)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The commands in fenced blocks of a text, as they are typed: those over several lines are one.
fn typed(text: &str) -> Vec<String> {
    let blocks = text.split("\n```").skip(1).step_by(2);
    let is_shell = |block: &&str| ["sh\n", "console\n", "bash\n"].iter().any(|language| block.starts_with(language));
    let lines = blocks.filter(is_shell).flat_map(|block| {
        let joined = block.replace("\\\n", " ");
        joined.lines().skip(1).map(|line| line.trim_start_matches("$ ").to_owned()).collect::<Vec<_>>()
    });
    lines.filter(|line| line.starts_with("autohet-sim ")).collect()
}

/// What a shell makes of a command, as far as quotes and pipes go.
fn words(command: &str) -> Vec<String> {
    let end = command.find(['|', '>']).unwrap_or(command.len());
    command[..end].split_whitespace().map(|word| word.trim_matches(['\'', '"']).to_owned()).collect()
}

/// Every command, as the words that call it.
fn all_commands(command: &Command, name: &str, found: &mut Vec<String>) {
    found.push(name.to_owned());
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        all_commands(below, &format!("{name} {}", below.get_name()), found);
    }
}

#[test]
fn what_the_guide_has_typed_can_be_typed_and_leaves_no_command_out() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = markdown_in(&root.join("docs"));
    files.extend(["README.md", "CONTRIBUTING.md", "traces/README.md"].map(|name| root.join(name)));
    let all: Vec<String> = files.iter().flat_map(|file| typed(&fs::read_to_string(file).unwrap())).collect();
    assert!(all.len() > 30, "{all:?}");
    let program = || SimArgs::command().term_width(0);
    for command in &all {
        let parsed = program().try_get_matches_from(words(command));
        assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
    }
    let mut commands = Vec::new();
    all_commands(&program(), "autohet-sim", &mut commands);
    let is_shown = |name: &&String| all.iter().any(|command| words(command).join(" ").starts_with(&format!("{name} ")));
    let is_group =
        |name: &&String| ["trace", "show", "reproduce"].iter().any(|group| name.ends_with(&format!(" {group}")));
    let left_out: Vec<&String> =
        commands.iter().filter(|name| !is_group(name) && !is_shown(name) && !all.contains(name)).collect();
    assert!(left_out.is_empty(), "no example of {left_out:?}");
}
