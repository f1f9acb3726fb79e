//! The same input gives the same bytes, on any number of cores.

use crate::support::Sandbox;
use std::collections::BTreeMap;

/// Every file of a replay's results, and what stood on stdout.
fn results(sandbox: &Sandbox, args: &[&str], environment: &[(&str, &str)]) -> BTreeMap<String, String> {
    let ran = sandbox.run_with(&[args, &["--out", "out", "--format", "json"]].concat(), environment);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let files = sandbox.listing().into_iter().filter(|path| path.starts_with(sandbox.path("out")) && path.is_file());
    let mut found: BTreeMap<String, String> =
        files.map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect();
    assert_eq!(found.len(), 9);
    found.insert("stdout".to_owned(), ran.stdout);
    found
}

#[test]
fn a_replay_twice() {
    let market = Sandbox::new();
    let pools = ["--pool", "3x4xT4@z1:1.5", "--pool", "2x4xV100-16@z2:4", "--pool", "1x8xA100-40@z1:8"];
    let trace = market.run(&[&["trace", "generate", "--seed", "5", "--hours", "5"], &pools[..]].concat());
    assert_eq!(trace.code, Some(0), "{}", trace.stderr);
    let sandbox = Sandbox::new().file("market.csv", &trace.stdout);
    let args = ["--trace", "market.csv", "--model", "gpt3-1.3b", "--policies", "all"];
    let first = results(&sandbox, &args, &[]);
    for threads in ["1", "2", "5"] {
        let again = results(&sandbox, &args, &[("RAYON_NUM_THREADS", threads)]);
        for (name, text) in &first {
            assert!(again[name] == *text, "{name} differs with {threads} threads");
        }
    }
}

#[test]
fn a_plan_twice() {
    let sandbox = Sandbox::new();
    let mut plans = Vec::new();
    for threads in ["1", "2", "3"] {
        let args =
            ["plan", "--cluster", "1x8xA100-40+2x4xT4+1x4xV100-16", "--model", "gpt3-1.3b", "--out", "plan.json"];
        let ran = sandbox.run_with(&args, &[("RAYON_NUM_THREADS", threads)]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        plans.push(sandbox.read("plan.json"));
    }
    assert!(plans.windows(2).all(|pair| pair[0] == pair[1]));
}

/// Plans and iterations are shared by all replays, whoever makes them first.
#[test]
fn many_replays_twice() {
    let pools = ["--pool", "2x4xT4@z1:1.5", "--pool", "2x4xV100-16@z2:4"];
    let args = [&["across", "--seeds", "6", "--hours", "4", "--model", "gpt3-1.3b", "--policies", "all"], &pools[..]];
    let sandbox = Sandbox::new();
    let csv = |threads: &str| {
        let ran =
            sandbox.run_with(&[&args.concat()[..], &["--format", "csv"]].concat(), &[("RAYON_NUM_THREADS", threads)]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    let first = csv("1");
    assert_eq!(first.lines().count(), 1 + 6 * 8);
    for threads in ["2", "5"] {
        assert!(csv(threads) == first, "with {threads} threads");
    }
}
