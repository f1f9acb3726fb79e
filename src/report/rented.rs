//! Plans side by side with what they cost: the best few, or the front of throughput and cost.

use super::records::Records;
use crate::plan::{Plan, PricedPlan, Replica};
use serde_json::{Value, json};

/// The best of each kind of plan, at most so many: of plans that differ in nothing but how layers and micro batches are
/// dealt out, only the first is given.
pub fn unlike(plans: &[PricedPlan], most: usize) -> Vec<PricedPlan> {
    let mut kinds = Vec::new();
    let mut found = Vec::new();
    for plan in plans {
        let kind = (plan.plan.micro_batch_size, plan.plan.recompute, groups(&plan.plan, |_| 0));
        if found.len() < most && !kinds.contains(&kind) {
            kinds.push(kind);
            found.push(plan.clone());
        }
    }
    found
}

/// Plans as JSON: the keys of the plan file under `plan`, and beside them what is known of it.
pub fn rented_json(plans: &[PricedPlan]) -> Value {
    let entry = |plan: &PricedPlan| {
        json!({
            "predicted_iteration_s": plan.predicted_iteration_s,
            "tokens_per_s": plan.tokens_per_s,
            "usd_per_hour": plan.usd_per_hour,
            "usd_per_million_tokens": plan.usd_per_million_tokens(),
            "nodes": plan.nodes,
            "shape": shape(&plan.plan),
            "plan": plan.plan,
        })
    };
    json!({ "plans": plans.iter().map(entry).collect::<Vec<_>>() })
}

/// The same as a table, without the plans themselves.
pub fn rented_records(plans: &[PricedPlan]) -> Records {
    let mut all = rented_json(plans)["plans"].as_array().cloned().unwrap_or_default();
    for plan in all.iter_mut().filter_map(Value::as_object_mut) {
        plan.shift_remove("plan");
    }
    Records::of_json(&all)
}

/// Replicas of one shape: how many, and the stages' GPU type, degree and layers.
type Group = (usize, Vec<(String, usize, u32)>);

fn groups(plan: &Plan, layers: impl Fn(u32) -> u32) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for Replica { stages, .. } in &plan.replicas {
        let stages = stages.iter().map(|stage| (stage.gpu_type.clone(), stage.gpus.len(), layers(stage.layer_count())));
        let stages: Vec<_> = stages.collect();
        match groups.iter_mut().find(|(_, known)| *known == stages) {
            Some((count, _)) => *count += 1,
            None => groups.push((1, stages)),
        }
    }
    groups
}

/// A plan in a line: `16 x (V100-16/4:8 + A100-40/2:16)`, replicas of stages on so many GPUs with so many layers.
pub(super) fn shape(plan: &Plan) -> String {
    let group = |(count, stages): &Group| {
        let stage = |(gpu, degree, layers): &(String, usize, u32)| format!("{gpu}/{degree}:{layers}");
        format!("{count} x ({})", stages.iter().map(stage).collect::<Vec<_>>().join(" + "))
    };
    groups(plan, |layers| layers).iter().map(group).collect::<Vec<_>>().join(", ")
}
