//! `sacct -X --parsable2 -o jobid,start,end,state,nnodes,nodelist`: a node is up while a job has it.
//!
//! The trace ends at the last time in the table. Jobs that haven't started are left out, and so are steps of jobs.

use super::node_list::expand;
use super::{Stretch, Table, has_columns, is_none, union, without_zone};
use crate::trace::error::TraceError;
use crate::trace::sightings::{Sighting, Sightings};
use crate::trace::{Trace, TraceFormat};
use indexmap::IndexMap;

const COLUMNS: [&str; 3] = ["Start", "End", "NodeList"];
/// States of jobs that were taken from their nodes, or the nodes from them.
const TAKEN: [&str; 4] = ["PREEMPTED", "NODE_FAIL", "REQUEUED", "BOOT_FAIL"];

/// Whether a file with this first line is of this format.
pub(in crate::trace) fn starts_with(line: &str) -> bool {
    has_columns(line, &COLUMNS)
}

/// Reads the whole text.
pub(in crate::trace) fn parse(text: &str, name: &str) -> Result<Trace, TraceError> {
    let table = Table::parse(text, name, &COLUMNS)?;
    let mut sightings = Sightings::default();
    let mut nodes: IndexMap<String, Vec<Stretch>> = IndexMap::new();
    let (mut pending, mut steps, mut taken, mut others) = (0_usize, 0_usize, 0_usize, 0_usize);
    for row in &table.rows {
        if table.cell(row, "JobID").1.contains('.') {
            steps += 1;
            continue;
        }
        let (place, list) = table.cell(row, "NodeList");
        let (start, end) = (table.time(row, "Start")?, table.time(row, "End")?);
        let Some(start) = start.filter(|_| !is_none(list)) else {
            pending += 1;
            continue;
        };
        if end.is_some_and(|end| end < start) {
            let (place, cell) = table.cell(row, "End");
            return Err(place.wrong("an end no earlier than the start", cell, "the clock may have been put back"));
        }
        let hint = "node lists look like `gpu[01-04,07]`";
        let names =
            expand(list).map_err(|problem| place.wrong(format!("a list of nodes, not {problem}"), list, hint))?;
        let (place, written) = table.cell(row, "NNodes");
        if !written.is_empty() && written.parse() != Ok(names.len()) {
            return Err(place.wrong(format!("{}, the nodes in `NodeList`", names.len()), written, "check the row"));
        }
        [Some(start), end].into_iter().flatten().for_each(|time| sightings.cover(time));
        let state = table.cell(row, "State").1.split_whitespace().next().unwrap_or_default();
        if end.is_some() {
            *(if TAKEN.contains(&state) { &mut taken } else { &mut others }) += 1;
        }
        for node in names {
            nodes.entry(node).or_default().push((start, end));
        }
    }
    for (node, stretches) in nodes {
        for (start, end) in union(stretches, false) {
            sightings.push(start, &node, Sighting::Up);
            if let Some(end) = end {
                sightings.push(end, &node, Sighting::Down);
            }
        }
    }
    let said = [
        (taken, "jobs were preempted or lost their nodes"),
        (others, "jobs ended otherwise; their nodes go all the same"),
        (pending, "jobs have no start or no nodes: left out"),
        (steps, "rows are steps of jobs: left out"),
    ];
    let notes = said.iter().filter(|(count, _)| *count > 0).map(|(count, text)| format!("{count} {text}")).collect();
    Ok(without_zone(sightings.into_trace(name, TraceFormat::SlurmJobs, notes)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;
    use rstest::rstest;

    const HEADER: &str = "JobID|Start|End|State|NNodes|NodeList\n";

    #[test]
    fn nodes_are_up_while_a_job_has_them() {
        let rows = "1|2026-01-01T00:00:00|2026-01-01T01:00:00|PREEMPTED|2|gpu[01-02]\n\
                    1.batch|2026-01-01T00:00:00|2026-01-01T01:00:00|CANCELLED|1|gpu01\n\
                    2|2026-01-01T00:30:00|2026-01-01T02:00:00|COMPLETED|1|gpu02\n\
                    3|2026-01-01T02:00:00|Unknown|RUNNING|1|gpu02\n\
                    4|Unknown|Unknown|PENDING|1|None assigned\n";
        let trace = parse(&(HEADER.to_owned() + rows), "t").unwrap();
        let story: Vec<(f64, &str)> =
            trace.events.iter().map(|e| (e.time.as_seconds() / 60.0, e.node.as_str())).collect();
        assert_eq!(story, [(0.0, "gpu01"), (0.0, "gpu02"), (60.0, "gpu01"), (120.0, "gpu02"), (120.0, "gpu02")]);
        assert_eq!(trace.format, TraceFormat::SlurmJobs);
        let said = ["1 jobs were preempted", "1 jobs ended otherwise", "1 jobs have no start", "1 rows are steps"];
        assert!(said.iter().all(|start| trace.notes.iter().any(|note| note.starts_with(start))), "{:?}", trace.notes);
    }

    #[rstest]
    #[case("1|yesterday|Unknown|RUNNING|1|a\n", "line 2, column `Start`: expected a time like")]
    #[case(
        "1|2026-01-01T00:00:00|2025-01-01T00:00:00|FAILED|1|a\n",
        "line 2, column `End`: expected an end no earlier"
    )]
    #[case(
        "1|2026-01-01T00:00:00|Unknown|RUNNING|1|a[1\n",
        "line 2, column `NodeList`: expected a list of nodes, not a `[`"
    )]
    #[case("1|2026-01-01T00:00:00|Unknown|RUNNING|3|a[1-2]\n", "line 2, column `NNodes`: expected 2, the nodes")]
    #[case("1|2026-01-01T00:00:00|Unknown|RUNNING|1|a|b\n", "line 2: expected at most 6 cells, found 7")]
    #[case("1|Unknown|Unknown|PENDING|1|None assigned\n", "found none")]
    fn errors_say_where_and_what(#[case] rows: &str, #[case] part: &str) {
        let message = parse(&(HEADER.to_owned() + rows), "t").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
