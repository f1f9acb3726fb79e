//! Training for real, on whatever devices there are: the real world around the
//! [controller](crate::elastic::Controller), as [`replay`](crate::replay) is the simulated one.
//!
//! [`train`] starts one worker process per device, tells the controller what happens to them, and carries out what it
//! asks for: iterations, checkpoints, changes of plan. A worker that dies is a lost node; the others keep their state in
//! memory, and training goes on with what can be read from them, from disks and from the object store.

mod checkpoints;
mod clusters;
mod copies;
mod elsewhere;
mod error;
mod given_plan;
mod holders;
pub mod memory;
mod nodes;
mod parts;
mod processes;
mod progress;
mod schedule;
mod settings;
mod workers;
mod world;

pub use checkpoints::CheckpointPlan;
pub use clusters::{check_nodes, gpu_count, host_cluster};
pub use elsewhere::Elsewhere;
pub use error::TrainingError;
pub use processes::{COORDINATOR_VARIABLE, WORKER_VARIABLE, WorkerCommand};
pub use progress::{Progress, RankReport, RecoveryReport, StepReport, program};
pub use schedule::{KillPoint, Schedule};

use crate::cluster::Cluster;
use crate::cost::{CostModel, CostSettings};
use crate::elastic::checkpoint::{CheckpointInterval, CheckpointSettings};
use crate::elastic::{AllowedSources, Controller, ControllerSettings, Policy, ReconfigurationSettings, policies};
use crate::plan::{Plan, PlanLimits, PlanRequest, Planner, TrainingSettings};
use crate::planner::autohet::{AutoHet, Engine};
use crate::runtime::device::messages::Job;
use crate::runtime::device::{Conditions, DataSet, EmulationError, check_job};
use crate::runtime::sim::Simulator;
use given_plan::GivenPlan;
use std::time::Duration;

/// What the ranks of a plan are made to meet.
pub type ConditionsOf = dyn Fn(&Plan) -> Result<Conditions, EmulationError>;

/// A training job and the world that it runs in.
pub struct Training {
    /// What is to be trained; its plan is in force for as long as all its nodes are there.
    pub job: Job,
    /// What is trained on.
    pub data: DataSet,
    /// The nodes that there are at the start.
    pub cluster: Cluster,
    /// What a plan may choose from when nodes come and go. With none, the job's plan stays in force wherever its nodes are
    /// there, and others are like it.
    pub choices: Option<TrainingSettings>,
    /// Prices plans, when another one has to be made.
    pub cost: CostModel,
    /// Which nodes' workers are started by somebody else.
    pub elsewhere: Elsewhere,
    /// What the ranks of a plan are made to meet.
    pub conditions: Box<ConditionsOf>,
    /// How a worker's process is started.
    pub command: WorkerCommand,
    /// What is done to the nodes on purpose.
    pub schedule: Schedule,
    /// Where checkpoints go, and from where training goes on if there are some; nowhere if there is none.
    pub checkpoints: Option<CheckpointPlan>,
    /// Where lost state may be read from.
    pub sources: AllowedSources,
    /// How often nodes that die are started again, all together.
    pub max_restarts: u32,
    /// After how long without a sign of life a worker's node counts as lost.
    pub silence: Duration,
}

/// After how long without a sign of life a node counts as lost where nothing else is said: much longer than a busy machine
/// leaves a thread waiting.
pub const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// Trains. Calls `observe` after each step and with everything else that happens.
///
/// # Errors
/// When training can't go on; all processes have ended when it returns.
pub fn train(
    training: &Training,
    observe: &mut dyn FnMut(&Progress<'_>) -> Result<(), String>,
) -> Result<(), TrainingError> {
    check_job(&training.job, &training.data)?;
    check_nodes(&training.job.plan, &training.cluster, &training.all_nodes())?;
    let Rules { policy, training: settings, checkpoint, reconfiguration } = training.rules();
    let nothing = Cluster::default();
    let request = PlanRequest {
        cluster: &nothing,
        cost: &training.cost,
        training: &settings,
        judge: &Simulator,
        limits: PlanLimits::default(),
    };
    let controller_settings = ControllerSettings { checkpoint: &checkpoint, reconfiguration: &reconfiguration };
    let controller = Controller::new(&policy, request, controller_settings);
    world::World::new(training, controller)?.run(observe)
}

/// What the controller of a training goes by, beside the cost model. With the same rules a [`replay`](crate::replay) of
/// what happens to it comes to the same decisions.
pub struct Rules {
    /// How it lives with losses.
    pub policy: Policy,
    /// What plans may choose from.
    pub training: TrainingSettings,
    /// When checkpoints are taken.
    pub checkpoint: CheckpointSettings,
    /// What a change of plan is thought to cost.
    pub reconfiguration: ReconfigurationSettings,
}

impl Training {
    /// The nodes of the start, and those that come later.
    fn all_nodes(&self) -> Cluster {
        let mut all = self.cluster.clone();
        for node in self.schedule.changes.iter().flat_map(|(_, change)| &change.joined) {
            if all.find(&node.name).is_none() {
                all.nodes.push(node.clone());
            }
        }
        all
    }

    /// The rules of this training.
    pub fn rules(&self) -> Rules {
        let plan = &self.job.plan;
        let most = plan.tensor_parallel_sizes().last().copied().unwrap_or(1);
        let planner: Box<dyn Planner> = match self.choices {
            Some(_) => Box::new(AutoHet { engine: Engine::Search }),
            None => Box::new(GivenPlan::new(plan.clone(), self.all_nodes())),
        };
        let training = self.choices.clone().unwrap_or_else(|| TrainingSettings {
            global_batch_size: plan.global_batch_size,
            precision: plan.precision,
            recompute: vec![plan.recompute],
            micro_batch_sizes: vec![plan.micro_batch_size],
            tensor_parallel_sizes: (0..=most.ilog2()).map(|power| 1 << power).collect(),
        });
        let every = self.checkpoints.as_ref().map(|plan| plan.every);
        let peer_copies = self.checkpoints.as_ref().map_or(0, |plan| plan.peer_copies);
        let interval = every.map_or(CheckpointInterval::Never, |count| CheckpointInterval::Steps { count });
        Rules {
            policy: policies::training(planner, self.sources),
            training,
            checkpoint: CheckpointSettings { interval, peer_copies, ..CheckpointSettings::default() },
            reconfiguration: ReconfigurationSettings::one_machine(),
        }
    }
}

/// Runs a plan as it is, to whose nodes nothing is expected to happen: at the first loss it ends with an error. The
/// conditions are those of the job.
///
/// # Errors
/// As [`train`].
pub fn train_plan(
    job: &Job,
    cluster: Cluster,
    command: &WorkerCommand,
    observe: &mut dyn FnMut(&StepReport) -> Result<(), String>,
) -> Result<(), TrainingError> {
    let conditions = job.conditions.clone();
    let training = Training {
        job: job.clone(),
        data: DataSet::Synthetic,
        cluster,
        cost: CostModel::new(job.model.clone(), CostSettings::default(), None),
        conditions: Box::new(move |_| Ok(conditions.clone())),
        command: command.clone(),
        schedule: Schedule::default(),
        choices: None,
        elsewhere: Elsewhere::default(),
        checkpoints: None,
        sources: AllowedSources::All,
        max_restarts: 0,
        silence: SIGN_OF_LIFE,
    };
    train(&training, &mut |progress| match progress {
        Progress::Step(report) => observe(report),
        Progress::Lost { node, how } => Err(format!("node `{node}` was lost: its process {how}")),
        _ => Ok(()),
    })
}
