//! Bamboo's event files (Thorpe et al., NSDI 2023): `milliseconds,add|remove,node`, no header.
//!
//! A `remove` is the moment of the loss, without notice. Nodes that are alive at the end have no row there: the trace is
//! censored at its last row. Rows may be out of order.

use super::cells::Place;
use super::error::TraceError;
use super::membership::Membership;
use super::options::{ReadOptions, TimeUnit};
use super::rows::rows;
use super::{NodeOffer, Trace, TraceEvent, TraceEventKind, TraceFormat};
use crate::suggest;
use crate::units::SimTime;

/// The names that messages use for the columns, which the file doesn't name.
const COLUMNS: [&str; 3] = ["milliseconds", "event", "node"];

/// Whether a file with this first line is of this format: a number, a word, a name.
pub(super) fn starts_with(line: &str) -> bool {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    cells.len() == COLUMNS.len()
        && cells[0].parse::<f64>().is_ok()
        && !cells[1].is_empty()
        && cells[1].chars().all(|c| c.is_ascii_alphabetic() || c == '_')
}

struct Change {
    line: u64,
    time: SimTime,
    is_add: bool,
    node: String,
}

/// Reads the whole text.
pub(super) fn parse(text: &str, name: &str, options: &ReadOptions) -> Result<Trace, TraceError> {
    let unit = options.time_unit.unwrap_or(TimeUnit::Milliseconds);
    let mut changes = changes(text, name, unit)?;
    let mut notes = Vec::new();
    if !changes.is_sorted_by_key(|change| change.time) {
        changes.sort_by_key(|change| change.time);
        notes.push("the rows were not in order of time and have been sorted".to_owned());
    }
    let span = changes.last().map_or(SimTime::ZERO, |change| change.time);
    let mut membership = Membership::new();
    let mut returned = 0_usize;
    let mut events = Vec::with_capacity(changes.len());
    for Change { line, time, is_add, node } in changes {
        let place = Place { file: name, line, column: COLUMNS[2] };
        let kind = if is_add {
            returned += usize::from(membership.up(place, &node, time)?);
            TraceEventKind::Up(NodeOffer::default())
        } else {
            membership.down(place, &node, "remove")?;
            TraceEventKind::Down
        };
        events.push(TraceEvent { time, node, kind });
    }
    if returned > 0 {
        notes.push(format!(
            "{returned} rows add a name again that was removed before, which this format doesn't usually do"
        ));
    }
    Ok(Trace::assemble(TraceFormat::BambooEvents, unit.plural(), events, span, notes))
}

/// The rows, in the order of the file.
fn changes(text: &str, name: &str, unit: TimeUnit) -> Result<Vec<Change>, TraceError> {
    let mut changes = Vec::new();
    for row in rows(text, name)? {
        let at = |column: usize| Place { file: name, line: row.line, column: COLUMNS[column] };
        let cell = |column: usize| row.cells.get(column).unwrap_or_default();
        if row.cells.len() > COLUMNS.len() {
            let (expected, found) = (COLUMNS.len(), row.cells.len());
            return Err(TraceError::TooManyCells { file: name.to_owned(), line: row.line, expected, found });
        }
        changes.push(Change {
            line: row.line,
            time: match unit {
                TimeUnit::Milliseconds => at(0).milliseconds(cell(0))?,
                _ => Place { column: "time", ..at(0) }.time_in(cell(0), unit)?,
            },
            is_add: is_add(at(1), cell(1))?,
            node: at(2).text(cell(2), "the node's name")?,
        });
    }
    Ok(changes)
}

fn is_add(place: Place, cell: &str) -> Result<bool, TraceError> {
    match cell {
        "add" => Ok(true),
        "remove" => Ok(false),
        _ => {
            let hint = match suggest::nearest(cell, ["add", "remove"]) {
                Some(word) => format!("`{word}` is near"),
                None => {
                    "other events need the canonical CSV: put `time_s,event,node` before the rows, times in seconds"
                        .to_owned()
                }
            };
            Err(place.wrong("`add` or `remove`", cell, hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{parse, parse_with};
    use rstest::rstest;

    #[test]
    fn milliseconds_adds_and_removes_become_events() {
        let trace = parse("0,add,node1\r\n60000,add,node2\r\n60000,remove,node1\r\n", "t").unwrap();
        let up = || TraceEventKind::Up(NodeOffer::default());
        let event =
            |seconds: u64, node: &str, kind| TraceEvent { time: SimTime::SECOND * seconds, node: node.into(), kind };
        assert_eq!(
            trace.events,
            [event(0, "node1", up()), event(60, "node2", up()), event(60, "node1", TraceEventKind::Down)]
        );
        assert_eq!(trace.span, SimTime::SECOND * 60);
        assert_eq!(trace.notes.len(), 1);
    }

    #[test]
    fn an_option_gives_another_unit() {
        let options = ReadOptions { time_unit: Some(TimeUnit::Hours), ..ReadOptions::default() };
        let trace = parse_with("0,add,a\n1.5,remove,a\n", "t", &options).unwrap();
        assert_eq!(trace.span, SimTime::SECOND * 5400);
        let message = parse_with("0,add,a\n-1,remove,a\n", "t", &options).unwrap_err().to_string();
        assert!(message.contains("line 2, column `time`: expected hours from 0 to 100 years"), "{message}");
    }

    #[test]
    fn unsorted_rows_are_sorted_stably_and_said() {
        let trace = parse("5,add,c\n0,add,a\n5,remove,a\n5,add,b\n", "t").unwrap();
        let order: Vec<&str> = trace.events.iter().map(|event| event.node.as_str()).collect();
        assert_eq!(order, ["a", "c", "a", "b"]);
        assert!(trace.notes[1].contains("sorted"), "{:?}", trace.notes);
    }

    #[test]
    fn a_name_that_returns_is_said() {
        let trace = parse("0,add,a\n1,remove,a\n2,add,a\n", "t").unwrap();
        assert!(trace.notes[1].starts_with("1 rows add a name again"), "{:?}", trace.notes);
    }

    #[rstest]
    #[case(
        "0,add,a\n-5,remove,a\n",
        "line 2, column `milliseconds`: expected whole milliseconds from 0 to 100 years, found `-5`"
    )]
    #[case("0,add,a\nx,remove,a\n", "found `x`")]
    #[case("0,add,a\n99999999999999999999,remove,a\n", "found `99999999999999999999`")]
    #[case(
        "0,add,a\n5,removed,a\n",
        "line 2, column `event`: expected `add` or `remove`, found `removed`\nhint: `remove` is near"
    )]
    #[case("0,up,a\n", "hint: other events need the canonical CSV")]
    #[case("0,add,a\n5,remove\n", "line 2, column `node`: expected the node's name, found nothing")]
    #[case("0,add,a\n5,remove,a,b\n", "line 2: expected at most 3 cells, found 4")]
    #[case("0,add,a\n5,add,a\n", "line 2, column `node`: expected a node that isn't up, found `a`, up since line 1")]
    #[case("0,remove,a\n", "found `a`, which never came up")]
    #[case("9,add,a\n0,remove,a\n", "line 2, column `node`: expected a node that is up for the event `remove`")]
    fn errors_say_where_and_what(#[case] text: &str, #[case] expected: &str) {
        let message = parse(text, "t.csv").unwrap_err().to_string();
        assert!(message.starts_with("`t.csv` line "), "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(message.contains("\nhint: "), "{message}");
    }
}
