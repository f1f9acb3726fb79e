//! Several traces at once, prices over time, and markets taken from traces, by the command line.

use crate::support::{SMALL_TRACE, Sandbox};
use serde_json::Value;

const BAMBOO: &str = "0,add,node1\n0,add,node2\n1200000,remove,node1\n2400000,remove,node2\n";
const PRICES: &str = "{\"SpotPriceHistory\":[\
    {\"AvailabilityZone\":\"z1\",\"InstanceType\":\"g4dn.12xlarge\",\"SpotPrice\":\"3.6\",\"Timestamp\":\"2026-01-01T00:05:00Z\"},\
    {\"AvailabilityZone\":\"z1\",\"InstanceType\":\"g4dn.12xlarge\",\"SpotPrice\":\"1.2\",\"Timestamp\":\"2026-01-01T00:00:00Z\"}]}";
const REPLAY: [&str; 5] = ["--model", "bert-large", "--policies", "autohet", "--format"];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn traces_of_two_types_are_replayed_at_once_and_again_from_their_settings() {
    let sandbox = Sandbox::with_small_trace().file("p3:spot.csv", BAMBOO);
    let traces = ["--trace", "small.csv", "--trace", "p3:spot.csv:1xV100-16@z3"];
    let ran = sandbox.run(&[&traces[..], &REPLAY, &["json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let summary = json(&ran.stdout);
    assert_eq!(summary["trace"]["name"], "small+p3:spot");
    assert_eq!(summary["trace"]["gpu_types"], serde_json::json!(["T4", "V100-16"]));
    // Until 2400 s: both nodes of the one, the first node of the other, and T4s for 720 and 1800 s.
    let paid = 4.0 * 720.0 + 4.0 * 1800.0 + 4.0 * 1200.0 + 1200.0 + 2400.0;
    assert_eq!(summary["policies"]["autohet"]["paid_gpu_s"], paid);
    assert!(ran.stderr.contains("clocks: each trace begins at zero"), "{}", ran.stderr);
    let again =
        sandbox.run(&["--scenario", "results/small+p3:spot/resolved.toml", "--out", "again", "-q", "--format", "json"]);
    assert_eq!((again.code, json(&again.stdout)), (Some(0), summary), "{}", again.stderr);
}

#[test]
fn the_first_end_or_a_horizon_ends_the_replay() {
    let sandbox = Sandbox::with_small_trace().file("a.csv", "0,add,node1\n0,add,node2\n600000,remove,node1\n");
    let span = |more: &[&str]| {
        let args = ["trace", "stats", "small.csv", "a.csv:1xT4", "--merge", "--format", "json"];
        let ran = sandbox.run(&[&args[..], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let merged = json(&ran.stdout)[0].clone();
        (merged["statistics"]["span_s"].clone(), merged["notes"].to_string())
    };
    let (first, notes) = span(&[]);
    assert_eq!(first, 600.0);
    assert!(
        notes.contains("small.csv: it goes on to 40 min 00 s, but the first of the traces ends at 10 min 00 s"),
        "{notes}"
    );
    let (longer, notes) = span(&["--horizon", "30min"]);
    assert_eq!(longer, 1800.0);
    assert!(notes.contains("a.csv: it ends at 10 min 00 s") && notes.contains("nobody observed"), "{notes}");
}

#[test]
fn prices_over_time_reach_the_costs() {
    let sandbox = Sandbox::with_small_trace().file("prices.json", PRICES);
    let start = ["--trace", "small.csv", "--prices", "prices.json", "--trace-start", "2026-01-01T00:00:00Z"];
    let ran = sandbox.run(&[&start[..], &REPLAY, &["json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let usd = json(&ran.stdout)["policies"]["autohet"]["usd"].as_f64().unwrap();
    // Both T4 nodes: 300 s at 1.2, then 3.6 an hour for 420 and 1500 s; the V100s aren't in the history: 1200 s at 4.
    let expected = (2.0 * 300.0 * 1.2 + (420.0 + 1500.0) * 3.6 + 1200.0 * 4.0) / 3600.0;
    assert!((usd - expected).abs() < 1e-9, "{usd} {expected}");
    assert!(
        ran.stderr.contains("20 min 00 s of nodes of 4 × V100-16 in the zone `z2` aren't in the history"),
        "{}",
        ran.stderr
    );
    let costs = sandbox.read("results/small/costs.csv");
    assert!(costs.contains("autohet,gpus,T4,z1,g4dn.12xlarge,0,300,"), "{costs}");
    assert!(costs.contains("autohet,gpus,V100-16,z2,trace,0,2400,"), "{costs}");
}

#[test]
fn many_traces_may_say_what_their_nodes_are_and_have_prices_over_time() {
    let sandbox = Sandbox::with_small_trace().file("prices.json", PRICES).file("a.csv", BAMBOO);
    let csv = |args: &[&str]| {
        let job = ["--model", "bert-large", "--policies", "autohet", "--format", "csv", "-q"];
        let ran = sandbox.run(&[&["across"], args, &job[..]].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        ran.stdout
    };
    let both = csv(&["small.csv", "a.csv:1xV100-16@z3"]);
    assert_eq!(both.lines().count(), 3, "{both}");
    let priced = csv(&["small.csv", "--prices", "prices.json", "--trace-start", "2026-01-01T00:00:00Z"]);
    assert_ne!(both.lines().nth(1), priced.lines().nth(1));
    sandbox.refuses(&["across", "a.csv:A100-60"], &["`a.csv:A100-60`", "A100-40"]);
}

#[test]
fn fitted_laws_are_in_tables_for_machines() {
    let sandbox = Sandbox::with_small_trace();
    for format in ["csv", "markdown"] {
        let ran = sandbox.run(&["trace", "stats", "small.csv", "--format", format]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let text = ran.stdout.replace(['_', '.'], " ");
        for part in ["laws up times exponential mean s", "laws up times weibull shape", "laws up times best"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn nodes_that_boot_are_paid_for_before_they_are_of_use() {
    let sandbox = Sandbox::with_small_trace();
    let paid = |boot_s: &str| {
        let scenario =
            format!("policies = [\"autohet\"]\nmodel = \"bert-large\"\n[reconfiguration]\nboot_s = {boot_s}\n");
        std::fs::write(sandbox.path("boot.toml"), scenario).unwrap();
        let ran = sandbox.run(&["--scenario", "boot.toml", "--trace", "small.csv", "-q", "--format", "json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let outcome = json(&ran.stdout)["policies"]["autohet"].clone();
        (outcome["paid_gpu_s"].clone(), outcome["iterations"].as_u64().unwrap())
    };
    let (at_once, later) = (paid("0"), paid("300"));
    assert_eq!(at_once.0, later.0);
    assert!(later.1 < at_once.1, "{at_once:?} {later:?}");
}

#[test]
fn storage_and_traffic_cost_what_is_asked_for() {
    let sandbox = Sandbox::with_small_trace();
    let run = |more: &[&str]| {
        let args = ["--trace", "small.csv", "--checkpoint-interval-s", "120", "-q"];
        let ran = sandbox.run(&[&args[..], &REPLAY, &["json"], more].concat());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        json(&ran.stdout)["policies"]["autohet"].clone()
    };
    let free = run(&["--out", "free"]);
    assert_eq!((&free["storage_usd"], &free["total_usd"]), (&serde_json::json!(0.0), &free["usd"]));
    let paid = run(&["--out", "paid", "--storage-usd-per-gb-month", "0.023", "--egress-usd-per-gb", "0.09"]);
    let storage = paid["storage_usd"].as_f64().unwrap();
    assert!(storage > 0.0, "{paid}");
    let sum = paid["usd"].as_f64().unwrap() + storage + paid["egress_usd"].as_f64().unwrap();
    assert!((paid["total_usd"].as_f64().unwrap() - sum).abs() < 1e-12);
    assert_eq!(paid["iterations"], free["iterations"]);
    assert!(sandbox.read("paid/costs.csv").contains("autohet,storage,"));
}

#[test]
fn a_market_taken_from_a_trace_goes_on_for_a_week() {
    let sandbox = Sandbox::with_small_trace();
    let args =
        ["trace", "generate", "--fit", "small.csv", "--hours", "168", "--out", "week.csv", "--settings-out", "m.toml"];
    let ran = sandbox.run(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("taken from it: 3 loss events of 3 nodes"), "{}", ran.stderr);
    let again = sandbox.run(&["trace", "generate", "--settings", "m.toml", "--out", "again.csv"]);
    assert_eq!((again.code, sandbox.read("again.csv")), (Some(0), sandbox.read("week.csv")), "{}", again.stderr);
    let plot = sandbox.run(&["trace", "stats", "week.csv", "--plot", "week.svg", "--format", "json"]);
    let stats = json(&plot.stdout);
    assert_eq!(stats[0]["statistics"]["span_s"], 604_800.0);
    assert!(stats[0]["laws"]["up_times"]["fits"].as_array().unwrap().len() >= 2, "{}", plot.stdout);
    assert!(sandbox.read("week.svg").contains("Time between losses"));
}

#[test]
fn generated_prices_are_read_by_a_replay() {
    let sandbox = Sandbox::new();
    let market = [
        "trace",
        "generate",
        "--pool",
        "2x4xT4@us-east-1a:1.6",
        "--hours",
        "12",
        "--out",
        "m.csv",
        "--prices-out",
        "p.json",
    ];
    let ran = sandbox.run(&market);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("--trace-start 2026-01-01T12:00:00Z"), "{}", ran.stderr);
    let replay = ["--trace", "m.csv", "--prices", "p.json", "--trace-start", "2026-01-01T12:00:00Z"];
    let ran = sandbox.run(&[&replay[..], &REPLAY, &["json"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(sandbox.read("results/m/costs.csv").contains("autohet,gpus,T4,us-east-1a,g4dn.12xlarge,"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let sandbox = Sandbox::new().file("small.csv", SMALL_TRACE).file("p.json", PRICES).file("a.csv", BAMBOO);
    let replay = |more: &[&'static str]| [&["-q", "--trace", "small.csv", "--model", "bert-large"], more].concat();
    sandbox.refuses(&replay(&["--align", "start"]), &["`--align` sets the clocks of several traces"]);
    sandbox.refuses(
        &replay(&["--prices", "p.json"]),
        &["the trace has no calendar times", "--trace-start 2026-01-01T00:00:00Z"],
    );
    sandbox
        .refuses(&replay(&["--prices", "p.json", "--trace-start", "2027-01-01T00:00:00Z"]), &["after the last price"]);
    sandbox.refuses(&replay(&["--prices", "small.csv", "--trace-start", "2026-01-01T00:00:00Z"]), &["small.csv"]);
    sandbox.refuses(&replay(&["--horizon", "soon"]), &["90min"]);
    sandbox.refuses(&replay(&["--horizon", "0"]), &["`trace.horizon_s` is `0`"]);
    sandbox.refuses(&replay(&["--egress-usd-per-gb", "-1"]), &["`prices.egress_usd_per_gb` is `-1`"]);
    sandbox.refuses(&["-q", "--trace", "a.csv:A100-60", "--model", "bert-large"], &["`a.csv:A100-60`", "A100-40"]);
    sandbox.refuses(&["trace", "stats", "a.csv", "small.csv", "--plot", "x.svg"], &["`--plot` draws one trace"]);
    sandbox.refuses(
        &["trace", "stats", "a.csv", "--plot", "a.csv"],
        &["`--plot` is `a.csv`, which would replace the input"],
    );
    sandbox.refuses(&["trace", "generate", "--pool", "1x1xT4", "--gpu-type", "T4"], &["name one with `--fit`"]);
    sandbox.refuses(
        &["trace", "generate", "--pool", "1x3xT4", "--prices-out", "x.json"],
        &["no pool has prices over time"],
    );
}
