//! A plan with what is known about it: the source of the tables and the JSON of `autohet-sim plan` and `compare`.

use super::figures::ratio;
use super::records::Records;
use crate::cluster::Cluster;
use crate::cost::{CostModel, StageMemory};
use crate::plan::{Plan, PlannedIteration};
use serde_json::{Map, Value, json};

/// Memory of each GPU of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageFootprint {
    /// What the GPU holds at its peak.
    pub peak: StageMemory,
    /// What the GPU has.
    pub capacity_bytes: u64,
}

impl StageFootprint {
    /// The footprint of every stage of every replica, nested as in the plan. A node that the cluster doesn't have counts
    /// as one without memory.
    pub fn of_plan(plan: &Plan, cluster: &Cluster, cost: &CostModel) -> Vec<Vec<Self>> {
        let of_replica = |replica: &crate::plan::Replica| {
            let footprint = |(p, stage): (usize, &crate::plan::Stage)| {
                let node = cluster.find(&stage.node).map(|id| cluster.node(id));
                Self {
                    peak: plan.memory_in(replica, p, cost),
                    capacity_bytes: node.map_or(0, |node| node.gpu.memory_bytes),
                }
            };
            replica.stages.iter().enumerate().map(footprint).collect()
        };
        plan.replicas.iter().map(of_replica).collect()
    }
}

/// A plan and everything that is said about it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanReport<'a> {
    /// The plan, its predicted iteration and its bound.
    pub planned: &'a PlannedIteration,
    /// Memory of each stage, nested as in the plan.
    pub footprints: Vec<Vec<StageFootprint>>,
    /// Tokens per sample.
    pub seq_length: u32,
    /// Wall-clock time that planning took.
    pub planning_s: f64,
    /// Dollars an hour of the nodes that the plan uses; `None` where one has no price.
    pub usd_per_hour: Option<f64>,
}

impl PlanReport<'_> {
    /// Tokens per second of predicted iterations; `None` where an iteration takes no time.
    pub fn tokens_per_s(&self) -> Option<f64> {
        let tokens = f64::from(self.planned.plan.global_batch_size) * f64::from(self.seq_length);
        ratio(tokens, self.planned.predicted_iteration_s)
    }

    /// Dollars of a million tokens, where prices are known.
    pub fn usd_per_million_tokens(&self) -> Option<f64> {
        ratio(self.usd_per_hour? / 3600.0 * 1e6, self.tokens_per_s()?)
    }

    /// The fullest GPU of the plan: the stage whose peak is the largest share of its capacity.
    pub(super) fn fullest(&self) -> Option<StageFootprint> {
        let fill = |f: &StageFootprint| f.peak.total_bytes() as f64 / f.capacity_bytes.max(1) as f64;
        self.footprints.iter().flatten().copied().max_by(|a, b| fill(a).total_cmp(&fill(b)))
    }
}

/// One planner's answer in a comparison.
#[derive(Clone, Debug)]
pub struct ComparedPlanner<'a> {
    /// Name of the planner.
    pub planner: &'a str,
    /// Its plan, or why it has none.
    pub result: Result<PlanReport<'a>, String>,
}

/// A plan as JSON: the keys of the plan file, and beside them `predicted_iteration_s`, `lower_bound_s`, `gap`, `planning_s`,
/// `tokens_per_s`, `usd_per_hour` and `usd_per_million_tokens`; in `replicas[].stages[]` also `peak_memory_bytes` and `memory_capacity_bytes` of one GPU, and
/// `peak_memory`, which says what the peak consists of.
///
/// A plan file is strict about its keys; to use the plan again, write [`Plan`] itself.
pub fn plan_json(report: &PlanReport<'_>) -> Value {
    let planned = report.planned;
    let mut plan = serde_json::to_value(&planned.plan).expect("a plan has string keys only");
    for (replica, footprints) in plan["replicas"].as_array_mut().into_iter().flatten().zip(&report.footprints) {
        for (stage, footprint) in replica["stages"].as_array_mut().into_iter().flatten().zip(footprints) {
            stage["peak_memory_bytes"] = json!(footprint.peak.total_bytes());
            stage["memory_capacity_bytes"] = json!(footprint.capacity_bytes);
            stage["peak_memory"] = json!(footprint.peak);
        }
    }
    let mut object = plan.as_object().cloned().unwrap_or_default();
    let replicas = object.shift_remove("replicas").unwrap_or_default();
    let known = json!({
        "predicted_iteration_s": planned.predicted_iteration_s,
        "lower_bound_s": planned.lower_bound_s,
        "gap": planned.gap,
        "any_degrees_bound_s": planned.any_degrees_bound_s,
        "planning_s": report.planning_s,
        "tokens_per_s": report.tokens_per_s(),
        "usd_per_hour": report.usd_per_hour,
        "usd_per_million_tokens": report.usd_per_million_tokens(),
    });
    object.extend(known.as_object().cloned().unwrap_or_default());
    // The long part comes last, so that the figures are seen first.
    object.insert("replicas".to_owned(), replicas);
    Value::Object(object)
}

/// The stages of a plan, one a row, with what is known of each: [`plan_json`] as a table.
pub fn plan_records(report: &PlanReport<'_>) -> Records {
    let plan = plan_json(report);
    let stages = plan["replicas"].as_array().into_iter().flatten().enumerate().flat_map(|(j, replica)| {
        let stages = replica["stages"].as_array().into_iter().flatten().enumerate();
        stages.map(move |(p, stage)| {
            let mut row = Map::new();
            row.insert("replica".into(), j.into());
            row.insert("micro_batches".into(), replica["micro_batches"].clone());
            row.insert("stage".into(), p.into());
            row.extend(stage.as_object().cloned().unwrap_or_default());
            Value::Object(row)
        })
    });
    Records::of_json(&stages.collect::<Vec<_>>())
}

/// A comparison as JSON: by planner, in the order asked for, what [`plan_json`] gives, or `{"error": …}`.
pub fn comparison_json(compared: &[ComparedPlanner<'_>]) -> Value {
    let entry = |c: &ComparedPlanner<'_>| {
        let value = match &c.result {
            Ok(report) => plan_json(report),
            Err(error) => json!({ "error": error }),
        };
        (c.planner.to_owned(), value)
    };
    let planners: Map<String, Value> = compared.iter().map(entry).collect();
    json!({ "planners": planners })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cluster::NodeDefaults;
    use crate::cost::CostSettings;
    use crate::model::ModelSpec;
    use crate::report::fixture;

    pub(in crate::report) fn world() -> (Cluster, CostModel) {
        let cluster = Cluster::parse_mix("8xA100-80+4xV100-32", &NodeDefaults::default()).unwrap();
        let cost = CostModel::new(ModelSpec::preset("gpt3-1.3b").unwrap(), CostSettings::default(), None);
        (cluster, cost)
    }

    pub(in crate::report) fn report(planned: &PlannedIteration) -> PlanReport<'_> {
        let (cluster, cost) = world();
        let footprints = StageFootprint::of_plan(&planned.plan, &cluster, &cost);
        PlanReport { planned, footprints, seq_length: 2048, planning_s: 0.125, usd_per_hour: None }
    }

    #[test]
    fn a_plan_is_given_with_what_is_known_about_it() {
        let planned = fixture::planned(true);
        let json = plan_json(&report(&planned));
        assert_eq!(json["predicted_iteration_s"], json!(8.0));
        assert_eq!(json["lower_bound_s"], json!(6.4));
        assert_eq!(json["gap"], json!(0.25));
        assert_eq!(json["planning_s"], json!(0.125));
        assert_eq!(json["tokens_per_s"], json!(4096.0));
        let stage = &json["replicas"][1]["stages"][0];
        assert_eq!(stage["node"], json!("v100-32-0"));
        assert_eq!(stage["memory_capacity_bytes"].as_u64().unwrap() >> 30, 32);
        let parts = stage["peak_memory"].as_object().unwrap().values().map(|part| part.as_u64().unwrap());
        assert_eq!(stage["peak_memory_bytes"].as_u64().unwrap(), parts.sum::<u64>());
    }

    #[test]
    fn the_plan_in_it_is_whole() {
        let planned = fixture::planned(true);
        let mut json = plan_json(&report(&planned));
        for key in [
            "predicted_iteration_s",
            "lower_bound_s",
            "gap",
            "any_degrees_bound_s",
            "planning_s",
            "tokens_per_s",
            "usd_per_hour",
            "usd_per_million_tokens",
        ] {
            json.as_object_mut().unwrap().remove(key).unwrap();
        }
        for replica in json["replicas"].as_array_mut().unwrap() {
            for stage in replica["stages"].as_array_mut().unwrap() {
                for key in ["peak_memory_bytes", "memory_capacity_bytes", "peak_memory"] {
                    stage.as_object_mut().unwrap().remove(key).unwrap();
                }
            }
        }
        assert_eq!(serde_json::from_value::<Plan>(json).unwrap(), planned.plan);
    }

    #[test]
    fn a_planner_without_a_plan_says_why() {
        let planned = fixture::planned(true);
        let compared = [
            ComparedPlanner { planner: "autohet", result: Ok(report(&planned)) },
            ComparedPlanner { planner: "megatron", result: Err("no plan fits: …".to_owned()) },
        ];
        let json = comparison_json(&compared);
        assert_eq!(json["planners"]["megatron"]["error"], json!("no plan fits: …"));
        assert_eq!(json["planners"]["autohet"]["gap"], json!(0.25));
    }
}
