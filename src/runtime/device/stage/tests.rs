//! Any plan computes the same gradients. All ranks run as threads of this process, over the sockets that processes use;
//! what a rank has summed up is looked at right before its optimizer takes it.

mod degrees;
mod pytorch;

use super::*;
use crate::model::{Architecture, Precision, Shard};
use crate::plan::{Plan, Replica, SCHEMA_VERSION, ScheduleKind, Stage as PlannedStage};
use crate::program::LowerOptions;
use crate::runtime::device::LOOPBACK;
use crate::runtime::device::Secret;
use crate::runtime::device::backend::{Collective, DeviceBackend, MessageShape, Parts};
use crate::runtime::device::ballot::Ballot;
use crate::runtime::device::clock::Clock;
use crate::runtime::device::devices::compute_on_device;
use crate::runtime::device::holding::Found;
use crate::runtime::device::interrupt::Interrupt;
use crate::runtime::device::mesh::{Meeting, mesh};
use crate::runtime::device::messages::Commit;
use crate::runtime::device::model::{Cut, Region, assemble, cut_part, cut_slice, shapes, slices, words_in_head};
use crate::runtime::device::peers::{Library, Peers, Shelf};
use crate::runtime::device::tensor_parallel::TensorPart;
use crate::runtime::device::transport::throttle::Links;
use crate::runtime::drive;
use rstest::rstest;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;

/// Of one step: what a rank holds of each block's gradient, and its part of the squared norm.
#[derive(Clone, Default)]
struct Seen {
    gradients: BTreeMap<Block, Vec<f32>>,
    squared_norm: f64,
    loss: f64,
}

/// What all ranks say of all steps.
struct Outcome {
    /// Rank by rank, step by step.
    seen: Vec<Vec<Seen>>,
    /// Mean over the global batch, step by step.
    losses: Vec<f64>,
    states: Vec<TrainingState>,
    parts: Vec<(usize, TensorPart)>,
}

/// A stage whose gradients are noted down.
struct Watched {
    stage: Box<dyn Compute>,
    mailbox: Arc<Mailbox>,
    seen: Arc<Mutex<(Vec<Seen>, TrainingState)>>,
}

impl Compute for Watched {
    fn forward(&mut self, micro_batch: MicroBatch) -> Result<(), DeviceError> {
        self.stage.forward(micro_batch)
    }

    fn backward(&mut self, micro_batch: MicroBatch, part: Part) -> Result<(), DeviceError> {
        self.stage.backward(micro_batch, part)
    }

    fn loss(&self) -> f64 {
        self.stage.loss()
    }

    fn squared_gradient_norm(&mut self) -> f64 {
        self.stage.squared_gradient_norm()
    }

    fn optimizer_step(&mut self, update: Update) -> Result<(), DeviceError> {
        let squared_norm = self.stage.squared_gradient_norm();
        let gradients = self.mailbox.gradients().clone();
        let loss = self.stage.loss();
        self.stage.optimizer_step(update)?;
        let mut seen = self.seen.lock().unwrap();
        seen.0.push(Seen { gradients, squared_norm, loss });
        seen.1 = self.stage.state();
        Ok(())
    }

    fn abandon_iteration(&mut self) {
        self.stage.abandon_iteration();
    }

    fn take_measured(&mut self) -> Measured {
        self.stage.take_measured()
    }

    fn state(&self) -> TrainingState {
        self.stage.state()
    }

    fn into_state(self: Box<Self>) -> TrainingState {
        self.stage.into_state()
    }
}

/// Every step counts.
struct Unanimous;

impl Ballot for Unanimous {
    fn vote(&mut self, _squared_norm: f64, _loss: f64) -> Result<Commit, DeviceError> {
        Ok(Commit { gradient_scale: 1.0 })
    }
}

/// Nobody reads another's state here.
struct NothingToRead;

impl Library for NothingToRead {
    fn read(&self, _step: u64, _shard: Shard, _from: Shelf) -> Result<Found, String> {
        Err("nothing is held here".to_owned())
    }

    fn read_part(&self, _step: u64, _block: Block, _part: TensorPart, _from: Shelf) -> Option<Found> {
        None
    }

    fn keep(&self, _step: u64, _shard: Shard, _bytes: Vec<u8>) {}
}

fn small(name: &str) -> ModelSpec {
    let key_value_heads = if name == "llama-tiny" { 4 } else { 8 };
    ModelSpec {
        hidden_size: 32,
        num_attention_heads: 8,
        num_key_value_heads: key_value_heads,
        head_dim: 4,
        ffn_hidden_size: 48,
        // Not a multiple of anything.
        vocab_size: 37,
        seq_length: 16,
        ..ModelSpec::preset(name).unwrap()
    }
}

/// How a plan is to be executed.
#[derive(Clone, Copy)]
struct Setting {
    tensor_parallel_size: u32,
    micro_batch_size: u32,
    recompute: Recompute,
    schedule: ScheduleKind,
    sequence_parallel: bool,
}

const ALONE: Setting = Setting {
    tensor_parallel_size: 1,
    micro_batch_size: 1,
    recompute: Recompute::None,
    schedule: ScheduleKind::OneForwardOneBackward,
    sequence_parallel: false,
};

/// Of each replica its micro batches and the layers of its stages.
type Replicas<'a> = &'a [(u32, &'a [u32])];

fn job(model: &ModelSpec, setting: Setting, replicas: Replicas<'_>) -> Job {
    let Setting { tensor_parallel_size, micro_batch_size, recompute, schedule, sequence_parallel } = setting;
    let mut node = 0;
    let mut replica = |&(micro_batches, layers): &(u32, &[u32])| {
        let mut first_layer = 0;
        let mut stage = |&num_layers: &u32| {
            node += 1;
            first_layer += num_layers;
            PlannedStage {
                node: format!("n{node}"),
                gpus: (0..tensor_parallel_size).collect(),
                gpu_type: "T4".to_owned(),
                first_layer: first_layer - num_layers,
                num_layers,
                later_chunks: Vec::new(),
            }
        };
        let stages = layers.iter().map(&mut stage).collect();
        Replica { micro_batches, stages }
    };
    let plan = Plan {
        schema_version: SCHEMA_VERSION,
        planner: "by hand".to_owned(),
        model: model.into(),
        global_batch_size: replicas.iter().map(|replica| replica.0).sum::<u32>() * micro_batch_size,
        micro_batch_size,
        sequence_parallel,
        recompute,
        precision: Precision::Fp32,
        schedule,
        replicas: replicas.iter().map(&mut replica).collect(),
    };
    assert_eq!(plan.validate_shape(model), Ok(()));
    Job { seed: 7, ..Job::new(plan, model.clone(), 5) }
}

/// Trains on threads.
fn run(job: &Job) -> Outcome {
    let program = Program::lower(
        &job.plan,
        LowerOptions { tie_word_embeddings: job.model.tie_word_embeddings, ..LowerOptions::default() },
    );
    let secret = Secret::random().unwrap();
    let world = program.ranks().len();
    let doors: Vec<_> =
        (0..world).map(|_| Peers::open(LOOPBACK.ip(), &secret, Arc::new(NothingToRead)).unwrap()).collect();
    let addresses: Vec<_> = doors.iter().map(|(_, address)| *address).collect();
    let (program, addresses) = (&program, &addresses);
    let tokens = (job.plan.micro_batch_size * job.model.seq_length) as usize;
    let width = job.model.hidden_size as usize;
    let part = |rank: usize| TensorPart::of(&program.ranks()[rank]);
    let outcomes: Vec<(Vec<Seen>, TrainingState)> = thread::scope(|scope| {
        let rank = |(index, (peers, _)): (usize, (Peers, SocketAddr))| {
            scope.spawn(move || {
                let rank = Rank::from(index);
                let interrupt = Interrupt::default();
                let links = Links::new(rank, &[], Clock::start().0);
                let meeting = Meeting { addresses, epoch: 1, peers: &peers, links: &links, interrupt: &interrupt };
                let mesh = mesh(program, rank, &meeting).unwrap();
                let mailbox = Arc::new(Mailbox::new(&program.ranks()[index]));
                let seen = Arc::new(Mutex::new((Vec::new(), TrainingState::default())));
                let stage = compute_on_device(StageSetting {
                    job,
                    program,
                    rank,
                    data: DataSet::Synthetic,
                    mailbox: Arc::clone(&mailbox),
                    state: TrainingState::default(),
                    group: TensorGroup::new(&job.plan, &program.ranks()[index], mesh.tensor_ring),
                });
                let watched = Watched { stage, mailbox: Arc::clone(&mailbox), seen: Arc::clone(&seen) };
                let collective =
                    Collective::new(&job.model, part(index), program.groups(), mesh.rings, Arc::clone(&mailbox));
                let mut backend = DeviceBackend::start(Parts {
                    rank,
                    stage: Box::new(watched),
                    wires: mesh.wires,
                    shape: MessageShape::new(&program.ranks()[index], tokens, width),
                    mailbox,
                    collective,
                    ballot: Box::new(Unanimous),
                    clock: Clock::start().0,
                    watch: Box::new(|_| {}),
                });
                for _ in 0..job.steps {
                    drive(program, &[rank], &mut backend).unwrap();
                }
                let (steps, state) = seen.lock().unwrap().clone();
                (steps, state)
            })
        };
        let ranks: Vec<_> = doors.into_iter().enumerate().map(rank).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let micro_batches = f64::from(job.plan.global_batch_size / job.plan.micro_batch_size);
    let loss = |step: usize| outcomes.iter().map(|outcome| outcome.0[step].loss).sum::<f64>() / micro_batches;
    Outcome {
        losses: (0..job.steps as usize).map(loss).collect(),
        parts: (0..world).map(|rank| (program.ranks()[rank].replica.index(), part(rank))).collect(),
        states: outcomes.iter().map(|outcome| outcome.1.clone()).collect(),
        seen: outcomes.into_iter().map(|outcome| outcome.0).collect(),
    }
}

/// A rank's part of the whole values of a block.
fn part_of(model: &ModelSpec, block: Block, part: TensorPart, whole: &[f32]) -> Vec<f32> {
    let all = TensorPart::WHOLE;
    let own: Vec<_> = slices(part).map(|slice| cut_slice(model, block, all, whole, slice)).collect();
    assemble(model, block, part, &own)
}

fn norm(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|value| f64::from(value).powi(2)).sum::<f64>().sqrt()
}

/// Compares each parameter's gradient with its part of the whole one: the difference is below 1e-5 of the norm of that,
/// or of a thousandth of the whole block's where a gradient is nothing but rounding, as the key bias's is.
fn assert_same_gradients(model: &ModelSpec, found: &Outcome, alone: &Outcome) {
    for (rank, (steps, (_, part))) in found.seen.iter().zip(&found.parts).enumerate() {
        for (&block, gradient) in &steps[0].gradients {
            let expected = part_of(model, block, *part, &alone.seen[0][0].gradients[&block]);
            assert_eq!(gradient.len(), expected.len());
            let floor = 1e-3 * norm(expected.iter().copied());
            let mut start = 0;
            for (index, shape) in shapes(model, block).iter().enumerate() {
                let own = start..start + Region::of_part(shape, *part).len();
                start = own.end;
                let difference = norm(gradient[own.clone()].iter().zip(&expected[own.clone()]).map(|(a, b)| a - b));
                let size = norm(expected[own].iter().copied()).max(floor);
                assert!(difference <= 1e-5 * size, "rank {rank}, {block}, parameter {index}: {difference} of {size}");
            }
        }
    }
}

fn assert_same(model: &ModelSpec, found: &Outcome, alone: &Outcome) {
    assert_same_gradients(model, found, alone);
    for (step, (found, expected)) in found.losses.iter().zip(&alone.losses).enumerate() {
        approx::assert_relative_eq!(found, expected, max_relative = 1e-5);
        assert!(step > 0 || (found - f64::from(model.vocab_size).ln()).abs() < 0.2, "{found}");
    }
    let replicas = found.parts.iter().map(|(replica, _)| replica + 1).max().unwrap();
    let whole = whole_squared_norm(model, alone);
    for replica in 0..replicas {
        let of_replica = found.seen.iter().zip(&found.parts).filter(|(_, (of, _))| *of == replica);
        let sum: f64 = of_replica.map(|(steps, _)| steps[0].squared_norm).sum();
        approx::assert_relative_eq!(sum, whole, max_relative = 1e-5);
    }
    assert_same_copies(model, found);
}

/// The squared norm of the model's gradient, from that of one process, whose tied words stand at both ends.
fn whole_squared_norm(model: &ModelSpec, alone: &Outcome) -> f64 {
    let gradients = &alone.seen[0][0].gradients;
    let all = norm(gradients.values().flatten().copied()).powi(2);
    let words = (model.vocab_size * model.hidden_size) as usize;
    let twice = if model.tie_word_embeddings { words } else { 0 };
    all - norm(gradients[&Block::Embedding][..twice].iter().copied()).powi(2)
}

/// Whatever is held more than once is the same in each place, bit by bit, after all steps.
fn assert_same_copies(model: &ModelSpec, found: &Outcome) {
    let mut first: BTreeMap<(Block, usize), (usize, Vec<f32>)> = BTreeMap::new();
    for (rank, (state, (_, part))) in found.states.iter().zip(&found.parts).enumerate() {
        for (&block, held) in &state.blocks {
            // Slice by slice, as degrees may differ.
            for slice in part.parts_of(8) {
                let content = cut_part(model, block, *part, &held.values, slice);
                let mut start = 0;
                for (index, shape) in shapes(model, block).iter().enumerate() {
                    let own = start..start + Region::of_part(shape, slice).len();
                    start = own.end;
                    // The words of both ends are one matrix.
                    let is_tied = model.tie_word_embeddings && block == Block::Head && index == words_in_head(model);
                    let (block, index) = if is_tied { (Block::Embedding, 0) } else { (block, index) };
                    let of = if shape.cut == Cut::Replicated { usize::MAX } else { slice.rank };
                    let key = (block, index * 100 + of.min(99));
                    let values = content[own].to_vec();
                    let (other, known) = first.entry(key).or_insert_with(|| (rank, values.clone()));
                    assert!(*known == values, "{block}, parameter {index}: ranks {other} and {rank} differ");
                }
            }
        }
    }
}

#[rstest]
fn any_plan_computes_what_one_process_computes(
    #[values("gpt-tiny", "llama-tiny", "bert-tiny")] name: &str,
    #[values(1, 2)] micro_batch_size: u32,
) {
    let model = small(name);
    let alone = run(&job(&model, Setting { micro_batch_size, ..ALONE }, &[(6, &[4])]));
    let pipelines: [(u32, Replicas<'_>); 8] = [
        (1, &[(6, &[1, 3])]),
        (1, &[(3, &[4]), (3, &[4])]),
        (2, &[(6, &[4])]),
        (1, &[(4, &[3, 1]), (2, &[1, 2, 1])]),
        (2, &[(6, &[2, 2])]),
        (2, &[(2, &[4]), (4, &[1, 3])]),
        (4, &[(6, &[4])]),
        (4, &[(5, &[2, 2]), (1, &[4])]),
    ];
    let ways = [
        (ScheduleKind::OneForwardOneBackward, Recompute::None),
        (ScheduleKind::GPipe, Recompute::Full),
        (ScheduleKind::OneForwardOneBackward, Recompute::Selective),
    ];
    for (index, (tensor_parallel_size, replicas)) in pipelines.into_iter().enumerate() {
        let (schedule, recompute) = ways[index % ways.len()];
        // Rows are shared wherever a stage is, every other time.
        let sequence_parallel = tensor_parallel_size > 1 && index % 2 == 0;
        let setting = Setting { tensor_parallel_size, micro_batch_size, recompute, schedule, sequence_parallel };
        assert_same(&model, &run(&job(&model, setting, replicas)), &alone);
    }
}

#[test]
fn eight_ranks_share_a_stage() {
    for name in ["gpt-tiny", "bert-tiny"] {
        let model = small(name);
        let alone = run(&job(&model, ALONE, &[(2, &[4])]));
        let eight = Setting { tensor_parallel_size: 8, ..ALONE };
        assert_same(&model, &run(&job(&model, eight, &[(2, &[4])])), &alone);
    }
}

#[test]
fn untied_ends_and_tied_llamas_count_once_too() {
    for (name, tie_word_embeddings) in [("gpt-tiny", false), ("llama-tiny", true)] {
        let model = ModelSpec { tie_word_embeddings, ..small(name) };
        assert_eq!(model.architecture == Architecture::Llama, tie_word_embeddings);
        let alone = run(&job(&model, ALONE, &[(3, &[4])]));
        let two = Setting { tensor_parallel_size: 2, ..ALONE };
        assert_same(&model, &run(&job(&model, two, &[(1, &[4]), (2, &[3, 1])])), &alone);
    }
}
