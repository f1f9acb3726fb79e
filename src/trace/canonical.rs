//! The canonical CSV: `time_s,event,node[,gpu_type,gpu_count,zone,price_usd_per_hour,notice_s]`.
//!
//! - Columns come in any order; `time` (ISO 8601) may stand for `time_s`; lines that start with `#` are comments.
//! - Events are `up`, `notice`, `cancelled` (the notice is void), `down`, in any letter case, or the words that clouds use for them (see [`EVENTS`]).
//! - `end`, of no node, says that the trace was observed until then, where nothing happens at its end.
//! - What describes a node counts on `up` rows and is ignored on others; an empty cell leaves it open.
//! - `notice_s` counts on `notice` rows (the time until the loss; left out, it is taken from the node's next `down`) and on
//!   `down` rows, where it stands for a notice so many seconds before, unless a row of its own has given it.
//! - Rows are in order of time; rows of one time happen in their order.

pub(super) mod header;

use super::calendar::Calendar;
use super::cells::Place;
use super::error::TraceError;
use super::membership::Membership;
use super::rows::{Row, rows};
use super::{NodeOffer, Trace, TraceEvent, TraceEventKind, TraceFormat};
use crate::suggest;
use crate::units::SimTime;
use header::{Column, Header};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Up,
    Notice,
    Cancelled,
    Down,
    /// Nothing happens, and the trace lasts until here.
    End,
}

/// The words for each event.
const EVENTS: [(&str, Event); 14] = [
    ("up", Event::Up),
    ("add", Event::Up),
    ("launched", Event::Up),
    ("running", Event::Up),
    ("notice", Event::Notice),
    ("cancelled", Event::Cancelled),
    ("canceled", Event::Cancelled),
    ("down", Event::Down),
    ("remove", Event::Down),
    ("removed", Event::Down),
    ("preempted", Event::Down),
    ("terminated", Event::Down),
    ("interrupted", Event::Down),
    ("end", Event::End),
];

/// Times before this without an event suggest that the file counts from somewhere else, such as 1970.
const LONG_EMPTY_START: SimTime = SimTime(365 * 24 * 3600 * 1_000_000_000);

/// Whether a file with this first line is of this format: one of its cells names a column.
pub(super) fn starts_with(line: &str) -> bool {
    line.split(',').any(|cell| header::named(cell.trim().trim_matches('"')).is_some())
}

/// Reads the whole text.
pub(super) fn parse(text: &str, name: &str) -> Result<Trace, TraceError> {
    let rows = rows(text, name)?;
    let empty = || TraceError::Empty { file: name.to_owned() };
    let (first, rows) = rows.split_first().ok_or_else(empty)?;
    if rows.is_empty() {
        return Err(empty());
    }
    let mut reader = Reader::new(name, Header::parse(first, name)?);
    for row in rows {
        reader.read(row)?;
    }
    Ok(reader.finish())
}

/// The time of a row, for the comparison with the next one.
struct Previous {
    time: SimTime,
    written: String,
    line: u64,
}

struct Reader<'a> {
    file: &'a str,
    header: Header,
    calendar: Calendar,
    membership: Membership,
    events: Vec<TraceEvent>,
    previous: Option<Previous>,
    /// Per node, the notices (by index) that wait for its loss to learn how long they were.
    open_notices: HashMap<String, Vec<usize>>,
    shortened_notices: usize,
}

impl<'a> Reader<'a> {
    fn new(file: &'a str, header: Header) -> Self {
        Self {
            file,
            header,
            calendar: Calendar::default(),
            membership: Membership::new(),
            events: Vec::new(),
            previous: None,
            open_notices: HashMap::new(),
            shortened_notices: 0,
        }
    }

    fn read(&mut self, row: &Row) -> Result<(), TraceError> {
        if row.cells.len() > self.header.len() {
            let (expected, found) = (self.header.len(), row.cells.len());
            return Err(TraceError::TooManyCells { file: self.file.to_owned(), line: row.line, expected, found });
        }
        let time = self.time(row)?;
        let written = self.header.cell(row, Column::Event);
        let event = event(self.place(row, Column::Event), written)?;
        if event == Event::End {
            return Ok(());
        }
        let place = self.place(row, Column::Node);
        let node = place.text(self.header.cell(row, Column::Node), "the node's name")?;
        match event {
            Event::Up => {
                let offer = self.offer(row)?;
                self.membership.up(place, &node, time)?;
                self.push(time, node, TraceEventKind::Up(offer));
            }
            Event::Notice => {
                self.membership.notice(place, &node, written)?;
                let notice = self.notice(row)?;
                if notice.is_none() {
                    self.open_notices.entry(node.clone()).or_default().push(self.events.len());
                }
                self.push(time, node, TraceEventKind::Notice { notice: notice.unwrap_or_default() });
            }
            Event::Cancelled => {
                self.membership.cancelled(place, &node, written)?;
                self.notices_end(&node, time);
                self.push(time, node, TraceEventKind::Cancelled);
            }
            Event::Down => self.down(row, time, node, written)?,
            Event::End => {}
        }
        Ok(())
    }

    fn down(&mut self, row: &Row, time: SimTime, node: String, written: &str) -> Result<(), TraceError> {
        let known = self.membership.down(self.place(row, Column::Node), &node, written)?;
        let (is_warned, up_time) = (known.is_warned, known.up_time);
        self.notices_end(&node, time);
        let asked = self.notice(row)?.unwrap_or_default();
        // A node can't have been warned before it was there.
        let notice = asked.min(time.saturating_sub(up_time));
        if !is_warned && asked > SimTime::ZERO {
            self.shortened_notices += usize::from(notice < asked);
            self.push(time.saturating_sub(notice), node.clone(), TraceEventKind::Notice { notice });
        }
        self.push(time, node, TraceEventKind::Down);
        Ok(())
    }

    /// Notices of unknown length have lasted until now.
    fn notices_end(&mut self, node: &str, time: SimTime) {
        for index in self.open_notices.remove(node).unwrap_or_default() {
            let notice = time.saturating_sub(self.events[index].time);
            self.events[index].kind = TraceEventKind::Notice { notice };
        }
    }

    fn finish(mut self) -> Trace {
        let span = self.previous.as_ref().map_or(SimTime::ZERO, |previous| previous.time);
        let mut notes = Vec::new();
        let cut: Vec<usize> = self.open_notices.values().flatten().copied().collect();
        for index in &cut {
            let notice = span.saturating_sub(self.events[*index].time);
            self.events[*index].kind = TraceEventKind::Notice { notice };
        }
        if !cut.is_empty() {
            notes.push(format!("{} notices have no `notice_s` and no loss: taken to last to the end", cut.len()));
        }
        if self.shortened_notices > 0 {
            let count = self.shortened_notices;
            notes.push(format!("{count} notices would begin before their node came up: they begin when it came up"));
        }
        let start = self.events.iter().map(|event| event.time).min().unwrap_or_default();
        if start > LONG_EMPTY_START {
            notes.push(format!("the first event is {start} after zero: subtract it if the times count from 1970"));
        }
        let unit = if self.header.is_calendar() { self.calendar.unit() } else { "seconds".to_owned() };
        Trace::assemble(TraceFormat::Canonical, &unit, self.events, span, notes).starting(self.calendar.zero())
    }

    /// The time of `row`, no earlier than that of the row before.
    fn time(&mut self, row: &Row) -> Result<SimTime, TraceError> {
        let column = if self.header.is_calendar() { Column::TimeCalendar } else { Column::TimeSeconds };
        let (place, written) = (self.place(row, column), self.header.cell(row, column));
        let time = match column {
            Column::TimeCalendar => self.calendar.since_first(place, written)?,
            _ => place.seconds(written)?,
        };
        if let Some(previous) = self.previous.as_ref().filter(|previous| time < previous.time) {
            return Err(TraceError::TimeRunsBack {
                file: self.file.to_owned(),
                line: row.line,
                column: place.column.into(),
                found: written.to_owned(),
                before: previous.written.clone(),
                before_line: previous.line,
            });
        }
        self.previous = Some(Previous { time, written: written.to_owned(), line: row.line });
        Ok(time)
    }

    fn offer(&self, row: &Row) -> Result<NodeOffer, TraceError> {
        let filled = |column| Some(self.header.cell(row, column)).filter(|cell| !cell.is_empty());
        let count = filled(Column::GpuCount).map(|cell| self.place(row, Column::GpuCount).gpu_count(cell));
        let price = filled(Column::Price).map(|cell| self.place(row, Column::Price).price_usd_per_hour(cell));
        Ok(NodeOffer {
            gpu_type: filled(Column::GpuType).map(str::to_owned),
            gpu_count: count.transpose()?,
            zone: filled(Column::Zone).map(str::to_owned),
            price_usd_per_hour: price.transpose()?,
        })
    }

    fn notice(&self, row: &Row) -> Result<Option<SimTime>, TraceError> {
        match self.header.cell(row, Column::Notice) {
            "" => Ok(None),
            cell => self.place(row, Column::Notice).seconds(cell).map(Some),
        }
    }

    fn push(&mut self, time: SimTime, node: String, kind: TraceEventKind) {
        self.events.push(TraceEvent { time, node, kind });
    }

    fn place(&self, row: &Row, column: Column) -> Place<'a> {
        Place { file: self.file, line: row.line, column: header::name_of(column) }
    }
}

fn event(place: Place, cell: &str) -> Result<Event, TraceError> {
    let found = EVENTS.iter().find(|(word, _)| word.eq_ignore_ascii_case(cell));
    found.map(|(_, event)| *event).ok_or_else(|| {
        let hint = match suggest::nearest(&cell.to_lowercase(), EVENTS.map(|(word, _)| word)) {
            Some(word) if !cell.is_empty() => format!("`{word}` is near"),
            _ => format!("known words are {}", EVENTS.map(|(word, _)| format!("`{word}`")).join(", ")),
        };
        place.wrong("`up`, `notice`, `cancelled` or `down`", cell, hint)
    })
}

#[cfg(test)]
mod tests;
