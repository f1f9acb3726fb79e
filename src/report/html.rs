//! `report.html`: results as one page that opens from a file, without network, on a phone, in the dark and on paper.

mod replay;
mod sweep;

pub use replay::{ReplayPage, replay_html};
pub use sweep::sweep_html;

use minijinja::{AutoEscape, Environment, context};
use serde::Serialize;

/// The page's skeleton, style included.
const TEMPLATE: &str = include_str!("html/report.html");

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
    percent: String,
    shown: String,
}

/// A stacked bar with its name.
#[derive(Clone, Debug, Serialize)]
struct Bar {
    name: String,
    parts: Vec<BarPart>,
}

/// A heading with whatever belongs under it.
#[derive(Clone, Debug, Default, Serialize)]
struct Section {
    heading: String,
    note: String,
    /// A figure of ours, which has no text that isn't.
    svg: String,
    bars: Vec<Bar>,
    legend: Vec<BarPart>,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Text that is shown when it is asked for.
    text: String,
}

impl Section {
    fn new(heading: &str, note: &str) -> Self {
        Self { heading: heading.to_owned(), note: note.to_owned(), ..Self::default() }
    }
}

fn card(name: &str, value: impl Into<String>) -> Card {
    Card { name: name.to_owned(), value: value.into() }
}

/// The page. Everything but figures is escaped.
fn render(title: &str, asked: &str, cards: &[Card], sections: &[Section]) -> String {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let template = environment.template_from_str(TEMPLATE).expect("the page's template in the crate is well-formed");
    template.render(context! { title, asked, cards, sections }).expect("the page has all that its template names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_by_people_is_text() {
        let section = Section {
            columns: vec!["<b>".into()],
            rows: vec![vec!["a & b".into()]],
            svg: "<svg></svg>".into(),
            text: "x = \"<script>\"".into(),
            ..Section::new("h<1>", "")
        };
        let page = render("<script>alert(1)</script>", "", &[card("n", "1 < 2")], &[section]);
        assert!(!page.contains("<script>") && page.contains("&lt;script&gt;"), "{page}");
        assert!(page.contains("<svg></svg>") && page.contains("a &amp; b") && page.contains("1 &lt; 2"));
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = render("t", "", &[], &[]);
        for outside in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("width=device-width") && page.contains("prefers-color-scheme: dark"));
    }
}
