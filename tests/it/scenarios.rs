//! `scenarios/aws-spot.toml` says in full what the defaults are.

use autohet::scenario::{Scenario, TraceSettings};
use std::path::{Path, PathBuf};

/// Keys without a default, which stand there as comments.
const OPTIONAL: [&str; 15] = [
    "cluster",
    "profile",
    "trace_format",
    "time_unit",
    "polarity",
    "which_node",
    "gpu_type",
    "gpus_per_node",
    "horizon_s",
    "align",
    "start",
    "history",
    "instances",
    "flows",
    "object_store_total_bytes_per_s",
];

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/aws-spot.toml")
}

fn defaults() -> Scenario {
    let trace = TraceSettings { file: vec!["traces/aws-spot.csv".into()], ..TraceSettings::default() };
    Scenario { trace, ..Scenario::default() }
}

#[test]
fn the_documented_scenario_is_the_default_one() {
    let scenario = Scenario::read(&path()).unwrap();
    assert_eq!(scenario, defaults());
    scenario.check().unwrap();
}

#[test]
fn the_documented_scenario_has_every_key_with_a_comment_before_it() {
    let text = std::fs::read_to_string(path()).unwrap();
    let documented: Vec<&str> = text.lines().collect();
    let resolved = defaults().to_toml();
    let mut keys: Vec<String> =
        resolved.lines().filter_map(|line| Some(format!("{} = ", line.split_once(" = ")?.0))).collect();
    assert!(keys.len() > 15, "{keys:?}");
    // Those without a default stand there as comments.
    keys.extend(OPTIONAL.map(|key| format!("# {key} = ")));
    for key in keys {
        let at = documented.iter().position(|line| line.starts_with(&key));
        let at = at.unwrap_or_else(|| panic!("`{key}` is missing"));
        assert!(documented[at - 1].starts_with("# "), "`{key}` has no comment");
    }
}

#[test]
fn optional_keys_are_keys() {
    let text = std::fs::read_to_string(path()).unwrap();
    let all = OPTIONAL.iter().fold(text, |text, key| text.replace(&format!("# {key} = "), &format!("{key} = ")));
    let scenario = Scenario::parse(&all, "all").unwrap();
    assert!(
        !scenario.profile.is_empty() && scenario.trace.gpu_type.is_some() && scenario.trace.gpus_per_node.is_some()
    );
    let options = scenario.trace.read_options();
    assert!(options.format.is_some() && options.time_unit.is_some() && options.polarity.is_some());
    assert!(options.which_node.is_some());
    assert_eq!(scenario.checkpoint.object_store_total_bytes_per_s, Some(100e9));
}
