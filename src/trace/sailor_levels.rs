//! Levels of GPUs as Sailor (SOSP 2025) replays them: `[{"Time": 630.0, "GPUs": 10}, …]`, seconds and GPUs.

use super::cells::LATEST;
use super::error::TraceError;
use super::json::Document;
use super::levels::{Levels, MOST, Pool, Sample};
use super::options::{Polarity, ReadOptions, TimeUnit};
use super::{NodeOffer, Trace, TraceFormat};
use crate::units::SimTime;

/// Whether the file is of this format.
pub(super) fn fits(document: &Document) -> bool {
    document.has(&["Time", "GPUs"])
}

/// Reads the whole file.
pub(super) fn parse(document: &Document, name: &str, options: &ReadOptions) -> Result<Trace, TraceError> {
    let unit = options.time_unit.unwrap_or(TimeUnit::Seconds);
    let mut samples: Vec<Sample> = Vec::new();
    for element in document.elements(name) {
        let at = element.get("Time");
        let time_s = at.number("a time")? * unit.seconds();
        let earliest = samples.last().map_or(SimTime::ZERO, |sample| sample.time);
        if !(0.0..=LATEST.as_seconds()).contains(&time_s) || SimTime::from_seconds(time_s) < earliest {
            let expected = format!("a time from that of the element before, {} s, to 100 years", earliest.as_seconds());
            return Err(at.wrong(expected, "put the elements in order of time"));
        }
        let count = element.get("GPUs").whole(MOST, "a number of GPUs")?;
        samples.push(Sample { time: SimTime::from_seconds(time_s), count, price_usd_per_hour: None });
    }
    let levels = Levels {
        file: name,
        format: TraceFormat::SailorLevels,
        unit: unit.plural().to_owned(),
        polarity: Polarity::Available,
        is_exact: false,
        counts_gpus: true,
        pools: vec![Pool { offer: NodeOffer::default(), samples }],
        zero: None,
        notes: Vec::new(),
    };
    levels.into_trace(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{parse, parse_with};
    use rstest::rstest;

    const TEXT: &str = "[\n {\"Time\": 0, \"GPUs\": 9},\n\n {\"Time\": 630.5, \"GPUs\": 4} ]";

    #[test]
    fn gpus_are_nodes_of_one_unless_said_otherwise() {
        let trace = parse(TEXT, "t").unwrap();
        assert_eq!((trace.format, trace.events.len()), (TraceFormat::SailorLevels, 14));
        assert_eq!(trace.span, SimTime::from_seconds(630.5));
        assert!(trace.notes.iter().any(|note| note.contains("nodes of 1 GPU each")), "{:?}", trace.notes);
        let options = ReadOptions { gpus_per_node: Some(4), ..ReadOptions::default() };
        assert_eq!(parse_with(TEXT, "t", &options).unwrap().events.len(), 3);
    }

    #[rstest]
    #[case(
        "[{\"Time\": 0, \"GPUs\": 9}, {\"Time\": \"x\", \"GPUs\": 9}]",
        "element 2, key `Time`: expected a time, found"
    )]
    #[case("[{\"Time\": 5, \"GPUs\": 9}, {\"Time\": 4, \"GPUs\": 9}]", "element 2, key `Time`: expected a time from")]
    #[case(
        "[{\"Time\": 5, \"GPUs\": 9}, {\"Time\": 6}]",
        "element 2, key `GPUs`: expected a number of GPUs, a whole number"
    )]
    #[case("[{\"Time\": 5, \"GPUs\": 2.5}]", "element 1, key `GPUs`: expected a number of GPUs")]
    #[case("[{\"Time\": 5, \"GPUs\": 9}, 4]", "element 2, key `Time`: expected a time, found nothing")]
    fn errors_say_where_and_what(#[case] text: &str, #[case] part: &str) {
        let message = parse(text, "t.json").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
