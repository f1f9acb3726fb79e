//! What a user sees and gets: without a plan, with data of all formats, as JSON, in the results folder, with a trace.

use super::{autohet_run, folder_with, plan, spawned};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// A run that succeeds: its stdout and its stderr.
fn run(folder: &Path, options: &[&str]) -> (String, String) {
    let output = autohet_run(folder).args(options).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    (stdout, stderr)
}

/// JSON objects, one a line.
fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["event"] == kind).collect()
}

/// The nodes of an event, which come in any order.
fn names(record: &Value) -> BTreeSet<String> {
    record["nodes"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The rows of metrics.csv, by column.
fn column(folder: &Path, name: &str) -> Vec<String> {
    let mut reader = csv::Reader::from_path(folder.join("out/metrics.csv")).unwrap();
    let place = reader.headers().unwrap().iter().position(|header| header == name).unwrap();
    reader.records().map(|record| record.unwrap()[place].to_owned()).collect()
}

#[test]
fn a_model_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--model", "gpt-tiny", "--global-batch-size", "4", "--ranks", "2", "--steps", "3"];
    let (stdout, stderr) = run(folder.path(), &[&options[..], &["--plan-out", "plan.json", "--out", "out"]].concat());
    assert!(stderr.contains("gpt-tiny on 2 processes, planned: ") && stderr.contains("assumed"), "{stderr}");
    let rows: Vec<&str> = stdout.lines().collect();
    assert_eq!(rows.len(), 4, "{stdout}");
    for heading in ["step", "loss", "grad norm", "tokens/s", "FLOP/s/rank", "memory", "iteration", "predicted"] {
        assert!(rows[0].contains(heading), "{stdout}");
    }
    // The plan that was written is the plan that was run, and it can be run again.
    let made: Value = serde_json::from_str(&fs::read_to_string(folder.path().join("plan.json")).unwrap()).unwrap();
    assert_eq!((&made["model"], &made["global_batch_size"]), (&"gpt-tiny".into(), &4.into()));
    let losses = column(folder.path(), "loss");
    run(folder.path(), &["--plan", "plan.json", "--model", "gpt-tiny", "--steps", "3", "--out", "out"]);
    assert_eq!(column(folder.path(), "loss"), losses);
}

#[test]
fn formats_of_data_that_hold_the_same_tokens_train_the_same() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[4])]));
    let text: Vec<u8> = (0..2000_u32).map(|i| (32 + i * i % 90) as u8).collect();
    let wide = |bytes: usize| -> Vec<u8> {
        let number = |&byte: &u8| [byte, 0, 0, 0].into_iter().take(bytes).collect::<Vec<u8>>();
        text.iter().flat_map(number).collect()
    };
    let losses = |name: &str, bytes: &[u8], options: &[&str]| {
        fs::write(folder.path().join(name), bytes).unwrap();
        let common = ["--plan", "plan.json", "--steps", "2", "--out", "out", "--data", name];
        run(folder.path(), &[&common[..], options].concat());
        column(folder.path(), "loss")
    };
    let expected = losses("corpus.txt", &text, &[]);
    assert_eq!(losses("tokens.bin", &wide(2), &[]), expected);
    assert_eq!(losses("tokens.u32", &wide(4), &[]), expected);
    assert_eq!(losses("tokens.dat", &wide(4), &["--data-format", "u32"]), expected);
}

#[test]
fn json_has_an_object_for_each_step_and_event() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2])]));
    let options = ["--plan", "plan.json", "--steps", "4", "--format", "json", "--quiet", "--warmup-steps", "4"];
    let (stdout, stderr) = run(folder.path(), &options);
    assert_eq!(stderr, "");
    let records = objects(&stdout);
    let steps = of_kind(&records, "step");
    assert_eq!(steps.iter().map(|step| step["step"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for step in &steps {
        for key in ["time_s", "loss", "gradient_norm", "iteration_s", "tokens_per_s"] {
            assert!(step[key].as_f64().unwrap() > 0.0, "{key}: {step}");
        }
        assert!(step["memory_bytes"].as_u64().unwrap() > 1_000_000, "{step}");
        assert!(step["mfu"].is_null(), "nobody knows the peak of a core: {step}");
        assert_eq!(step["tokens"], 2 * 128);
    }
    let document = include_str!("../../../docs/formats.md");
    let section = document.split("\n## Run\n").nth(1).unwrap();
    let example: Value = serde_json::from_str(section.split("```").nth(1).unwrap().trim_start_matches("json")).unwrap();
    let keys = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(steps[0]), keys(&example), "docs/formats.md shows every key");
    let rates: Vec<f64> = steps.iter().map(|step| step["learning_rate"].as_f64().unwrap()).collect();
    assert!(rates.windows(2).all(|pair| pair[0] < pair[1]) && (rates[3] - 1e-3).abs() < 1e-9, "{rates:?}");
    assert_eq!(names(of_kind(&records, "joined")[0]), ["n0", "n1"].map(str::to_owned).into());
    let start = of_kind(&records, "plan")[0];
    assert_eq!((&start["cause"], &start["stages"]), (&Value::Null, &serde_json::json!([2])));
}

#[test]
fn steps_are_rows_of_csv_and_markdown() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[4])]));
    let printed = |format| run(folder.path(), &["--plan", "plan.json", "--steps", "3", "--quiet", "--format", format]);
    let (csv, stderr) = printed("csv");
    assert_eq!(stderr, "");
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(rows.headers().unwrap().iter().take(3).collect::<Vec<_>>(), ["time_s", "event", "step"]);
    let steps: Vec<String> = rows.records().map(|row| row.unwrap()[2].to_owned()).collect();
    assert_eq!(steps, ["1", "2", "3"]);
    let (markdown, _) = printed("markdown");
    assert!(markdown.starts_with("| time s | event | step |"), "{markdown}");
    assert_eq!(markdown.lines().count(), 2 + 3, "{markdown}");
}

#[test]
fn clipping_and_decay_change_what_is_trained() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[4])]));
    let last = |options: &[&str]| {
        let common = ["--plan", "plan.json", "--steps", "3", "--out", "out"];
        run(folder.path(), &[&common[..], options].concat());
        column(folder.path(), "loss")[2].parse::<f64>().unwrap()
    };
    let plain = last(&["--clip-norm", "0"]);
    // AdamW's steps hardly depend on the gradient's scale, but its epsilon does.
    assert!((last(&["--clip-norm", "1e-7"]) - plain).abs() > 1e-4);
    assert!((last(&["--clip-norm", "1e6"]) - plain).abs() < 1e-12);
    assert!((last(&["--clip-norm", "0", "--weight-decay", "1", "--learning-rate", "0.01"]) - plain).abs() > 1e-3);
}

#[test]
fn the_folder_has_what_was_measured_also_of_steps_done_again() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2])]));
    // The only copy of two layers goes with the node: training goes back to the checkpoint of step 3.
    let kill = ["--kill", "n1@6:steady", "--checkpoint-dir", "ckpt", "--checkpoint-every", "3"];
    let (_, stderr) =
        run(folder.path(), &[&["--plan", "plan.json", "--steps", "8", "--out", "out"][..], &kill[..]].concat());
    assert!(stderr.contains("lost: `n1` ended with signal: 9"), "{stderr}");
    assert!(stderr.contains("goes on"), "{stderr}");
    assert!(stderr.contains("details: out (start with loss.svg)"), "{stderr}");
    let names: BTreeSet<String> = fs::read_dir(folder.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let expected = ["events.jsonl", "loss.svg", "metrics.csv", "summary.json", "timeline.perfetto.json"];
    assert_eq!(names, expected.map(str::to_owned).into());
    let rows: Vec<(String, String)> =
        column(folder.path(), "step").into_iter().zip(column(folder.path(), "attempt")).collect();
    let first: Vec<&str> = rows.iter().filter(|row| row.1 == "1").map(|row| row.0.as_str()).collect();
    assert_eq!(first, ["1", "2", "3", "4", "5", "6", "7", "8"], "{rows:?}");
    assert!(rows.iter().any(|row| row.1 == "2"), "{rows:?}");
    let events = objects(&fs::read_to_string(folder.path().join("out/events.jsonl")).unwrap());
    let recovery = of_kind(&events, "plan")[1];
    assert!(!recovery["cause"].is_null() && recovery["lost_steps"].as_u64().unwrap() > 0, "{recovery}");
    assert_eq!(of_kind(&events, "lost").len(), 1);
    assert!(!of_kind(&events, "checkpoint").is_empty());
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("out/summary.json")).unwrap()).unwrap();
    assert_eq!((&summary["outcome"], &summary["steps_done"]), (&"done".into(), &8.into()));
    let svg = fs::read_to_string(folder.path().join("out/loss.svg")).unwrap();
    assert!(svg.contains("recovery") && svg.contains("given up"));
}

#[test]
fn a_run_that_diverges_says_so() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2])]));
    let options = ["--plan", "plan.json", "--steps", "6", "--learning-rate", "1e30"];
    let output = autohet_run(folder.path()).args(options).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("training has diverged: the ") && stderr.contains("\nhint: lower the learning rate"),
        "{stderr}"
    );
    assert!(!stderr.contains("lost: "), "{stderr}");
}

#[test]
fn a_run_whose_messages_nobody_reads_goes_on() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[4])]));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_autohet-run"));
    command.current_dir(folder.path()).args(["--plan", "plan.json", "--steps", "1", "--out", "out"]);
    let status = command.stdout(Stdio::null()).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(folder.path().join("out/summary.json").exists());
}

#[test]
fn a_run_that_goes_on_says_what_is_new_and_when_nothing_is_left() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[4])]));
    let plan = ["--plan", "plan.json", "--checkpoint-dir", "ckpt"];
    let first = ["--steps", "2", "--kill", "n0@2:recovery"];
    let (_, stderr) = run(folder.path(), &[&plan[..], &first].concat());
    assert!(stderr.contains("never came to the moment of `--kill`: `n0`"), "{stderr}");
    let (stdout, stderr) = run(folder.path(), &[&plan[..], &["--steps", "2", "--out", "out"]].concat());
    assert!(stdout.is_empty() && stderr.contains("nothing left to do: the checkpoint of step 2 is there"), "{stderr}");
    assert!(!folder.path().join("out").exists(), "there is nothing to be drawn");
    let (_, stderr) = run(folder.path(), &[&plan[..], &["--steps", "3", "--learning-rate", "5e-4"]].concat());
    assert!(stderr.contains("another setting than before: `--learning-rate` is 0.0005, it was 0.001"), "{stderr}");
    assert_eq!(stderr.matches("another setting").count(), 1, "{stderr}");
}

#[test]
fn predictions_for_gpus_are_not_shown_of_cores() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--model", "gpt-tiny", "--cluster", "1x1xT4", "--steps", "1", "--format", "json"];
    let (stdout, stderr) = run(folder.path(), &options);
    assert!(stderr.contains("planned: ") && !stderr.contains("predicted"), "{stderr}");
    assert!(of_kind(&objects(&stdout), "step")[0]["predicted_iteration_s"].is_null(), "{stdout}");
}

#[test]
fn help_of_subcommands_says_what_they_do() {
    let folder = tempfile::tempdir().unwrap();
    let check = run(folder.path(), &["check", "--help-all"]).0;
    assert!(check.contains("Predicts an iteration") && check.contains("profiled first"), "{check}");
    assert!(!check.contains("--plan-out <FILE>") && !check.contains("planned for the"), "{check}");
    let profile = run(folder.path(), &["profile", "--help-all"]).0;
    assert!(profile.contains("for `--profile`") && profile.contains("cut to two layers"), "{profile}");
}

#[test]
fn an_interrupted_run_keeps_what_it_measured() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2])]));
    let (mut child, mut rows) = spawned(&folder, &[&["--plan", "plan.json", "--steps", "100000", "--out", "out"]]);
    // The heading and two steps.
    rows.by_ref().take(3).for_each(|row| drop(row.unwrap()));
    let reader = std::thread::spawn(move || rows.for_each(drop));
    assert!(Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    reader.join().unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(stderr.contains("interrupted\ndetails: out"), "{stderr}");
    assert!(column(folder.path(), "step").len() >= 2);
    let summary = fs::read_to_string(folder.path().join("out/summary.json")).unwrap();
    assert!(summary.contains("\"outcome\": \"interrupted\""), "{summary}");
}

/// Two nodes from the start, one that joins, a notice, a loss.
const TRACE: &str = "\
time_s,event,node,gpu_type,gpu_count
0,up,n0,T4,1
0,up,n1,T4,1
240,up,n2,T4,1
480,notice,n1,,
1440,down,n1,,
6000000,down,n0,,
";

#[test]
fn a_trace_is_replayed_on_processes() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2])]));
    fs::write(folder.path().join("spot.csv"), TRACE).unwrap();
    let inject = ["--inject", "spot.csv", "--trace-speed", "480", "--format", "json"];
    // Of about 80 ms each, on any machine: the run outlasts the loss.
    let emulated = ["--plan", "plan.json", "--steps", "60", "--backend", "emulated", "--time-scale", "4"];
    let (stdout, stderr) = run(folder.path(), &[&emulated[..], &inject[..]].concat());
    let records = objects(&stdout);
    assert_eq!(of_kind(&records, "step").last().unwrap()["step"], 60, "{stderr}");
    // In slow motion, as what is measured is.
    let last = of_kind(&records, "step").pop().unwrap();
    let [predicted, measured] = ["predicted_iteration_s", "iteration_s"].map(|key| last[key].as_f64().unwrap());
    assert!((0.5..50.0).contains(&(measured / predicted)) && predicted > 0.05, "{last}");
    let joined: Vec<BTreeSet<String>> = of_kind(&records, "joined").into_iter().map(names).collect();
    assert_eq!(joined, [BTreeSet::from(["n0".to_owned(), "n1".to_owned()]), BTreeSet::from(["n2".to_owned()])]);
    let notice = of_kind(&records, "notice")[0];
    assert_eq!(notice["nodes"], serde_json::json!(["n1"]));
    let lost = of_kind(&records, "lost")[0];
    assert_eq!((&lost["node"], &lost["how"]), (&"n1".into(), &"was taken away".into()));
    // Eight minutes, and twenty-four, at 480 times the speed.
    assert!((0.99..20.0).contains(&notice["time_s"].as_f64().unwrap()), "{notice}");
    assert!((2.99..20.0).contains(&lost["time_s"].as_f64().unwrap()), "{lost}");
    // The notice makes training leave the node for the one that has joined: the loss costs nothing.
    let causes: Vec<&Value> = of_kind(&records, "plan").iter().map(|plan| &plan["cause"]).collect();
    assert_eq!(causes, [&Value::Null, &"notice".into()], "{stderr}");
    assert!(of_kind(&records, "step").iter().all(|step| step["attempt"] == 1));
}

#[test]
fn a_trace_is_planned_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("spot.csv"), TRACE).unwrap();
    let (_, stderr) = run(folder.path(), &["--model", "gpt-tiny", "--inject", "spot.csv", "--steps", "2"]);
    assert!(stderr.contains("planned: ") && stderr.contains("joined: "), "{stderr}");
}

#[test]
fn workers_of_other_hosts_join_and_strangers_do_not() {
    let folder = folder_with(&plan("1f1b", "none", &[(2, &[2, 2])]));
    let secret = folder.path().join("secret");
    fs::write(&secret, "5a".repeat(32)).unwrap();
    fs::write(folder.path().join("wrong"), "a5".repeat(32)).unwrap();
    fs::write(folder.path().join("hosts.txt"), "# by hand\nn1\n").unwrap();
    let chmod = ["600", "secret", "wrong"];
    assert!(Command::new("chmod").current_dir(folder.path()).args(chmod).status().unwrap().success());
    let mut coordinator = Command::new(env!("CARGO_BIN_EXE_autohet-run"))
        .current_dir(folder.path())
        .args(["--plan", "plan.json", "--steps", "3", "--format", "json"])
        .args(["--hosts", "hosts.txt", "--secret-file", "secret", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(coordinator.stdout.take().unwrap()).lines();
    let listening: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(listening["event"], "listening");
    let address = listening["address"].as_str().unwrap();
    let worker = |node: &str, secret: &str| {
        let mut command = autohet_run(folder.path());
        command.args(["worker", "--coordinator", address, "--node", node, "--secret-file", secret]);
        command.output().unwrap()
    };
    for (node, secret) in [("n1", "wrong"), ("n7", "secret")] {
        let refused = worker(node, secret);
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("hasn't let this worker in\nhint: "), "{stderr}");
    }
    let served = worker("n1", "secret");
    assert_eq!(served.status.code(), Some(0), "{}", String::from_utf8_lossy(&served.stderr));
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let records = objects(&rest.join("\n"));
    assert_eq!(of_kind(&records, "step").len(), 3);
    let turned_away: Vec<&str> =
        of_kind(&records, "turned_away").iter().map(|record| record["message"].as_str().unwrap()).collect();
    assert!(turned_away[0].contains("secret") && turned_away[1].contains("`n7`"), "{turned_away:?}");
    assert_eq!(coordinator.wait().unwrap().code(), Some(0));
}

#[test]
fn emulated_nodes_are_planned_for_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--model", "gpt-tiny", "--backend", "emulated", "--cluster", "1x1xT4+1x1xL4", "--steps", "2"];
    let (stdout, stderr) = run(folder.path(), &[&options[..], &["--out", "out"]].concat());
    assert!(stderr.contains("emulated devices, planned: ") && !stderr.contains("assumed"), "{stderr}");
    assert_eq!(stdout.lines().filter(|row| row.contains("emulated")).count(), 2, "{stdout}");
    assert!(!folder.path().join("out/loss.svg").exists(), "there is no loss to be drawn");
    let summary = fs::read_to_string(folder.path().join("out/summary.json")).unwrap();
    assert!(summary.contains("\"backend\": \"emulated\""), "{summary}");
}
