//! A plan as a picture: a row for each kind of replica, a block for each stage, as wide as it has layers and in the colour of
//! its GPU type, and below it how full the memory of its GPUs is.

use super::iteration::parts_text;
use super::plan_report::StageFootprint;
use super::svg::{Anchor, Spots, Svg};
use crate::plan::{Plan, Replica, Stage};

/// Kinds of replicas that are drawn; a page has an end.
const MOST_ROWS: usize = 24;
/// Where layers begin, how wide all of them are together, and what is left of the figure behind them.
const LEFT: f64 = 150.0;
const WIDTH: f64 = 820.0;
const MARGIN: f64 = 24.0;
const TOP: f64 = 62.0;
const BLOCK: f64 = 44.0;
const MEMORY: f64 = 8.0;
const ROW: f64 = BLOCK + MEMORY + 22.0;
/// A generous width of a character of 12 pixels.
const CHARACTER: f64 = 7.2;
/// Nodes that are named of several replicas.
const MOST_NAMES: usize = 4;

/// Colours on which black is read, told apart by readers of any colour vision; each block has its type's name besides.
pub(super) const TYPES: [&str; 8] =
    ["#56b4e9", "#e69f00", "#fff3a0", "#1e9c7c", "#eeb4d0", "#9be564", "#8f7fe6", "#e8663f"];
const INK: &str = "#222";
const FAINT: &str = "#555";
/// Text on the colours above, whatever the colour of the page.
const ON_COLOR: &str = "#101010";
const FULL: &str = "#b00020";

/// Replicas that differ in nothing but the nodes they are on.
pub(super) struct Kind<'a> {
    pub(super) first: usize,
    pub(super) replicas: Vec<&'a Replica>,
}

impl Kind<'_> {
    pub(super) fn of(plan: &Plan) -> Vec<Kind<'_>> {
        let mut kinds: Vec<Kind<'_>> = Vec::new();
        for (index, replica) in plan.replicas.iter().enumerate() {
            match kinds.iter_mut().find(|kind| is_alike(kind.replicas[0], replica)) {
                Some(kind) => kind.replicas.push(replica),
                None => kinds.push(Kind { first: index, replicas: vec![replica] }),
            }
        }
        kinds
    }
}

fn is_alike(one: &Replica, other: &Replica) -> bool {
    let same = |(a, b): (&Stage, &Stage)| {
        a.gpu_type == b.gpu_type && a.gpus.len() == b.gpus.len() && a.chunks().eq(b.chunks())
    };
    one.micro_batches == other.micro_batches
        && one.stages.len() == other.stages.len()
        && one.stages.iter().zip(&other.stages).all(same)
}

/// The plan as an SVG figure. Of replicas that are alike but for their nodes one is drawn, with their number.
pub(super) fn plan_svg(plan: &Plan, footprints: &[Vec<StageFootprint>]) -> String {
    let kinds = Kind::of(plan);
    let shown = &kinds[..kinds.len().min(MOST_ROWS)];
    let more = kinds.len() - shown.len();
    let bottom = TOP + shown.len() as f64 * ROW;
    let mut svg = Svg::new(LEFT + WIDTH + MARGIN, bottom + if more > 0 { 40.0 } else { 22.0 });
    let types = gpu_types(plan);
    legend(&mut svg, &types);
    let mut spots = Spots::default();
    for (row, kind) in shown.iter().enumerate() {
        draw_kind(&mut svg, &mut spots, (plan, kind, &footprints[kind.first]), &types, TOP + row as f64 * ROW);
    }
    let layers = plan.replicas.first().map_or(0, layers_of);
    svg.text((LEFT, bottom + 8.0), Anchor::Start, FAINT, 12, "layer 0");
    svg.text((LEFT + WIDTH, bottom + 8.0), Anchor::End, FAINT, 12, &format!("layer {}", layers.saturating_sub(1)));
    if more > 0 {
        let text = format!("{more} more kinds of replicas aren't drawn; the plan's file has all of them");
        svg.text((LEFT, bottom + 28.0), Anchor::Start, FAINT, 12, &text);
    }
    svg.spots(&spots);
    svg.finish()
}

fn layers_of(replica: &Replica) -> u32 {
    replica.stages.iter().map(Stage::layer_count).sum()
}

/// The types in the order in which stages name them, with the GPUs in use.
fn gpu_types(plan: &Plan) -> Vec<(&str, usize)> {
    let mut types: Vec<(&str, usize)> = Vec::new();
    for stage in plan.replicas.iter().flat_map(|replica| &replica.stages) {
        match types.iter_mut().find(|(name, _)| *name == stage.gpu_type) {
            Some((_, gpus)) => *gpus += stage.gpus.len(),
            None => types.push((&stage.gpu_type, stage.gpus.len())),
        }
    }
    types
}

fn legend(svg: &mut Svg, types: &[(&str, usize)]) {
    let mut x = MARGIN;
    for (index, (name, gpus)) in types.iter().enumerate() {
        let text = format!("{gpus} x {name}");
        svg.rectangle((x, 16.0), (16.0, 12.0), TYPES[index % TYPES.len()]);
        svg.text((x + 22.0, 26.0), Anchor::Start, INK, 12, &text);
        x += 22.0 + text.len() as f64 * CHARACTER + 18.0;
    }
    let text = "width: layers   ·   bar below: peak memory of each GPU against what it has";
    svg.text((MARGIN, 46.0), Anchor::Start, FAINT, 12, text);
}

type Drawn<'a> = (&'a Plan, &'a Kind<'a>, &'a [StageFootprint]);

fn draw_kind(svg: &mut Svg, spots: &mut Spots, (plan, kind, footprints): Drawn<'_>, types: &[(&str, usize)], top: f64) {
    let replica = kind.replicas[0];
    let name = match kind.replicas.len() {
        1 => format!("replica {}", kind.first),
        count => format!("{count} replicas alike"),
    };
    svg.bold((MARGIN, top + 17.0), INK, 12, &name);
    let samples = u64::from(replica.micro_batches) * u64::from(plan.micro_batch_size);
    let each = if kind.replicas.len() == 1 { "" } else { " each" };
    svg.text((MARGIN, top + 33.0), Anchor::Start, FAINT, 11, &format!("{samples} samples{each}"));
    let per_layer = WIDTH / f64::from(layers_of(replica).max(1));
    let mut x = LEFT;
    for (index, (stage, footprint)) in replica.stages.iter().zip(footprints).enumerate() {
        let width = per_layer * f64::from(stage.layer_count());
        let color = types.iter().position(|(name, _)| *name == stage.gpu_type).unwrap_or_default();
        svg.outlined((x, top), (width, BLOCK), TYPES[color % TYPES.len()], "");
        label(svg, (x, top), width, stage);
        let share = footprint.peak.total_bytes() as f64 / footprint.capacity_bytes.max(1) as f64;
        svg.frame((x + 0.5, top + BLOCK + 3.0), (width - 1.0, MEMORY), "");
        let fill = if share > 1.0 { FULL } else { "#4a6fa5" };
        svg.rectangle((x + 0.5, top + BLOCK + 3.0), ((width - 1.0) * share.min(1.0), MEMORY), fill);
        spots.add((x, top), (width, BLOCK + MEMORY + 3.0), says(kind, index, footprint));
        x += width;
    }
}

/// GPUs and layers, as much of it as fits.
fn label(svg: &mut Svg, (x, top): (f64, f64), width: f64, stage: &Stage) {
    let gpus = match stage.gpus.len() {
        1 => stage.gpu_type.clone(),
        several => format!("{several} x {}", stage.gpu_type),
    };
    let layers = stage.layer_count();
    let middle = x + width / 2.0;
    let fits = |text: &str| text.chars().count() as f64 * CHARACTER + 4.0 <= width;
    if fits(&gpus) {
        svg.text((middle, top + 19.0), Anchor::Middle, ON_COLOR, 12, &gpus);
    }
    let long = if layers == 1 { "1 layer".to_owned() } else { format!("{layers} layers") };
    if let Some(text) = [long, layers.to_string()].iter().find(|text| fits(text)) {
        svg.text((middle, top + 35.0), Anchor::Middle, ON_COLOR, 12, text);
    }
}

/// What a stage is, in words.
fn says(kind: &Kind<'_>, index: usize, footprint: &StageFootprint) -> String {
    let stage = &kind.replicas[0].stages[index];
    let ranges: Vec<String> = stage
        .chunks()
        .map(|chunk| match chunk.num_layers {
            1 => chunk.first_layer.to_string(),
            count => format!("{}-{}", chunk.first_layer, chunk.first_layer.saturating_add(count - 1)),
        })
        .collect();
    let nodes = kind.replicas.iter().filter_map(|replica| replica.stages.get(index)).map(|stage| stage.node.as_str());
    let mut names: Vec<&str> = nodes.clone().take(MOST_NAMES).collect();
    let count = nodes.count();
    let more = format!("and {} more", count.saturating_sub(MOST_NAMES));
    if count > MOST_NAMES {
        names.push(&more);
    }
    format!(
        "stage {index}: {} of {}, layers {}\nmemory {:.1} of {:.1} GB a GPU: {}\non {}",
        if stage.gpus.len() == 1 { "1 GPU".to_owned() } else { format!("{} GPUs", stage.gpus.len()) },
        stage.gpu_type,
        ranges.join(", "),
        footprint.peak.total_bytes() as f64 / 1e9,
        footprint.capacity_bytes as f64 / 1e9,
        parts_text(&footprint.peak),
        names.join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::report::plan_report::tests::world;

    fn drawn(change: impl Fn(&mut Plan)) -> String {
        let mut plan = fixture::planned(true).plan;
        change(&mut plan);
        let (cluster, cost) = world();
        plan_svg(&plan, &StageFootprint::of_plan(&plan, &cluster, &cost))
    }

    /// Widths of the blocks of one colour.
    fn widths(svg: &str, color: &str) -> Vec<f64> {
        let blocks = svg.lines().filter(|line| line.contains(color) && line.contains("height=\"44.0\""));
        let width = |line: &str| line.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse().ok());
        blocks.filter_map(width).collect()
    }

    #[test]
    fn blocks_are_as_wide_as_their_layers() {
        let svg = drawn(|_| {});
        let layer = WIDTH / 24.0;
        let near = |found: &[f64], wanted: &[f64]| {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 0.06)
        };
        assert!(near(&widths(&svg, TYPES[0]), &[13.0 * layer, 11.0 * layer]), "{svg}");
        assert!(near(&widths(&svg, TYPES[1]), &[24.0 * layer]), "{svg}");
        assert!(svg.contains("4 x A100-80") && svg.contains("2 x V100-32"));
        assert!(svg.contains("<title>stage 1: 2 GPUs of A100-80, layers 13-23\nmemory "), "{svg}");
    }

    #[test]
    fn replicas_that_are_alike_are_one_row() {
        let svg = drawn(|plan| {
            let again = plan.replicas[1].clone();
            plan.replicas.push(again);
        });
        assert!(svg.contains("2 replicas alike") && svg.contains("6 samples each"), "{svg}");
        assert_eq!(svg.matches("<title>").count(), 3);
    }

    #[test]
    fn a_plan_of_many_kinds_has_an_end() {
        let svg = drawn(|plan| {
            for count in 0..40 {
                plan.replicas.push(Replica { micro_batches: 100 + count, ..plan.replicas[1].clone() });
            }
        });
        assert!(svg.contains("18 more kinds of replicas"), "{svg}");
    }
}
