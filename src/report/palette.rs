//! Colours that readers of any colour vision tell apart (Okabe and Ito 2008), and two for where those are used up.

use plotters::style::RGBColor;

pub(super) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(super) const VERMILION: RGBColor = RGBColor(213, 94, 0);
pub(super) const GREEN: RGBColor = RGBColor(0, 158, 115);
pub(super) const PURPLE: RGBColor = RGBColor(204, 121, 167);
pub(super) const ORANGE: RGBColor = RGBColor(230, 159, 0);
pub(super) const SKY: RGBColor = RGBColor(86, 180, 233);
pub(super) const BROWN: RGBColor = RGBColor(160, 110, 0);
pub(super) const DARK: RGBColor = RGBColor(60, 60, 60);

/// One for each of several things, as many as there are policies.
pub(super) const SERIES: [RGBColor; 8] = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, DARK, BROWN];
