//! What the canonical reader understands, and what it refuses.

use super::*;
use rstest::rstest;

fn seconds(trace: &Trace) -> Vec<(f64, &str, String)> {
    let kind = |kind: &TraceEventKind| match kind {
        TraceEventKind::Up(_) => "up".to_owned(),
        TraceEventKind::Notice { notice } => format!("notice {}", notice.as_seconds()),
        TraceEventKind::Cancelled => "cancelled".to_owned(),
        TraceEventKind::Down => "down".to_owned(),
    };
    trace.events.iter().map(|event| (event.time.as_seconds(), event.node.as_str(), kind(&event.kind))).collect()
}

fn story(text: &str) -> String {
    let trace = parse(text, "t.csv").unwrap();
    let told: Vec<String> =
        seconds(&trace).into_iter().map(|(time, node, kind)| format!("{time} {node} {kind}; ")).collect();
    told.concat()
}

#[test]
fn every_column_is_read() {
    let text = "time_s,event,node,gpu_type,gpu_count,zone,price_usd_per_hour,notice_s\n\
                0.5,up,a,A100-40,8,us-east-1a,8.25,\n60,notice,a,,,,,120\n180,down,a,,,,,";
    let trace = parse(text, "t.csv").unwrap();
    let offer = NodeOffer {
        gpu_type: Some("A100-40".into()),
        gpu_count: Some(8),
        zone: Some("us-east-1a".into()),
        price_usd_per_hour: Some(8.25),
    };
    assert_eq!(trace.events[0].kind, TraceEventKind::Up(offer));
    assert_eq!(trace.events[0].time, SimTime::from_seconds(0.5));
    assert_eq!(trace.events[1].kind, TraceEventKind::Notice { notice: SimTime::SECOND * 120 });
    assert_eq!((trace.span, trace.format), (SimTime::SECOND * 180, TraceFormat::Canonical));
    assert_eq!(trace.notes.len(), 1, "{:?}", trace.notes);
}

#[test]
fn columns_come_in_any_order_and_case_and_open_cells_stay_open() {
    let trace = parse("\nNode,ZONE,Event,time_s\r\na,,UP,0\r\n\"b,c\",z,Launched,1\r\n", "t").unwrap();
    assert_eq!(trace.events[0].kind, TraceEventKind::Up(NodeOffer::default()));
    assert_eq!(trace.events[1].node, "b,c");
    let TraceEventKind::Up(offer) = &trace.events[1].kind else { panic!("expected an up") };
    assert_eq!((offer.zone.as_deref(), offer.gpu_count), (Some("z"), None));
}

#[test]
fn a_byte_order_mark_and_comments_are_tolerated() {
    let trace = super::super::parse("\u{feff}# made by hand\ntime_s,event,node\n# later\n3,up,a\n", "t").unwrap();
    assert_eq!(seconds(&trace), [(3.0, "a", "up".to_owned())]);
}

#[rstest]
fn events_have_synonyms(
    #[values("up", "add", "launched", "running")] up: &str,
    #[values("down", "remove", "removed", "preempted", "terminated", "interrupted", "Preempted")] down: &str,
) {
    assert_eq!(story(&format!("time_s,event,node\n0,{up},a\n1,{down},a\n")), "0 a up; 1 a down; ");
}

#[test]
fn an_end_makes_the_trace_last() {
    let trace = parse("time_s,event,node\n0,up,a\n90,end,\n", "t").unwrap();
    assert_eq!((seconds(&trace).len(), trace.span), (1, SimTime::SECOND * 90));
}

#[test]
fn events_of_one_time_keep_their_order() {
    let text = "time_s,event,node\n0,up,b\n0,up,a\n5,down,b\n5,up,c\n5,down,a\n5,up,b\n";
    assert_eq!(story(text), "0 b up; 0 a up; 5 b down; 5 c up; 5 a down; 5 b up; ");
}

#[test]
fn a_notice_on_a_down_row_is_an_event_of_its_own() {
    let text = "time_s,event,node,notice_s\n0,up,a\n0,up,b\n100,down,b\n150,down,a,120\n";
    assert_eq!(story(text), "0 a up; 0 b up; 30 a notice 120; 100 b down; 150 a down; ");
    let warned = "time_s,event,node,notice_s\n0,up,a\n30,notice,a,120\n150,down,a,120\n";
    assert_eq!(story(warned), "0 a up; 30 a notice 120; 150 a down; ");
}

#[test]
fn a_notice_before_the_node_came_up_is_shortened_and_said() {
    let trace = parse("time_s,event,node,notice_s\n100,up,a\n150,down,a,120\n", "t").unwrap();
    let expected =
        [(100.0, "a", "up".to_owned()), (100.0, "a", "notice 50".to_owned()), (150.0, "a", "down".to_owned())];
    assert_eq!(seconds(&trace), expected);
    assert!(trace.notes[1].starts_with("1 notices would begin before"), "{:?}", trace.notes);
}

#[test]
fn a_notice_without_its_length_lasts_until_the_loss_or_the_end() {
    assert_eq!(story("time_s,event,node\n0,up,a\n10,notice,a\n40,down,a\n"), "0 a up; 10 a notice 30; 40 a down; ");
    let trace = parse("time_s,event,node\n0,up,a\n0,up,b\n10,notice,a\n25,down,b\n", "t").unwrap();
    assert_eq!(seconds(&trace)[2], (10.0, "a", "notice 15".to_owned()));
    assert!(trace.notes[1].contains("no loss"), "{:?}", trace.notes);
}

#[rstest]
#[case("2026-03-29T00:30:00Z", "2026-03-29T03:00:00+02:00", 1800.0, "counted from 2026-03-29T00:30:00Z")]
#[case("2026-03-29T00:30:00", "2026-03-29 03:30:00.5", 10_800.5, "without a zone counted from 2026-03-29T00:30:00")]
#[case("1969-12-31", "1970-01-01", 86_400.0, "without a zone counted from 1969-12-31T00:00:00")]
fn calendar_times_count_from_the_first_row(
    #[case] first: &str,
    #[case] second: &str,
    #[case] span_s: f64,
    #[case] unit: &str,
) {
    let trace = parse(&format!("time,event,node\n{first},up,a\n{second},down,a\n"), "t").unwrap();
    assert_eq!((trace.events[0].time, trace.span), (SimTime::ZERO, SimTime::from_seconds(span_s)));
    assert!(trace.notes[0].contains(unit), "{:?}", trace.notes);
}

#[test]
fn times_since_1970_are_pointed_out() {
    let trace = parse("time_s,event,node\n1712574014,up,a\n1712574015,down,a\n", "t").unwrap();
    assert!(trace.notes[1].contains("1970"), "{:?}", trace.notes);
}

#[rstest]
#[case(
    "time_s,event,node,gpu_typ\n",
    "line 1, column `gpu_typ`: expected one of `time_s`, `time`, ",
    "`gpu_type` is near"
)]
#[case("time_s,event,node,colour\n", "column `colour`", "leave out")]
#[case("time_s,event,node,event\n", "column `event`: expected once, found twice", "leave one")]
#[case("time_s,event,node,time\n", "column `time`: expected `time_s` or `time`, found both", "leave one")]
#[case("event,node\n", "column `time_s`: expected a column of times, found none", "ISO 8601")]
#[case("time_s,node\n", "column `event`: expected this column", "every row")]
#[case("time_s,event\n", "column `node`: expected this column", "every row")]
fn headers_that_are_refused(#[case] header: &str, #[case] problem: &str, #[case] hint: &str) {
    let message = parse(&format!("{header}0,up,a,b\n"), "t.csv").unwrap_err().to_string();
    let (said, hinted) = message.split_once("\nhint: ").unwrap();
    assert!(said.starts_with("`t.csv` line 1, column ") && said.contains(problem), "{message}");
    assert!(hinted.contains(hint), "{message}");
}

#[rstest]
#[case("-1,up,a", "column `time_s`: expected seconds from 0 to 100 years, found `-1`")]
#[case("nan,up,a", "column `time_s`: expected seconds from 0 to 100 years, found `nan`")]
#[case("inf,up,a", "found `inf`")]
#[case("1e30,up,a", "found `1e30`")]
#[case(",up,a", "column `time_s`: expected seconds from 0 to 100 years, found nothing")]
#[case("9,up,a\n8,down,a", "column `time_s`: expected a time no earlier than line 2 (`9`), found `8`")]
#[case("0,upp,a", "column `event`: expected `up`, `notice`, `cancelled` or `down`, found `upp`\nhint: `up` is near")]
#[case(
    "0,,a",
    "column `event`: expected `up`, `notice`, `cancelled` or `down`, found nothing\nhint: known words are `up`, `add`"
)]
#[case("0,up,", "column `node`: expected the node's name, found nothing")]
#[case("0,up", "column `node`: expected the node's name, found nothing")]
#[case("0,up,a,T4,0", "column `gpu_count`: expected a whole number of GPUs from 1 to 1024, found `0`")]
#[case("0,up,a,T4,eight", "column `gpu_count`: expected a whole number of GPUs from 1 to 1024, found `eight`")]
#[case("0,up,a,T4,8,-3", "column `price_usd_per_hour`: expected US dollars per hour of 0 or more, found `-3`")]
#[case("0,up,a\n0,notice,a,,,,soon", "column `notice_s`: expected seconds from 0 to 100 years, found `soon`")]
#[case("0,up,a\n0,down,a,,,,-5", "column `notice_s`: expected seconds from 0 to 100 years, found `-5`")]
#[case("0,up,a,T4,8,3,120,x", "expected at most 7 cells, found 8")]
#[case("0,up,a\n1,up,a", "column `node`: expected a node that isn't up, found `a`, up since line 2")]
#[case("0,preempted,a", "column `node`: expected a node that is up for the event `preempted`, found `a`, which never")]
#[case("0,up,a\n1,down,a\n2,notice,a", "for the event `notice`, found `a`, which went down in line 3")]
fn rows_that_are_refused(#[case] rows: &str, #[case] problem: &str) {
    let text = format!("time_s,event,node,gpu_type,gpu_count,price_usd_per_hour,notice_s\n{rows}\n");
    let message = parse(&text, "t.csv").unwrap_err().to_string();
    let last_line = 1 + rows.lines().count();
    assert!(message.starts_with(&format!("`t.csv` line {last_line}")), "{message}");
    assert!(message.contains(problem), "{message}");
    assert!(message.contains("\nhint: "), "{message}");
}

#[rstest]
#[case("12:00,up,a", "expected an ISO 8601 time with a zone, like `2026-01-31T18:00:00Z`, found `12:00`")]
#[case("5,up,a", "found `5`\nhint: times in seconds go in a column `time_s`")]
#[case(",up,a", "found nothing")]
#[case("2026-01-01T00:00Z,up,a\n2026-01-02T00:00,down,a", "expected an ISO 8601 time with a zone")]
#[case("2026-01-02T00:00Z,up,a\n2026-01-01T00:00Z,down,a", "expected a time within 100 years after the first row")]
#[case("1800-01-02T00:00Z,up,a\n2026-01-01T00:00Z,down,a", "expected a time within 100 years after the first row")]
#[case("2026-01-01T00:00Z,up,a\n2026-01-02T00:00Z,up,b\n2026-01-01T00:01Z,down,a", "no earlier than line 3")]
fn calendar_times_that_are_refused(#[case] rows: &str, #[case] problem: &str) {
    let message = parse(&format!("time,event,node\n{rows}\n"), "t.csv").unwrap_err().to_string();
    assert!(message.contains("column `time`: expected") && message.contains(problem), "{message}");
    assert!(message.contains("\nhint: "), "{message}");
}

#[test]
fn a_header_alone_is_empty() {
    assert!(matches!(parse("time_s,event,node\n# nothing\n", "t"), Err(TraceError::Empty { .. })));
}
