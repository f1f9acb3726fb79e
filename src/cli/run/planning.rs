//! Where the plan comes from: a file, or the planner for the devices that are there.

use super::args::{Backend, DeviceArgs, PlanningArgs};
use super::host::{self, CPU};
use super::inject::Injection;
use crate::cli::args::ReadingArgs;
use crate::cluster::{Cluster, Node, NodeDefaults};
use crate::cost::CostModel;
use crate::model::{ModelSpec, Precision};
use crate::plan::nodes_of_plan;
use crate::plan::{Plan, PlanError, PlanLimits, PlanRequest, Planner, Replica, TrainingSettings};
use crate::planner::autohet::{AutoHet, Engine};
use crate::profile::{LayerProfile, ProfileError};
use crate::runtime::sim::Simulator;
use crate::training::host_cluster;
use crate::units::format_seconds;
use crate::validation::with_host_links;
use anyhow::anyhow;
use std::path::Path;

/// Samples per optimizer step where nothing says.
const GLOBAL_BATCH_SIZE: u32 = 8;
/// Tensor-parallel degrees that can be trained.
const TENSOR_PARALLEL_SIZES: [u32; 4] = [1, 2, 4, 8];

/// What the command line says of plans.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) planning: &'a PlanningArgs,
    pub(super) devices: &'a DeviceArgs,
    pub(super) reading: &'a ReadingArgs,
}

/// What is trained, how, and on which nodes at the start.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) model: ModelSpec,
    pub(super) cluster: Cluster,
    pub(super) cost: CostModel,
    /// What may be chosen when nodes come and go; nothing where the plan was given.
    pub(super) choices: Option<TrainingSettings>,
    /// What is said of the plan, if it was made here.
    pub(super) summary: Option<String>,
    /// Whether anything is known of the devices' speed: a plan's GPU types say nothing of the cores that play them.
    pub(super) is_predictable: bool,
}

impl Planned {
    /// Reads the plan, or makes it for the nodes of the trace, or for the devices of this machine.
    pub(super) fn of(asked: Asked<'_>, injection: Option<&Injection>) -> anyhow::Result<Self> {
        let planning = asked.planning;
        match (&planning.plan, &planning.model) {
            (Some(_), _) => Self::given(asked, injection),
            (None, Some(model)) => {
                let model = ModelSpec::from_argument(model)?.with_seq_length(planning.seq_length)?;
                Self::made(model, asked, injection)
            }
            (None, None) => Err(anyhow!(
                "neither a plan nor a model\nhint: `--model gpt-tiny` plans for this machine; `--plan plan.json` runs a plan of `autohet-sim plan`"
            )),
        }
    }

    fn given(asked: Asked<'_>, injection: Option<&Injection>) -> anyhow::Result<Self> {
        let plan = read_plan(asked.planning.plan.as_deref())?;
        agree(asked.planning, &plan)?;
        if let Some(injection) = injection {
            check_traced(&plan, injection)?;
        }
        let model = plan.model.spec()?;
        let cost = asked.devices.cost_model(&model)?;
        let is_on_cores = asked.devices.backend == Backend::Cpu;
        let profile = cost.profile().filter(|_| is_on_cores);
        let measured = match profile {
            Some(profile) if measures_all(profile, CPU, &plan)? => profile.links(),
            _ => None,
        };
        let cluster = match (injection, measured) {
            (Some(injection), _) => injection.start.clone(),
            (None, Some(links)) => with_host_links(&host_cluster(&plan, CPU), links),
            (None, None) => nodes_of_plan(&plan, &NodeDefaults::default(), |stage| host::device_spec(&stage.gpu_type))?,
        };
        let is_predictable = !is_on_cores || measured.is_some();
        Ok(Self { plan, model, cluster, cost, choices: None, summary: None, is_predictable })
    }

    fn made(model: ModelSpec, asked: Asked<'_>, injection: Option<&Injection>) -> anyhow::Result<Self> {
        let planning = asked.planning;
        let described = asked.devices.described()?;
        let is_for_cores = injection.is_none() && described.is_none() && asked.devices.backend == Backend::Cpu;
        let ranks = planning.ranks;
        let cluster = match (injection, described) {
            (Some(_), Some(_)) => return Err(twice("--cluster", "--inject", "nodes there are")),
            (Some(_), None) if ranks.is_some() => return Err(twice("--ranks", "--inject", "nodes there are")),
            (None, Some(_)) if ranks.is_some() => return Err(twice("--ranks", "--cluster", "devices there are")),
            (Some(injection), None) => injection.start.clone(),
            (None, Some(described)) => described,
            (None, None) if is_for_cores => host::cores_as_nodes(ranks.unwrap_or_else(|| host::cores().min(64))),
            (None, None) => gpus(asked)?,
        };
        let default = if asked.devices.backend == Backend::Cuda { Precision::Bf16 } else { Precision::Fp32 };
        let divides = |t: &u32| model.num_key_value_heads.is_multiple_of(*t) && model.vocab_size >= *t;
        let choices = TrainingSettings {
            global_batch_size: planning.global_batch_size.unwrap_or(GLOBAL_BATCH_SIZE),
            precision: planning.precision.unwrap_or(default),
            tensor_parallel_sizes: TENSOR_PARALLEL_SIZES.into_iter().filter(divides).collect(),
            ..TrainingSettings::default()
        };
        let cost = asked.devices.cost_model(&model)?;
        let request = PlanRequest {
            cluster: &cluster,
            cost: &cost,
            training: &choices,
            judge: &Simulator,
            limits: PlanLimits::default(),
        };
        let planned =
            AutoHet { engine: Engine::Search }.plan(&request).map_err(|error| refusal(error, is_for_cores))?;
        // What is planned for GPUs says nothing of the cores that play them.
        let is_predictable = is_for_cores || asked.devices.backend != Backend::Cpu;
        let is_measured = cost.profile().map(|profile| measures_all(profile, CPU, &planned.plan)).transpose()?;
        let iteration = format_seconds(planned.predicted_iteration_s);
        let predicted = match (is_predictable, is_for_cores && is_measured != Some(true)) {
            (false, _) => String::new(),
            (true, false) => format!("; predicted iteration {iteration}"),
            (true, true) => format!("; predicted iteration {iteration} {}", host::assumptions()),
        };
        let summary = summary(&planned.plan) + &predicted;
        let (plan, summary) = (planned.plan, Some(summary));
        Ok(Self { plan, model, cluster, cost, choices: Some(choices), summary, is_predictable })
    }
}

/// A plan is carried out on the nodes that it names: one of which the trace never has some would never be in force.
fn check_traced(plan: &Plan, injection: &Injection) -> anyhow::Result<()> {
    let missing = plan.stages().find(|(_, stage)| injection.all.find(&stage.node).is_none());
    missing.map_or(Ok(()), |(_, stage)| {
        Err(anyhow!(
            "the plan uses node `{}`, which the trace of `--inject` never has\nhint: plan for nodes that the trace names, or leave out `--plan` to plan for those that are there",
            stage.node
        ))
    })
}

/// Two options that contradict each other.
fn twice(one: &str, other: &str, what: &str) -> anyhow::Error {
    anyhow!("`{one}` and `{other}` both say which {what}\nhint: leave out one of the two")
}

/// The plan in a file.
pub(super) fn read_plan(path: Option<&Path>) -> anyhow::Result<Plan> {
    let path = path.ok_or_else(|| {
        anyhow!(
            "no plan\nhint: make one with `{}`, then give it as `--plan plan.json`",
            "autohet-sim plan --cluster 1x1xL4+1x1xT4 --model gpt-tiny --global-batch-size 8 --precision fp32 --out plan.json"
        )
    })?;
    let text = crate::input::read_text(path)
        .map_err(|error| anyhow!("cannot read `{}`: {error}\nhint: check the path", path.display()))?;
    Ok(Plan::from_json(&text, &path.display().to_string())?)
}

/// With a plan, options can only repeat what it says.
pub(super) fn agree(planning: &PlanningArgs, plan: &Plan) -> anyhow::Result<()> {
    let planned = plan.model.spec()?;
    let model = planning.model.as_deref().map(ModelSpec::from_argument).transpose()?;
    let seq_length = planning.seq_length.map(|length| length.to_string());
    let said = [
        // The name tells the length of the sequence too, which `--seq-length` may have changed.
        (
            "--model",
            model.map(|model| model.with_seq_length(planning.seq_length)).transpose()?.map(|model| model.name),
            planned.name,
        ),
        ("--seq-length", seq_length, planned.seq_length.to_string()),
        (
            "--global-batch-size",
            planning.global_batch_size.map(|size| size.to_string()),
            plan.global_batch_size.to_string(),
        ),
        ("--precision", planning.precision.map(|precision| precision.to_string()), plan.precision.to_string()),
        ("--ranks", planning.ranks.map(|ranks| ranks.to_string()), plan.world_size().to_string()),
    ];
    for (option, given, planned) in said {
        if let Some(given) = given.filter(|given| *given != planned) {
            return Err(anyhow!("`{option}` is `{given}`, the plan says `{planned}`\nhint: leave out one of the two"));
        }
    }
    if planning.plan_out.is_some() {
        return Err(anyhow!(
            "`--plan-out` writes a plan that is made here, `--plan` gives one\nhint: leave out one of the two"
        ));
    }
    Ok(())
}

/// One node of as many GPUs as there are to be ranks.
fn gpus(asked: Asked<'_>) -> anyhow::Result<Cluster> {
    if asked.devices.backend == Backend::Emulated {
        return Err(anyhow!(
            "there is nothing to emulate\nhint: name nodes, for example `--cluster 2x4xT4`, or a plan or a trace"
        ));
    }
    let Some(gpu_type) = &asked.reading.gpu_type else {
        return Err(anyhow!("plans for GPUs need to know their type\nhint: name it, for example `--gpu-type H100`"));
    };
    let entries = asked.devices.device_map.as_ref().map_or(1, Vec::len);
    let gpu_count = asked.planning.ranks.unwrap_or(entries as u32);
    let NodeDefaults { nic, wiring, zone, .. } = NodeDefaults::default();
    let gpu = host::device_spec(gpu_type)?;
    let node =
        Node { name: "gpu-0".to_owned(), gpu, gpu_count, zone, price_usd_per_hour: 0.0, nic, wiring, flow: None };
    Ok(Cluster { nodes: vec![node] })
}

/// Hints of the planner are about GPUs to be rented, of which this machine has none.
fn refusal(error: PlanError, is_for_cores: bool) -> PlanError {
    match error {
        PlanError::DoesNotFit { reason, .. } if is_for_cores => PlanError::DoesNotFit {
            reason: reason.replace("the cluster", "this machine"),
            hint: "train a smaller model, such as `gpt-tiny`, or with fewer `--ranks`".to_owned(),
        },
        error => error,
    }
}

/// Whether layers and both ends are measured on a GPU type for each tensor-parallel degree of the plan.
pub(super) fn measures_all(profile: &LayerProfile, gpu: &str, plan: &Plan) -> Result<bool, ProfileError> {
    let measured = plan.tensor_parallel_sizes().into_iter().map(|size| profile.measures(gpu, &plan.execution_at(size)));
    measured.collect::<Result<Vec<bool>, _>>().map(|all| !all.contains(&false))
}

/// A plan in one line.
fn summary(plan: &Plan) -> String {
    let depth = |replica: &Replica| replica.stages.len();
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let depths: Vec<usize> = plan.replicas.iter().map(depth).collect();
    let are_alike = depths.iter().all(|depth| *depth == depths[0]);
    let stages = if are_alike {
        count(depths[0], "stage")
    } else {
        depths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ") + " stages"
    };
    format!(
        "planned: {} of {stages}, tensor parallel {}, micro batch size {}, {}",
        count(plan.replicas.len(), "replica"),
        plan.tensor_parallel_text(),
        plan.micro_batch_size,
        plan.precision,
    )
}
