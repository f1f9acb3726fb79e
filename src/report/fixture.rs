//! Hand-made outcomes, for the tests of every report.

use crate::elastic::policies::Capacity;
use crate::elastic::{Cause, ReconfigurationTime};
use crate::metrics::{Activity, Expense, GpuTime, Ledger};
use crate::model::{Precision, Recompute};
use crate::plan::{JudgedPlan, LowerBound, Plan, PlannedIteration, Replica, SCHEMA_VERSION, ScheduleKind, Stage};
use crate::replay::{
    CapacityPoint, FetchedBytes, OF_TRACE, OtherCosts, Phase, PolicyOutcome, RecoveryRecord, Replay, Segment, Spending,
};
use crate::units::SimTime;
use std::sync::Arc;

/// Tokens of one iteration of [`small`]: 16 samples of 2048.
pub(super) const TOKENS_PER_ITERATION: u64 = 16 * 2048;

pub(super) fn at(seconds: u64) -> SimTime {
    SimTime::SECOND * seconds
}

/// Two replicas of unlike depth on two GPU types; with `with_v100` false, the A100 replica alone.
pub(super) fn planned(with_v100: bool) -> PlannedIteration {
    let stage = |node: &str, gpus: [u32; 2], gpu_type: &str, first_layer, num_layers| Stage {
        node: node.to_owned(),
        gpus: gpus.to_vec(),
        gpu_type: gpu_type.to_owned(),
        first_layer,
        num_layers,
        later_chunks: Vec::new(),
    };
    let deep = Replica {
        micro_batches: if with_v100 { 10 } else { 16 },
        stages: vec![stage("a100-80-0", [0, 1], "A100-80", 0, 13), stage("a100-80-0", [2, 3], "A100-80", 13, 11)],
    };
    let flat = Replica { micro_batches: 6, stages: vec![stage("v100-32-0", [0, 1], "V100-32", 0, 24)] };
    let predicted_iteration_s = if with_v100 { 8.0 } else { 10.0 };
    let plan = Plan {
        schema_version: SCHEMA_VERSION,
        planner: "autohet".to_owned(),
        model: "gpt3-1.3b".into(),
        global_batch_size: 16,
        micro_batch_size: 1,
        sequence_parallel: false,
        recompute: Recompute::Selective,
        precision: Precision::Fp16,
        schedule: ScheduleKind::OneForwardOneBackward,
        replicas: if with_v100 { vec![deep, flat] } else { vec![deep] },
    };
    let lower_bound_s = predicted_iteration_s / 1.25;
    let judged = JudgedPlan { plan, predicted_iteration_s };
    PlannedIteration { gap: 0.25, ..PlannedIteration::new(judged, LowerBound::of_all(lower_bound_s), Vec::new()) }
}

fn segment(seconds: (u64, u64), phase: Phase, plan: Option<usize>, iterations: u64) -> Segment {
    Segment { start: at(seconds.0), end: at(seconds.1), phase, plan, iterations, rolled_back: 0 }
}

fn recovery(seconds: (u64, u64), cause: Cause, lost_iterations: u64) -> RecoveryRecord {
    RecoveryRecord {
        start: at(seconds.0),
        end: at(seconds.1),
        cause,
        lost_iterations,
        attempts_overtaken: 0,
        time: ReconfigurationTime::default(),
        fetched: FetchedBytes::default(),
        plan: Arc::new(planned(true).plan),
    }
}

fn ledger(rows: &[(Activity, u32)]) -> Ledger {
    let mut ledger = Ledger::default();
    for &(activity, gpu_s) in rows {
        ledger.add(activity, GpuTime::of(gpu_s, SimTime::SECOND));
    }
    ledger
}

/// 100 s, 8 A100 and 4 V100 that are away from 40 s to 70 s.
pub(super) fn small() -> Replay {
    let capacity = [(0, 4), (40, 0), (70, 4)].map(|(s, v100)| CapacityPoint { time: at(s), gpus: vec![8, v100] });
    Replay {
        span: at(100),
        gpu_types: vec!["A100-80".to_owned(), "V100-32".to_owned()],
        capacity: capacity.to_vec(),
        losses: vec![(at(40), 1)],
        policies: vec![autohet(), restart()],
    }
}

fn autohet() -> PolicyOutcome {
    let (iterations, samples) = (7, 7 * 16);
    PolicyOutcome {
        policy: "autohet",
        capacity: Capacity::Spot,
        rented: None,
        ledger: ledger(&[
            (Activity::Useful, 540),
            (Activity::Bubble, 300),
            (Activity::ExposedCommunication, 60),
            (Activity::LostWork, 80),
            (Activity::Recovery, 100),
        ]),
        paid: GpuTime::of(1080, SimTime::SECOND),
        usd: 0.9,
        spending: vec![Spending {
            gpu_type: "A100-80".to_owned(),
            zone: "z".to_owned(),
            source: OF_TRACE.to_owned(),
            from: SimTime::ZERO,
            to: at(100),
            time: GpuTime::of(900, SimTime::SECOND),
            expense: Expense::of(500_000, at(3600)),
            on_demand: Expense::of(1_000_000, at(3600)),
        }],
        other: OtherCosts::default(),
        stored: Vec::new(),
        iterations,
        iterations_rolled_back: 1,
        refusal: None,
        samples,
        tokens: iterations * TOKENS_PER_ITERATION,
        segments: vec![
            segment((0, 5), Phase::Recovering, Some(0), 0),
            segment((5, 38), Phase::Training, Some(0), 4),
            segment((38, 40), Phase::Checkpointing, Some(0), 0),
            Segment { rolled_back: 1, ..segment((40, 50), Phase::Recovering, Some(1), 0) },
            segment((50, 75), Phase::Training, Some(1), 2),
            segment((75, 80), Phase::Recovering, Some(0), 0),
            segment((80, 100), Phase::Training, Some(0), 2),
        ],
        recoveries: vec![recovery((40, 50), Cause::Loss, 1), recovery((75, 80), Cause::Join, 0)],
        plans: vec![Arc::new(planned(true)), Arc::new(planned(false))],
    }
}

fn restart() -> PolicyOutcome {
    PolicyOutcome {
        policy: "restart",
        capacity: Capacity::Spot,
        rented: None,
        ledger: ledger(&[
            (Activity::Useful, 180),
            (Activity::Bubble, 240),
            (Activity::Recovery, 300),
            (Activity::Waiting, 360),
        ]),
        paid: GpuTime::of(1080, SimTime::SECOND),
        usd: 0.9,
        spending: vec![Spending {
            gpu_type: "A100-80".to_owned(),
            zone: "z".to_owned(),
            source: OF_TRACE.to_owned(),
            from: SimTime::ZERO,
            to: at(100),
            time: GpuTime::default(),
            expense: Expense::default(),
            on_demand: Expense::default(),
        }],
        other: OtherCosts::default(),
        stored: Vec::new(),
        iterations: 4,
        iterations_rolled_back: 0,
        refusal: None,
        samples: 64,
        tokens: 4 * TOKENS_PER_ITERATION,
        segments: vec![
            segment((0, 5), Phase::Recovering, Some(0), 0),
            segment((5, 40), Phase::Training, Some(0), 4),
            segment((40, 70), Phase::Waiting, None, 0),
            segment((70, 95), Phase::Recovering, Some(0), 0),
            segment((95, 100), Phase::Training, Some(0), 0),
        ],
        recoveries: vec![recovery((40, 95), Cause::Resume, 0)],
        plans: vec![Arc::new(planned(true))],
    }
}

/// A trace in which nothing was ever up.
pub(super) fn idle() -> Replay {
    let outcome = PolicyOutcome {
        policy: "restart",
        capacity: Capacity::Spot,
        rented: None,
        ledger: Ledger::default(),
        paid: GpuTime::default(),
        usd: 0.0,
        spending: Vec::new(),
        other: OtherCosts::default(),
        stored: Vec::new(),
        iterations: 0,
        iterations_rolled_back: 0,
        refusal: None,
        samples: 0,
        tokens: 0,
        segments: vec![segment((0, 100), Phase::Waiting, None, 0)],
        recoveries: Vec::new(),
        plans: Vec::new(),
    };
    Replay { span: at(100), gpu_types: Vec::new(), capacity: Vec::new(), losses: Vec::new(), policies: vec![outcome] }
}

/// A day of twelve nodes of three types under three policies, as bursty as real ones: what the figure is made for.
pub(super) fn day() -> Replay {
    let mut random = Lcg(20_260_101);
    let (mut nodes, mut capacity, mut losses) = ([4_u32, 4, 4], Vec::new(), Vec::new());
    let (mut now, mut stops) = (0_u64, Vec::new());
    while now < 86_400 {
        capacity.push(CapacityPoint { time: at(now), gpus: vec![nodes[0] * 8, nodes[1] * 8, nodes[2] * 4] });
        now += 300 + random.below(random_gap(&capacity));
        let kind = random.below(3) as usize;
        let is_loss = nodes[kind] > 0 && random.below(100) < 55;
        if is_loss && now < 86_400 {
            let lost = 1 + random.below(u64::from(nodes[kind])) as u32;
            nodes[kind] -= lost;
            losses.push((at(now), lost));
        } else if nodes[kind] < 4 {
            nodes[kind] += 1 + random.below(u64::from(4 - nodes[kind])) as u32;
        }
        stops.push(now.min(86_400));
    }
    let gpu_types = ["A100-80", "V100-32", "T4"].map(str::to_owned).to_vec();
    let policies = [("autohet", 60, 0), ("varuna", 240, 1), ("restart", 700, 2)]
        .map(|(policy, recovery_s, rolled_back)| day_of(policy, recovery_s, rolled_back, &stops));
    Replay { span: at(86_400), gpu_types, capacity, losses, policies: policies.to_vec() }
}

fn random_gap(capacity: &[CapacityPoint]) -> u64 {
    if capacity.len().is_multiple_of(4) { 7200 } else { 1500 }
}

/// A policy that stops for `recovery_s` at each change.
fn day_of(policy: &'static str, recovery_s: u64, rolled_back: u64, stops: &[u64]) -> PolicyOutcome {
    let mut outcome = PolicyOutcome { policy, ..restart() };
    outcome.segments.clear();
    outcome.recoveries.clear();
    outcome.plans.clear();
    let (mut start, mut total) = (0, 0);
    for (index, &stop) in stops.iter().enumerate() {
        let ready = (start + recovery_s).min(stop);
        let mut planned = planned(true);
        planned.predicted_iteration_s = 6.0 + ((index * 7) % 5) as f64 * if policy == "autohet" { 1.0 } else { 2.0 };
        let is_waiting = index % 9 == 6 && policy != "autohet";
        let iterations = if is_waiting { 0 } else { ((stop - ready) as f64 / planned.predicted_iteration_s) as u64 };
        let phase = if is_waiting { Phase::Waiting } else { Phase::Recovering };
        outcome.segments.push(segment((start, ready), phase, Some(index), 0));
        let phase = if is_waiting { Phase::Waiting } else { Phase::Training };
        outcome.segments.push(segment((ready, stop), phase, Some(index), iterations));
        outcome.plans.push(Arc::new(planned));
        let lost = if index > 0 { (rolled_back * 15).min(total) } else { 0 };
        if index > 0 {
            outcome.recoveries.push(recovery((start, ready), Cause::Loss, lost));
        }
        total = total + iterations - lost;
        start = stop;
    }
    outcome.iterations = total;
    outcome.samples = total * 16;
    outcome.tokens = total * TOKENS_PER_ITERATION;
    let useful = (total / 20) as u32;
    outcome.ledger = ledger(&[
        (Activity::Useful, useful),
        (Activity::Recomputation, useful / 12),
        (Activity::ExposedCommunication, useful / 8),
        (Activity::Bubble, useful / 5),
        (Activity::CheckpointStall, 9),
        (Activity::LostWork, 15 * rolled_back as u32),
        (Activity::Recovery, recovery_s as u32 / 4),
        (Activity::IdleByPlan, 40),
        (Activity::Waiting, 25 * rolled_back as u32),
    ]);
    outcome.paid = outcome.ledger.total();
    outcome
}

/// A small generator: the fixture has to be the same for ever, not good.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
