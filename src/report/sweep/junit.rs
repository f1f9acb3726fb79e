//! A comparison as `JUnit`'s XML, which CI systems show as tests: one a row.

use super::{Change, GateOutcome};
use std::fmt::Write as _;

/// The comparison as a suite of tests in the name of the sweep. A row that got worse is a test that fails.
pub fn gate_junit(name: &str, outcome: &GateOutcome) -> String {
    let mut failed: Vec<(&str, Vec<&Change>)> = Vec::new();
    for change in &outcome.worse {
        match failed.iter_mut().find(|(row, _)| *row == change.row) {
            Some((_, changes)) => changes.push(change),
            None => failed.push((&change.row, vec![change])),
        }
    }
    let is_failed = |row: &str| failed.iter().any(|(failed, _)| *failed == row);
    let mut passed: Vec<&str> = outcome.same.iter().chain(&outcome.new).map(String::as_str).collect();
    passed.extend(outcome.better.iter().map(|change| change.row.as_str()).filter(|row| !is_failed(row)));
    passed.sort_unstable();
    passed.dedup();
    let (tests, failures) = (passed.len() + failed.len(), failed.len());
    let name = escaped(name);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  \
         <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">\n"
    );
    for (row, changes) in &failed {
        let said: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let said = escaped(&said.join("; "));
        let row = escaped(row);
        let written = writeln!(
            text,
            "    <testcase classname=\"{name}\" name=\"{row}\"><failure message=\"{said}\"/></testcase>"
        );
        written.expect("writing to a string doesn't fail");
    }
    for row in passed {
        let row = escaped(row);
        let written = writeln!(text, "    <testcase classname=\"{name}\" name=\"{row}\"/>");
        written.expect("writing to a string doesn't fail");
    }
    text + "  </testsuite>\n</testsuites>\n"
}

/// Text that can stand in an attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(' '),
            control if control.is_control() => {}
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_got_worse_is_one_failure_whatever_got_worse_in_it() {
        let change = |figure: &str| Change {
            row: "trace.file=<a> policy=\"b\"".into(),
            figure: figure.into(),
            before: "2".into(),
            after: "1".into(),
            share: Some(-0.5),
        };
        let outcome = GateOutcome {
            worse: vec![change("tokens_per_s"), change("goodput_share")],
            better: vec![Change { row: "policy=c".into(), ..change("tokens_per_s") }],
            new: Vec::new(),
            same: vec!["policy=d".into()],
        };
        insta::assert_snapshot!(gate_junit("mix & match", &outcome), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites>
          <testsuite name="mix &amp; match" tests="3" failures="1" errors="0">
            <testcase classname="mix &amp; match" name="trace.file=&lt;a&gt; policy=&quot;b&quot;"><failure message="tokens_per_s was 2, is 1 (-50.0 %); goodput_share was 2, is 1 (-50.0 %)"/></testcase>
            <testcase classname="mix &amp; match" name="policy=c"/>
            <testcase classname="mix &amp; match" name="policy=d"/>
          </testsuite>
        </testsuites>
        "#);
    }
}
