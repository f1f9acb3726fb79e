//! A sweep against a baseline.

use super::{PLANS, sandbox, sweep};

/// The rows of a sweep as a baseline in which one line is another.
fn changed(rows: &str, row: &str, change: impl Fn(&str) -> String) -> String {
    let line = |line: &str| if line.starts_with(row) { change(line) } else { line.to_owned() };
    rows.lines().map(line).filter(|line| !line.is_empty()).map(|line| line + "\n").collect()
}

#[test]
fn a_sweep_passes_against_its_own_rows() {
    let sandbox = sandbox(PLANS);
    sweep(&sandbox, "out", &[]);
    let args = ["sweep", "s.toml", "--baseline", "out/rows.csv", "--tolerance", "0%", "--junit", "junit.xml"];
    let ran = sandbox.run(&[&args[..], &["--out", "again", "--summary-markdown", "page.md"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stdout);
    assert!(ran.stdout.contains("against the baseline: 48 rows the same, 0 changes for the better"), "{}", ran.stdout);
    assert!(sandbox.read("junit.xml").contains("tests=\"48\" failures=\"0\""));
    let page = sandbox.read("page.md");
    assert!(page.starts_with("## s: passed\n") && page.contains("**best tokens per s**"), "{page}");
}

#[test]
fn a_row_that_was_faster_or_is_missing_fails() {
    let sandbox = sandbox(PLANS);
    sweep(&sandbox, "out", &[]);
    let rows = sandbox.read("out/rows.csv");
    let key = "4,4,[1],autohet,ok,,";
    let faster = changed(&rows, key, |line| {
        let rest = line.strip_prefix(key).unwrap();
        let (tokens, rest) = rest.split_once(',').unwrap();
        format!("{key}{},{rest}", tokens.parse::<f64>().unwrap() * 1.05)
    });
    let one = faster.lines().find(|line| line.starts_with(key)).unwrap().replacen("4,4,", "16,16,", 1);
    let more = faster + &one + "\n";
    let sandbox = sandbox.file("baseline.csv", more);
    let args = ["sweep", "s.toml", "--out", "again", "--baseline", "baseline.csv"];
    let ran = sandbox.run(&[&args[..], &["--junit", "junit.xml", "--format", "markdown"]].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stdout.starts_with("## s: failed"), "{}", ran.stdout);
    let missing =
        "| gpus.V100-16=16 gpus.T4=16 training.micro_batch_sizes=[1] planner=autohet | row | ok | missing |  |";
    assert!(ran.stdout.contains(missing), "{}", ran.stdout);
    assert!(ran.stdout.contains("| tokens_per_s |") && ran.stdout.contains("-4.8 %"), "{}", ran.stdout);
    assert!(sandbox.read("junit.xml").contains("tests=\"49\" failures=\"2\""));
    let tolerant = sandbox.run(&[&args[..], &["--tolerance", "6%"]].concat());
    assert_eq!(tolerant.code, Some(1), "a missing row is no matter of tolerance");
}
