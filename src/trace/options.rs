//! What a reader can be told where a file alone leaves it open.

use super::TraceFormat;
use super::calendar::Zero;
use super::several::Align;
use crate::suggest;
use crate::units::SimTime;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What is known of a file beyond its content; whatever is left out is told by the content or has the default named here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format; recognised by default.
    pub format: Option<TraceFormat>,
    /// The unit of bare numbers that stand for times; told by their span by default.
    pub time_unit: Option<TimeUnit>,
    /// Whether numbers count what is there or what is missing; the format's own meaning by default.
    pub polarity: Option<Polarity>,
    /// GPUs of nodes for which the file gives no number, and by how many GPUs a count of GPUs is divided (1 by default).
    pub gpus_per_node: Option<u32>,
    /// GPU type of nodes for which the file names none.
    pub gpu_type: Option<String>,
    /// Which nodes go when a count falls; the newest by default.
    pub which_node: Option<WhichNode>,
    /// Zone of nodes for which the file names none.
    pub zone: Option<String>,
    /// When the trace ends; at its last row by default.
    pub horizon: Option<SimTime>,
    /// What time its zero stands for; what the file says by default.
    pub start: Option<Zero>,
    /// How the clocks of several traces are set; by the calendar by default, where all have one.
    pub align: Option<Align>,
}

/// The unit of bare numbers that stand for times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("enum" = ["ms", "milliseconds", "s", "seconds", "h", "hours"])))]
#[serde(try_from = "String", into = "String")]
pub enum TimeUnit {
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Hours.
    Hours,
}

/// What the numbers of a series of counts stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("enum" = ["available", "preempted"])))]
#[serde(try_from = "String", into = "String")]
pub enum Polarity {
    /// Nodes that are there.
    Available,
    /// Nodes that are missing, of the most that ever are.
    Preempted,
}

/// Which nodes go when a count falls: counts say how many, not which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("pattern" = "^(newest|oldest|zone|random(:[0-9]+)?)$")))]
#[serde(try_from = "String", into = "String")]
pub enum WhichNode {
    /// Those that came last.
    #[default]
    Newest,
    /// Those that came first.
    Oldest,
    /// Any, drawn with this seed.
    Random {
        /// The seed.
        seed: u64,
    },
    /// Those of one zone before those of the next. Nodes of a count without zones are dealt in turn to three, and the zones
    /// take turns to be the first that loses.
    Zone,
}

/// A word that an option doesn't know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found `{found}`\nhint: {hint}")]
pub struct UnknownWord {
    expected: &'static str,
    found: String,
    hint: String,
}

impl UnknownWord {
    pub(super) fn new(expected: &'static str, found: &str, known: &[&str]) -> Self {
        Self { expected, found: super::error::shown(found), hint: suggest::hint(found, known.iter().copied()) }
    }
}

impl TimeUnit {
    /// Seconds in one of it.
    pub(super) fn seconds(self) -> f64 {
        match self {
            Self::Milliseconds => 1e-3,
            Self::Seconds => 1.0,
            Self::Hours => 3600.0,
        }
    }

    /// Its name in the plural.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Self::Milliseconds => "milliseconds",
            Self::Seconds => "seconds",
            Self::Hours => "hours",
        }
    }
}

/// Words that stand for the values of an option, read and written; those after the first of a value are read only.
macro_rules! words {
    ($name:ty, $expected:literal, $($value:ident: $word:literal $(or $other:literal)?),+) => {
        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                match word {
                    $($word $(| $other)? => Ok(Self::$value),)+
                    _ => Err(UnknownWord::new($expected, word, &[$($word),+])),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $word,)+
                })
            }
        }
    };
}

words!(TimeUnit, "a unit of time", Milliseconds: "ms" or "milliseconds", Seconds: "s" or "seconds", Hours: "h" or "hours");
words!(Polarity, "what numbers count", Available: "available", Preempted: "preempted");
words!(Align, "how clocks are set", Time: "time", Start: "start");

impl FromStr for WhichNode {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        match word {
            "newest" => Ok(Self::Newest),
            "oldest" => Ok(Self::Oldest),
            "random" => Ok(Self::Random { seed: 0 }),
            "zone" => Ok(Self::Zone),
            _ => {
                let seed = word.strip_prefix("random:").and_then(|seed| seed.parse().ok());
                let known = ["newest", "oldest", "random", "random:SEED", "zone"];
                let unknown = || UnknownWord::new("which node goes when a count falls", word, &known);
                Ok(Self::Random { seed: seed.ok_or_else(unknown)? })
            }
        }
    }
}

impl fmt::Display for WhichNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => f.write_str("newest"),
            Self::Oldest => f.write_str("oldest"),
            Self::Random { seed: 0 } => f.write_str("random"),
            Self::Random { seed } => write!(f, "random:{seed}"),
            Self::Zone => f.write_str("zone"),
        }
    }
}

/// Lets settings files hold the same words as the command line.
macro_rules! as_word {
    ($($name:ty),*) => {$(
        impl TryFrom<String> for $name {
            type Error = UnknownWord;

            fn try_from(word: String) -> Result<Self, UnknownWord> {
                word.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )*};
}

as_word!(TimeUnit, Polarity, WhichNode, Zero);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_written() {
        for unit in [TimeUnit::Milliseconds, TimeUnit::Seconds, TimeUnit::Hours] {
            assert_eq!((unit.to_string().parse(), unit.plural().parse()), (Ok(unit), Ok(unit)));
        }
        for polarity in [Polarity::Available, Polarity::Preempted] {
            assert_eq!(polarity.to_string().parse(), Ok(polarity));
        }
        let random = [WhichNode::Random { seed: 0 }, WhichNode::Random { seed: 7 }];
        for which in [WhichNode::Newest, WhichNode::Oldest, WhichNode::Zone].into_iter().chain(random) {
            assert_eq!(which.to_string().parse(), Ok(which));
        }
    }

    #[test]
    fn other_words_are_refused_with_what_is_near() {
        let message = "newset".parse::<WhichNode>().unwrap_err().to_string();
        assert!(message.contains("found `newset`\nhint: did you mean `newest`"), "{message}");
        for word in ["random:", "random:x", "random:-1"] {
            assert!(word.parse::<WhichNode>().is_err());
        }
        assert!("us".parse::<TimeUnit>().is_err() && "failed".parse::<Polarity>().is_err());
    }
}
