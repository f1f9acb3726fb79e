//! Arguments of whatever simulates an iteration: how much it varies.

use crate::runtime::sim::{Jitter, Stragglers};
use clap::Args;

/// What makes iterations vary; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Args)]
pub(in crate::cli) struct VariationArgs {
    /// Let each pass and transfer vary by this share of its time, and say how much iterations vary
    #[arg(long, value_name = "SHARE", value_parser = parse_share, allow_negative_numbers = true, hide_short_help = true, help_heading = "Variation")]
    pub(in crate::cli) jitter: Option<f64>,
    /// Let each GPU be slow with a chance, for good: 0.01:0.3 is one in a hundred, which takes 30 % longer
    #[arg(long, value_name = "CHANCE:SLOWDOWN", value_parser = parse_stragglers, allow_negative_numbers = true, hide_short_help = true, help_heading = "Variation")]
    pub(in crate::cli) stragglers: Option<Stragglers>,
    /// Seed of what varies [default: 0]
    #[arg(
        long,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        hide_short_help = true,
        help_heading = "Variation"
    )]
    pub(in crate::cli) jitter_seed: Option<u64>,
    /// Iterations that vary [default: 100]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000), allow_negative_numbers = true, hide_short_help = true, help_heading = "Variation")]
    pub(in crate::cli) repetitions: Option<u32>,
}

impl VariationArgs {
    /// What varies and how often it is repeated; `None` where nothing does.
    pub(in crate::cli) fn jitter(&self) -> Option<(Jitter, u32)> {
        let jitter = Jitter {
            sigma: self.jitter.unwrap_or_default(),
            stragglers: self.stragglers.unwrap_or_default(),
            seed: self.jitter_seed.unwrap_or_default(),
        };
        (!jitter.is_none()).then_some((jitter, self.repetitions.unwrap_or(100)))
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=10.0).contains(share));
    share.ok_or_else(|| "not a share\nhint: 0.05 is five percent; up to 10".into())
}

fn parse_stragglers(text: &str) -> Result<Stragglers, String> {
    let refused =
        || "not a chance and a slowdown\nhint: write `0.01:0.3`: one GPU in a hundred takes 30 % longer".to_owned();
    let (share, slowdown) = text.split_once(':').ok_or_else(refused)?;
    let number = |text: &str, most: f64| text.parse().ok().filter(|number| (0.0..=most).contains(number));
    let (share, slowdown) = (number(share, 1.0).ok_or_else(refused)?, number(slowdown, 100.0).ok_or_else(refused)?);
    Ok(Stragglers { share, slowdown })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stragglers_are_a_chance_and_a_slowdown() {
        assert_eq!(parse_stragglers("0.01:0.3"), Ok(Stragglers { share: 0.01, slowdown: 0.3 }));
        for bad in ["", "0.3", "2:0.3", "0.1:-1", "nan:0.1", "0.1:inf"] {
            assert!(parse_stragglers(bad).unwrap_err().contains("\nhint: "), "{bad}");
        }
        assert!(parse_share("NaN").is_err() && parse_share("-0.1").is_err());
    }

    #[test]
    fn nothing_varies_by_default() {
        assert_eq!(VariationArgs::default().jitter(), None);
        let args = VariationArgs { jitter: Some(0.1), ..VariationArgs::default() };
        assert_eq!(args.jitter(), Some((Jitter { sigma: 0.1, ..Jitter::default() }, 100)));
    }
}
