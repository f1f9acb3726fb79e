//! What can't be run is refused before any process is started, with exit code 2.

use super::{autohet_run, folder_with, plan};
use std::fs;

fn refusal(plan: &serde_json::Value, options: &[&str]) -> String {
    let folder = folder_with(plan);
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("short.txt", b"short");
    write("latin.txt", b"fa\xe7ade");
    write("hosts.txt", b"n9\n");
    write("odd.bin", &[1, 2, 3]);
    let large: Vec<u8> = (0..300_u16).flat_map(|token| if token < 200 { token } else { 256 }.to_le_bytes()).collect();
    write("large.u16", &large);
    write("other.csv", b"time_s,event,node,gpu_type,gpu_count\n0,up,x,T4,1\n100,down,x,,\n");
    write("bare.csv", b"time_s,event,node\n0,up,a\n100,down,a\n");
    write("many.csv", b"time_s,event,node,gpu_type,gpu_count\n0,up,a,T4,128\n100,down,a,,\n");
    let output = autohet_run(folder.path()).args(options).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

#[test]
fn plans_that_it_cannot_run() {
    let good = plan("1f1b", "none", &[(2, &[4])]);
    let with = |key: &str, value: serde_json::Value| {
        let mut plan = good.clone();
        plan[key] = value;
        plan
    };
    let many: [(u32, &[u32]); 65] = [(1, &[4]); 65];
    let mut four = with("model", "llama-tiny".into());
    four["replicas"][0]["stages"][0]["gpus"] = [0, 1, 2, 3].into();
    let mut three = good.clone();
    three["replicas"][0]["stages"][0]["gpus"] = [0, 1, 2].into();
    let on = |node: &str, gpus: &[u32]| {
        let mut plan = good.clone();
        let stage = &mut plan["replicas"][0]["stages"][0];
        (stage["node"], stage["gpus"]) = (node.into(), gpus.into());
        plan
    };
    let mut old = with("schema_version", 1.into());
    old["tensor_parallel_size"] = 2.into();
    let heads = "a stage of 4 GPUs of `llama-tiny`, which has 2 key and value heads, can't be trained here\nhint: ";
    let cases = [
        (
            on("n0", &[u32::MAX]),
            "nodes that have 4294967295 GPUs, counted from GPU 0 of each, can't be trained here\nhint: ",
        ),
        (on("n0", &[0, 0]), "GPU 0 of node `n0` is used already\nhint: "),
        (on("", &[0]), "a node without a name can't be trained here\nhint: "),
        (three, "a plan with a stage of 3 GPUs can't be trained here\nhint: "),
        (four, heads),
        (with("tensor_parallel_size", 2.into()), "unknown field `tensor_parallel_size`"),
        (old, "replica 0 stage 0 has 1 GPUs, but `tensor_parallel_size` is 2\nhint: "),
        (with("global_batch_size", u32::MAX.into()), "a global batch of 4294967295 samples, at most 1048576"),
        (with("precision", "bf16".into()), "a plan in bf16 can't be trained here\nhint: "),
        (with("schedule", "zb-h1".into()), "the schedule ZB-H1 can't be trained here\nhint: it is simulated only"),
        (with("schedule", "interleaved".into()), "the schedule interleaved 1F1B can't be trained here\nhint: "),
        (with("model", "gpt-tinny".into()), "unknown model `gpt-tinny`\nhint: did you mean `gpt-tiny`"),
        (with("global_batch_size", 3.into()), "2 micro batches of 1 samples don't make the global batch of 3"),
        (plan("1f1b", "none", &[(2, &[3])]), "replica 0 holds 3 layers, the model has 4"),
        (plan("1f1b", "none", &[]), "a global batch of 0 samples"),
        (plan("1f1b", "none", &many), "a plan of 65 ranks can't be trained here\nhint: "),
    ];
    for (plan, expected) in cases {
        let stderr = refusal(&plan, &["--plan", "plan.json"]);
        assert!(stderr.contains(expected), "{stderr}");
    }
}

/// Each with options that are refused, and why.
fn refuses(cases: &[(&[&str], &str)]) {
    let good = plan("1f1b", "none", &[(2, &[4])]);
    for (options, expected) in cases {
        let stderr = refusal(&good, options);
        assert!(stderr.contains(expected), "{options:?}: {stderr}");
    }
}

#[test]
fn data_and_optimizers_that_make_no_sense() {
    refuses(&[
        (&["--plan", "plan.json", "--data", "short.txt"], "short.txt` has 5 tokens, a sample takes 129\nhint: "),
        (&["--plan", "plan.json", "--data", "nowhere.txt"], "`nowhere.txt` can't be read: "),
        (&["--plan", "plan.json", "--data", "latin.txt"], "`latin.txt` isn't UTF-8 text from byte 2 on\nhint: "),
        (&["--plan", "plan.json", "--data", "odd.bin"], "`odd.bin` has 3 bytes, which isn't a whole number of tokens"),
        (&["--plan", "plan.json", "--data", "large.u16"], "large.u16`, counted from 0, is `256`, "),
        (&["--plan", "plan.json", "--data-format", "u16"], "--data <FILE>"),
        (
            &["--plan", "plan.json", "--learning-rate", "-1"],
            "`--learning-rate` is `-1`, expected a number above 0\nhint: ",
        ),
        (&["--plan", "plan.json", "--min-learning-rate", "1e-4"], "has no meaning without `--decay-steps`\nhint: "),
        (
            &["--plan", "plan.json", "--warmup-steps", "10", "--decay-steps", "10"],
            "`--decay-steps` is `10`, expected a step after the 10 of `--warmup-steps`\nhint: ",
        ),
        (
            &["--plan", "plan.json", "--clip-norm", "-1"],
            "`--clip-norm` is `-1`, expected a number of 0 or more\nhint: ",
        ),
        (&["--plan", "plan.json", "--weight-decay", "nan"], "`--weight-decay` is `NaN`, expected a number from 0 to 1"),
        (
            &["--model", "gpt-tiny", "--data", "large.u16", "--plan-out", "large.u16"],
            "`--plan-out` is `large.u16`, which would replace the input `large.u16`\nhint: ",
        ),
        (&["--model", "gpt-tiny", "--global-batch-size", "4294967295"], "4294967295 is not in 1..=1048576"),
        (&["--plan", "plan.json", "--steps", "0"], "invalid value '0' for '--steps <COUNT>'"),
    ]);
}

#[test]
fn plans_nodes_and_devices_that_make_no_sense() {
    refuses(&[
        (&[], "neither a plan nor a model\nhint: "),
        (&["--plan", "nowhere.json"], "cannot read `nowhere.json`"),
        (
            &["--plan", "plan.json", "--model", "gpt-small"],
            "`--model` is `gpt-small`, the plan says `gpt-tiny`\nhint: ",
        ),
        (&["--plan", "plan.json", "--ranks", "3"], "`--ranks` is `3`, the plan says `1`\nhint: "),
        (&["--plan", "plan.json", "--plan-out", "p.json"], "`--plan-out` writes a plan that is made here"),
        (&["--model", "gpt-tinny"], "unknown model `gpt-tinny`\nhint: did you mean `gpt-tiny`"),
        (&["--model", "gpt-tiny", "--precision", "bf16"], "a plan in bf16 can't be trained here\nhint: "),
        (&["--plan", "plan.json", "--hosts", "hosts.txt"], "--secret-file <FILE>"),
        (
            &["--plan", "plan.json", "--hosts", "hosts.txt", "--secret-file", "secret"],
            "`hosts.txt` names node `n9`, which the plan doesn't have\nhint: ",
        ),
        (
            &["--plan", "plan.json", "--hosts", "hosts.txt", "--secret-file", "secret", "--listen", "0.0.0.0:7"],
            "`--listen` is `0.0.0.0:7`, which no other host can reach by that name\nhint: ",
        ),
        (
            &["worker", "--coordinator", "127.0.0.1:1", "--node", "n0", "--secret-file", "short.txt"],
            "others may read the secret in `short.txt`\nhint: `chmod 600 short.txt`",
        ),
        (&["--plan", "plan.json", "--device-map", "0"], "`--device-map` names GPUs, the backend is `cpu`\nhint: "),
        (&["--model", "gpt-tiny", "--backend", "emulated"], "there is nothing to emulate\nhint: name nodes"),
        (
            &["--model", "gpt-tiny", "--cluster", "2x1xT4", "--ranks", "2"],
            "`--ranks` and `--cluster` both say which devices there are\nhint: ",
        ),
        (
            &["--model", "gpt-tiny", "--inject", "many.csv", "--gpu-type", "T5"],
            "unknown GPU type `T5`\nhint: did you mean `T4`",
        ),
        (&["--plan", "plan.json", "--gpu-type", "T4"], "`--gpu-type` says how to read a trace\nhint: "),
        (&["--plan", "plan.json", "--inject", "nowhere.csv"], "`nowhere.csv`"),
        (
            &["--plan", "plan.json", "--inject", "other.csv"],
            "the plan uses node `n0`, which the trace of `--inject` never has\nhint: ",
        ),
        (
            &["--model", "gpt-tiny", "--inject", "bare.csv"],
            "`bare.csv`: the trace doesn't say which GPUs node `a` has\nhint: ",
        ),
        (
            &["--model", "gpt-tiny", "--inject", "many.csv"],
            "`many.csv` has 128 GPUs up at 0 µs, each of them a process of this machine, at most 64\nhint: ",
        ),
        (
            &["--model", "gpt-tiny", "--inject", "many.csv", "--trace-speed", "0"],
            "`--trace-speed` is `0`, expected 0.001 to 1000000\nhint: ",
        ),
    ]);
}

#[test]
fn models_that_this_machine_cannot_hold() {
    // Of 30 billion parameters each takes 16 bytes: 480 GB.
    let folder = tempfile::tempdir().unwrap();
    let output = autohet_run(folder.path()).args(["--model", "gpt3-30b"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("error: no plan fits: ") && stderr.contains("\nhint: train a smaller model"),
        "{stderr}"
    );
    let mut given = plan("1f1b", "none", &[(2, &[48])]);
    given["model"] = "gpt3-30b".into();
    let profile = ["profile", "--model", "gpt3-30b", "--micro-batch-sizes", "4096"];
    for options in [&["--plan", "plan.json"][..], &["check", "--plan", "plan.json"], &profile] {
        let stderr = refusal(&given, options);
        assert!(stderr.contains("the ranks of `gpt3-30b` take ") && stderr.contains("available\nhint: "), "{stderr}");
    }
}

#[test]
fn a_rank_is_not_started_by_hand() {
    refuses(&[(&["worker"], "isn't set or can't be used\nhint: ")]);
}

#[test]
fn places_where_nothing_can_be_written() {
    refuses(&[
        (
            &["--plan", "plan.json", "--out", "out", "--checkpoint-dir", "out/checkpoints"],
            "`--out` is `out`, `--checkpoint-dir` is `out/checkpoints`: one lies in the other\nhint: ",
        ),
        (
            &["--plan", "plan.json", "--out", "ckpt/out", "--checkpoint-dir", "ckpt"],
            "`--checkpoint-dir` is `ckpt`: one lies in the other\nhint: ",
        ),
        (&["--model", "gpt-tiny", "--out", "out", "--plan-out", "out/plan.json"], "one lies in the other\nhint: "),
        (&["--model", "gpt-tiny", "--plan-out", "none/plan.json"], "cannot write `none/plan.json`"),
        (&["--plan", "plan.json", "--checkpoint-dir", "short.txt"], "cannot keep checkpoints in `short.txt`"),
        (&["--plan", "plan.json", "--checkpoint-dir", "/proc/x"], "cannot keep checkpoints in `/proc/x`"),
        (&["--plan", "plan.json", "--checkpoint-dir", "c", "--store-mb-per-s", "0"], "`--store-mb-per-s` is `0`"),
        (&["profile", "--model", "gpt-tiny", "--out", "none/p.json"], "cannot write `none/p.json`"),
        (&["check", "--plan", "plan.json", "--out", "/proc/x"], "cannot create results in `/proc`"),
        (
            &["check", "--plan", "plan.json", "--tolerance", "5"],
            "`--tolerance` is `5`, expected 0% to 1000%, or 0 to 1",
        ),
    ]);
}

#[test]
fn kills_and_recoveries_that_could_never_happen() {
    refuses(&[
        (&["--plan", "plan.json", "--kill", "n7@2"], "`--kill` names node `n7`, which there never is\nhint: "),
        (
            &["--plan", "plan.json", "--steps", "2", "--kill", "n0@3"],
            "`--kill` of node `n0` is in iteration 3, the run has 2\nhint: ",
        ),
        (&["--plan", "plan.json", "--kill", "n0@2:checkpoint"], "in the phase `checkpoint` takes checkpoints"),
        (&["--plan", "plan.json", "--recover-from", "object-store"], "hint: add `--checkpoint-dir FOLDER`"),
        (&["--plan", "plan.json", "--checkpoint-every", "5"], "--checkpoint-dir <FOLDER>"),
        (&["--plan", "plan.json", "--store-mb-per-s", "5"], "--checkpoint-dir <FOLDER>"),
        (&["--plan", "plan.json", "--store-total-mb-per-s", "5"], "--checkpoint-dir <FOLDER>"),
        (&["--plan", "plan.json", "--peer-copies", "1"], "--checkpoint-dir <FOLDER>"),
    ]);
}
