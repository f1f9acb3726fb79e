//! Writes traces in the canonical format.

use super::canonical::header::COLUMNS;
use super::{NodeOffer, Trace, TraceEventKind};
use crate::units::SimTime;
use std::io;

/// Writes `trace` as canonical CSV, one row an event, with every column; a row `end` where it lasts beyond its last event.
///
/// Reading it back gives the same events and the same span: times are exact decimal seconds.
///
/// # Errors
///
/// Whatever `out` says.
pub fn write_canonical(trace: &Trace, out: impl io::Write) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().comment(Some(b'#')).from_writer(out);
    writer.write_record(COLUMNS.iter().map(|(name, _)| *name).filter(|name| *name != "time"))?;
    let none = NodeOffer::default();
    for event in &trace.events {
        let (word, offer, notice) = match &event.kind {
            TraceEventKind::Up(offer) => ("up", offer, None),
            TraceEventKind::Notice { notice } => ("notice", &none, Some(*notice)),
            TraceEventKind::Cancelled => ("cancelled", &none, None),
            TraceEventKind::Down => ("down", &none, None),
        };
        writer.write_record([
            &decimal_seconds(event.time),
            word,
            &event.node,
            offer.gpu_type.as_deref().unwrap_or_default(),
            &offer.gpu_count.map_or(String::new(), |count| count.to_string()),
            offer.zone.as_deref().unwrap_or_default(),
            &offer.price_usd_per_hour.map_or(String::new(), |price| price.to_string()),
            &notice.map_or(String::new(), decimal_seconds),
        ])?;
    }
    if trace.events.last().is_none_or(|last| last.time < trace.span) {
        writer.write_record([&decimal_seconds(trace.span), "end", "", "", "", "", "", ""])?;
    }
    writer.flush()
}

/// Seconds with as many digits after the point as the time has.
fn decimal_seconds(time: SimTime) -> String {
    let (seconds, nanoseconds) = (time.0 / SimTime::SECOND.0, time.0 % SimTime::SECOND.0);
    if nanoseconds == 0 {
        return seconds.to_string();
    }
    format!("{seconds}.{nanoseconds:09}").trim_end_matches('0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;

    #[test]
    fn what_is_written_is_read_back() {
        let text = "time_s,event,node,gpu_type,gpu_count,zone,price_usd_per_hour,notice_s\n\
                    0,up,a,T4,8,z,2.9,\n\
                    0.25,up,\"b,\"\"c\"\"\",,,,,\n\
                    60,notice,a,,,,,120\n\
                    90,cancelled,a,,,,,\n\
                    100,notice,a,,,,,120\n\
                    180.000000001,down,a,,,,,\n";
        let trace = parse(text, "t").unwrap();
        let mut written = Vec::new();
        write_canonical(&trace, &mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), text);
    }

    #[test]
    fn what_lasts_beyond_its_events_has_an_end() {
        let text = "time_s,event,node,gpu_type,gpu_count,zone,price_usd_per_hour,notice_s\n0,up,a,,,,,\n60,end,,,,,,\n";
        let mut written = Vec::new();
        write_canonical(&parse(text, "t").unwrap(), &mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), text);
    }

    #[test]
    fn seconds_are_exact() {
        assert_eq!(decimal_seconds(SimTime(1_000_000_000)), "1");
        assert_eq!(decimal_seconds(SimTime(1_500_000_000)), "1.5");
        assert_eq!(decimal_seconds(SimTime(86_400_000_000_001)), "86400.000000001");
        assert_eq!(decimal_seconds(SimTime(7)), "0.000000007");
    }
}
