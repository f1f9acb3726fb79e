//! Spot availability as `SkyPilot` publishes it (Can't Be Late, NSDI 2024): `{"metadata":{"gap_seconds":600},"data":[1,0,…]}`.
//!
//! `data` counts the instances that were available, one number a tick; `prices`, where there, has the price of one
//! instance for each tick. Other files of the same markets count failures instead: see [`super::ping`].

use super::cells::LATEST;
use super::error::TraceError;
use super::json::Document;
use super::levels::{Levels, MOST, Pool, Sample};
use super::options::{Polarity, ReadOptions};
use super::{NodeOffer, Trace, TraceFormat};
use crate::units::SimTime;

/// The most US dollars an hour that a node may cost.
const MOST_USD_PER_HOUR: f64 = 1e9;

/// Whether the file is of this format.
pub(super) fn fits(document: &Document) -> bool {
    document.has(&["metadata", "data"])
}

/// Reads the whole file.
pub(super) fn parse(document: &Document, name: &str, options: &ReadOptions) -> Result<Trace, TraceError> {
    let mut elements = document.elements(name);
    let root = elements.next().ok_or_else(|| TraceError::Empty { file: name.to_owned() })?;
    if let Some(more) = elements.next() {
        return Err(more.wrong("one object in the file", "split the file"));
    }
    let gap = root.get("metadata.gap_seconds");
    let gap_s = gap.number("the seconds between two numbers of `data`")?;
    let data = root.get("data").list("a list of counts")?;
    if data.is_empty() {
        return Err(TraceError::Empty { file: name.to_owned() });
    }
    if !(1e-3..=LATEST.as_seconds() / data.len() as f64).contains(&gap_s) {
        let expected = "the seconds between two numbers of `data`, from 0.001, all of them together at most 100 years";
        return Err(gap.wrong(expected, "check `gap_seconds`"));
    }
    let prices = root.get("prices");
    let prices = if prices.is_absent() { Vec::new() } else { prices.list("a list of prices")? };
    if !prices.is_empty() && prices.len() != data.len() {
        let expected = format!("as many prices as numbers of `data`, {}", data.len());
        return Err(root.get("prices").wrong(expected, "give one price a tick, or leave `prices` out"));
    }
    let mut samples = Vec::with_capacity(data.len());
    for (tick, element) in data.iter().enumerate() {
        let price = prices.get(tick).filter(|price| !price.is_absent());
        let price_usd_per_hour = price.map(|price| match price.number("a price in US dollars an hour")? {
            usd if (0.0..=MOST_USD_PER_HOUR).contains(&usd) => Ok(usd),
            _ => Err(price.wrong("a price of 0 US dollars an hour or more", "use `null` where there is none")),
        });
        let time = SimTime::from_seconds(gap_s * tick as f64);
        let count = element.whole(MOST, "a number of instances")?;
        samples.push(Sample { time, count, price_usd_per_hour: price_usd_per_hour.transpose()? });
    }
    let mut notes = Vec::new();
    if !prices.is_empty() {
        notes.push("a node keeps the price of the tick in which it came".to_owned());
    }
    let levels = Levels {
        file: name,
        format: TraceFormat::SkyPilot,
        unit: format!("ticks of {gap_s} s"),
        polarity: Polarity::Available,
        is_exact: false,
        counts_gpus: false,
        pools: vec![Pool { offer: NodeOffer::default(), samples }],
        zero: None,
        notes,
    };
    levels.into_trace(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{TraceEventKind, parse, parse_with};
    use rstest::rstest;

    #[test]
    fn ticks_become_levels_with_prices() {
        let text =
            "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [0, 1, 1, 0, 2], \"prices\": [1, 0.5, 2, 2, null]}";
        let trace = parse(text, "t").unwrap();
        let times: Vec<f64> = trace.events.iter().map(|event| event.time.as_seconds()).collect();
        assert_eq!(
            (times.as_slice(), trace.format),
            ([600.0, 1800.0, 2400.0, 2400.0].as_slice(), TraceFormat::SkyPilot)
        );
        let price = |index: usize| match &trace.events[index].kind {
            TraceEventKind::Up(offer) => offer.price_usd_per_hour,
            _ => None,
        };
        assert_eq!((price(0), price(2)), (Some(0.5), None));
    }

    #[test]
    fn the_other_polarity_is_an_option() {
        let text = "{\"metadata\": {\"gap_seconds\": 600}, \"data\": [0, 1, 0]}";
        let options = ReadOptions { polarity: Some(Polarity::Preempted), ..ReadOptions::default() };
        let trace = parse_with(text, "t", &options).unwrap();
        assert_eq!((trace.events.len(), trace.events[0].time), (3, SimTime::ZERO));
        assert!(trace.notes[1].contains("preempted"), "{:?}", trace.notes);
    }

    #[rstest]
    #[case("{\"metadata\": {}, \"data\": [1]}", "key `metadata.gap_seconds`: expected the seconds between")]
    #[case(
        "{\"metadata\": {\"gap_seconds\": 0}, \"data\": [1]}",
        "key `metadata.gap_seconds`: expected the seconds between"
    )]
    #[case("{\"metadata\": {\"gap_seconds\": 1e9}, \"data\": [1, 1, 1, 1]}", "100 years, found `1000000000.0`")]
    #[case("{\"metadata\": {\"gap_seconds\": 5}, \"data\": [1, -1]}", "key `data[1]`: expected a number of instances")]
    #[case("{\"metadata\": {\"gap_seconds\": 5}, \"data\": 1}", "key `data`: expected a list of counts, found `1`")]
    #[case("{\"metadata\": {\"gap_seconds\": 5}, \"data\": []}", "found none")]
    #[case("{\"metadata\": {\"gap_seconds\": 5}, \"data\": [0, 0]}", "expected at least one node that is up")]
    #[case("{\"metadata\": {\"gap_seconds\": 5}, \"data\": [1], \"prices\": []}{}", "line 1: expected one object")]
    #[case(
        "{\"metadata\": {\"gap_seconds\": 5}, \"data\": [1], \"prices\": [1, 2]}",
        "key `prices`: expected as many prices"
    )]
    #[case(
        "{\"metadata\": {\"gap_seconds\": 5}, \"data\": [1], \"prices\": [-1]}",
        "key `prices[0]`: expected a price of 0"
    )]
    fn errors_say_where_and_what(#[case] text: &str, #[case] part: &str) {
        let message = parse(text, "t.json").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
