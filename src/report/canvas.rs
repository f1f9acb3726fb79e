//! Shapes and text on the SVG, in whole pixels.

use plotters::coord::Shift;
use plotters::prelude::{
    Color, DrawingArea, IntoDrawingArea, IntoFont, PathElement, Polygon, Rectangle, SVGBackend, Text, TextStyle,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, RGBAColor, RGBColor};

/// Text.
pub(super) const INK: RGBColor = RGBColor(34, 34, 34);
/// Text of less weight, and frames.
pub(super) const FAINT_INK: RGBColor = RGBColor(110, 110, 110);
/// Grid lines.
pub(super) const GRID: RGBColor = RGBColor(225, 225, 225);

/// Size of all text in CSS pixels. The SVG backend divides a font's size by 1.24.
const TEXT_PX: f64 = 13.0;
const BACKEND_TEXT_DIVISOR: f64 = 1.24;
/// A generous mean width of a character of that size, for legends that stand in a row.
const CHARACTER_PX: f64 = 7.5;

/// A pixel.
pub(super) type Point = (i32, i32);

/// Which end of a text its point is.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Left,
    Center,
    Right,
}

/// The figure in the making. Drawing into a string can't fail.
pub(super) struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

const NEVER: &str = "drawing into a string doesn't fail";

impl<'a> Canvas<'a> {
    /// A white figure.
    pub(super) fn new(svg: &'a mut String, (width, height): Point) -> Self {
        let area = SVGBackend::with_string(svg, (width as u32, height as u32)).into_drawing_area();
        area.fill(&plotters::style::WHITE).expect(NEVER);
        Self { area }
    }

    pub(super) fn rectangle(&self, from: Point, to: Point, color: impl Color) {
        self.area.draw(&Rectangle::new([from, to], color.filled())).expect(NEVER);
    }

    pub(super) fn polygon(&self, points: Vec<Point>, color: impl Color) {
        let color: RGBAColor = color.to_rgba();
        self.area.draw(&Polygon::new(points, color)).expect(NEVER);
    }

    pub(super) fn line(&self, points: Vec<Point>, color: impl Color, width: u32) {
        self.area.draw(&PathElement::new(points, color.stroke_width(width))).expect(NEVER);
    }

    /// Text whose height is centred on the point.
    pub(super) fn text(&self, at: Point, anchor: Anchor, color: RGBColor, text: &str) {
        self.styled_text(at, anchor, color, FontStyle::Normal, text);
    }

    pub(super) fn bold_text(&self, at: Point, anchor: Anchor, color: RGBColor, text: &str) {
        self.styled_text(at, anchor, color, FontStyle::Bold, text);
    }

    fn styled_text(&self, at: Point, anchor: Anchor, color: RGBColor, font: FontStyle, text: &str) {
        let horizontal = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Center => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        let font = ("sans-serif", TEXT_PX * BACKEND_TEXT_DIVISOR).into_font().style(font);
        let style = TextStyle::from(font).color(&color).pos(Pos::new(horizontal, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), at, style)).expect(NEVER);
    }

    /// A square of colour and its name; gives back how wide they are together.
    pub(super) fn legend_entry(&self, (x, y): Point, color: RGBColor, name: &str) -> i32 {
        self.rectangle((x, y - 5), (x + 10, y + 5), color);
        self.text((x + 15, y), Anchor::Left, INK, name);
        legend_width(name)
    }

    /// The same with a bold name. Names in their colour would be hard to read.
    pub(super) fn bold_legend_entry(&self, (x, y): Point, color: RGBColor, name: &str) {
        self.rectangle((x, y - 5), (x + 10, y + 5), color);
        self.bold_text((x + 15, y), Anchor::Left, INK, name);
    }

    pub(super) fn finish(&self) {
        self.area.present().expect(NEVER);
    }
}

/// Width to leave for a legend's entry.
pub(super) fn legend_width(name: &str) -> i32 {
    15 + (name.chars().count() as f64 * CHARACTER_PX) as i32 + 14
}
