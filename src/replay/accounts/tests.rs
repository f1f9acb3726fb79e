use super::*;
use crate::trace::prices::PriceHistory;
use crate::trace::{OfferDefaults, Zero, parse};

const TRACE: &str = "time_s,event,node,gpu_type,gpu_count,zone,price_usd_per_hour\n\
                     0,up,a,V100-16,1,z,9\n600,up,b,V100-16,1,y,1\n1800,down,b,,,,\n3600,down,a,,,,\n5400,end,,,,,\n";

fn quotes(rows: &[(&str, u32, &str)]) -> Quotes {
    let row = |(zone, minute, usd): &(&str, u32, &str)| {
        format!(
            "{{\"AvailabilityZone\":\"{zone}\",\"InstanceType\":\"p3.2xlarge\",\"SpotPrice\":\"{usd}\",\
             \"Timestamp\":\"2026-01-01T00:{minute:02}:00Z\"}}"
        )
    };
    let text = format!("[{}]", rows.iter().map(row).collect::<Vec<_>>().join(","));
    let zero: Zero = "2026-01-01T00:00:00Z".parse().unwrap();
    PriceHistory::parse(&text, "t", &[]).unwrap().on_clock(Some(zero), SimTime::SECOND * 5400).unwrap()
}

fn events() -> Vec<NodeEvent> {
    parse(TRACE, "t").unwrap().cluster_events(&OfferDefaults::default()).unwrap()
}

#[test]
fn nodes_are_paid_by_the_prices_that_held() {
    let quotes = quotes(&[("z", 0, "2"), ("z", 30, "4.5"), ("z", 45, "")]);
    let (events, span) = (events(), SimTime::SECOND * 5400);
    let bill = Bill::of(&events, span, Some(&quotes));
    let rows = bill.rows();
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            let seconds = (row.from.as_seconds() as u64, row.to.as_seconds() as u64, row.time.as_gpu_seconds() as u64);
            (row.zone.as_str(), row.source.as_str(), seconds, row.expense.as_usd())
        })
        .collect();
    // `a` is up for an hour: half of it at 2, a quarter at 4.5, a quarter at the trace's 9; `b` has its 20 min at the trace's 1.
    assert_eq!(
        told,
        [
            ("y", "trace", (0, 5400, 1200), 1.0 / 3.0),
            ("z", "p3.2xlarge", (0, 1800, 1800), 1.0),
            ("z", "p3.2xlarge", (1800, 2700, 900), 1.125),
            ("z", "trace", (0, 5400, 900), 2.25),
        ]
    );
    assert_eq!(rows.iter().map(|row| row.on_demand).sum::<Expense>(), Expense::of(3_060_000, SimTime::SECOND * 4800));
    let notes = bill.notes(&quotes).unwrap();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].starts_with("20 min 00 s of nodes of 1 × V100-16 in the zone `y` aren't in the history for this zone"),
        "{notes:?}"
    );
    assert!(
        notes[1].starts_with("15 min 00 s of nodes of 1 × V100-16 in the zone `z` while it wasn't offered"),
        "{notes:?}"
    );
}

#[test]
fn time_before_the_first_price_is_the_traces() {
    let quotes = quotes(&[("z", 20, "3")]);
    let events = events();
    let bill = Bill::of(&events, SimTime::SECOND * 5400, Some(&quotes));
    let of_z = bill.rows().into_iter().filter(|row| row.zone == "z").map(|row| row.expense).sum::<Expense>();
    // 20 min at 9, 40 min at 3.
    approx::assert_relative_eq!(of_z.as_usd(), 5.0, max_relative = 1e-14);
    assert!(bill.notes(&quotes).unwrap().iter().any(|note| note.contains("before its first price")));
}

#[test]
fn a_history_of_other_nodes_is_an_error() {
    let quotes = quotes(&[("x", 0, "3")]);
    let events = events();
    let message = Bill::of(&events, SimTime::SECOND, Some(&quotes)).notes(&quotes).unwrap_err().to_string();
    assert!(message.contains("for 1 × V100-16 in the zone `z`; it has p3.2xlarge in x\nhint: "), "{message}");
}

#[test]
fn checkpoints_are_kept_until_newer_ones_are_whole() {
    let stored = [1000, 2000, 4000].map(|s| SimTime::SECOND * s);
    let span = SimTime::SECOND * 10_000;
    // One kept: 1000 + 2000 + 6000 s; two kept: 3000 + 8000 + 6000 s.
    for (checkpoints_kept, seconds) in [(1, 9000.0), (2, 17_000.0), (9, 9000.0 + 8000.0 + 6000.0)] {
        let tariff = Tariff { storage_usd_per_gb_month: 0.5, checkpoints_kept, ..Tariff::default() };
        let kept = storage(&stored, &tariff, 3_000_000_000, span);
        approx::assert_relative_eq!(kept.quantity, 3.0 * seconds / 3600.0 / 730.0, max_relative = 1e-12);
        approx::assert_relative_eq!(kept.usd, kept.quantity * 0.5);
    }
    assert_eq!(storage(&stored, &Tariff::default(), 1, span), Metered::default());
}
