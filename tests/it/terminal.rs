//! Commands that tell what there is, and what all commands have in common.

use crate::support::Sandbox;

fn printed(args: &[&str]) -> String {
    let ran = Sandbox::new().run(args);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
    ran.stdout
}

#[test]
fn the_doctor_finds_this_machine_fit() {
    let all: serde_json::Value = serde_json::from_str(&printed(&["doctor", "--format", "json"])).unwrap();
    let all = all.as_array().unwrap();
    assert!(all.len() >= 8 && all.iter().all(|found| found["grade"] != "bad"), "{all:?}");
    let advised = all.iter().filter(|found| found["grade"] != "good");
    assert!(advised.clone().all(|found| found["advice"].as_str().is_some_and(|advice| !advice.is_empty())), "{all:?}");
}

#[test]
fn the_doctor_says_what_does_not_work() {
    let sandbox = Sandbox::new().file("results", "a file");
    let ran = sandbox.run(&["doctor", "--format", "csv"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stdout.contains("results,bad,"), "{}", ran.stdout);
}

#[test]
fn what_there_is_has_names_that_work() {
    for (what, name) in [
        ("models", "llama-7b"),
        ("gpus", "H20"),
        ("policies", "varuna"),
        ("planners", "metis"),
        ("formats", "slurm_jobs"),
    ] {
        let csv = printed(&["list", what, "--format", "csv"]);
        assert!(csv.lines().any(|line| line.starts_with(&format!("{name},"))), "{csv}");
        let table = printed(&["list", what]);
        assert!(table.contains(name) && table.lines().all(|line| line.chars().count() <= 80), "{table}");
        assert!(printed(&["list", what, "--format", "markdown"]).starts_with("| name |"));
    }
    let gpu = printed(&["show", "gpu", "h20", "--format", "json"]);
    assert!(gpu.contains("\"H20\"") && gpu.contains("source"), "{gpu}");
    Sandbox::new().refuses(&["show", "gpu", "H21"], &["unknown GPU type `H21`", "did you mean"]);
}

#[test]
fn shells_and_manuals_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", shell]);
        assert!(["sweep", "recommend", "doctor"].iter().all(|command| script.contains(command)), "{shell}");
    }
    assert!(printed(&["man"]).contains(".TH"));
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.run(&["man", "--out", "man1"]).code, Some(0));
    assert!(sandbox.read("man1/autohet-sim-sweep-merge.1").contains("autohet-sim"));
    assert!(sandbox.path("man1/autohet-sim.1").exists());
}

#[test]
fn commands_say_as_much_as_they_are_asked_to() {
    let plan = ["plan", "--cluster", "1x2xT4", "--model", "gpt3-1.3b", "--global-batch-size", "8", "--out", "p.json"];
    let sandbox = Sandbox::new();
    let ran = |more: &[&str]| sandbox.run(&[&plan[..], more].concat());
    assert_eq!(ran(&[]).stderr, "");
    let verbose = ran(&["-v"]).stderr;
    for part in ["on 1 nodes of 2 GPUs\n", "planned in ", "wrote p.json, "] {
        assert!(verbose.contains(part), "{part}: {verbose}");
    }
    let note = ["plan", "--cluster", "1x2xT4", "--model", "opt-350m", "--judge", "sailor"];
    let [loud, quiet] = [&[][..], &["--quiet"]].map(|more| sandbox.run(&[&note[..], more].concat()));
    assert_eq!(quiet.stderr.matches("note: ").count(), 0, "{}", quiet.stderr);
    assert_eq!(loud.code, quiet.code);
}

#[test]
fn reports_have_four_forms() {
    let sandbox = Sandbox::with_small_trace();
    let job = ["--model", "gpt3-1.3b", "--global-batch-size", "16"];
    sandbox.run(&[&["plan", "--cluster", "2x2xT4", "--out", "plan.json"], &job[..]].concat());
    for (command, columns) in [
        ([&["plan", "--cluster", "2x2xT4"], &job[..]].concat(), "replica,micro_batches,stage,node,"),
        ([&["plan", "--cluster", "2x2xT4", "--top-k", "2"], &job[..]].concat(), "predicted_iteration_s,tokens_per_s,"),
        (vec!["iteration", "--plan", "plan.json"], "replica,stage,node,gpu_type,"),
        ([&["--trace", "small.csv", "--quiet"], &job[..]].concat(), "policy,iterations,samples,tokens,"),
        ([&["across", "small.csv"], &job[..]].concat(), "trace,span_s,policy,iterations,"),
        (vec!["trace", "stats", "small.csv"], "file,format,statistics."),
        (vec!["list", "schemas"], "name,summary"),
    ] {
        let printed = |format: &str| {
            let ran = sandbox.run(&[&command[..], &["--format", format]].concat());
            assert_eq!(ran.code, Some(0), "{command:?} --format {format}: {}", ran.stderr);
            ran.stdout
        };
        let csv = printed("csv");
        assert!(csv.starts_with(columns), "{command:?}: {csv}");
        let mut rows = csv::ReaderBuilder::new().from_reader(csv.as_bytes());
        assert!(rows.records().all(|row| row.is_ok()), "every row has as many cells as the heading: {csv}");
        let markdown = printed("markdown");
        assert!(markdown.contains("\n|---|"), "{command:?}: {markdown}");
        serde_json::from_str::<serde_json::Value>(&printed("json")).unwrap();
        let table = printed("table");
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{command:?}: {table}");
    }
}

#[test]
fn schemas_are_printed_as_they_are_kept() {
    assert_eq!(printed(&["show", "schema", "plan"]), autohet::schemas::by_name("plan").unwrap().text);
    Sandbox::new().refuses(&["show", "schema", "plam"], &["no schema of `plam`", "did you mean `plan`"]);
}

#[test]
fn a_mix_is_recommended_with_what_trains_on_it() {
    let both = ["recommend", "--types", "T4", "--budget-usd-per-hour", "9", "--trace", "t.csv", "--away-minutes", "3"];
    Sandbox::new().refuses(&both, &["'--trace <FILE>' cannot be used with '--away-minutes <MINUTES>'"]);
    let job = ["recommend", "--model", "gpt3-1.3b", "--global-batch-size", "16", "--effort", "fast"];
    let offer = ["--types", "V100-16:0.5,T4:0.2", "--gpus-per-node", "4", "--budget-usd-per-hour", "5"];
    let sandbox = Sandbox::with_small_trace();
    let ran = sandbox.run(&[&job[..], &offer, &["--quiet", "--plot", "front.svg"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    // The prices are ours, so the plan must be asked for with them.
    let lines: Vec<&str> = ran.stdout.lines().map(str::trim).collect();
    let cluster =
        lines.iter().find_map(|line| line.strip_prefix("printf '")?.strip_suffix("' > cluster.toml")).unwrap();
    assert!(cluster.contains("price_usd_per_hour = "), "{cluster}");
    let sandbox = sandbox.file("cluster.toml", cluster.replace("\\n", "\n"));
    let command = lines.iter().find_map(|line| line.strip_prefix("autohet-sim ")).unwrap();
    let plan = sandbox.run(&command.split(' ').collect::<Vec<_>>());
    assert_eq!(plan.code, Some(0), "{command}: {}", plan.stderr);
    assert!(sandbox.path("plan.json").exists() && sandbox.read("front.svg").starts_with("<svg"));
    let risky = sandbox.run(&[&job[..], &offer, &["--trace", "small.csv", "--format", "csv", "--quiet"]].concat());
    assert_eq!(risky.code, Some(0), "{}", risky.stderr);
    assert!(risky.stdout.contains("expected_tokens_per_s") && risky.stdout.contains("\n*,"), "{}", risky.stdout);
    let none = [&job[..], &["--types", "T4", "--gpus-per-node", "1", "--budget-usd-per-hour", "0.5"]].concat();
    sandbox.refuses(&[&job[..], &["--types", "T4", "--budget-usd-per-hour", "0.01"]].concat(), &["no node"]);
    assert_eq!(sandbox.run(&none).code, Some(1));
}
