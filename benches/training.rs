//! Tokens per CPU-second of training `gpt-17m` on one core: one process, eight samples of 256 tokens a step, in fp32.
//!
//! Beside it PyTorch, where `AUTOHET_PYTORCH` names a Python that has it, in turns, so that both have the same neighbours
//! on a shared machine. What is measured is CPU time of all processes, less that of a run of one step.

use serde_json::json;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const RUNS: usize = 5;
/// Steps that are measured in a run.
const STEPS: u32 = 4;
const SAMPLES: u32 = 8;
const SEQ_LENGTH: u32 = 256;
/// Clock ticks a second of `/proc`: what every Linux has.
const TICKS_PER_S: f64 = 100.0;

/// CPU time, user's and system's, of all children of this process that have ended, and of theirs.
fn children_cpu_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("this bench measures on Linux");
    // Fields 16 and 17; the second, the program's name, may have spaces.
    let fields = stat[stat.rfind(')').expect("the name is in parentheses") + 2..].split(' ');
    let ticks = fields.skip(13).take(2).map(|field| field.parse::<f64>().expect("ticks are a number"));
    ticks.sum::<f64>() / TICKS_PER_S
}

fn cpu_s(command: &mut Command) -> f64 {
    let before = children_cpu_s();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("the program starts");
    assert!(status.success(), "{command:?} failed");
    children_cpu_s() - before
}

/// Tokens per CPU-second of this program.
fn own_rate(folder: &Path) -> f64 {
    let cpu_s = |steps: u32| {
        let steps = steps.to_string();
        let arguments = ["--plan", "plan.json", "--steps", &steps];
        cpu_s(Command::new(env!("CARGO_BIN_EXE_autohet-run")).current_dir(folder).args(arguments))
    };
    let start = cpu_s(1);
    f64::from(STEPS * SAMPLES * SEQ_LENGTH) / (cpu_s(1 + STEPS) - start)
}

/// And of PyTorch, which leaves out its start itself.
fn peer_rate(python: &str) -> f64 {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/pytorch_speed.py");
    let output = Command::new(python).arg(script).output().expect("Python starts");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = json!({
        "schema_version": 2, "planner": "by hand", "model": "gpt-17m", "global_batch_size": SAMPLES,
        "micro_batch_size": SAMPLES, "sequence_parallel": false, "recompute": "none",
        "precision": "fp32", "schedule": "1f1b",
        "replicas": [{ "micro_batches": 1, "stages": [
            { "node": "n0", "gpus": [0], "gpu_type": "T4", "first_layer": 0, "num_layers": 6 }
        ]}],
    });
    fs::write(folder.path().join("plan.json"), plan.to_string()).expect("the folder is ours");
    let python = env::var("AUTOHET_PYTORCH").ok();
    let (mut own, mut peer) = (Vec::new(), Vec::new());
    println!("tokens per CPU-second, gpt-17m in fp32 on one core\n   run   autohet   PyTorch");
    for run in 1..=RUNS {
        own.push(own_rate(folder.path()));
        let beside = python.as_deref().map(peer_rate);
        peer.extend(beside);
        let beside = beside.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
        println!("{run:>6}  {:>8.0}  {beside:>8}", own[run - 1]);
    }
    let own = median(&mut own);
    if python.is_none() {
        println!("median  {own:>8.0}\nset AUTOHET_PYTORCH to a Python that has torch to see its figure beside");
        return;
    }
    let peer = median(&mut peer);
    println!("median  {own:>8.0}  {peer:>8.0}  {:.2} of PyTorch's", own / peer);
}
