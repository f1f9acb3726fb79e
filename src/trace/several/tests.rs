use super::*;
use crate::trace::{TraceEventKind, TraceStatistics};
use std::path::PathBuf;

struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    fn read(&self, named: &[&str], options: &ReadOptions) -> Result<Trace, String> {
        let path = |name: &&str| -> PathBuf { self.0.path().join(name) };
        let sources = named.iter().map(|name| TraceSource::parse(&path(name)).unwrap()).collect::<Vec<_>>();
        read_all(&sources, options).map_err(|error| error.to_string())
    }
}

fn story(trace: &Trace) -> String {
    let sign = |kind: &TraceEventKind| match kind {
        TraceEventKind::Up(offer) => format!("+{}", offer.gpu_type.as_deref().unwrap_or_default()),
        TraceEventKind::Notice { .. } => "!".to_owned(),
        TraceEventKind::Down => "-".to_owned(),
        TraceEventKind::Cancelled => "~".to_owned(),
    };
    let told = trace.events.iter().map(|e| format!("{} {}{}; ", e.time.as_seconds(), e.node, sign(&e.kind)));
    told.collect::<Vec<_>>().concat()
}

fn said(trace: &Trace, part: &str) -> bool {
    trace.notes.iter().any(|note| note.contains(part))
}

const BAMBOO: &str = "0,add,node1\n10000,add,node2\n60000,remove,node1\n";
const COUNTS: &str = "{\"metadata\": {\"gap_seconds\": 15}, \"data\": [2, 2, 1, 1]}";

#[test]
fn without_a_calendar_each_begins_at_zero_and_the_first_end_counts() {
    let files = Files::new(&[("a.csv", BAMBOO), ("b.json", COUNTS)]);
    let trace = files.read(&["a.csv:1xA100-40", "b.json:1xV100-16@z"], &ReadOptions::default()).unwrap();
    // The counts end at 45 s, before the first removal.
    assert_eq!(
        story(&trace),
        "0 node1+A100-40; 0 v100-16-z-000+V100-16; 0 v100-16-z-001+V100-16; 10 node2+A100-40; 30 v100-16-z-001-; "
    );
    assert_eq!(trace.span, SimTime::SECOND * 45);
    assert!(said(&trace, "each trace begins at zero, because not all have times of the calendar"), "{:?}", trace.notes);
    assert!(
        said(
            &trace,
            "a.csv: it goes on to 60.00 s, but the first of the traces ends at 45.00 s: 1 events are left out"
        ),
        "{:?}",
        trace.notes
    );
    assert_eq!(TraceStatistics::of(&trace).peak_nodes_up, 4);
}

#[test]
fn a_horizon_holds_the_shorter_and_says_so() {
    let files = Files::new(&[("a.csv", BAMBOO), ("b.json", COUNTS)]);
    let options = ReadOptions { horizon: Some(SimTime::SECOND * 100), ..ReadOptions::default() };
    let trace = files.read(&["a.csv:A100-40", "b.json:V100-16"], &options).unwrap();
    assert_eq!((trace.span, trace.events.len()), (SimTime::SECOND * 100, 6));
    for part in ["a.csv: it ends at 60.00 s", "b.json: it ends at 45.00 s"] {
        assert!(said(&trace, part) && said(&trace, "which nobody observed"), "{:?}", trace.notes);
    }
}

#[test]
fn calendars_are_set_against_each_other() {
    // The second begins 30 s after the first, whose node `a` is up then and `b` gone.
    let first = "time,event,node\n2026-01-01T00:00:00Z,up,a\n2026-01-01T00:00:00Z,up,b\n2026-01-01T00:00:20Z,down,b\n\
                 2026-01-01T00:01:00Z,down,a\n";
    let second = "time,event,node\n2026-01-01T01:00:30+01:00,up,c\n2026-01-01T01:00:50+01:00,down,c\n2026-01-01T01:02:00+01:00,up,c\n";
    let files = Files::new(&[("a.csv", first), ("b.csv", second)]);
    let trace = files.read(&["a.csv:T4", "b.csv:L4"], &ReadOptions::default()).unwrap();
    assert_eq!(story(&trace), "0 a+T4; 0 c+L4; 20 c-; 30 a-; ");
    assert_eq!(
        (trace.span, trace.zero.unwrap().to_string()),
        (SimTime::SECOND * 30, "2026-01-01T00:00:30Z".to_owned())
    );
    let options = ReadOptions { align: Some(Align::Start), ..ReadOptions::default() };
    let trace = files.read(&["a.csv:T4", "b.csv:L4"], &options).unwrap();
    assert_eq!(story(&trace), "0 a+T4; 0 b+T4; 0 c+L4; 20 b-; 20 c-; 60 a-; ");
}

#[test]
fn files_of_unlike_years_have_nothing_in_common() {
    let text = |year: u32| format!("time,event,node\n{year}-01-01T00:00:00Z,up,a\n{year}-01-02T00:00:00Z,down,a\n");
    let files = Files::new(&[("a.csv", &text(2024)), ("b.csv", &text(2026)), ("c.csv", BAMBOO)]);
    let message = files.read(&["a.csv", "b.csv"], &ReadOptions::default()).unwrap_err();
    assert!(message.contains("no time in common") && message.contains("--align start"), "{message}");
    let options = ReadOptions { align: Some(Align::Time), ..ReadOptions::default() };
    let message = files.read(&["a.csv", "c.csv"], &options).unwrap_err();
    assert!(message.contains("c.csv") && message.contains("\nhint: "), "{message}");
}

#[test]
fn nodes_of_one_name_are_told_apart() {
    let files = Files::new(&[("a.csv", BAMBOO), ("b.csv", BAMBOO)]);
    let trace = files.read(&["a.csv:T4", "b.csv:L4"], &ReadOptions::default()).unwrap();
    assert!(story(&trace).starts_with("0 t4/node1+T4; 0 l4/node1+L4; 10 t4/node2+T4; "), "{}", story(&trace));
    assert!(said(&trace, "several files have a node `node1`"), "{:?}", trace.notes);
    let trace = files.read(&["a.csv:T4", "b.csv:T4"], &ReadOptions::default()).unwrap();
    assert!(story(&trace).starts_with("0 1/node1+T4; 0 2/node1+T4; "), "{}", story(&trace));
}

#[test]
fn options_and_names_that_contradict_a_file_are_refused() {
    let files = Files::new(&[
        ("a.csv", BAMBOO),
        ("b.json", COUNTS),
        ("c.csv", "time_s,event,node,gpu_type\n0,up,x,T4\n9,down,x,\n"),
    ]);
    let message = files.read(&["a.csv", "c.csv:L4"], &ReadOptions::default()).unwrap_err();
    assert!(message.contains("c.csv`: node `x` is `T4`, and `L4` was said"), "{message}");
    // Of two files one has counts, so the option means something.
    let options = ReadOptions { which_node: Some(crate::trace::WhichNode::Oldest), ..ReadOptions::default() };
    let trace = files.read(&["a.csv", "b.json"], &options).unwrap();
    assert!(story(&trace).contains("30 node-000-"), "{}", story(&trace));
    let message = files.read(&["a.csv", "c.csv"], &options).unwrap_err();
    assert!(message.contains("`--which-node` means nothing"), "{message}");
}
