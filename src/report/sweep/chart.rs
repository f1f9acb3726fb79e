//! `sweep.svg`: heat maps where two axes are numbers, lines where one is.

use super::colors::{is_dark, of_share};
use super::{Better, SweepTable, better, compare_keys, lines, said};
use crate::report::canvas::{Anchor, Canvas, FAINT_INK, GRID, INK, legend_width};
use crate::report::figures::{figure as four_digits, scaled};
use crate::report::svg::Spots;
use plotters::style::{BLACK, WHITE};
use serde_json::Value;

/// Panels side by side at most.
const MOST_PANELS: usize = 4;
/// Values along one side of a map at most.
const MOST_VALUES: usize = 24;
const CELL: (i32, i32) = (54, 26);
const LEFT: i32 = 56;
const GAP: i32 = 26;
const TOP: i32 = 64;
/// Of a row of maps: two headings above, ticks and the name of the axis below.
const HEAD: i32 = 50;
const FOOT: i32 = 52;
const SCALE_WIDTH: i32 = 96;

/// What a chart of a sweep shows.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepChart {
    /// Figures, a row of maps or one panel of lines each.
    pub figures: Vec<String>,
    /// The axis from left to right.
    pub x: usize,
    /// The axis from below to above; lines are drawn where there is none.
    pub y: Option<usize>,
    /// The axis whose values have a map each, side by side, or a line each.
    pub several: Option<usize>,
    /// What all other axes are.
    pub fixed: Vec<(usize, Value)>,
}

impl SweepChart {
    /// The chart that suits a table: its longest two axes of numbers, or the only one. `None` where no axis has two
    /// numbers.
    pub fn of(table: &SweepTable) -> Option<Self> {
        let mut numeric: Vec<(usize, usize)> = Vec::new();
        for axis in 0..table.axes.len() {
            let values = values_of(table, axis);
            if values.len() > 1 && values.iter().all(Value::is_number) {
                numeric.push((axis, values.len()));
            }
        }
        numeric.sort_by_key(|&(axis, count)| (std::cmp::Reverse(count), axis));
        let mut numeric: Vec<usize> = numeric.into_iter().map(|(axis, _)| axis).collect();
        let two = numeric.len().min(2);
        numeric[..two].sort_unstable();
        let (x, y) = (*numeric.first()?, numeric.get(1).copied());
        let others = || (0..table.axes.len()).filter(|&axis| axis != x && Some(axis) != y);
        let is_several = |&axis: &usize| values_of(table, axis).len() > 1;
        let several = match y {
            Some(_) => others().filter(is_several).find(|axis| numeric.contains(axis)),
            None => others().rfind(is_several),
        };
        let fixed = others().filter(|&axis| Some(axis) != several).map(|axis| (axis, usual(table, axis))).collect();
        let figures = table.figures().filter(|name| better(name) != Better::Neither).take(2);
        let figures: Vec<String> = figures.map(str::to_owned).collect();
        (!figures.is_empty()).then_some(Self { figures, x, y, several, fixed })
    }

    /// What a figure is where the axes have these values; `None` where it has none, or no run is of them.
    pub(super) fn value(&self, table: &SweepTable, figure: &str, at: &[(usize, &Value)]) -> Option<f64> {
        let fixed = self.fixed.iter().map(|(axis, value)| (*axis, value));
        let wanted: Vec<(usize, &Value)> = at.iter().copied().chain(fixed).collect();
        let row = table.rows.iter().find(|row| wanted.iter().all(|(axis, value)| row.key[*axis] == **value))?;
        row.outcome.figures.get(figure).and_then(Value::as_f64)
    }

    /// What is fixed, for the heading.
    fn caption(&self, table: &SweepTable) -> String {
        let fixed = self.fixed.iter().filter(|(axis, _)| values_of(table, *axis).len() > 1);
        let fixed: Vec<String> = fixed.map(|(axis, value)| with_value(&table.axes[*axis], value)).collect();
        if fixed.is_empty() { String::new() } else { format!(", with {}", fixed.join(", ")) }
    }
}

/// So many times a number of pixels.
pub(super) fn pixels(count: usize, each: i32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX).saturating_mul(each)
}

/// The values of an axis, sorted.
pub(super) fn values_of(table: &SweepTable, axis: usize) -> Vec<Value> {
    let mut values: Vec<Value> = table.rows.iter().map(|row| row.key[axis].clone()).collect();
    values.sort_by(|a, b| compare_keys(std::slice::from_ref(a), std::slice::from_ref(b)));
    values.dedup();
    values
}

/// The value that stands for an axis that isn't drawn: ours of planners and policies, else the first.
fn usual(table: &SweepTable, axis: usize) -> Value {
    let values = values_of(table, axis);
    let ours = values.iter().find(|value| value.as_str() == Some("autohet"));
    ours.or(values.first()).cloned().unwrap_or(Value::Null)
}

/// Evenly chosen values, the first and the last among them, where there are more than fit.
pub(super) fn some_of(values: Vec<Value>, most: usize) -> Vec<Value> {
    let count = values.len();
    if count <= most {
        return values;
    }
    let chosen = (0..most).map(|place| place * (count - 1) / (most - 1));
    chosen.map(|place| values[place].clone()).collect()
}

/// A figure's name and unit for people.
pub(super) fn title(figure: &str) -> String {
    match figure {
        "tokens_per_s" => "tokens/s".to_owned(),
        "usd_per_million_tokens" => "USD per million tokens".to_owned(),
        "goodput_share" => "goodput share".to_owned(),
        other => other.replace('_', " "),
    }
}

/// An axis for people: `A100-80 GPUs`, `global batch size`.
pub(super) fn axis_name(axis: &str) -> String {
    match axis.split_once('.') {
        Some(("gpus", gpu_type)) => format!("{gpu_type} GPUs"),
        Some(("nodes", gpu_type)) => format!("{gpu_type} nodes"),
        _ => axis.rsplit('.').next().unwrap_or(axis).replace('_', " "),
    }
}

/// `8 A100-80 GPUs`, `planner autohet`, `global batch size 64`.
fn with_value(axis: &str, value: &Value) -> String {
    let (name, value) = (axis_name(axis), said(value));
    if axis.starts_with("gpus.") || axis.starts_with("nodes.") {
        format!("{value} {name}")
    } else {
        format!("{name} {value}")
    }
}

/// A figure in a cell: three digits, of small ones too.
fn shown(value: f64) -> String {
    if value.abs() < 1.0 { format!("{value:.3}") } else { scaled(value).replace(' ', "") }
}

/// The chart as SVG.
pub fn sweep_svg(name: &str, table: &SweepTable, chart: &SweepChart) -> String {
    let heading = format!("{name}{}", chart.caption(table));
    match chart.y {
        None => lines::lines_svg(&heading, table, chart),
        Some(y) => Maps::new(table, chart, y).svg(&heading),
    }
}

/// Heat maps: a row of them for each figure.
struct Maps<'a> {
    table: &'a SweepTable,
    chart: &'a SweepChart,
    y: usize,
    x_values: Vec<Value>,
    y_values: Vec<Value>,
    panels: Vec<Option<Value>>,
}

impl<'a> Maps<'a> {
    fn new(table: &'a SweepTable, chart: &'a SweepChart, y: usize) -> Self {
        let panels = match chart.several {
            Some(axis) => some_of(values_of(table, axis), MOST_PANELS).into_iter().map(Some).collect(),
            None => vec![None],
        };
        let x_values = some_of(values_of(table, chart.x), MOST_VALUES);
        let y_values = some_of(values_of(table, y), MOST_VALUES);
        Self { table, chart, y, x_values, y_values, panels }
    }

    fn size(&self) -> (i32, i32) {
        (pixels(self.x_values.len(), CELL.0), pixels(self.y_values.len(), CELL.1))
    }

    fn svg(&self, heading: &str) -> String {
        let (width, height) = self.size();
        let right = LEFT + pixels(self.panels.len(), width + GAP) - GAP;
        let row = HEAD + height + FOOT;
        let total = ((right + SCALE_WIDTH).max(520), TOP + pixels(self.chart.figures.len(), row));
        let mut svg = String::new();
        let mut spots = Spots::default();
        {
            let canvas = Canvas::new(&mut svg, total);
            canvas.bold_text((16, 22), Anchor::Left, INK, heading);
            let note = "dark is more; a dash where nothing fits";
            canvas.text((16, 44), Anchor::Left, FAINT_INK, note);
            for (figure, top) in self.chart.figures.iter().zip((TOP..).step_by(row as usize)) {
                self.draw_row((&canvas, &mut spots), figure, top, right);
            }
            canvas.finish();
        }
        spots.over(svg)
    }

    /// The maps of one figure, with one scale.
    fn draw_row(&self, (canvas, spots): (&Canvas<'_>, &mut Spots), figure: &str, top: i32, right: i32) {
        let (width, height) = self.size();
        let maps: Vec<Vec<Option<f64>>> = self.panels.iter().map(|panel| self.values(figure, panel.as_ref())).collect();
        let known = || maps.iter().flatten().copied().flatten();
        let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        canvas.bold_text((16, top + 14), Anchor::Left, INK, &title(figure));
        let upwards = format!("{} upwards", axis_name(&self.table.axes[self.y]));
        canvas.text((16 + legend_width(&title(figure)), top + 14), Anchor::Left, FAINT_INK, &upwards);
        let share = |value: f64| if high > low { (value - low) / (high - low) } else { 0.5 };
        for ((panel, values), left) in self.panels.iter().zip(&maps).zip((LEFT..).step_by((width + GAP) as usize)) {
            if let (Some(value), Some(axis)) = (panel, self.chart.several) {
                let heading = with_value(&self.table.axes[axis], value);
                canvas.text((left, top + HEAD - 12), Anchor::Left, INK, &heading);
            }
            for (index, value) in values.iter().enumerate() {
                let (column, line) = (index % self.x_values.len(), index / self.x_values.len());
                let corner = (left + pixels(column, CELL.0), top + HEAD + height - pixels(line + 1, CELL.1));
                draw_cell(canvas, corner, value.map(|value| (share(value), shown(value))));
                let at = (&self.x_values[column], &self.y_values[line], panel.as_ref());
                let [corner, size] = [corner, CELL].map(|(x, y)| (f64::from(x), f64::from(y)));
                spots.add(corner, size, self.says(figure, at, *value));
            }
            self.draw_ticks(canvas, left, top + HEAD, left == LEFT);
        }
        if low.is_finite() {
            draw_scale(canvas, (right + 16, top + HEAD), height, (low, high));
        }
    }

    /// The values of one map, row by row from below.
    fn values(&self, figure: &str, panel: Option<&Value>) -> Vec<Option<f64>> {
        let mut values = Vec::new();
        for y in &self.y_values {
            for x in &self.x_values {
                let mut at = vec![(self.chart.x, x), (self.y, y)];
                at.extend(self.chart.several.zip(panel));
                values.push(self.chart.value(self.table, figure, &at));
            }
        }
        values
    }

    /// A cell in words.
    fn says(&self, figure: &str, (x, y, panel): (&Value, &Value, Option<&Value>), value: Option<f64>) -> String {
        let axes = [(self.chart.x, x), (self.y, y)].into_iter().chain(self.chart.several.zip(panel));
        let at: Vec<String> = axes.map(|(axis, value)| with_value(&self.table.axes[axis], value)).collect();
        let value = value
            .map_or_else(|| "nothing fits".to_owned(), |value| format!("{} {}", four_digits(value), title(figure)));
        format!("{}: {value}", at.join(", "))
    }

    fn draw_ticks(&self, canvas: &Canvas<'_>, left: i32, top: i32, is_first: bool) {
        let (width, height) = self.size();
        for (value, x) in self.x_values.iter().zip((left + CELL.0 / 2..).step_by(CELL.0 as usize)) {
            canvas.text((x, top + height + 12), Anchor::Center, INK, &said(value));
        }
        let name = axis_name(&self.table.axes[self.chart.x]);
        canvas.text((left + width / 2, top + height + 32), Anchor::Center, INK, &name);
        if !is_first {
            return;
        }
        for (value, line) in self.y_values.iter().zip(0..) {
            let y = top + height - line * CELL.1 - CELL.1 / 2;
            canvas.text((left - 6, y), Anchor::Right, INK, &said(value));
        }
    }
}

/// A coloured cell with its figure, or a dash.
fn draw_cell(canvas: &Canvas<'_>, (x, y): (i32, i32), value: Option<(f64, String)>) {
    let end = (x + CELL.0 - 2, y + CELL.1 - 2);
    let middle = (x + CELL.0 / 2 - 1, y + CELL.1 / 2 - 1);
    match value {
        None => {
            canvas.rectangle((x, y), end, GRID);
            canvas.text(middle, Anchor::Center, INK, "–");
        }
        Some((share, text)) => {
            let color = of_share(share);
            canvas.rectangle((x, y), end, color);
            canvas.text(middle, Anchor::Center, if is_dark(color) { WHITE } else { BLACK }, &text);
        }
    }
}

/// What the colours stand for.
fn draw_scale(canvas: &Canvas<'_>, (x, top): (i32, i32), height: i32, (low, high): (f64, f64)) {
    let steps = height.clamp(20, 120);
    for step in 0..steps {
        let share = 1.0 - f64::from(step) / f64::from(steps - 1);
        canvas.rectangle((x, top + step), (x + 14, top + step + 1), of_share(share));
    }
    canvas.text((x + 20, top + 6), Anchor::Left, INK, &shown(high));
    canvas.text((x + 20, top + steps - 6), Anchor::Left, INK, &shown(low));
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;
    use crate::report::sweep::{SweepKind, SweepRow};

    /// Two axes of numbers, one of names.
    fn square() -> SweepTable {
        let mut rows: Vec<SweepRow> = Vec::new();
        for (a, b) in [(0_u32, 0_u32), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
            for planner in ["whale", "autohet"] {
                let row = row(a, planner, (a + b > 0).then_some(f64::from(a + 2 * b)));
                rows.push(SweepRow { key: vec![a.into(), b.into(), planner.into()], ..row });
            }
        }
        SweepTable::new(SweepKind::Plans, ["gpus.T4", "gpus.L4", "planner"].map(str::to_owned).to_vec(), rows)
    }

    #[test]
    fn two_axes_of_numbers_are_a_map_of_our_planner() {
        let chart = SweepChart::of(&square()).unwrap();
        assert_eq!((chart.x, chart.y, chart.several), (0, Some(1), None));
        assert_eq!(chart.fixed, [(2, "autohet".into())]);
        assert_eq!(chart.figures, ["tokens_per_s", "usd_per_million_tokens"]);
        let svg = sweep_svg("mix", &square(), &chart);
        assert!(svg.contains("mix, with planner autohet") && svg.contains("L4 GPUs upwards"), "{svg}");
        assert_eq!(svg.matches('–').count(), 2, "one cell in each map doesn't fit");
    }

    #[test]
    fn one_axis_of_numbers_is_a_line_for_each_name() {
        let mut table = square();
        table.rows.retain(|row| row.key[1] == 1);
        let chart = SweepChart::of(&table).unwrap();
        assert_eq!((chart.x, chart.y, chart.several), (0, None, Some(2)));
        let svg = sweep_svg("mix", &table, &chart);
        assert!(svg.contains("autohet") && svg.contains("whale") && svg.contains("<polyline"), "{svg}");
    }

    #[test]
    fn names_alone_have_no_chart() {
        let mut table = square();
        table.rows.retain(|row| row.key[0] == 1 && row.key[1] == 1);
        assert_eq!(SweepChart::of(&table), None);
    }

    #[test]
    fn of_many_values_the_ends_are_kept() {
        let values: Vec<Value> = (0..100).map(Value::from).collect();
        let some = some_of(values, 4);
        assert_eq!(some, [0, 33, 66, 99].map(Value::from));
    }
}
