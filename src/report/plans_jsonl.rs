//! `plans.jsonl`: every plan that a policy used, one a line.

use crate::plan::Plan;
use crate::replay::Replay;
use serde::Serialize;

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    policy: &'a str,
    plan_index: usize,
    first_used_at_s: Option<f64>,
    predicted_iteration_s: f64,
    lower_bound_s: f64,
    gap: f64,
    plan: &'a Plan,
}

/// The plans of all policies as JSON lines: `policy`, `plan_index` (what `timeline.csv` calls `plan`), `first_used_at_s`
/// (`null` for a plan that no stretch of time refers to), `predicted_iteration_s`, `lower_bound_s`, `gap` and `plan`, which
/// is what `autohet-sim` reads as a plan file.
pub fn plans_jsonl(replay: &Replay) -> String {
    let mut text = String::new();
    for outcome in &replay.policies {
        for (plan_index, planned) in outcome.plans.iter().enumerate() {
            let first = outcome.segments.iter().find(|segment| segment.plan == Some(plan_index));
            let line = Line {
                policy: outcome.policy,
                plan_index,
                first_used_at_s: first.map(|segment| segment.start.as_seconds()),
                predicted_iteration_s: planned.predicted_iteration_s,
                lower_bound_s: planned.lower_bound_s,
                gap: planned.gap,
                plan: &planned.plan,
            };
            text.push_str(&serde_json::to_string(&line).expect("a plan has string keys only"));
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use serde_json::{Value, json};

    #[test]
    fn each_line_holds_a_plan_that_can_be_read_back() {
        let replay = fixture::small();
        let lines: Vec<Value> = plans_jsonl(&replay).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!((&lines[1]["policy"], &lines[1]["plan_index"]), (&json!("autohet"), &json!(1)));
        assert_eq!(lines[1]["first_used_at_s"], json!(40.0));
        let plan: Plan = serde_json::from_value(lines[1]["plan"].clone()).unwrap();
        assert_eq!(plan, replay.policies[0].plans[1].plan);
    }
}
