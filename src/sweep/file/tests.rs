use super::*;
use crate::sweep::Run;

const MIX: &str = "\
planners = [\"autohet\", \"whale\"]

[scenario]
model = \"llama-7b\"
training.global_batch_size = 64

[grid]
gpus.A100-80 = { from = 0, to = 2 }
gpus.H20 = [0, 4]
network.nic_gbit_per_s = [25, 100.0]
framework.buckets = [\"layer\", { parameters = 600 }]
";

fn parse(text: &str) -> Result<SweepFile, SweepError> {
    SweepFile::parse(text, "s", "s.toml")
}

/// All runs, made at once.
fn all(sweep: &SweepFile) -> Result<Vec<Run>, SweepError> {
    let runs = sweep.runs()?;
    (0..runs.len()).map(|place| runs.get(place)).collect()
}

fn refuses(text: &str, parts: &[&str]) {
    let message = parse(text).and_then(|sweep| all(&sweep).map(drop)).unwrap_err().to_string();
    for part in parts.iter().chain(&["`s.toml`", "\nhint: "]) {
        assert!(message.contains(part), "`{part}` isn't in: {message}");
    }
}

#[test]
fn every_combination_is_a_run_for_each_planner() {
    let sweep = parse(MIX).unwrap();
    let axes = ["gpus.A100-80", "gpus.H20", "network.nic_gbit_per_s", "framework.buckets", "planner"];
    assert_eq!(sweep.axes, axes);
    let runs = all(&sweep).unwrap();
    assert_eq!(runs.len(), 3 * 2 * 2 * 2 * 2);
    let last = runs.last().unwrap();
    assert_eq!(last.point.cluster.as_deref(), Some("1x2xA100-80+1x4xH20"));
    assert_eq!(last.point.scenario.training.global_batch_size, 64);
    assert_eq!(last.key[3], serde_json::json!({ "parameters": 600 }));
    assert_eq!(runs[0].point.cluster, None);
    assert!((runs[0].point.scenario.network.nic_gbit_per_s - 25.0).abs() < 1e-9);
}

#[test]
fn a_list_has_entries_of_its_own_keys() {
    let list = "[[list]]\nmodel = \"gpt3-1.3b\"\ncluster = \"1x8xT4\"\n[[list]]\ncluster = \"2x8xT4\"\n";
    let sweep = parse(&format!("{list}[grid]\ntraining.global_batch_size = [64, 128]\n")).unwrap();
    assert_eq!(sweep.axes, ["model", "cluster", "training.global_batch_size", "planner"]);
    let runs = all(&sweep).unwrap();
    assert_eq!(runs.len(), 4);
    assert_eq!(runs[3].key[0], serde_json::Value::Null);
    assert_eq!(runs[3].point.scenario.model, "gpt3-6.7b");
}

#[test]
fn nodes_and_markets_are_counted_too() {
    let sweep = parse("gpus_per_node = 4\n[grid]\nnodes.T4 = [1, 2]\n").unwrap();
    let clusters: Vec<_> = all(&sweep).unwrap().iter().map(|run| run.point.cluster.clone().unwrap()).collect();
    assert_eq!(clusters, ["1x4xT4", "2x4xT4"]);
    let market = "kind = \"replays\"\npolicies = [\"autohet\"]\n[market]\nhours = 2.0\n\
                  [[market.pools]]\ngpu_type = \"T4\"\ngpu_count = 4\nnodes = 2\n[grid]\nmarket.seed = [1, 2, 3]\n";
    let runs = all(&parse(market).unwrap()).unwrap();
    let seeds: Vec<u64> = runs.iter().map(|run| run.point.market.as_ref().unwrap().seed).collect();
    assert_eq!(seeds, [1, 2, 3]);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    refuses("plannrs = []\n", &["line 1", "unknown field `plannrs`"]);
    refuses("planners = [\"autohat\"]\n", &["line 1", "unknown planner `autohat`", "did you mean `autohet`"]);
    refuses("planners = [\"whale\", \"whale\"]\n", &["named twice"]);
    refuses("policies = [\"varuna\"]\n", &["line 1", "another kind"]);
    refuses("[scenario]\nmodel = \"llama-7c\"\n", &["llama-7c", "did you mean `llama-7b`"]);
    refuses("[scenario]\ntraining.batch = 3\n", &["unknown field `batch`"]);
    refuses("[grid]\ngpus.T4 = [1]\ngpus.T5 = [1]\n", &["line 3", "unknown GPU type `T5`"]);
    refuses("[grid]\ngpus.T4 = [1, -1]\n", &["line 2", "`gpus.T4` is `-1`"]);
    refuses("[grid]\ngpus.T4 = []\n", &["line 2", "no values"]);
    refuses("[grid]\ntraining.global_batch_size = [0]\n", &["line 2", "`training.global_batch_size` is `0`"]);
    refuses("[grid]\ntraining.batch = [0]\n", &["line 2", "unknown field `batch`"]);
    refuses("[grid]\nnetwork.nic_gbit_per_s = { from = 1.0, to = 9.0 }\n", &["`step` or a `[sample]`"]);
    refuses("[grid]\nmodel = [\"gpt3-1.3b\"]\n", &["no cluster is given"]);
    refuses("[scenario]\ncluster = \"8xT4\"\n[grid]\ngpus.T4 = [1]\n", &["both `cluster` and counts"]);
    refuses("kind = \"replays\"\n", &["no trace is given"]);
    refuses("kind = \"replays\"\n[grid]\ngpus.T4 = [1]\n", &["the nodes of its trace"]);
    refuses("[[list]]\nmodel = \"gpt3-1.3b\"\n[grid]\nmodel = [\"gpt3-1.3b\"]\n", &["in `list` and in `grid`"]);
    refuses("[grid]\ngpus.T4 = [1]\ncheckpoint.peer_copies = [0, 1]\n", &["line 3", "isn't read by sweeps of plans"]);
    refuses("[grid]\ngpus.T4 = [1]\ngpus_per_node = [4, 8]\n", &["line 3", "where nodes are counted only"]);
    refuses("[[list]]\ntrace.gpu_type = \"T4\"\n", &["line 2", "`trace.gpu_type` isn't read by sweeps of plans"]);
    refuses("[grid]\ngpus.T4 = [2, 1, 2]\n", &["line 2", "two runs have the same values"]);
    refuses(
        "[[list]]\ncluster = \"8xT4\"\n[[list]]\ncluster = \"8xT4\"\n",
        &["line 1", "two runs have the same values"],
    );
    refuses("[sample]\ncount = 0\n[grid]\ngpus.T4 = [1]\n", &["`sample.count` is 0"]);
}

#[test]
fn a_sample_has_every_planner_on_each_of_its_points() {
    let runs = all(&parse(&format!("{MIX}[sample]\ncount = 5\nseed = 3\n")).unwrap()).unwrap();
    assert_eq!(runs.len(), 10);
    assert!(runs.chunks(2).all(|pair| pair[0].key[..4] == pair[1].key[..4] && pair[0].key[4] != pair[1].key[4]));
}
