//! One plan stage by stage.

use super::Screen;
use super::grid::{align_right, empty_table, trimmed};
use crate::model::Recompute;
use crate::plan::{LayerRange, Plan, PlannedIteration, Replica, Stage};
use crate::report::figures::{figure, or_absent, percent};
use crate::report::iteration::parts_text;
use crate::report::plan_report::{PlanReport, StageFootprint};
use crate::units::format_seconds;
use comfy_table::{Cell, ContentArrangement};
use std::ops::Range;

/// A plan for people: what is known about it in a few lines, then a row for each stage.
pub fn plan_table(report: &PlanReport<'_>, screen: Screen) -> String {
    let plan = &report.planned.plan;
    let mut table = empty_table(screen);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(screen.width);
    table.set_header([
        "replica",
        "micro\nbatches",
        "stage",
        "node",
        "GPU type",
        "GPUs",
        "layers",
        "peak memory\nof capacity",
    ]);
    // Where all stages are of one tensor-parallel degree, it stands above.
    let shows_degrees = plan.tensor_parallel_sizes().len() > 1;
    let gpus = |stage: &Stage| {
        let degree = if shows_degrees { format!(" ({})", stage.tensor_parallel_size()) } else { String::new() };
        ranges(&stage.gpus) + &degree
    };
    let groups = if plan.replicas.len() > MOST_REPLICAS { alike(plan) } else { one_by_one(plan) };
    for group in &groups {
        let (j, replica) = (group.start, &plan.replicas[group.start]);
        let is_many = group.len() > 1;
        for (p, stage) in replica.stages.iter().enumerate() {
            // A replica's own figures stand beside its first stage only.
            let once = |text: String| if p == 0 { text } else { String::new() };
            let footprint = report.footprints.get(j).and_then(|replica| replica.get(p));
            table.add_row([
                Cell::new(once(if is_many { format!("{j}-{}", group.end - 1) } else { j.to_string() })),
                Cell::new(once(replica.micro_batches.to_string())),
                Cell::new(p),
                Cell::new(if is_many { format!("{} …", stage.node) } else { stage.node.clone() }),
                Cell::new(&stage.gpu_type),
                Cell::new(if is_many { format!("{} …", gpus(stage)) } else { gpus(stage) }),
                Cell::new(layers(stage)),
                Cell::new(footprint.map_or_else(String::new, memory)),
            ]);
        }
    }
    align_right(&mut table, [1, 7]);
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let note = if groups.len() < plan.replicas.len() { ALIKE } else { "" };
    format!("{}\n{}\n{note}{}", plan_heading(report, screen), trimmed(&table), fullest(report, screen))
}

/// Replicas up to which each has rows of its own.
const MOST_REPLICAS: usize = 8;

const ALIKE: &str = "Replicas that are alike but for their places are shown once, at the place of the first;
`--out` and `--format json` have them all.
";

fn one_by_one(plan: &Plan) -> Vec<Range<usize>> {
    (0..plan.replicas.len()).map(|replica| replica..replica + 1).collect()
}

/// Runs of replicas that differ in nothing but nodes and GPU numbers.
fn alike(plan: &Plan) -> Vec<Range<usize>> {
    let of_stage =
        |stage: &Stage| (stage.gpu_type.clone(), stage.tensor_parallel_size(), stage.chunks().collect::<Vec<_>>());
    let shape = |replica: &Replica| (replica.micro_batches, replica.stages.iter().map(of_stage).collect::<Vec<_>>());
    let mut start = 0;
    let runs = plan.replicas.chunk_by(|a, b| shape(a) == shape(b));
    runs.map(|run| {
        start += run.len();
        start - run.len()..start
    })
    .collect()
}

/// What makes up the peak of the GPU that is fullest for its size.
fn fullest(report: &PlanReport<'_>, screen: Screen) -> String {
    let places = report
        .footprints
        .iter()
        .enumerate()
        .flat_map(|(j, replica)| replica.iter().enumerate().map(move |(p, footprint)| (j, p, footprint)));
    let share = |footprint: &StageFootprint| footprint.peak.total_bytes() as f64 / footprint.capacity_bytes as f64;
    let fullest = places.reduce(|most, next| if share(next.2) > share(most.2) { next } else { most });
    let Some((j, p, footprint)) = fullest else { return String::new() };
    let of = format!("fullest GPU, replica {j} stage {p}: {}", parts_text(&footprint.peak));
    joined(&of.split(" + ").map(str::to_owned).collect::<Vec<_>>(), " +", screen) + "\n"
}

/// What is known about the plan as a whole, in lines that fit.
pub fn plan_heading(report: &PlanReport<'_>, screen: Screen) -> String {
    let (planned, plan) = (report.planned, &report.planned.plan);
    let replicas = plan.replicas.len();
    let plural = if replicas == 1 { "replica" } else { "replicas" };
    let mut shape = vec![
        format!("{} on {} GPUs", plan.model, plan.world_size()),
        format!("{replicas} {plural} of {} stages", depths(plan)),
        format!("tensor parallel {}", plan.tensor_parallel_text()),
        format!("global batch size {}", plan.global_batch_size),
        format!("micro batch size {}", plan.micro_batch_size),
        match plan.recompute {
            Recompute::None => "no recomputation".to_owned(),
            recompute => format!("{recompute} recomputation"),
        },
    ];
    shape.extend(plan.sequence_parallel.then(|| "sequence parallel".to_owned()));
    shape.extend([plan.precision.to_string(), plan.schedule.title().to_owned()]);
    let mut figures = vec![
        format!("predicted iteration {}", format_seconds(planned.predicted_iteration_s)),
        lower_bound(planned),
        format!("gap {}", percent(planned.gap)),
        format!("{} tokens/s", or_absent(report.tokens_per_s(), figure)),
    ];
    if let (Some(usd_per_hour), Some(usd)) = (report.usd_per_hour, report.usd_per_million_tokens()) {
        figures.push(format!("{usd_per_hour:.2} USD/h"));
        figures.push(format!("{usd:.4} USD per 10^6 tokens"));
    }
    figures.push(format!("planned by {} in {}", plan.planner, format_seconds(report.planning_s)));
    format!("{}\n{}", joined_by_commas(&shape, screen), joined_by_commas(&figures, screen))
}

/// What is proven, and of which plans.
fn lower_bound(planned: &PlannedIteration) -> String {
    let bound = format!("lower bound {}", format_seconds(planned.lower_bound_s));
    match planned.any_degrees_bound_s {
        Some(any_s) => format!("{bound} with one tensor-parallel degree and {} with several", format_seconds(any_s)),
        None => bound,
    }
}

/// Parts with commas between them, a new line where the next one doesn't fit.
pub(super) fn joined_by_commas(parts: &[String], screen: Screen) -> String {
    joined(parts, ",", screen)
}

/// Parts with something between them, a new line where the next one doesn't fit.
fn joined(parts: &[String], between: &str, screen: Screen) -> String {
    let mut text = String::new();
    let mut width = 0;
    for part in parts {
        let length = part.chars().count();
        if width > 0 {
            let fits = width + 2 * between.len() + length < usize::from(screen.width);
            text.push_str(between);
            text.push(if fits { ' ' } else { '\n' });
            width = if fits { width + between.len() + 1 } else { 0 };
        }
        text.push_str(part);
        width += length;
    }
    text
}

pub(super) fn depths(plan: &Plan) -> String {
    runs(plan.replicas.iter().map(|replica| replica.stages.len() as u32))
}

pub(super) fn micro_batches(plan: &Plan) -> String {
    runs(plan.replicas.iter().map(|replica| replica.micro_batches))
}

/// Numbers with repetitions counted: `4 x8, 2` for eight fours and a two.
fn runs(numbers: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((last, times)) if *last == number => *times += 1,
            _ => runs.push((number, 1)),
        }
    }
    let write = |&(number, times): &(u32, u32)| {
        if times == 1 { number.to_string() } else { format!("{number} x{times}") }
    };
    runs.iter().map(write).collect::<Vec<_>>().join(", ")
}

/// Indices with neighbours joined: `0-3,6`.
fn ranges(indices: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &index in indices {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == index => *end = index,
            _ => ranges.push((index, index)),
        }
    }
    let write = |&(start, end): &(u32, u32)| if start == end { start.to_string() } else { format!("{start}-{end}") };
    ranges.iter().map(write).collect::<Vec<_>>().join(",")
}

pub(super) fn layers(stage: &Stage) -> String {
    let range =
        |range: LayerRange| format!("{}-{}", range.first_layer, range.first_layer + range.num_layers.max(1) - 1);
    format!("{} ({})", stage.chunks().map(range).collect::<Vec<_>>().join(","), stage.layer_count())
}

pub(super) fn memory(footprint: &StageFootprint) -> String {
    let gigabytes = |bytes: u64| bytes as f64 / 1e9;
    format!("{:.1}/{:.1} GB", gigabytes(footprint.peak.total_bytes()), gigabytes(footprint.capacity_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::report::plan_report::tests::report;

    #[test]
    fn a_plan_is_shown_stage_by_stage() {
        let planned = fixture::planned(true);
        insta::assert_snapshot!(plan_table(&report(&planned), Screen::PLAIN), @r"
        gpt3-1.3b on 6 GPUs, 2 replicas of 2, 1 stages, tensor parallel 2,
        global batch size 16, micro batch size 1, selective recomputation, fp16, 1F1B
        predicted iteration 8.00 s, lower bound 6.40 s, gap 25.0 %, 4,096 tokens/s,
        planned by autohet in 125.0 ms
        ─────────────────────────────────────────────────────────────────────────────
        replica    micro  stage  node       GPU type  GPUs  layers       peak memory
                 batches                                                 of capacity
        ─────────────────────────────────────────────────────────────────────────────
        0             10  0      a100-80-0  A100-80   0-1   0-12 (13)   10.8/85.9 GB
                          1      a100-80-0  A100-80   2-3   13-23 (11)   8.8/85.9 GB
        1              6  0      v100-32-0  V100-32   0-1   0-23 (24)   15.3/34.4 GB
        ─────────────────────────────────────────────────────────────────────────────
        fullest GPU, replica 1 stage 0: weights 1.3 + gradients 1.3 + optimizer 7.9 +
        activations 2.4 + transients 0.3 + reserve 2.0 GB
        ");
    }

    #[test]
    fn degrees_stand_beside_the_stages_where_they_differ() {
        let mut planned = fixture::planned(true);
        planned.plan.replicas[1].stages[0].gpus = vec![0, 1, 2, 3];
        let table = plan_table(&report(&planned), Screen::PLAIN);
        assert!(table.contains("2 replicas of 2, 1 stages, tensor parallel 2 and 4,"), "{table}");
        assert!(
            table.contains("V100-32   0-3 (4)  0-23 (24)") && table.contains("A100-80   2-3 (2)  13-23"),
            "{table}"
        );
    }

    #[test]
    fn of_many_replicas_those_that_are_alike_are_shown_once() {
        let mut planned = fixture::planned(true);
        let [first, second] = planned.plan.replicas.as_slice() else { panic!("two replicas") };
        let (mut replicas, mut moved) = (vec![first.clone(); 8], second.clone());
        moved.stages[0].node = "v100-32-1".to_owned();
        replicas.extend([second.clone(), moved]);
        planned.plan.replicas = replicas;
        let table = plan_table(&report(&planned), Screen::PLAIN);
        let has = |start: &str, node: &str| table.lines().any(|line| line.starts_with(start) && line.contains(node));
        assert!(has("0-7", "a100-80-0 …") && has("8-9", "v100-32-0 …") && table.contains(ALIKE), "{table}");
        planned.plan.replicas.truncate(8);
        let table = plan_table(&report(&planned), Screen::PLAIN);
        assert!(table.lines().any(|line| line.starts_with("7 ")) && !table.contains("…"), "{table}");
    }

    #[test]
    fn long_node_names_wrap() {
        let mut planned = fixture::planned(true);
        planned.plan.replicas[0].stages[0].node = "europe-west4-b-spot-instance-group-0123456789-abcdef".repeat(2);
        for width in [60, 80] {
            let table = plan_table(&report(&planned), Screen { width, is_styled: false });
            assert!(table.lines().all(|line| line.chars().count() <= usize::from(width)), "{table}");
        }
    }

    #[test]
    fn repetitions_and_ranges_are_short() {
        assert_eq!(runs([4, 4, 4, 2].into_iter()), "4 x3, 2");
        assert_eq!(runs([].into_iter()), "");
        assert_eq!(ranges(&[0, 1, 2, 3, 6]), "0-3,6");
        assert_eq!(ranges(&[5]), "5");
    }
}
