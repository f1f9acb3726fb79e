//! Any plan trains the same model.

use super::{autohet_run, folder_with, plan};
use std::fs;

/// A text that never changes, with enough in it to learn.
fn corpus() -> String {
    let lines = (0..400).map(|line| format!("line {line}: {} bottles of beer, take one down\n", 400 - line));
    lines.collect::<Vec<_>>().concat()
}

/// Losses of the first steps under a plan.
fn losses(plan: &serde_json::Value, options: &[&str]) -> Vec<f64> {
    let folder = folder_with(plan);
    fs::write(folder.path().join("corpus.txt"), corpus()).unwrap();
    let mut command = autohet_run(folder.path());
    command.args(["--plan", "plan.json", "--seed", "7", "--out", "out"]).args(options).assert().success();
    let metrics = fs::read_to_string(folder.path().join("out/metrics.csv")).unwrap();
    let mut reader = csv::Reader::from_reader(metrics.as_bytes());
    reader.records().map(|record| record.unwrap()[1].parse().unwrap()).collect()
}

fn assert_same(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs() / expected.abs();
        assert!(difference < 1e-5, "step {}: {found} instead of {expected}", step + 1);
    }
}

#[test]
fn unlike_replicas_train_what_one_process_trains() {
    let options = ["--steps", "5", "--data", "corpus.txt"];
    let alone = losses(&plan("1f1b", "none", &[(6, &[4])]), &options);
    // A model that knows nothing gives each of the 256 bytes the same probability: ln 256 = 5.545.
    assert!((alone[0] - 256_f64.ln()).abs() < 0.15, "{alone:?}");
    assert!(alone[4] < alone[0] - 0.5, "{alone:?}");
    // Depth 2 and 3, of unlike cuts, with 4 and 2 micro batches.
    let asymmetric = losses(&plan("1f1b", "none", &[(4, &[3, 1]), (2, &[1, 2, 1])]), &options);
    assert_same(&asymmetric, &alone);
    // Depth 1 beside depth 2: the tied matrix is once in one process and twice in two.
    let mixed = losses(&plan("gpipe", "full", &[(1, &[4]), (5, &[2, 2])]), &options);
    assert_same(&mixed, &alone);
    let pipeline = losses(&plan("gpipe", "none", &[(6, &[2, 2])]), &options);
    assert_same(&pipeline, &alone);
}

/// The plan for another model, with samples of two a micro batch, and each stage shared by `t` processes.
fn varied(mut plan: serde_json::Value, model: &str, t: u32) -> serde_json::Value {
    plan["model"] = model.into();
    plan["micro_batch_size"] = 2.into();
    plan["global_batch_size"] = (plan["global_batch_size"].as_u64().unwrap() * 2).into();
    for replica in plan["replicas"].as_array_mut().unwrap() {
        for stage in replica["stages"].as_array_mut().unwrap() {
            stage["gpus"] = (0..t).collect();
        }
    }
    plan
}

#[test]
fn shared_stages_train_what_one_process_trains() {
    let options = ["--steps", "3", "--data", "corpus.txt"];
    for model in ["gpt-tiny", "llama-tiny", "bert-tiny"] {
        let alone = losses(&varied(plan("1f1b", "none", &[(3, &[4])]), model, 1), &options);
        let shared = plan("1f1b", "selective", &[(2, &[1, 3]), (1, &[4])]);
        assert_same(&losses(&varied(shared, model, 2), &options), &alone);
    }
}

/// Of each replica its micro batches and the layers of its stages.
type Replicas<'a> = &'a [(u32, &'a [u32])];

/// The plan with stages of these degrees, replica by replica.
fn of_degrees(mut plan: serde_json::Value, degrees: &[&[u32]]) -> serde_json::Value {
    for (replica, degrees) in plan["replicas"].as_array_mut().unwrap().iter_mut().zip(degrees) {
        for (stage, &degree) in replica["stages"].as_array_mut().unwrap().iter_mut().zip(*degrees) {
            stage["gpus"] = (0..degree).collect();
        }
    }
    plan
}

#[test]
fn stages_of_unlike_degrees_train_what_one_process_trains() {
    let options = ["--steps", "5", "--data", "corpus.txt"];
    let alone = losses(&plan("1f1b", "none", &[(6, &[4])]), &options);
    let cases: [(Replicas<'_>, &[&[u32]]); 3] =
        [(&[(6, &[2, 2])], &[&[2, 1]]), (&[(6, &[1, 3])], &[&[1, 2]]), (&[(3, &[4]), (3, &[2, 2])], &[&[2], &[1, 1]])];
    for (replicas, degrees) in cases {
        for sequence_parallel in [false, true] {
            let mut unlike = of_degrees(plan("1f1b", "none", replicas), degrees);
            unlike["sequence_parallel"] = sequence_parallel.into();
            assert_same(&losses(&unlike, &options), &alone);
        }
    }
}

#[test]
fn the_synthetic_language_is_learned() {
    let losses =
        losses(&plan("1f1b", "none", &[(2, &[2, 2]), (2, &[4])]), &["--steps", "40", "--learning-rate", "3e-3"]);
    let last = losses[35..].iter().sum::<f64>() / 5.0;
    assert!(last < losses[0] - 0.7, "{losses:?}");
}
