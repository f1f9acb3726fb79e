//! The documents: what they point to is there.

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
    for folder in ["docs", "traces", "results"] {
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
