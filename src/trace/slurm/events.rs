//! `sacctmgr show event --parsable2`: when nodes were out of service.
//!
//! A node is out from `TimeStart` to `TimeEnd`, whatever the state's name (a drained node takes no new work), and up
//! otherwise. Nodes that were never out aren't in the table, nor in the trace. Rows without a node are about the cluster.

use super::node_list::expand;
use super::{Stretch, Table, has_columns, is_none, union, without_zone};
use crate::trace::error::TraceError;
use crate::trace::sightings::{Sighting, Sightings};
use crate::trace::{Trace, TraceFormat};
use indexmap::IndexMap;
use std::collections::BTreeMap;

const COLUMNS: [&str; 3] = ["NodeName", "TimeStart", "TimeEnd"];

/// Whether a file with this first line is of this format.
pub(in crate::trace) fn starts_with(line: &str) -> bool {
    has_columns(line, &COLUMNS)
}

/// Reads the whole text.
pub(in crate::trace) fn parse(text: &str, name: &str) -> Result<Trace, TraceError> {
    let table = Table::parse(text, name, &COLUMNS)?;
    let mut sightings = Sightings::default();
    let mut nodes: IndexMap<String, Vec<Stretch>> = IndexMap::new();
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    let mut of_cluster = 0_usize;
    for row in &table.rows {
        let (place, list) = table.cell(row, "NodeName");
        if is_none(list) {
            of_cluster += 1;
            continue;
        }
        let Some(start) = table.time(row, "TimeStart")? else {
            let (place, cell) = table.cell(row, "TimeStart");
            return Err(place.wrong("a time like `2026-01-31T18:00:00`", cell, "every event has a start"));
        };
        let end = table.time(row, "TimeEnd")?;
        if end.is_some_and(|end| end < start) {
            let (place, cell) = table.cell(row, "TimeEnd");
            return Err(place.wrong("an end no earlier than the start", cell, "the clock may have been put back"));
        }
        let hint = "node lists look like `gpu[01-04,07]`";
        let names =
            expand(list).map_err(|problem| place.wrong(format!("a list of nodes, not {problem}"), list, hint))?;
        [Some(start), end].into_iter().flatten().for_each(|time| sightings.cover(time));
        *states.entry(table.cell(row, "State").1.to_owned()).or_default() += 1;
        for node in names {
            nodes.entry(node).or_default().push((start, end));
        }
    }
    for (node, stretches) in nodes {
        for (start, end) in union(stretches, true) {
            sightings.push(start, &node, Sighting::Down);
            if let Some(end) = end {
                sightings.push(end, &node, Sighting::Up);
            }
        }
    }
    let states = states.iter().filter(|(state, _)| !state.is_empty());
    let states: Vec<String> =
        states.map(|(state, count)| format!("{} ({count})", crate::trace::error::shown(state))).collect();
    let mut notes = vec!["only nodes that were out at some time are in the table".to_owned()];
    if !states.is_empty() {
        notes.push(format!("taken for out of service: {}", states.join(", ")));
    }
    if of_cluster > 0 {
        notes.push(format!("{of_cluster} rows name no node: left out"));
    }
    Ok(without_zone(sightings.into_trace(name, TraceFormat::SlurmEvents, notes)?))
}

#[cfg(test)]
mod tests {
    use crate::trace::parse;
    use rstest::rstest;

    const HEADER: &str = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n";

    #[test]
    fn nodes_are_up_but_for_their_events() {
        let rows = "c||2026-01-01T00:00:00|Unknown||Cluster Registered TRES|\n\
                    c|gpu[1-2]|2026-01-01T00:00:00|2026-01-01T01:00:00|DOWN*|x|root(0)\n\
                    c|gpu1|2026-01-01T01:00:00|2026-01-01T02:00:00|DRAIN|x|root(0)\n\
                    c|gpu3|2026-01-01T03:00:00|Unknown|DOWN|x|root(0)\n";
        let trace = parse(&(HEADER.to_owned() + rows), "t").unwrap();
        let story: Vec<(f64, &str)> =
            trace.events.iter().map(|e| (e.time.as_seconds() / 60.0, e.node.as_str())).collect();
        // gpu1 and gpu2 are out at the start; gpu1's two events are one.
        assert_eq!(story, [(0.0, "gpu3"), (60.0, "gpu2"), (120.0, "gpu1"), (180.0, "gpu3")]);
        assert!(trace.notes.iter().any(|note| note.contains("DOWN (1), DOWN* (1), DRAIN (1)")), "{:?}", trace.notes);
        assert!(trace.notes.iter().any(|note| note.starts_with("1 rows name no node")), "{:?}", trace.notes);
    }

    #[rstest]
    #[case("c|a|Unknown|Unknown|DOWN||\n", "line 2, column `TimeStart`: expected a time like")]
    #[case("c|a|2026-01-01T00:00:00|now|DOWN||\n", "line 2, column `TimeEnd`: expected a time like")]
    #[case(
        "c|a]|2026-01-01T00:00:00|Unknown|DOWN||\n",
        "line 2, column `NodeName`: expected a list of nodes, not a `]`"
    )]
    #[case(
        "c|a|2026-01-02T00:00:00|2026-01-01T00:00:00|DOWN||\n",
        "line 2, column `TimeEnd`: expected an end no earlier"
    )]
    #[case("c||2026-01-02T00:00:00|Unknown|||\n", "found none")]
    fn errors_say_where_and_what(#[case] rows: &str, #[case] part: &str) {
        let message = parse(&(HEADER.to_owned() + rows), "t").unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
