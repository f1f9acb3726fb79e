use super::*;
use crate::cluster::NodeDefaults;
use crate::cost::{CostModel, CostSettings};
use crate::model::ModelSpec;
use crate::plan::{Goal, TrainingSettings};
use crate::planner::fixtures::ClosedForm;

const QUICK: AutoHet = AutoHet { engine: Engine::Fast };

/// Four nodes of two T4 that cost little, two of A100 that cost much for what they do.
fn cluster() -> Cluster {
    let mut cluster = Cluster::parse_mix("2x2xA100-40+4x2xT4", &NodeDefaults::default()).unwrap();
    for node in &mut cluster.nodes {
        node.price_usd_per_hour = if node.gpu.name == "T4" { 0.4 } else { 40.0 };
    }
    cluster
}

fn rent(objective: &Objective) -> Result<Rented, PlanError> {
    let (cluster, training) = (cluster(), TrainingSettings { global_batch_size: 64, ..TrainingSettings::default() });
    let cost = CostModel::new(ModelSpec::preset("bert-large").unwrap(), CostSettings::default(), None);
    plan(
        &PlanRequest {
            cluster: &cluster,
            cost: &cost,
            training: &training,
            judge: &ClosedForm,
            limits: crate::plan::PlanLimits::default(),
        },
        &QUICK,
        objective,
    )
}

#[test]
fn dear_nodes_are_given_back_unless_a_floor_needs_them() {
    let cheap = Objective { goal: Goal::UsdPerToken, ..Objective::default() };
    let best = rent(&cheap).unwrap().plans.remove(0);
    assert!(best.usd_per_hour <= 1.6 + 1e-9, "{}", best.usd_per_hour);
    let fastest = rent(&Objective::default()).unwrap().plans.remove(0);
    assert!(fastest.tokens_per_s > best.tokens_per_s);
    let floor = Objective { min_tokens_per_s: Some(0.9 * fastest.tokens_per_s), ..cheap };
    let met = rent(&floor).unwrap().plans.remove(0);
    assert!(met.tokens_per_s >= 0.9 * fastest.tokens_per_s && met.usd_per_hour >= 40.0);
    assert!(met.usd_per_million_tokens() > best.usd_per_million_tokens());
}

#[test]
fn a_ceiling_is_kept_by_the_fastest_plan_below_it() {
    let ceiling = |most| Objective { max_usd_per_hour: Some(most), ..Objective::default() };
    let one = rent(&ceiling(42.0)).unwrap();
    assert!(one.plans[0].usd_per_hour <= 42.0 && one.plans[0].usd_per_hour >= 40.0, "{}", one.plans[0].usd_per_hour);
    assert_eq!(one.planned.plan, one.plans[0].plan);
    let within = one.plans.iter().filter(|plan| plan.usd_per_hour <= 42.0);
    assert!(within.map(|plan| plan.tokens_per_s).fold(0.0, f64::max) <= one.plans[0].tokens_per_s);
    // A node of T4 costs 0.4 at least.
    let error = rent(&ceiling(0.3)).unwrap_err().to_string();
    assert!(error.contains("at most 0.3 USD/h are wanted, the cheapest plan found takes 0.40\nhint: "), "{error}");
}

#[test]
fn the_same_request_gives_the_same_plans() {
    let cheap = Objective { goal: Goal::UsdPerToken, ..Objective::default() };
    assert_eq!(rent(&cheap).unwrap().plans, rent(&cheap).unwrap().plans);
}

#[test]
fn mixes_are_few_and_have_none_and_all() {
    assert_eq!(few_numbers(6), [0, 1, 2, 3, 4, 6]);
    assert_eq!(few_numbers(25), [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 25]);
    for all in [vec![8, 24], vec![3; 5], vec![100; 12]] {
        let mixes = mixes(&all);
        assert!(mixes.len() <= 4 * MAX_MIXES && mixes.contains(&vec![0; all.len()]), "{}", mixes.len());
    }
    assert!(mixes(&[8, 24]).len() <= MAX_MIXES && mixes(&[8, 24]).contains(&vec![8, 24]));
}
