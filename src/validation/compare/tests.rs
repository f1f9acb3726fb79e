use super::*;
use crate::cost::{CostModel, CostSettings};
use crate::model::ModelSpec;
use crate::profile::MeasuredLinks;
use crate::training::RankReport;
use crate::training::host_cluster;
use crate::units::SimTime;
use crate::validation::links::plan;
use crate::validation::{Host, RankConditions, predict};

/// A prediction, and a measurement in which everything took `factor` times as long.
fn stretched(factor: f64) -> (Prediction, StepReport) {
    let model = ModelSpec::preset("gpt-tiny").unwrap();
    let plan = plan(&model, 1, &[(2, &[2, 2])]);
    let links = MeasuredLinks {
        dispatch_s: 0.0,
        latency_s: 0.0,
        bytes_per_s: 1e9,
        all_reduce_latency_s: 0.0,
        all_reduce_bytes_per_s: 1e9,
    };
    let cost = CostModel::new(model, CostSettings::default(), None);
    let prediction = predict(
        &plan,
        &host_cluster(&plan, "cpu"),
        &cost,
        RankConditions::default(),
        Host { links, cores: f64::INFINITY },
    )
    .unwrap();
    let mut timeline = prediction.timeline.clone();
    for span in &mut timeline.spans {
        let slower = |time: SimTime| SimTime::from_seconds(time.as_seconds() * factor);
        (span.start, span.end) = (slower(span.start), slower(span.end));
    }
    let ranks = vec![RankReport { sent_bytes: 1000, ..RankReport::default() }; 2];
    let report = StepReport {
        step: 3,
        loss: 1.0,
        gradient_norm: 1.0,
        tokens: 1,
        memory_bytes: Vec::new(),
        predicted_iteration_s: 1.0,
        plan: plan.into(),
        timeline,
        ranks,
    };
    (prediction, report)
}

#[test]
fn errors_are_those_of_the_prediction_and_judged_by_the_tolerance() {
    let (prediction, step) = stretched(1.25);
    let (rows, operations) = compare(&prediction, &[step], &[Some(1), None], 0.1);
    let judged: Vec<_> = rows.iter().filter(|row| row.judged != Judged::No).collect();
    assert_eq!(judged.len(), 3);
    for row in judged {
        assert!((row.relative_error.unwrap() + 0.2).abs() < 1e-4, "{row:?}");
        assert_eq!(row.judged, Judged::Fails);
    }
    let memory: Vec<_> = rows.iter().filter(|row| row.quantity == Quantity::MemoryBytes).collect();
    assert_eq!((memory[0].measured, memory[1].measured), (Some(1.0), None));
    assert!(memory.iter().all(|row| row.judged == Judged::No));
    // Forward, backward, send, receive, all_reduce of the tied ends, optimizer, on both ranks.
    assert_eq!(operations.len(), 12);
    for row in &operations {
        assert!((row.measured_s - 1.25 * row.predicted_s).abs() < 1e-6 + row.predicted_s * 1e-3, "{row:?}");
    }
}

#[test]
fn what_is_right_holds() {
    let (prediction, step) = stretched(1.0);
    let (rows, _) = compare(&prediction, &[step.clone(), step], &[], 0.0);
    assert!(rows.iter().all(|row| row.judged != Judged::Fails), "{rows:?}");
}
