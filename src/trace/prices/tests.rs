use super::*;
use crate::cluster::{Cluster, Node, NodeDefaults};
use crate::units::SimTime;
use rstest::rstest;

fn price(instance: &str, zone: &str, minute: u32, usd: &str) -> String {
    format!(
        "{{\"AvailabilityZone\":\"{zone}\",\"InstanceType\":\"{instance}\",\"ProductDescription\":\"Linux/UNIX\",\
         \"SpotPrice\":\"{usd}\",\"Timestamp\":\"2026-01-01T00:{minute:02}:00+00:00\"}}"
    )
}

fn history(rows: &[String]) -> String {
    format!("{{\"SpotPriceHistory\":[{}]}}", rows.join(","))
}

fn node(mix: &str, zone: &str) -> Node {
    let defaults = NodeDefaults { zone: zone.to_owned(), ..NodeDefaults::default() };
    Cluster::parse_mix(mix, &defaults).unwrap().nodes.remove(0)
}

fn zero(text: &str) -> Zero {
    text.parse().unwrap()
}

#[test]
fn rows_newest_first_become_prices_over_time() {
    let rows = [
        price("p3.2xlarge", "a", 30, "0.918000"),
        price("p3.2xlarge", "a", 10, ""),
        price("p3.2xlarge", "b", 5, "0.5"),
        price("p3.2xlarge", "a", 0, "1.2"),
        price("m5.large", "a", 0, "0.1"),
    ];
    let history = PriceHistory::parse(&history(&rows), "t", &[]).unwrap();
    assert!(history.notes[0].contains("p3.2xlarge in a, b"), "{:?}", history.notes);
    assert!(history.notes[1].starts_with("1 rows are of `m5.large`, whose GPUs aren't known"), "{:?}", history.notes);
    let quotes = history.on_clock(Some(zero("2026-01-01T00:05:00Z")), SimTime::SECOND * 3600).unwrap();
    let quote = quotes.of(&node("1x1xV100-16", "a")).unwrap();
    let changes = [(0, Some(1_200_000)), (300, None), (1500, Some(918_000))];
    assert_eq!(quote.changes, changes.map(|(s, price)| (SimTime::SECOND * s, price)));
    assert!(
        quotes.notes[1].contains("25 min 00 s after zero: the last prices are taken to hold for the 35 min 00 s"),
        "{:?}",
        quotes.notes
    );
    assert_eq!(quotes.of(&node("1x1xV100-16", "c")), Err(NoQuote::Zone));
    assert_eq!(quotes.of(&node("1x1xT4", "a")), Err(NoQuote::GpuType));
}

#[test]
fn a_node_has_the_price_of_as_many_gpus_or_by_the_gpu() {
    let rows = [
        price("p3.16xlarge", "a", 0, "8"),
        price("g4dn.xlarge", "a", 0, "0.2"),
        price("g4dn.2xlarge", "a", 0, "0.3"),
        price("g4dn.12xlarge", "a", 0, "1.6"),
    ];
    let text = history(&rows);
    let quotes = |instances: &[&str]| {
        let instances: Vec<String> = instances.iter().map(|&name| name.to_owned()).collect();
        let history = PriceHistory::parse(&text, "t", &instances).unwrap();
        history.on_clock(Some(zero("2026-01-01T00:00:00Z")), SimTime::SECOND).unwrap()
    };
    let quote = |mix: &str, instances: &[&str]| {
        quotes(instances)
            .of(&node(mix, "a"))
            .map(|quote| (quote.instance, quote.scaled(quote.changes[0].1.unwrap(), node(mix, "a").gpu_count)))
    };
    assert_eq!(quote("1x2xV100-16", &[]), Ok(("p3.16xlarge", 2_000_000)));
    assert_eq!(quote("1x4xT4", &[]), Ok(("g4dn.12xlarge", 1_600_000)));
    assert_eq!(quote("1x1xT4", &[]), Err(NoQuote::Several));
    assert_eq!(quote("1x1xT4", &["g4dn.2xlarge"]), Ok(("g4dn.2xlarge", 300_000)));
}

#[rstest]
#[case("2025-12-31T00:00:00Z", "before the first price")]
#[case("2026-01-01T00:00:01Z", "after the last price")]
#[case("2026-01-01T00:00:00", "in no zone")]
fn times_that_are_not_covered_are_refused(#[case] start: &str, #[case] part: &str) {
    let history = PriceHistory::parse(&history(&[price("p3.2xlarge", "a", 0, "1")]), "t", &[]).unwrap();
    let message = history.on_clock(Some(zero(start)), SimTime::SECOND * 60).unwrap_err().to_string();
    assert!(message.contains(part) && message.contains("\nhint: ") && message.contains("--trace-start"), "{message}");
    assert!(history.on_clock(None, SimTime::SECOND).is_err());
}

#[rstest]
#[case(&[price("p3.2xlarge", "a", 0, "cheap")], "key `SpotPriceHistory[0].SpotPrice`: expected US dollars an hour")]
#[case(&[price("p3.2xlarge", "a", 0, "-1")], "found `\"-1\"`")]
#[case(&[price("p3.2xlarge", "a", 0, "NaN")], "found `\"NaN\"`")]
#[case(&[price("p3.2xlarge", "", 0, "1")], "AvailabilityZone`: expected the availability zone")]
#[case(&[price("p3.2xlarge", "a", 0, "1"), price("p3.2xlarge", "a", 0, "2")], "two prices of `p3.2xlarge` in `a` at 2026-01-01T00:00:00Z")]
#[case(&[price("m5.large", "a", 0, "1")], "1 rows, none of an instance type whose GPUs are known")]
#[case(&[], "0 rows")]
fn errors_say_where_and_what(#[case] rows: &[String], #[case] part: &str) {
    let message = PriceHistory::parse(&history(rows), "t.json", &[]).unwrap_err().to_string();
    assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
}
