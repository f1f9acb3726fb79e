//! Heterogeneous counts of GPUs in Sailor's CSV (SOSP 2025): `,Timestamp,A100-40_us-central1-a,V100-16_us-central1-a`,
//! then rows like `0,1712574014.0187,32,96`: an index, seconds since 1970, GPUs of each `type_zone`.

use super::calendar::Zero;
use super::cells::{LATEST, Place};
use super::error::{TraceError, shown};
use super::levels::{Levels, MOST, Pool, Sample};
use super::options::{Polarity, ReadOptions};
use super::rows::{Row, rows};
use super::{NodeOffer, Trace, TraceFormat};
use crate::units::SimTime;

/// Cells before the first column of counts: an index and the time.
const BEFORE_COUNTS: usize = 2;
/// Latest time since 1970: the year 9999.
const LATEST_S: f64 = 253_402_300_800.0;

/// Whether a file with this first line is of this format.
pub(super) fn starts_with(line: &str) -> bool {
    let cells: Vec<&str> = line.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
    cells.len() > BEFORE_COUNTS && cells[1].eq_ignore_ascii_case("timestamp") && cells[2].contains('_')
}

/// Reads the whole text.
pub(super) fn parse(text: &str, name: &str, options: &ReadOptions) -> Result<Trace, TraceError> {
    let rows = rows(text, name)?;
    let empty = || TraceError::Empty { file: name.to_owned() };
    let (header, rows) = rows.split_first().ok_or_else(empty)?;
    if rows.is_empty() {
        return Err(empty());
    }
    let mut pools = pools(header, name)?;
    let columns: Vec<&str> = header.cells.iter().collect();
    let mut zero_s = None;
    let mut previous: Option<(SimTime, &Row)> = None;
    for row in rows {
        if row.cells.len() > columns.len() {
            let (file, line) = (name.to_owned(), row.line);
            return Err(TraceError::TooManyCells { file, line, expected: columns.len(), found: row.cells.len() });
        }
        let at = |column: usize| Place { file: name, line: row.line, column: columns[column] };
        let cell = |column: usize| row.cells.get(column).unwrap_or_default();
        let hint = "times of this format are seconds since 1970";
        let epoch_s = at(1).number(cell(1), "seconds since 1970", LATEST_S, hint)?;
        let time = SimTime::from_seconds(epoch_s - *zero_s.get_or_insert(epoch_s));
        if let Some((_, before)) =
            previous.filter(|(earlier, _)| time < *earlier || epoch_s < zero_s.unwrap_or_default())
        {
            return Err(TraceError::TimeRunsBack {
                file: name.to_owned(),
                line: row.line,
                column: columns[1].into(),
                found: cell(1).to_owned(),
                before: before.cells.get(1).unwrap_or_default().to_owned(),
                before_line: before.line,
            });
        }
        if time > LATEST {
            return Err(at(1).wrong("a time within 100 years after the first row", cell(1), hint));
        }
        previous = Some((time, row));
        for (index, pool) in pools.iter_mut().enumerate() {
            let column = index + BEFORE_COUNTS;
            let count = at(column).count(cell(column), MOST, "GPUs")?;
            pool.samples.push(Sample { time, count, price_usd_per_hour: None });
        }
    }
    let levels = Levels {
        file: name,
        format: TraceFormat::SailorCsv,
        unit: "seconds since 1970, counted from the first row".to_owned(),
        polarity: Polarity::Available,
        is_exact: false,
        counts_gpus: true,
        pools,
        zero: zero_s.and_then(Zero::of_epoch),
        notes: Vec::new(),
    };
    levels.into_trace(options)
}

/// One pool a column of counts.
fn pools(header: &Row, name: &str) -> Result<Vec<Pool>, TraceError> {
    let mut pools: Vec<Pool> = Vec::new();
    if header.cells.len() <= BEFORE_COUNTS {
        return Err(TraceError::Header {
            file: name.to_owned(),
            line: header.line,
            column: "Timestamp".to_owned(),
            problem: "expected columns of counts after this one, found none".to_owned(),
            hint: "the header is like `,Timestamp,A100-40_us-central1-a`".to_owned(),
        });
    }
    for column in header.cells.iter().skip(BEFORE_COUNTS) {
        let fault = |problem: &str| TraceError::Header {
            file: name.to_owned(),
            line: header.line,
            column: shown(column),
            problem: problem.to_owned(),
            hint: "each column of counts is a GPU type and a zone of its own, like `A100-40_us-central1-a`".to_owned(),
        };
        let parts = column
            .split_once('_')
            .map(|(gpu_type, zone)| (gpu_type.trim(), zone.trim()))
            .filter(|(gpu_type, zone)| !gpu_type.is_empty() && !zone.is_empty());
        let (gpu_type, zone) = parts.ok_or_else(|| fault("expected `GPUtype_zone`"))?;
        let (gpu_type, zone) = (Some(gpu_type.to_owned()), Some(zone.to_owned()));
        if pools.iter().any(|pool| pool.offer.gpu_type == gpu_type && pool.offer.zone == zone) {
            return Err(fault("expected once, found twice"));
        }
        pools.push(Pool { offer: NodeOffer { gpu_type, zone, ..NodeOffer::default() }, samples: Vec::new() });
    }
    Ok(pools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{TraceEventKind, parse, parse_with};
    use rstest::rstest;

    #[test]
    fn columns_are_types_in_zones() {
        let text = ",Timestamp,T4_us-a,V100-16_us-b\n0,1712574014.5,8,0\n1,1712574024.75,4,4\n";
        let options = ReadOptions { gpus_per_node: Some(4), ..ReadOptions::default() };
        let trace = parse_with(text, "t", &options).unwrap();
        let story: Vec<(f64, &str)> = trace.events.iter().map(|e| (e.time.as_seconds(), e.node.as_str())).collect();
        assert_eq!(
            story,
            [(0.0, "t4-us-a-000"), (0.0, "t4-us-a-001"), (10.25, "t4-us-a-001"), (10.25, "v100-16-us-b-000")]
        );
        let offer = NodeOffer {
            gpu_type: Some("V100-16".into()),
            gpu_count: Some(4),
            zone: Some("us-b".into()),
            ..NodeOffer::default()
        };
        assert_eq!(trace.events[3].kind, TraceEventKind::Up(offer));
    }

    #[rstest]
    #[case(",Timestamp,T4_a,V100\n0,1,8,0\n", "line 1, column `V100`: expected `GPUtype_zone`")]
    #[case(",Timestamp,T4_a,T4_a\n0,1,8,0\n", "line 1, column `T4_a`: expected once, found twice")]
    #[case(",Timestamp,T4_a\n0,now,8\n", "line 2, column `Timestamp`: expected seconds since 1970, found `now`")]
    #[case(
        ",Timestamp,T4_a\n0,9,8\n1,8,8\n",
        "line 3, column `Timestamp`: expected a time no earlier than line 2 (`9`)"
    )]
    #[case(",Timestamp,T4_a\n0,9,many\n", "line 2, column `T4_a`: expected a whole number of GPUs")]
    #[case(
        ",Timestamp,T4_a\n0,9\n",
        "line 2, column `T4_a`: expected a whole number of GPUs from 0 to 16384, found nothing"
    )]
    #[case(",Timestamp,T4_a\n", "found none")]
    fn errors_say_where_and_what(#[case] text: &str, #[case] part: &str) {
        let message = parse(text, "t.csv").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
