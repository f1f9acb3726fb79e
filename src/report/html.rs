//! `report.html`: results as one page that opens from a file, without network, on a phone, in the dark and on paper.

mod costs;
mod plan;
mod replay;
mod sweep;

pub use plan::{PlanPage, plan_html};
pub use replay::{ReplayPage, replay_html};
pub use sweep::sweep_html;

use super::gantt::gantt_svg_of;
use super::iteration::IterationReport;
use super::plan_drawing::plan_svg;
use crate::metrics::{Activity, Ledger};
use crate::report::figures::percent;
use crate::report::throughput_chart::activity_color;
use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

/// The page's skeleton, its style, and what shows values without a mouse.
const TEMPLATE: &str = include_str!("html/report.html");
const STYLE: &str = include_str!("html/report.css");
const SCRIPT: &str = include_str!("html/report.js");

/// Bars of an iteration's chart in a page; more of them would make it slow to open.
const MOST_BARS: usize = 6000;
/// Rows of a table that are shown at once; longer ones are scrolled.
const LONG: usize = 14;
/// A part of a bar that has room for its share.
const LABELLED_SHARE: f64 = 0.07;

/// A figure at the top of the page.
#[derive(Clone, Debug, Serialize)]
struct Card {
    name: String,
    value: String,
}

/// A part of a bar.
#[derive(Clone, Debug, Serialize)]
struct BarPart {
    name: String,
    color: String,
    /// Of text on it.
    ink: &'static str,
    percent: String,
    shown: String,
    /// What stands on it.
    label: String,
}

/// A stacked bar with its name.
#[derive(Clone, Debug, Serialize)]
struct Bar {
    name: String,
    parts: Vec<BarPart>,
}

/// A heading of a table, and whether what is below it is text.
#[derive(Clone, Debug, Serialize)]
struct Column {
    name: String,
    is_text: bool,
}

/// A heading with whatever belongs under it.
#[derive(Clone, Debug, Default, Serialize)]
struct Section {
    heading: String,
    note: String,
    /// What it comes to, and whether that is good.
    verdict: Option<(bool, String)>,
    /// A figure of ours, which has no text that isn't.
    svg: String,
    bars: Vec<Bar>,
    legend: Vec<BarPart>,
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    is_long: bool,
    /// Text that is shown when it is asked for.
    text: String,
}

impl Section {
    fn new(heading: &str, note: &str) -> Self {
        Self { heading: heading.to_owned(), note: note.to_owned(), ..Self::default() }
    }

    fn with_svg(self, svg: String) -> Self {
        Self { svg, ..self }
    }

    /// With a table. Columns of numbers are told by their cells, which are short and begin with a digit or a sign.
    fn with_table<C: AsRef<str>>(self, columns: &[C], rows: Vec<Vec<String>>) -> Self {
        let is_number = |cell: &String| {
            cell.is_empty() || cell.len() < 20 && cell.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
        };
        let column = |(index, name): (usize, &C)| Column {
            name: name.as_ref().replace('_', " "),
            is_text: !rows.iter().all(|row: &Vec<String>| row.get(index).is_none_or(is_number)),
        };
        let columns = columns.iter().enumerate().map(column).collect();
        Self { columns, is_long: rows.len() > LONG, rows, ..self }
    }
}

fn card(name: &str, value: impl Into<String>) -> Card {
    Card { name: name.to_owned(), value: value.into() }
}

/// A row of the ledger as a part of a bar.
fn part(activity: Activity, share: f64) -> BarPart {
    let is_labelled = share >= LABELLED_SHARE;
    BarPart {
        name: activity.key().replace('_', " "),
        color: activity_color(activity),
        // The two of the colours that are too dark for black.
        ink: match activity {
            Activity::ExposedCommunication | Activity::Waiting => "#ffffff",
            _ => "#000000",
        },
        percent: format!("{:.3}", share * 100.0),
        shown: percent(share),
        label: if is_labelled { format!("{:.0} %", share * 100.0) } else { String::new() },
    }
}

/// A ledger as a bar; `None` of one without time.
fn bar(name: &str, ledger: &Ledger) -> Option<Bar> {
    let total = ledger.total().as_gpu_seconds();
    let share = |activity| ledger.get(activity).as_gpu_seconds() / total;
    let parts = Activity::ALL.into_iter().filter(|activity| ledger.get(*activity).0 > 0);
    let parts = parts.map(|activity| part(activity, share(activity))).collect();
    (ledger.total().0 > 0).then(|| Bar { name: name.to_owned(), parts })
}

/// Ledgers as bars, with the names of those activities that have a part in one.
fn ledgers<'a>(heading: &str, note: &str, ledgers: impl Iterator<Item = (&'a str, &'a Ledger)> + Clone) -> Section {
    let is_there = |activity: &Activity| ledgers.clone().any(|(_, ledger)| ledger.get(*activity).0 > 0);
    Section {
        legend: Activity::ALL.into_iter().filter(is_there).map(|activity| part(activity, 0.0)).collect(),
        bars: ledgers.filter_map(|(name, ledger)| bar(name, ledger)).collect(),
        ..Section::new(heading, note)
    }
}

/// A plan's drawing and its iteration.
fn plan_sections(report: &IterationReport<'_>, whose: &str) -> [Section; 2] {
    let note = format!("{whose}: replicas from above, the stages of each from left to right.");
    let drawing = Section::new("The plan", &note).with_svg(plan_svg(report.plan, &report.footprints));
    let note = "What each stage computes and sends, in simulated time.";
    let chart = Section::new("One iteration", note).with_svg(gantt_svg_of(report, MOST_BARS));
    [drawing, chart]
}

/// The page. Everything but figures is escaped.
fn render(title: &str, asked: &str, cards: &[Card], sections: &[Section]) -> String {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let template = environment.template_from_str(TEMPLATE).expect("the page's template in the crate is well-formed");
    let (style, script, version) = (STYLE, SCRIPT, env!("CARGO_PKG_VERSION"));
    let all = context! { title, asked, cards, sections, style, script, version };
    template.render(all).expect("the page has all that its template names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_by_people_is_text() {
        let section = Section {
            svg: "<svg></svg>".into(),
            text: "x = \"<script>\"".into(),
            ..Section::new("h<1>", "").with_table(&["<b>"], vec![vec!["a & b".into()]])
        };
        let page = render("<script>alert(1)</script>", "", &[card("n", "1 < 2")], &[section]);
        assert_eq!(page.matches("<script").count(), 1, "ours: {page}");
        assert!(!page.contains("<b>\n") && page.contains("&lt;script&gt;"), "{page}");
        assert!(page.contains("<svg></svg>") && page.contains("a &amp; b") && page.contains("1 &lt; 2"));
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = render("t", "", &[], &[]);
        for outside in ["http:", "https:", "src=", "@import", "url(", "<link", "fetch(", "XMLHttp", "import("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("width=device-width") && page.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn columns_of_numbers_are_told_from_text() {
        let rows = vec![vec!["8".into(), "a".into(), "-".into()], vec!["1.5 s".into(), "2".into(), String::new()]];
        let table = Section::new("", "").with_table(&["n", "t", "absent"], rows);
        assert_eq!(table.columns.iter().map(|column| column.is_text).collect::<Vec<_>>(), [false, true, false]);
    }
}
