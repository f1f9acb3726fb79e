//! The files that are shipped, and those that are written, against the schemas.

use crate::support::Sandbox;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn refused(schema: &str, value: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(autohet::schemas::by_name(schema).unwrap().text).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// A TOML file as the JSON that says the same.
fn json_of(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_json::to_value(toml::from_str::<toml::Table>(&text).unwrap()).unwrap()
}

#[test]
fn scenarios_that_are_shipped_are_scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut seen = 0;
    for file in files.filter(|file| file.extension().is_some_and(|end| end == "toml")) {
        let scenario = json_of(&file);
        // Sweeps hold a scenario.
        let is_sweep = ["grid", "list", "planners"].iter().any(|key| scenario.get(key).is_some());
        let scenario = if is_sweep { scenario.get("scenario").cloned().unwrap_or_default() } else { scenario };
        if scenario.is_object() {
            assert_eq!(refused("scenario", &scenario), Vec::<String>::new(), "{}", file.display());
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn files_that_are_written_are_as_their_schemas_say() {
    let sandbox = Sandbox::with_small_trace();
    let job = ["--model", "gpt3-1.3b", "--global-batch-size", "16"];
    let plan = ["plan", "--cluster", "1x2xA100-80+1x4xT4", "--out", "plan.json"];
    assert_eq!(sandbox.run(&[&plan[..], &job].concat()).code, Some(0));
    let read = |name: &str| serde_json::from_str::<Value>(&sandbox.read(name)).unwrap();
    assert_eq!(refused("plan", &read("plan.json")), Vec::<String>::new());
    let mut bad = read("plan.json");
    bad["replicas"][0]["stages"][0]["gpus"] = "all".into();
    assert_eq!(refused("plan", &bad).len(), 1);
    let replay = ["--trace", "small.csv", "--out", "out", "--quiet"];
    assert_eq!(sandbox.run(&[&replay[..], &job].concat()).code, Some(0));
    assert_eq!(refused("summary", &read("out/summary.json")), Vec::<String>::new());
    assert_eq!(refused("scenario", &json_of(&sandbox.path("out/resolved.toml"))), Vec::<String>::new());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kept = fs::read_to_string(root.join("results/aws-spot/summary.json")).unwrap();
    assert_eq!(refused("summary", &serde_json::from_str(&kept).unwrap()), Vec::<String>::new());
}

/// The code blocks of a kind in the guide's chapter on files.
fn blocks(kind: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/formats.md")).unwrap();
    let start = format!("```{kind}\n");
    let blocks = text.split(&start).skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).collect()
}

#[test]
fn examples_of_the_guide_are_as_their_schemas_say() {
    let clusters: Vec<String> = blocks("toml").into_iter().filter(|text| text.contains("[[nodes]]")).collect();
    assert!(!clusters.is_empty());
    for text in clusters {
        let value = serde_json::to_value(toml::from_str::<toml::Table>(&text).unwrap()).unwrap();
        assert_eq!(refused("cluster", &value), Vec::<String>::new(), "{text}");
    }
    let profiles = blocks("json").into_iter().filter(|text| text.contains("\"entries\""));
    let mut seen = 0;
    for text in profiles {
        assert_eq!(refused("profile", &serde_json::from_str(&text).unwrap()), Vec::<String>::new(), "{text}");
        seen += 1;
    }
    assert!(seen > 0);
}
