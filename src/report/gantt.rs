//! One iteration as a Gantt chart: a row for each stage of each replica, passes with their micro batches, and below them
//! what is sent, received and reduced meanwhile.
//!
//! Colours differ in lightness as much as in hue, so that they stay apart in grey print and for eyes that don't tell red
//! from green; what is computed has letters and numbers besides.

mod bars;

use super::figures::{or_absent, percent};
use super::iteration::{IterationReport, StageRow};
use super::plan_drawing::Kind as ReplicaKind;
use super::svg::{Anchor, Svg};
use crate::ids::Rank;
use crate::plan::{Replica, ScheduleKind};
use crate::units::{SimTime, format_seconds};
use bars::{Bar, Kind, bars_of_ranks};

/// Rows beyond these aren't drawn: a page has an end.
const MOST_ROWS: usize = 64;
/// Where time begins, in pixels, and what is left of the page behind its end.
const LEFT: f64 = 168.0;
const MARGIN: f64 = 96.0;
/// Width of the time axis for each pass of a stage, and what it is at least and at most.
const PASS_WIDTH: f64 = 24.0;
const LEAST_WIDTH: f64 = 1136.0;
const MOST_WIDTH: f64 = 3600.0;
/// Heights of a row's lanes: passes, and transfers below them.
const PASS_HEIGHT: f64 = 26.0;
const TRANSFER_HEIGHT: f64 = 5.0;
const ROW_HEIGHT: f64 = PASS_HEIGHT + 2.0 * TRANSFER_HEIGHT + 12.0;
/// Above a replica's rows, where there are several replicas.
const REPLICA_HEIGHT: f64 = 20.0;
const TOP: f64 = 92.0;
/// A generous width of a character of 11 pixels.
const CHARACTER: f64 = 6.6;

/// The iteration as an SVG figure, time in milliseconds from left to right.
pub fn gantt_svg(report: &IterationReport<'_>) -> String {
    draw_rows(report, usize::MAX, &(0..report.plan.replicas.len()).map(|replica| (replica, 1)).collect::<Vec<_>>())
}

/// The same for a page: of replicas that are alike but for their nodes the first, and rows for so many bars at most, but for
/// the first row, which is always there.
pub(super) fn gantt_svg_of(report: &IterationReport<'_>, most_bars: usize) -> String {
    let kinds = ReplicaKind::of(report.plan);
    let kinds: Vec<(usize, usize)> = kinds.iter().map(|kind| (kind.first, kind.replicas.len())).collect();
    draw_rows(report, most_bars, &kinds)
}

/// The rows of these replicas, each of which stands for so many.
fn draw_rows(report: &IterationReport<'_>, most_bars: usize, replicas: &[(usize, usize)]) -> String {
    let alike = |replica: usize| replicas.iter().find(|(first, _)| *first == replica).map(|(_, count)| *count);
    let mut rows = report.rows();
    rows.retain(|row| alike(row.replica).is_some());
    let bars = bars_of_ranks(&report.iteration.program, &report.iteration.timeline);
    let ranks = report.iteration.program.ranks().iter().enumerate();
    let ranks = ranks.filter(|(_, rank)| rank.tensor_rank == 0 && alike(rank.replica.index()).is_some());
    let ranks: Vec<usize> = ranks.map(|(rank, _)| rank).take(MOST_ROWS).collect();
    let mut drawn = 0;
    let fits = |rank: &&usize| {
        drawn += bars[Rank::from(**rank).index()].len();
        drawn <= most_bars
    };
    let count = ranks.iter().take_while(fits).count().max(1).min(rows.len());
    let shown = &rows[..count];
    let tops = tops(report, shown);
    let bottom = tops.last().map_or(TOP, |last| last + ROW_HEIGHT);
    let left_out = rows.len() - shown.len();
    let height = bottom + if left_out > 0 { 66.0 } else { 48.0 };
    let scale = Scale::of(report);
    let mut svg = Svg::new(scale.right + MARGIN, height);
    heading(&mut svg, report, scale.right + MARGIN);
    legend(&mut svg, report);
    axis(&mut svg, &scale, bottom);
    for ((row, &top), &rank) in shown.iter().zip(&tops).zip(&ranks) {
        labels(&mut svg, report, row, (scale.right + MARGIN, top), alike(row.replica).unwrap_or(1));
        svg.frame((LEFT, top), (scale.right - LEFT, PASS_HEIGHT), &shares(report, row));
        for bar in &bars[Rank::from(rank).index()] {
            draw(&mut svg, bar, &scale, top, report.plan.replicas[row.replica].chunk_count() > 1);
        }
    }
    if left_out > 0 {
        let text = format!("{left_out} more stages aren't shown; `--perfetto` has all of them");
        svg.text((LEFT, height - 12.0), Anchor::Start, "#555", 12, &text);
    }
    svg.finish()
}

/// Where each row begins, from above.
fn tops(report: &IterationReport<'_>, rows: &[StageRow]) -> Vec<f64> {
    let heading = if report.plan.replicas.len() > 1 { REPLICA_HEIGHT } else { 0.0 };
    let mut next = TOP;
    let top = |row: &StageRow| {
        next += if row.stage == 0 { heading } else { 0.0 };
        let top = next;
        next += ROW_HEIGHT;
        top
    };
    rows.iter().map(top).collect()
}

/// Milliseconds to pixels.
struct Scale {
    ms: f64,
    right: f64,
}

impl Scale {
    /// Wide enough for the labels of the passes, within reason.
    fn of(report: &IterationReport<'_>) -> Self {
        let has_three = matches!(report.plan.schedule, ScheduleKind::ZeroBubbleH1 | ScheduleKind::Redundant);
        let halves = if has_three { 3 } else { 2 };
        let passes = |replica: &Replica| replica.micro_batches as usize * replica.chunk_count() * halves;
        let most = report.plan.replicas.iter().map(passes).max().unwrap_or(0);
        let width = (most as f64 * PASS_WIDTH).clamp(LEAST_WIDTH, MOST_WIDTH);
        Self { ms: (report.makespan().as_seconds() * 1e3).max(1e-6), right: LEFT + width }
    }

    fn x(&self, ms: f64) -> f64 {
        LEFT + ms / self.ms * (self.right - LEFT)
    }

    /// Ticks at round numbers, one about every 110 pixels.
    fn ticks(&self) -> Vec<(f64, String)> {
        let rough = self.ms / ((self.right - LEFT) / 110.0).max(1.0);
        let power = 10_f64.powf(rough.log10().floor());
        let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= rough * 0.999).unwrap_or(10.0);
        let step = digit * power;
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let count = (self.ms / step + 1e-9) as usize;
        (0..=count).map(|i| (i as f64 * step, format!("{:.decimals$}", i as f64 * step))).collect()
    }
}

fn heading(svg: &mut Svg, report: &IterationReport<'_>, width: f64) {
    let plan = report.plan;
    let counts: Vec<u32> = plan.replicas.iter().map(|replica| replica.micro_batches).collect();
    let same = counts.windows(2).all(|pair| pair[0] == pair[1]);
    let samples = match plan.micro_batch_size {
        1 => "1 sample".to_owned(),
        several => format!("{several} samples"),
    };
    let micro_batches = match counts[..] {
        [only] => format!("{only} micro batches of {samples}"),
        [first, ..] if same => format!("{first} micro batches of {samples} a replica"),
        _ => format!("micro batches of {samples}"),
    };
    let title = format!("{}, {} on {} GPUs", plan.model, plan.schedule.title(), plan.world_size());
    let facts = format!(
        "iteration {}   ·   bubble {}   ·   {micro_batches}",
        format_seconds(report.makespan().as_seconds()),
        or_absent(report.bubble_fraction(), percent),
    );
    svg.bold((24.0, 26.0), "#222", 17, &title);
    svg.text((24.0, 47.0), Anchor::Start, "#444", 13, &facts);
    svg.text((width - 12.0, 47.0), Anchor::End, "#444", 12, "peak memory");
}

fn legend(svg: &mut Svg, report: &IterationReport<'_>) {
    let splits = report.plan.schedule == ScheduleKind::ZeroBubbleH1;
    let computed = if report.plan.schedule == ScheduleKind::Redundant {
        vec![(Kind::Forward, "forward"), (Kind::Redundant, "redundant forward"), (Kind::Backward, "backward")]
    } else if splits {
        let halves = [(Kind::Backward, "backward for the input"), (Kind::Weights, "backward for the weights")];
        [&[(Kind::Forward, "forward")][..], &halves].concat()
    } else {
        vec![(Kind::Forward, "forward"), (Kind::Backward, "backward")]
    };
    let rest = [
        (Kind::Optimizer, "optimizer step"),
        (Kind::Send, "send"),
        (Kind::Receive, "receive"),
        (Kind::Reduction, "gradient all_reduce"),
    ];
    let mut x = 24.0;
    for (kind, name) in computed.into_iter().chain(rest) {
        svg.rectangle((x, 61.0), (16.0, 12.0), kind.fill(0));
        svg.text((x + 22.0, 71.0), Anchor::Start, "#222", 12, name);
        x += 22.0 + name.len() as f64 * 6.7 + 20.0;
    }
    svg.frame((x, 61.0), (16.0, 12.0), "");
    svg.text((x + 22.0, 71.0), Anchor::Start, "#222", 12, "idle");
    x += 70.0;
    let chunks = report.plan.replicas.iter().map(Replica::chunk_count).max().unwrap_or(1);
    if chunks > 1 {
        let last = bars::chunk_letter(chunks as u32 - 1);
        let text = format!("numbers are micro batches, letters chunks a to {last}");
        svg.text((x, 71.0), Anchor::Start, "#555", 12, &text);
    } else {
        svg.text((x, 71.0), Anchor::Start, "#555", 12, "numbers are micro batches");
    }
}

fn axis(svg: &mut Svg, scale: &Scale, bottom: f64) {
    for (ms, label) in scale.ticks() {
        svg.line((scale.x(ms), TOP - 6.0), (scale.x(ms), bottom), "#e2e2e2");
        svg.text((scale.x(ms), bottom + 16.0), Anchor::Middle, "#444", 12, &label);
    }
    svg.line((LEFT, bottom), (scale.right, bottom), "#888");
    svg.text((f64::midpoint(LEFT, scale.right), bottom + 36.0), Anchor::Middle, "#444", 12, "time, ms");
}

/// What stands beside a row: its stage, its GPUs and the fullest moment of their memory; and above the first row of a
/// replica, how many such replicas there are.
fn labels(svg: &mut Svg, report: &IterationReport<'_>, row: &StageRow, (width, top): (f64, f64), alike: usize) {
    let replica = &report.plan.replicas[row.replica];
    let stage = &replica.stages[row.stage];
    if row.stage == 0 && report.plan.replicas.len() > 1 {
        let others = if alike > 1 { format!("; {} more are alike", alike - 1) } else { String::new() };
        let text = format!("replica {}, {} micro batches{others}", row.replica, replica.micro_batches);
        svg.bold((24.0, top - 7.0), "#222", 12, &text);
    }
    svg.text((24.0, top + 12.0), Anchor::Start, "#222", 12, &format!("stage {}", row.stage));
    let layers = stage.layer_count();
    let gpus = if stage.gpus.len() == 1 {
        stage.gpu_type.clone()
    } else {
        format!("{} x{}", stage.gpu_type, stage.gpus.len())
    };
    svg.text((24.0, top + 27.0), Anchor::Start, "#666", 11, &format!("{gpus}, {layers} layers"));
    let (peak, capacity) = (row.peak.memory.total_bytes() as f64 / 1e9, row.capacity_bytes as f64 / 1e9);
    let ink = if peak > capacity { "#b00020" } else { "#444" };
    svg.text((width - 12.0, top + 17.0), Anchor::End, ink, 12, &format!("{peak:.1}/{capacity:.1} GB"));
}

/// What a row's GPUs do, in words.
fn shares(report: &IterationReport<'_>, row: &StageRow) -> String {
    let share = |time: SimTime| percent(time.as_seconds() / report.makespan().as_seconds());
    let (replica, stage, shares) = (row.replica, row.stage, row.shares);
    let [busy, communication, idle] = [shares.busy, shares.communication, shares.idle].map(share);
    format!("replica {replica} stage {stage}: busy {busy}, communication {communication}, idle {idle}")
}

/// A pass in words.
fn says(bar: &Bar) -> String {
    let micro_batch =
        bar.micro_batch.map_or_else(String::new, |micro_batch| format!(" of micro batch {}", micro_batch.0));
    let [from, to] = [bar.start, bar.end].map(|time| format_seconds(time.as_seconds()));
    format!("{}{micro_batch}, {from} to {to}", bar.kind.name())
}

fn draw(svg: &mut Svg, bar: &Bar, scale: &Scale, top: f64, shows_chunks: bool) {
    let (from, to) = (scale.x(bar.start.as_seconds() * 1e3), scale.x(bar.end.as_seconds() * 1e3));
    let width = to - from;
    let lane = top + PASS_HEIGHT + 2.0;
    match bar.kind {
        Kind::Send => svg.rectangle((from, lane), (width, TRANSFER_HEIGHT), bar.kind.fill(0)),
        Kind::Receive => svg.rectangle((from, lane + TRANSFER_HEIGHT), (width, TRANSFER_HEIGHT), bar.kind.fill(0)),
        Kind::Reduction => svg.rectangle((from, lane), (width, 2.0 * TRANSFER_HEIGHT), bar.kind.fill(0)),
        Kind::Forward | Kind::Redundant | Kind::Backward | Kind::Weights | Kind::Optimizer => {
            svg.outlined((from, top), (width, PASS_HEIGHT), bar.kind.fill(bar.chunk), &says(bar));
            let label = bar.label(shows_chunks);
            let fits = |size: &u32| label.len() as f64 * CHARACTER * f64::from(*size) / 11.0 + 2.0 <= width;
            if let Some(size) = [11, 9, 7].into_iter().find(fits) {
                svg.text((f64::midpoint(from, to), top + 17.0), Anchor::Middle, bar.kind.ink(), size, &label);
            }
        }
    }
}

#[cfg(test)]
mod tests;
