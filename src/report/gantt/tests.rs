use super::*;
use crate::report::fixture;
use crate::report::plan_report::tests::world;

/// The chart of the fixture's plan of two replicas.
fn chart(change: impl Fn(&mut crate::plan::Plan)) -> String {
    let mut plan = fixture::planned(true).plan;
    change(&mut plan);
    let (cluster, cost) = world();
    let iteration = crate::runtime::sim::simulate(&plan, &cluster, &cost).unwrap();
    let memory = crate::metrics::memory_over_time(&plan, &iteration.program, &iteration.timeline, &cost);
    let footprints = crate::report::StageFootprint::of_plan(&plan, &cluster, &cost);
    let report = IterationReport { plan: &plan, iteration: &iteration, memory: &memory, footprints, seq_length: 2048 };
    let svg = gantt_svg(&report);
    assert_eq!(gantt_svg_of(&report, usize::MAX), svg, "no two of these replicas are alike");
    let twice = draw_rows(&report, usize::MAX, &[(0, 2)]);
    assert!(twice.contains("micro batches; 1 more are alike") && !twice.contains("replica 1,"), "{twice}");
    svg
}

#[test]
fn every_pass_is_a_bar_and_every_stage_a_row() {
    let svg = chart(|_| {});
    let drawn = |kind: Kind| svg.matches(&format!("fill=\"{}\"", kind.fill(0))).count();
    // Ten micro batches on two stages, six on the third; one each in the legend.
    assert_eq!(drawn(Kind::Forward), 2 * 10 + 6 + 1);
    assert_eq!(drawn(Kind::Backward), 2 * 10 + 6 + 1);
    assert_eq!(drawn(Kind::Optimizer), 3 + 1);
    assert_eq!(drawn(Kind::Weights), 0);
    assert_eq!(svg.matches(">stage ").count(), 3);
    assert!(svg.contains("replica 1, 6 micro batches") && svg.contains(">time, ms<"), "{svg}");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

#[test]
fn halves_of_backward_passes_have_colours_of_their_own() {
    let svg = chart(|plan| plan.schedule = ScheduleKind::ZeroBubbleH1);
    let weights = format!("fill=\"{}\"", Kind::Weights.fill(0));
    assert_eq!(svg.matches(&weights).count(), 2 * 10 + 6 + 1);
    assert!(svg.contains("backward for the weights"));
}

#[test]
fn colours_stay_apart_in_grey() {
    let grey = |kind: Kind| {
        let part = |at: usize| u32::from_str_radix(&kind.fill(0)[at..at + 2], 16).unwrap();
        (299 * part(1) + 587 * part(3) + 114 * part(5)) / 1000
    };
    let mut greys = [Kind::Forward, Kind::Backward, Kind::Weights, Kind::Optimizer].map(grey).to_vec();
    greys.insert(0, 255);
    assert!(greys.windows(2).all(|pair| pair[0] >= pair[1] + 35), "{greys:?}");
    assert!(grey(Kind::Receive) >= grey(Kind::Send) + 60);
}

#[test]
fn ticks_are_round() {
    let labels = |ms: f64| {
        Scale { ms, right: LEFT + LEAST_WIDTH }.ticks().into_iter().map(|(_, label)| label).collect::<Vec<_>>()
    };
    assert_eq!(labels(1000.0), ["0", "100", "200", "300", "400", "500", "600", "700", "800", "900", "1000"]);
    assert_eq!(labels(4.4), ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0", "3.5", "4.0"]);
}
