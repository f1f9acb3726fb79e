//! What can be wrong with a trace file.

use std::io;

/// The longest piece of a file that a message shows.
const SHOWN_CHARACTERS: usize = 60;

/// A trace file that can't be read: where, what was expected, what was found.
///
/// Every message ends with a `hint:` line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file can't be opened or read.
    #[error("cannot read the trace `{file}`: {source}\nhint: check the path and that the file may be read")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes aren't text.
    #[error(
        "`{file}` line {line}: expected UTF-8 text, found {found}\nhint: save the trace as plain UTF-8 text, unpacked"
    )]
    NotText {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The first byte or character that can't be.
        found: String,
    },
    /// There is no event in the file.
    #[error(
        "`{file}`: expected rows of events, found none\nhint: a trace has a header `time_s,event,node` and one row an event"
    )]
    Empty {
        /// The file.
        file: String,
    },
    /// The content fits no known format.
    #[error(
        "`{file}` line {line}: expected the start of a known trace format, found `{found}`\nhint: known are the canonical \
         CSV (header `time_s,event,node[,gpu_type,gpu_count,zone,price_usd_per_hour,notice_s]`), {}; name a format with \
         `--trace-format` to see what it misses",
        super::TraceFormat::further()
    )]
    Unrecognised {
        /// The file.
        file: String,
        /// The first line with content, from 1.
        line: u64,
        /// Its beginning.
        found: String,
    },
    /// The header has a column that means nothing here, is missing, or is there twice.
    #[error("`{file}` line {line}, column `{column}`: {problem}\nhint: {hint}")]
    Header {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// What was expected and what was found.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// A row has more cells than columns.
    #[error(
        "`{file}` line {line}: expected at most {expected} cells, found {found}\nhint: put a cell that holds a comma in \
         double quotes"
    )]
    TooManyCells {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The number of columns.
        expected: usize,
        /// The number of cells.
        found: usize,
    },
    /// A cell doesn't hold what its column needs; an absent cell is found as "nothing".
    #[error("`{file}` line {line}, column `{column}`: expected {expected}, found {found}\nhint: {hint}")]
    Cell {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column's name.
        column: Box<str>,
        /// What belongs there.
        expected: String,
        /// What is there, in backticks, or "nothing".
        found: String,
        /// What to do.
        hint: String,
    },
    /// A row is earlier than the one before it.
    #[error(
        "`{file}` line {line}, column `{column}`: expected a time no earlier than line {before_line} (`{before}`), found \
         `{found}`\nhint: sort the rows by time; rows of one time keep their order"
    )]
    TimeRunsBack {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column's name.
        column: Box<str>,
        /// The time of this row, as written.
        found: String,
        /// The time of the row before, as written.
        before: String,
        /// The line of the row before.
        before_line: u64,
    },
    /// A node comes up that is up.
    #[error(
        "`{file}` line {line}, column `{column}`: expected a node that isn't up, found `{node}`, up since line \
         {since_line}\nhint: give each node its own name, or add the row where it went down"
    )]
    UpTwice {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column's name.
        column: Box<str>,
        /// The node.
        node: String,
        /// The line where it came up.
        since_line: u64,
    },
    /// A node goes down, or is warned, that isn't up.
    #[error(
        "`{file}` line {line}, column `{column}`: expected a node that is up for the event `{event}`, found `{node}`, \
         which {}\nhint: add the row where it came up; nodes that were there from the start come up at the first time",
        match down_line { Some(down_line) => format!("went down in line {down_line}"), None => "never came up".to_owned() }
    )]
    NotUp {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column's name.
        column: Box<str>,
        /// The node.
        node: String,
        /// The event, as written.
        event: String,
        /// The line where it last went down, if it was ever up.
        down_line: Option<u64>,
    },
    /// A part of a JSON file doesn't hold what it must.
    #[error("`{file}`{at}: expected {expected}, found {found}\nhint: {hint}")]
    Element {
        /// The file.
        file: String,
        /// The element and the key, after a space.
        at: String,
        /// What belongs there.
        expected: String,
        /// What is there, in backticks, or "nothing".
        found: String,
        /// What to do.
        hint: String,
    },
    /// The text starts like JSON and isn't.
    #[error(
        "`{file}` line {line}, column {column}: {problem}\nhint: the file starts like JSON: check that it is whole"
    )]
    Json {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        problem: String,
    },
    /// The file was understood, and there is never a node in it.
    #[error("`{file}`: expected at least one node that is up at some time, found none in {format}\nhint: {hint}")]
    NoNodes {
        /// The file.
        file: String,
        /// The format that was recognised.
        format: String,
        /// What to do.
        hint: String,
    },
    /// The file holds prices, from which no node comes or goes.
    #[error(
        "`{file}`: expected when nodes come and go, found an AWS price history, which has prices only and makes no \
         losses\nhint: give a trace of availability; no bid is assumed, so prices alone take no node away"
    )]
    PricesOnly {
        /// The file.
        file: String,
    },
    /// A trace file isn't named as it should be.
    #[error(
        "trace `{text}`, after the last colon: expected {expected}, found {found}\nhint: write FILE, FILE:TYPE, \
         FILE:GPUSxTYPE@ZONE or FILE:@ZONE, like `a.csv:8xA100-40@us-east-1a`"
    )]
    Source {
        /// The whole text.
        text: String,
        /// What belongs there.
        expected: String,
        /// What is there, in backticks, or "nothing".
        found: String,
    },
    /// A file says other of a node than what was said of the file.
    #[error(
        "`{file}`: node `{node}` is `{found}`, and `{asked}` was said of the file\nhint: leave out what the file says itself"
    )]
    Contradicted {
        /// The file.
        file: String,
        /// The node.
        node: String,
        /// What the file says.
        found: String,
        /// What was said of it.
        asked: String,
    },
    /// Several traces that don't overlap.
    #[error("the traces have no time in common: {files}\nhint: `--align start` lets each begin at zero")]
    Apart {
        /// The files, with their times.
        files: String,
    },
    /// Clocks that can't be set by the calendar.
    #[error(
        "`{file}` has no calendar times with a zone to set its clock by\nhint: leave `--align` out, and each trace begins at zero"
    )]
    NoCalendar {
        /// The file.
        file: String,
    },
    /// Counts that jump up and down by so much that the events don't fit in memory.
    #[error(
        "`{file}`: expected at most 5 million comings and goings of nodes, found {found} comings and goings\nhint: check that the \
         counts are of nodes, and cut the file"
    )]
    TooManyEvents {
        /// The file.
        file: String,
        /// How many there would be.
        found: u64,
    },
    /// One instance type in one zone has two prices at once.
    #[error("`{file}`: two prices of `{instance}` in `{zone}` at {time}\nhint: leave one of the rows out")]
    TwoPrices {
        /// The file.
        file: String,
        /// The instance type.
        instance: String,
        /// The zone.
        zone: String,
        /// The time.
        time: String,
    },
    /// A history of prices without one that could be used.
    #[error(
        "`{file}`: {rows} rows, none of an instance type whose GPUs are known and that was asked for\nhint: give what `aws ec2 \
         describe-spot-price-history --instance-types p4d.24xlarge` prints"
    )]
    NoPrices {
        /// The file.
        file: String,
        /// Its rows.
        rows: usize,
    },
    /// Prices of several operating systems, none of them Linux.
    #[error("`{file}`: prices of several products: {found}\nhint: give those of one product, best `Linux/UNIX`")]
    Products {
        /// The file.
        file: String,
        /// The products.
        found: String,
    },
    /// Prices of other times than those of the trace.
    #[error(
        "{problem}, and the history of prices goes from {first} to {last}\nhint: `--trace-start {first}` says what time the \
         trace's zero stands for"
    )]
    OtherTimes {
        /// What is wrong.
        problem: String,
        /// The first price.
        first: String,
        /// The last one.
        last: String,
    },
    /// Numbers that may be of more than one unit.
    #[error(
        "`{file}`: expected times of which the unit shows, found {found}\nhint: say what they are with `--time-unit ms`, \
         `--time-unit s` or `--time-unit h`"
    )]
    UnclearUnit {
        /// The file.
        file: String,
        /// The times.
        found: String,
    },
    /// An option that this format has no use for.
    #[error("`{file}`: `{option}` means nothing for {format}, {why}\nhint: leave the option out")]
    Option {
        /// The file.
        file: String,
        /// The option.
        option: &'static str,
        /// The format.
        format: String,
        /// Why.
        why: &'static str,
    },
}

impl TraceError {
    /// The bytes of `file` stop being UTF-8 at `offset`.
    pub(super) fn not_utf8(file: &str, bytes: &[u8], offset: usize) -> Self {
        let line = bytes[..offset].split(|byte| *byte == b'\n').count() as u64;
        let found = match bytes.get(offset) {
            Some(byte) => format!("the byte 0x{byte:02x}"),
            None => "the end of the file inside a character".to_owned(),
        };
        Self::NotText { file: file.to_owned(), line, found }
    }
}

/// A piece of a file for a message: control characters escaped, cut to a readable length.
pub(super) fn shown(text: &str) -> String {
    let mut piece = String::new();
    for c in text.chars().take(SHOWN_CHARACTERS) {
        if c.is_control() { piece.extend(c.escape_debug()) } else { piece.push(c) }
    }
    if text.chars().nth(SHOWN_CHARACTERS).is_some() {
        piece.push('…');
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_file_are_cut_and_escaped() {
        assert_eq!(shown("a\t\"b\""), "a\\t\"b\"");
        assert_eq!(shown(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
        assert_eq!(shown(&"é".repeat(60)), "é".repeat(60));
    }

    #[test]
    fn a_bad_byte_is_found_on_its_line() {
        let message = TraceError::not_utf8("f", b"a\nb\xff", 3).to_string();
        assert!(message.starts_with("`f` line 2: expected UTF-8 text, found the byte 0xff"), "{message}");
    }
}
