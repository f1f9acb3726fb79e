//! Which format a text is, told by its first line with content.

use super::error::{TraceError, shown};
use super::{bamboo, canonical};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The formats that can be read. A further format is a variant here, a file beside this one, and a test of its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceFormat {
    /// This project's own CSV: a header with `time_s` (or `time`), `event`, `node`, and what is known of the node.
    Canonical,
    /// The event files of Bamboo (NSDI 2023): `milliseconds,add|remove,node` without a header.
    BambooEvents,
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Canonical => "canonical CSV",
            Self::BambooEvents => "Bamboo events",
        })
    }
}

/// Refuses binary content that happens to be valid UTF-8.
pub(super) fn check_is_text(text: &str, name: &str) -> Result<(), TraceError> {
    let is_binary = |c: char| c.is_control() && !matches!(c, '\t' | '\r' | '\n');
    match text.char_indices().find(|(_, c)| is_binary(*c)) {
        None => Ok(()),
        Some((offset, c)) => Err(TraceError::NotText {
            file: name.to_owned(),
            line: 1 + text[..offset].matches('\n').count() as u64,
            found: format!("the control character U+{:04X}", u32::from(c)),
        }),
    }
}

/// The format of `text`, or an error that shows the line that fits none.
pub(super) fn recognise(text: &str, name: &str) -> Result<TraceFormat, TraceError> {
    let content = text.lines().zip(1..).find(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let Some((first, line)) = content else {
        return Err(TraceError::Empty { file: name.to_owned() });
    };
    if canonical::starts_with(first) {
        Ok(TraceFormat::Canonical)
    } else if bamboo::starts_with(first) {
        Ok(TraceFormat::BambooEvents)
    } else {
        Err(TraceError::Unrecognised { file: name.to_owned(), line, found: shown(first) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("time_s,event,node\n", TraceFormat::Canonical)]
    #[case("# a comment\n\nNode, Event ,time\n", TraceFormat::Canonical)]
    #[case("\"node\",\"event\",\"time_s\"\n", TraceFormat::Canonical)]
    #[case("1440000,remove,node13\r\n", TraceFormat::BambooEvents)]
    #[case("0,lost,node1", TraceFormat::BambooEvents)]
    fn the_first_line_with_content_decides(#[case] text: &str, #[case] format: TraceFormat) {
        assert_eq!(recognise(text, "t").unwrap(), format);
    }

    #[rstest]
    #[case("780000,30\n", "line 1", "780000,30")]
    #[case("\n\n2021-12-11, 11:11:30, 55\n", "line 3", "2021-12-11, 11:11:30, 55")]
    #[case("{\"metadata\":{}}", "line 1", "{\"metadata\":{}}")]
    fn other_content_is_shown(#[case] text: &str, #[case] line: &str, #[case] found: &str) {
        let message = recognise(text, "t").unwrap_err().to_string();
        assert!(message.contains(line) && message.contains(&shown(found)), "{message}");
        assert!(message.contains("hint: known are"), "{message}");
    }

    #[rstest]
    #[case("")]
    #[case("\n \n")]
    #[case("# only a comment\n")]
    fn an_empty_text_is_no_trace(#[case] text: &str) {
        let error = recognise(text, "t").unwrap_err();
        assert!(matches!(error, TraceError::Empty { .. }), "{error}");
        assert!(error.to_string().contains("hint:"));
    }

    #[test]
    fn binary_content_is_refused_with_its_line() {
        let message = check_is_text("time_s\n\u{0}\u{1}", "t").unwrap_err().to_string();
        assert!(message.contains("line 2") && message.contains("U+0000"), "{message}");
        check_is_text("tabs\tand\r\nlines", "t").unwrap();
    }

    #[test]
    fn formats_are_named_for_people() {
        assert_eq!(TraceFormat::Canonical.to_string(), "canonical CSV");
        assert_eq!(TraceFormat::BambooEvents.to_string(), "Bamboo events");
    }
}
