//! From arguments to the objects that the library works with.

use super::args::{EngineName, JobArgs, JudgeName, ProblemArgs, ReadingArgs};
use crate::cluster::NodeDefaults;
use crate::cost::{CostModel, OptimizerState};
use crate::plan::{Planner, ScheduleKind};
use crate::planner::autohet::{AutoHet, Engine};
use crate::planner::{self, Scheduled};
use crate::scenario::{NetworkSettings, Scenario, TraceSettings};
use crate::suggest;
use anyhow::anyhow;

/// What the command line says of the trace, over what the scenario does.
pub(super) fn apply_reading(args: &ReadingArgs, trace: &mut TraceSettings) {
    trace.trace_format = args.trace_format.or(trace.trace_format);
    trace.time_unit = args.time_unit.or(trace.time_unit);
    trace.polarity = args.polarity.or(trace.polarity);
    trace.which_node = args.which_node.or(trace.which_node);
    trace.gpu_type = args.gpu_type.clone().or_else(|| trace.gpu_type.take());
    trace.gpus_per_node = args.gpus_per_node.or(trace.gpus_per_node);
    trace.horizon_s = args.horizon.or(trace.horizon_s);
}

/// Puts the arguments that were given in the scenario's place.
pub(super) fn apply(args: &JobArgs, scenario: &mut Scenario) {
    let set = |target: &mut f64, value: Option<f64>| *target = value.unwrap_or(*target);
    scenario.model = args.model.clone().unwrap_or_else(|| scenario.model.clone());
    scenario.seq_length = args.seq_length.or(scenario.seq_length);
    let training = &mut scenario.training;
    training.global_batch_size = args.global_batch_size.unwrap_or(training.global_batch_size);
    training.precision = args.precision.unwrap_or(training.precision);
    if !args.profile.is_empty() {
        scenario.profile.clone_from(&args.profile);
    }
    set(&mut scenario.network.nic_gbit_per_s, args.nic_gbit_per_s);
    set(&mut scenario.network.nic_latency_us, args.nic_latency_us);
    scenario.network.nics_per_node = args.nics_per_node.unwrap_or(scenario.network.nics_per_node);
    scenario.framework = args.framework.unwrap_or(scenario.framework);
    if args.zero1 {
        scenario.framework.optimizer = OptimizerState::Sharded;
    }
}

/// The cost model of the scenario's model.
pub(super) fn cost_model(scenario: &Scenario) -> anyhow::Result<CostModel> {
    Ok(scenario.cost_model()?)
}

/// What nodes have where neither trace nor cluster file says.
pub(super) fn node_defaults(network: &NetworkSettings) -> NodeDefaults {
    network.node_defaults()
}

/// The planner autohet with this engine; other planners have none.
pub(super) fn planner_with_engine(name: &str, engine: EngineName) -> anyhow::Result<Box<dyn Planner>> {
    if name != "autohet" {
        planner(name)?;
        return Err(anyhow!("planner `{name}` has no engines\nhint: leave out `--engine`, or use `--planner autohet`"));
    }
    let engine = match engine {
        EngineName::Auto => Engine::Auto,
        EngineName::Search => Engine::Search,
        #[cfg(feature = "scip")]
        EngineName::Scip => Engine::Scip,
        #[cfg(not(feature = "scip"))]
        EngineName::Scip => {
            return Err(anyhow!(
                "this build has no SCIP\nhint: build with `--features scip`, or use `--engine search`"
            ));
        }
    };
    Ok(Box::new(AutoHet { engine }))
}

/// The planner under the schedule that was asked for, if any was.
pub(super) fn scheduled(planner: Box<dyn Planner>, args: &ProblemArgs) -> anyhow::Result<Box<dyn Planner>> {
    let Some(choice) = args.schedule else { return Ok(planner) };
    if args.judge == JudgeName::Sailor && choice.kind() != ScheduleKind::OneForwardOneBackward {
        return Err(anyhow!(
            "the judge `sailor` knows 1F1B only, not `{choice}`\nhint: leave out `--schedule`, or use `--judge simulator`"
        ));
    }
    Ok(Box::new(Scheduled { planner, choice }))
}

/// The planner of this name.
pub(super) fn planner(name: &str) -> anyhow::Result<Box<dyn Planner>> {
    planner::by_name(name).ok_or_else(|| {
        anyhow!("unknown planner `{name}`\nhint: {}", suggest::hint(name, planner::names().iter().copied()))
    })
}
