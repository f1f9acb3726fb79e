//! One step is the step that PyTorch takes from the same weights with the same tokens: loss, every gradient, and the
//! parameters after `AdamW`. `tests/peers/README.md` says how to run this.

use super::*;
use crate::runtime::device::stage::samples::Samples;
use rstest::rstest;
use safetensors::tensor::{Dtype, TensorView};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Names a Python that has torch and safetensors.
const VARIABLE: &str = "AUTOHET_PYTORCH";

/// A tensor of the file that the script reads.
struct Entry {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Entry {
    fn floats(name: String, shape: &[usize], values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self { name, dtype: Dtype::F32, shape: shape.to_vec(), bytes }
    }

    fn tokens(name: &str, shape: &[usize], tokens: &[u32]) -> Self {
        let bytes = tokens.iter().flat_map(|&token| i64::from(token).to_le_bytes()).collect();
        Self { name: name.to_owned(), dtype: Dtype::I64, shape: shape.to_vec(), bytes }
    }
}

fn block_name(block: Block) -> String {
    match block {
        Block::Layer(layer) => format!("layer-{}", layer.0),
        other => other.to_string(),
    }
}

/// A block's flat values as its parameters.
fn parameters(what: &str, model: &ModelSpec, block: Block, values: &[f32]) -> Vec<Entry> {
    let mut rest = values;
    let one = |(index, shape): (usize, crate::runtime::device::model::ParameterShape)| {
        let (own, behind) = rest.split_at(shape.len());
        rest = behind;
        Entry::floats(format!("{what}/{}/{index}", block_name(block)), &[shape.rows, shape.columns], own)
    };
    shapes(model, block).into_iter().enumerate().map(one).collect()
}

/// All tokens of the first step, and what each counts in its loss.
fn samples(job: &Job) -> Vec<Entry> {
    let samples = Samples::new(&job.plan, 0, DataSet::Synthetic, job.seed, 0);
    let micro_batches = job.plan.replicas[0].micro_batches;
    let mut all = Batch::default();
    for micro_batch in 0..micro_batches {
        let Batch { inputs, targets, weights } = samples.batch(&job.model, MicroBatch(micro_batch));
        all.inputs.extend(inputs);
        all.targets.extend(targets);
        all.weights.extend(weights.iter().map(|weight| weight / micro_batches as f32));
    }
    let shape = [job.plan.global_batch_size as usize, job.model.seq_length as usize];
    vec![
        Entry::tokens("inputs", &shape, &all.inputs),
        Entry::tokens("targets", &shape, &all.targets),
        Entry::floats("weights".to_owned(), &shape, &all.weights),
    ]
}

/// Takes one step, and writes down what went in and what came out.
fn write_step(job: &Job, folder: &Path) {
    let model = &job.model;
    let outcome = run(job);
    let (gradients, state) = (&outcome.seen[0][0].gradients, &outcome.states[0]);
    let mut entries = samples(job);
    for (&block, gradients) in gradients {
        let initial = initial_part(model, block, TensorPart::WHOLE, job.seed);
        entries.extend(parameters("initial", model, block, &initial));
        entries.extend(parameters("gradient", model, block, gradients));
        entries.extend(parameters("stepped", model, block, &state.blocks[&block].values));
    }
    let views = entries.iter().map(|entry| {
        let view = TensorView::new(entry.dtype, entry.shape.clone(), &entry.bytes).unwrap();
        (&entry.name, view)
    });
    fs::write(folder.join("step.safetensors"), safetensors::serialize(views, None).unwrap()).unwrap();
    let about = serde_json::json!({
        "model": model, "loss": outcome.losses[0], "learning_rate": job.learning_rate.at(1), "adamw": job.optimizer,
    });
    fs::write(folder.join("step.json"), about.to_string()).unwrap();
}

#[rstest]
fn a_step_is_that_of_pytorch(#[values("gpt-tiny", "llama-tiny", "bert-tiny")] name: &str) {
    let Some(python) = env::var_os(VARIABLE) else {
        eprintln!("skipped: set `{VARIABLE}` to a Python that has torch and safetensors");
        return;
    };
    let model = ModelSpec::preset(name).unwrap();
    let setting = Setting { micro_batch_size: 2, ..ALONE };
    let job = Job { steps: 1, ..job(&model, setting, &[(2, &[4])]) };
    let folder = tempfile::tempdir().unwrap();
    write_step(&job, folder.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/pytorch.py");
    let output = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    let [said, complaints] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{said}{complaints}");
    eprintln!("{name}\n{said}");
}
