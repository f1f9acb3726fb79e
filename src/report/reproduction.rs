//! AutoHet's comparison with Megatron-LM and Whale (arXiv 2512.20953), repeated on the simulator.

mod chart;
mod markdown;

pub use chart::reproduction_svg;
pub use markdown::reproduction_markdown;

use super::Screen;
use super::figures::{figure, ratio};
use super::table::ratio_table;
use crate::cost::CostError;
use crate::ids::LayerId;
use crate::model::{Block, Execution, Recompute};
use crate::plan::PlanRequest;
use serde::Serialize;
use std::fmt::Write as _;

/// A model family with what the paper reports of it: throughput against Megatron-LM, "up to" so many times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Family {
    pub name: &'static str,
    /// How the names of its models begin.
    prefix: &'static str,
    pub paper: f64,
}

pub(super) const FAMILIES: [Family; 3] = [
    Family { name: "LLaMA", prefix: "llama", paper: 1.79 },
    Family { name: "GPT-3", prefix: "gpt", paper: 1.53 },
    Family { name: "BERT-large", prefix: "bert", paper: 1.38 },
];

/// What the paper reports over Megatron-LM and Whale, whatever the model.
pub(super) const PAPER_OVER_BOTH: f64 = 1.79;

/// The planners whose ratios the paper has.
pub(super) const RIVALS: [(&str, &str); 2] = [("megatron", "Megatron-LM"), ("whale", "Whale")];

/// All cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reproduction {
    /// The cases, in the order of their names.
    pub cases: Vec<ReproducedCase>,
}

/// One model on one cluster, planned by everybody.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproducedCase {
    /// Its name.
    pub name: String,
    /// The model.
    pub model: String,
    /// GPUs by type, in the order of the cluster: `8 A100-80 + 4 H800`.
    pub cluster: String,
    /// Tokens of an iteration.
    pub tokens: u64,
    /// How many times as fast all GPUs are together as the fastest set of them under equal loads: what a planner that gives
    /// every device the same has to lose to one that doesn't, transfers, bubbles and memory aside.
    pub uneven_power: f64,
    /// What each planner made of it.
    pub plans: Vec<ReproducedPlan>,
}

/// A planner's plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproducedPlan {
    /// The planner.
    pub planner: String,
    /// Seconds of one iteration by the simulator; `None` where nothing fits.
    pub iteration_s: Option<f64>,
    /// No plan of one tensor-parallel degree is faster.
    pub lower_bound_s: Option<f64>,
    /// GPUs in use.
    pub gpus_in_use: usize,
    /// The plan in a line, or why there is none.
    pub shape: String,
}

impl ReproducedCase {
    /// A case from what was asked and what was planned.
    pub fn new(name: &str, request: &PlanRequest, plans: Vec<ReproducedPlan>) -> Result<Self, CostError> {
        let model = request.cost.model();
        let types = gpu_types(request);
        let cluster: Vec<String> = types.iter().map(|(name, count, _)| format!("{count} {name}")).collect();
        Ok(Self {
            name: name.to_owned(),
            model: model.name.clone(),
            cluster: cluster.join(" + "),
            tokens: u64::from(request.training.global_batch_size) * u64::from(model.seq_length),
            uneven_power: uneven_power(&with_rates(request, &types)?),
            plans,
        })
    }

    /// Seconds of an iteration of this planner's plan.
    pub fn plan_of(&self, planner: &str) -> Option<f64> {
        self.plans.iter().find(|plan| plan.planner == planner)?.iteration_s
    }

    /// How many times as fast AutoHet's plan is as this planner's.
    pub fn ratio_to(&self, planner: &str) -> Option<f64> {
        ratio(self.plan_of(planner)?, self.plan_of("autohet")?)
    }

    /// How far AutoHet's plan is from the bound, `(time - bound) / bound`: below 0 where it mixes degrees and beats all that don't.
    pub fn gap(&self) -> Option<f64> {
        let plan = self.plans.iter().find(|plan| plan.planner == "autohet")?;
        let bound_s = plan.lower_bound_s.filter(|&bound_s| bound_s > 0.0)?;
        Some((plan.iteration_s? - bound_s) / bound_s)
    }

    /// Tokens per second of AutoHet's plan.
    pub fn tokens_per_s(&self) -> Option<f64> {
        ratio(self.tokens as f64, self.plan_of("autohet")?)
    }

    pub(super) fn family(&self) -> Option<Family> {
        FAMILIES.into_iter().find(|family| self.model.starts_with(family.prefix))
    }
}

/// GPU types with their numbers and a node that has them.
fn gpu_types(request: &PlanRequest) -> Vec<(String, u32, usize)> {
    let mut types: Vec<(String, u32, usize)> = Vec::new();
    for (index, node) in request.cluster.nodes.iter().enumerate() {
        match types.iter_mut().find(|(name, _, _)| *name == node.gpu.name) {
            Some((_, count, _)) => *count += node.gpu_count,
            None => types.push((node.gpu.name.clone(), node.gpu_count, index)),
        }
    }
    types
}

/// Numbers of GPUs with their layers per second for each sample, at the micro-batch size that suits each best.
fn with_rates(request: &PlanRequest, types: &[(String, u32, usize)]) -> Result<Vec<(f64, f64)>, CostError> {
    let rate = |node: usize, micro_batch_size: u32| {
        let execution = Execution {
            tensor_parallel_size: 1,
            micro_batch_size,
            recompute: Recompute::None,
            sequence_parallel: false,
            precision: request.training.precision,
        };
        let layer = request.cost.block_cost(Block::Layer(LayerId(0)), &request.cluster.nodes[node].gpu, &execution)?;
        Ok(f64::from(micro_batch_size) / layer.total_s())
    };
    let best = |(_, count, node): &(String, u32, usize)| {
        let sizes = request.training.micro_batch_sizes.iter();
        let rates = sizes.map(|&size| rate(*node, size)).collect::<Result<Vec<f64>, CostError>>()?;
        Ok((f64::from(*count), rates.into_iter().fold(0.0, f64::max)))
    };
    types.iter().map(best).collect()
}

/// The power of all over the most that GPUs of some of the types have at the pace of the slowest among them.
fn uneven_power(types: &[(f64, f64)]) -> f64 {
    let all: f64 = types.iter().map(|(count, rate)| count * rate).sum();
    let at_pace =
        |pace: f64| pace * types.iter().filter(|(_, rate)| *rate >= pace).map(|(count, _)| count).sum::<f64>();
    all / types.iter().map(|(_, rate)| at_pace(*rate)).fold(0.0, f64::max)
}

/// One row a case and planner.
pub fn reproduction_csv(reproduction: &Reproduction) -> String {
    let mut text = String::from(
        "case,model,cluster,uneven_power,planner,iteration_s,lower_bound_s,tokens_per_s,autohet_speedup,gpus_in_use,plan\n",
    );
    for case in &reproduction.cases {
        for plan in &case.plans {
            let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
            let tokens_per_s = plan.iteration_s.and_then(|iteration_s| ratio(case.tokens as f64, iteration_s));
            let row = [
                case.name.clone(),
                case.model.clone(),
                case.cluster.clone(),
                case.uneven_power.to_string(),
                plan.planner.clone(),
                number(plan.iteration_s),
                number(plan.lower_bound_s),
                number(tokens_per_s),
                number(case.ratio_to(&plan.planner)),
                plan.gpus_in_use.to_string(),
                format!("\"{}\"", plan.shape.replace('"', "\"\"")),
            ];
            writeln!(text, "{}", row.join(",")).expect("writing to a string doesn't fail");
        }
    }
    text
}

/// The ratios for people, and each family's beside the paper's.
pub fn reproduction_table(reproduction: &Reproduction, screen: Screen) -> String {
    let times = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
    let mut rows = Vec::new();
    for case in &reproduction.cases {
        let mut row = vec![case.name.clone(), case.tokens_per_s().map_or_else(|| "-".to_owned(), figure)];
        row.extend(RIVALS.iter().map(|(planner, _)| times(case.ratio_to(planner))));
        row.push(format!("{:.2}", case.uneven_power));
        rows.push(row);
    }
    let header = ["case", "AutoHet\ntokens/s", "over\nMegatron-LM", "over\nWhale", "uneven\npower"];
    let mut text = ratio_table(&header, &rows, screen);
    for (family, cases) in by_family(reproduction) {
        let most = |planner: &str| cases.iter().filter_map(|case| case.ratio_to(planner)).reduce(f64::max);
        let (megatron, whale) = (times(most("megatron")), times(most("whale")));
        writeln!(
            text,
            "{}: up to {megatron} x Megatron-LM (paper: up to {:.2}), {whale} x Whale ({PAPER_OVER_BOTH:.2})",
            family.name, family.paper
        )
        .expect("writing to a string doesn't fail");
    }
    text
}

/// The cases of each family that has any.
pub(super) fn by_family(reproduction: &Reproduction) -> Vec<(Family, Vec<&ReproducedCase>)> {
    let of = |family: Family| {
        let cases: Vec<&ReproducedCase> =
            reproduction.cases.iter().filter(|case| case.family() == Some(family)).collect();
        (!cases.is_empty()).then_some((family, cases))
    };
    FAMILIES.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests;
