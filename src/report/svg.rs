//! An SVG in the making: rectangles, lines, text, and spots that say a value when they are pointed at.

use std::fmt::Write as _;

/// Which part of a text stands at its point.
#[derive(Clone, Copy)]
pub(in crate::report) enum Anchor {
    Start,
    Middle,
    End,
}

/// The text of the figure. Writing into a string can't fail.
pub(in crate::report) struct Svg {
    text: String,
}

const NEVER: &str = "writing to a string doesn't fail";
/// Tenths of a pixel: enough for any screen, and short.
type Point = (f64, f64);

impl Svg {
    /// A white figure.
    pub(in crate::report) fn new(width: f64, height: f64) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\">\n<style>text {{ pointer-events: none; }}</style>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
        );
        Self { text }
    }

    pub(in crate::report) fn rectangle(&mut self, (x, y): Point, (width, height): Point, fill: &str) {
        writeln!(
            self.text,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{:.1}" height="{height:.1}" fill="{fill}"/>"#,
            width.max(0.1)
        )
        .expect(NEVER);
    }

    /// A rectangle with a thin white edge, so that neighbours of one colour can be told apart; pointed at, it says something
    /// where there is something to say.
    pub(in crate::report) fn outlined(&mut self, (x, y): Point, (width, height): Point, fill: &str, says: &str) {
        let edge = if width >= 3.0 { r##" stroke="#fff" stroke-width="0.8""## } else { "" };
        let (width, end) = (width.max(0.1), end(says));
        writeln!(
            self.text,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}"{edge}{end}"#
        )
        .expect(NEVER);
    }

    /// The place of a row: white, with an edge.
    pub(in crate::report) fn frame(&mut self, (x, y): Point, (width, height): Point, says: &str) {
        let end = end(says);
        writeln!(
            self.text,
            r##"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="#fff" stroke="#bbb" stroke-width="0.6"{end}"##
        )
        .expect(NEVER);
    }

    pub(in crate::report) fn line(&mut self, from: Point, to: Point, colour: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        writeln!(self.text, r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}"/>"#)
            .expect(NEVER);
    }

    pub(in crate::report) fn text(&mut self, at: Point, anchor: Anchor, colour: &str, size: u32, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        self.styled(at, anchor, colour, size, text);
    }

    pub(in crate::report) fn bold(&mut self, at: Point, colour: &str, size: u32, text: &str) {
        self.styled(at, r#" font-weight="bold""#, colour, size, text);
    }

    fn styled(&mut self, (x, y): Point, style: &str, colour: &str, size: u32, text: &str) {
        let text = escaped(text);
        writeln!(self.text, r#"<text x="{x:.1}" y="{y:.1}" font-size="{size}" fill="{colour}"{style}>{text}</text>"#)
            .expect(NEVER);
    }

    /// What a rectangle stands for; see [`Spots`].
    pub(in crate::report) fn spots(&mut self, spots: &Spots) {
        spots.write(&mut self.text);
    }

    pub(in crate::report) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Rectangles that aren't seen, over what is: pointed at, each says what it stands for, as browsers show the title of a shape.
#[derive(Default)]
pub(in crate::report) struct Spots(Vec<Spot>);

/// A corner, a size, and what is said.
type Spot = (Point, Point, String);

impl Spots {
    pub(in crate::report) fn add(&mut self, corner: Point, size: Point, says: String) {
        self.0.push((corner, size, says));
    }

    /// Adds them to a finished figure, above everything else.
    pub(in crate::report) fn over(&self, mut svg: String) -> String {
        let end = svg.rfind("</svg>").unwrap_or(svg.len());
        let rest = svg.split_off(end);
        self.write(&mut svg);
        svg + &rest
    }

    fn write(&self, text: &mut String) {
        if self.0.is_empty() {
            return;
        }
        text.push_str("<g fill=\"transparent\">\n");
        let tenths = |value: &f64| (value * 10.0).round() / 10.0;
        for ((x, y), (width, height), says) in &self.0 {
            let [x, y, width, height] = [x, y, width, height].map(tenths);
            let says = escaped_lines(says);
            writeln!(text, r#"<rect x="{x}" y="{y}" width="{width}" height="{height}"><title>{says}</title></rect>"#)
                .expect(NEVER);
        }
        text.push_str("</g>\n");
    }
}

/// How a shape ends that says something, or nothing.
fn end(says: &str) -> String {
    if says.is_empty() { "/>".to_owned() } else { format!("><title>{}</title></rect>", escaped_lines(says)) }
}

fn escaped_lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

/// Names come from files: what XML would take for its own is written otherwise, and what it forbids is left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            control if control.is_control() => {}
            other => escaped.push(other),
        }
    }
    escaped
}
