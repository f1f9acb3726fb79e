use super::*;
use crate::cluster::NodeDefaults;
use crate::cost::CostSettings;
use crate::model::{ModelSpec, Recompute};
use crate::plan::{Replica, SCHEMA_VERSION, ScheduleKind, Stage};
use crate::profile::LayerProfile;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Three layers between ends, measured on A100-40 at degrees 1 and 2 with one sample; all numbers are round.
fn cost() -> CostModel {
    let file = |tp: u32, share: u32| {
        let layer = |parameters: u32, output: u32| {
            format!(
                r#"{{"params_count": {}, "output_act_floats_per_sample": {output}, "stored_act_floats_per_sample": 1000}}"#,
                parameters / share
            )
        };
        let layers = [
            layer(8_000_000, 250_000),
            layer(1_000_000, 250_000),
            layer(1_000_000, 250_000),
            layer(1_000_000, 250_000),
            layer(8_000_000, 9),
        ];
        format!(
            r#"{{"model": "gpt-tiny", "gpu": "A100-40", "tp": {tp}, "bytes_per_float": 4, "layers": [{}], "by_micro_batch_size":
            {{"1": {{"fwd_s": [0.01, 0.1, 0.1, 0.1, 0.02], "bwd_s": [0.01, 0.2, 0.2, 0.2, 0.04], "update_s": [0.05, 0.05, 0.05, 0.05, 0.05]}}}}}}"#,
            layers.join(",")
        )
    };
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("1.json"), file(1, 1)).unwrap();
    std::fs::write(place.path().join("2.json"), file(2, 2)).unwrap();
    let model = ModelSpec { num_layers: 3, ..ModelSpec::preset("gpt-tiny").unwrap() };
    let profile = LayerProfile::read_all(&[place.path().to_owned()], &model).unwrap();
    CostModel::new(model, CostSettings::default(), Some(profile))
}

/// Stages as GPU type, degree and transformer layers, on as many nodes of 4 GPUs as there are.
struct Shape<'a> {
    replicas: u32,
    micro_batches: u32,
    stages: &'a [(&'a str, u32, u32)],
}

fn plan(cluster: &Cluster, model: &str, micro_batch_size: u32, shapes: &[Shape]) -> Plan {
    let mut free: Vec<u32> = cluster.nodes.iter().map(|node| node.gpu_count).collect();
    let mut place = |(gpu, tp, num_layers): (&str, u32, u32), first_layer: u32| {
        let node =
            cluster.nodes.iter().zip(&free).position(|(node, &left)| node.gpu.name == gpu && left >= tp).unwrap();
        free[node] -= tp;
        let gpus = (free[node]..free[node] + tp).collect();
        Stage {
            node: cluster.nodes[node].name.clone(),
            gpus,
            gpu_type: gpu.to_owned(),
            first_layer,
            num_layers,
            later_chunks: Vec::new(),
        }
    };
    let mut replicas = Vec::new();
    for shape in shapes {
        for _ in 0..shape.replicas {
            let mut first = 0;
            let stages = shape.stages.iter().map(|&stage| {
                first += stage.2;
                place(stage, first - stage.2)
            });
            replicas.push(Replica { micro_batches: shape.micro_batches, stages: stages.collect() });
        }
    }
    let micro_batches: u32 = replicas.iter().map(|replica| replica.micro_batches).sum();
    Plan {
        schema_version: SCHEMA_VERSION,
        planner: "by hand".to_owned(),
        model: model.into(),
        global_batch_size: micro_batches * micro_batch_size,
        micro_batch_size,
        sequence_parallel: false,
        recompute: Recompute::None,
        precision: Precision::Fp32,
        schedule: ScheduleKind::OneForwardOneBackward,
        replicas,
    }
}

fn cluster(mix: &str) -> Cluster {
    Cluster::parse_mix(mix, &NodeDefaults::default()).unwrap()
}

#[test]
fn one_stage_by_hand() {
    let cluster = cluster("1x4xA100-40");
    let plan = plan(&cluster, "gpt-tiny", 1, &[Shape { replicas: 2, micro_batches: 5, stages: &[("A100-40", 2, 3)] }]);
    // 5 micro batches of 0.98 s and the update; then 19 million numbers of 4 bytes, halved over the degree, in a ring of
    // 2: twice a message of 19 MB at 1.1168 + 0.14086 x - 0.0024414 x² GB/s, x = log₂ 19.
    let message_s =
        0.019 / (1.116_822_757_1 + 0.140_862_733_9 * 4.247_927_5 - 0.002_441_423_1 * 4.247_927_5 * 4.247_927_5);
    let by_hand_s = 5.0 * 0.98 + 0.05 + 2.0 * message_s;
    let judged_s = SailorJudge.iteration_s(&plan, &cluster, &cost()).unwrap();
    assert!((judged_s / by_hand_s - 1.0).abs() < 1e-6, "{judged_s} {by_hand_s}");
}

#[test]
fn two_stages_by_hand() {
    let cluster = cluster("1x4xA100-40");
    let stages = [("A100-40", 1, 1), ("A100-40", 1, 2)];
    let plan = plan(&cluster, "gpt-tiny", 1, &[Shape { replicas: 1, micro_batches: 4, stages: &stages }]);
    // Messages of 1 MB over one pair: 1.1168 GB/s. The last stage waits for two of them, the first for one.
    let message_s = 1e-3 / 1.116_822_757_1;
    let by_hand_s = 3.0 * (0.66 + 2.0 * message_s) + 3.0 * message_s + 0.32 + 0.66 + 0.05;
    let judged_s = SailorJudge.iteration_s(&plan, &cluster, &cost()).unwrap();
    assert!((judged_s / by_hand_s - 1.0).abs() < 1e-9, "{judged_s} {by_hand_s}");
}

#[test]
fn what_it_does_not_know_is_an_error_with_a_hint() {
    let cluster = cluster("1x4xA100-40+1x4xT4");
    let judged = |micro_batch_size, stages: &[(&str, u32, u32)], cost: &CostModel| {
        let shape = Shape { replicas: 1, micro_batches: 1, stages };
        let plan = plan(&cluster, "gpt-tiny", micro_batch_size, &[shape]);
        SailorJudge.iteration_s(&plan, &cluster, cost).map_err(|error| error.to_string())
    };
    let error = judged(2, &[("A100-40", 2, 3)], &cost()).unwrap_err();
    assert!(error.contains("`A100-40` at tensor-parallel size `2` and micro-batch size `2`\nhint: "), "{error}");
    let error = judged(1, &[("T4", 1, 3)], &cost()).unwrap_err();
    assert!(error.contains("no profile of `T4`"), "{error}");
    let unmeasured = CostModel::new(ModelSpec::preset("gpt-tiny").unwrap(), CostSettings::default(), None);
    let error = judged(1, &[("A100-40", 1, 3)], &unmeasured).unwrap_err();
    assert!(error.contains("\nhint: name the folder of its profiles"), "{error}");
}

#[test]
fn equal_replicas_are_one_pipeline() {
    let cluster = cluster("3x4xA100-40");
    let (two, one) = ([("A100-40", 2, 1), ("A100-40", 2, 2)], [("A100-40", 4, 3)]);
    let shapes = [
        Shape { replicas: 1, micro_batches: 3, stages: &two },
        Shape { replicas: 1, micro_batches: 2, stages: &one },
        Shape { replicas: 1, micro_batches: 4, stages: &two },
    ];
    let json: serde_json::Value =
        serde_json::from_str(&SailorPlan::of(&plan(&cluster, "gpt-tiny", 2, &shapes)).to_json()).unwrap();
    let expected = serde_json::json!({
        "global_batch_size": 18,
        "micro_batch_size": 2,
        "pipelines": [
            {"replicas": 2, "micro_batches": 4, "stages": [
                {"gpu": "A100-40", "tp": 2, "layers": 2}, {"gpu": "A100-40", "tp": 2, "layers": 3}]},
            {"replicas": 1, "micro_batches": 2, "stages": [{"gpu": "A100-40", "tp": 4, "layers": 5}]},
        ],
    });
    assert_eq!(json, expected);
}

fn shared(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").join(path)
}

/// Against the judge in Python, where both are at hand: five digits, and the same verdict on memory.
#[test]
fn it_says_what_its_peer_says() {
    let (script, folder) = (shared("tools/judge_plan.py"), shared("data/sailor/profiles"));
    if !script.is_file() || !folder.is_dir() || Command::new("python3").arg("--version").output().is_err() {
        return;
    }
    let model = ModelSpec::preset("opt-350m").unwrap();
    let profile = LayerProfile::read_all(&[folder], &model).unwrap();
    let cost = CostModel::new(model, CostSettings::default(), Some(profile));
    let cluster = cluster("8x4xA100-40+24x4xV100-16");
    let shape = |replicas, micro_batches, stages| Shape { replicas, micro_batches, stages };
    let (alone, deep, mixed): (&[_], &[_], &[_]) = (
        &[("A100-40", 2, 24)],
        &[("V100-16", 4, 3), ("V100-16", 2, 2), ("A100-40", 1, 7), ("A100-40", 2, 12)],
        &[("V100-16", 4, 8), ("V100-16", 2, 4), ("A100-40", 2, 12)],
    );
    let plans = [
        (4, vec![shape(16, 16, alone)]),
        (2, vec![shape(16, 32, mixed)]),
        (1, vec![shape(8, 128, deep)]),
        (2, vec![shape(6, 50, mixed), shape(4, 53, &[("A100-40", 4, 12), ("A100-40", 1, 12)])]),
        (8, vec![shape(8, 16, &[("V100-16", 1, 4), ("V100-16", 2, 20)])]),
        (4, vec![shape(3, 31, &[("V100-16", 4, 24)]), shape(2, 40, alone), shape(1, 17, deep)]),
    ];
    let place = tempfile::tempdir().unwrap();
    for (index, (micro_batch_size, shapes)) in plans.iter().enumerate() {
        let plan = plan(&cluster, "opt-350m", *micro_batch_size, shapes);
        let file = place.path().join(format!("{index}.json"));
        std::fs::write(&file, SailorPlan::of(&plan).to_json()).unwrap();
        let output = Command::new("python3").arg(&script).arg(&file).output().unwrap();
        let judged_s = SailorJudge.iteration_s(&plan, &cluster, &cost);
        let Ok(theirs) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else {
            assert!(judged_s.is_err(), "{index}: {judged_s:?} {output:?}");
            continue;
        };
        let judged_s = judged_s.unwrap();
        assert_eq!(theirs["fits"], judged_s.is_finite(), "{index}: {theirs}");
        if judged_s.is_finite() {
            let per_s = (1e5 / judged_s).round() / 1e5;
            assert!(
                (theirs["iterations_per_s"].as_f64().unwrap() - per_s).abs() < 1e-9,
                "{index}: {theirs} {judged_s}"
            );
            assert!((theirs["iteration_s"].as_f64().unwrap() - judged_s).abs() < 1e-4, "{index}: {theirs} {judged_s}");
        }
    }
}
