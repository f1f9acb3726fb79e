//! `autohet-sim reproduce paper`, on one case.

use crate::support::Sandbox;
use serde_json::Value;

const CASE: &str = "model = \"bert-large\"\ncluster = \"1x2xA100-80+1x1xH800\"\n[training]\nglobal_batch_size = 32\n";

#[test]
fn one_case_gives_a_whole_folder_and_the_same_bytes_again() {
    let sandbox = Sandbox::new().file("paper-small.toml", CASE);
    let run = |out: &str| sandbox.run(&["reproduce", "paper", "--scenario", "paper-small.toml", "--out", out]);
    let ran = run("first");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    for part in ["small", "BERT-large: up to", "paper: up to 1.38", "details: first"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    run("second");
    let mut files: Vec<String> = std::fs::read_dir(sandbox.path("first"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["README.md", "ratios.csv", "ratios.svg", "summary.json"]);
    for file in files {
        assert_eq!(sandbox.read(&format!("first/{file}")), sandbox.read(&format!("second/{file}")), "{file}");
    }
}

#[test]
fn no_planner_beats_autohet_on_its_own_terms() {
    let sandbox = Sandbox::new().file("paper-small.toml", CASE);
    let ran = sandbox.run(&["reproduce", "paper", "--scenario", "paper-small.toml", "--format", "json", "--out", "r"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let reproduction: Value = serde_json::from_str(&ran.stdout).unwrap();
    let case = &reproduction["cases"][0];
    assert_eq!((case["name"].as_str(), case["cluster"].as_str()), (Some("small"), Some("2 A100-80 + 1 H800")));
    assert_eq!(case["tokens"].as_u64(), Some(32 * 512));
    let plans = case["plans"].as_array().unwrap();
    assert_eq!(plans.len(), autohet::planner::names().len());
    let seconds = |plan: &Value| plan["iteration_s"].as_f64().unwrap();
    let autohet_s = seconds(plans.iter().find(|plan| plan["planner"] == "autohet").unwrap());
    assert!(plans.iter().all(|plan| seconds(plan) >= autohet_s), "{plans:?}");
}

#[test]
fn a_case_that_nothing_fits_is_told_and_is_the_verdict() {
    let case = "model = \"gpt3-30b\"\ncluster = \"1x1xT4\"\n";
    let sandbox = Sandbox::new().file("paper-big.toml", case);
    let ran = sandbox.run(&["reproduce", "paper", "--scenario", "paper-big.toml", "--out", "r"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
    assert!(sandbox.read("r/ratios.csv").contains("no plan fits"));
}

#[test]
fn cases_that_cannot_be_read_are_refused_with_their_place() {
    let sandbox = Sandbox::new().file("bad.toml", "model = \"bert-large\"\ncluster = \"2x8xA100-60\"\n");
    sandbox.refuses(&["reproduce", "paper", "--scenario", "bad.toml"], &["`bad.toml` line 2: `cluster`", "A100-60"]);
    sandbox.refuses(&["reproduce", "paper"], &["cannot read `scenarios`", "clone of the repository"]);
    std::fs::create_dir(sandbox.path("scenarios")).unwrap();
    sandbox.refuses(&["reproduce", "paper"], &["`scenarios` has no `paper-*.toml`"]);
    let other = sandbox.file("case.toml", CASE);
    std::fs::create_dir(other.path("mine")).unwrap();
    let other = other.file("mine/notes.txt", "mine");
    other.refuses(&["reproduce", "paper", "--scenario", "case.toml", "--out", "mine"], &["mine"]);
}

/// The cases of the repository can be read, and each says what `reproduce paper` calls it.
#[test]
fn the_cases_of_the_repository_are_sound() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut cases = 0;
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("paper-") {
            continue;
        }
        cases += 1;
        let scenario = autohet::scenario::ScenarioFile::read(&path).unwrap().scenario;
        assert!(name.starts_with(&format!("paper-{}-", scenario.model)), "{name}");
        let cluster = scenario.cluster.unwrap();
        let counts: Vec<&str> = cluster.split('+').map(|part| part.split('x').nth(1).unwrap()).collect();
        let called = name.trim_start_matches(&format!("paper-{}-", scenario.model)).trim_end_matches(".toml");
        assert!(called.split('-').zip(&counts).all(|(part, count)| part.starts_with(count)), "{name}: {cluster}");
    }
    assert!(cases >= 20, "{cases}");
}
