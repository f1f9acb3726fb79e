//! What holds for every format.

use super::*;
use crate::units::format_seconds;
use proptest::prelude::*;
use rstest::rstest;

proptest! {
    /// Whatever the text, there is a trace in order of time or an error with a hint, and never a panic.
    #[test]
    fn any_text_is_a_trace_or_an_error(
        header in prop::sample::select(vec!["", "time_s,event,node,notice_s\n", "time,node,event\n", "0,add,a\n"]),
        rows in prop::collection::vec(
            prop_oneof![
                "[0-9]{1,3},(up|down|notice|add|remove),[ab](,[0-9]{0,20})?",
                "2026-0[0-9]-[0-9]{2}T00:00(Z)?,[ab],(up|down)",
                "[0-9a-z,\"#\\r .:-]{0,20}",
                "\\PC{0,10}",
            ],
            0..6,
        ),
    ) {
        match parse(&(header.to_owned() + &rows.join("\n")), "t") {
            Ok(trace) => {
                prop_assert!(trace.events.is_sorted_by_key(|event| event.time));
                prop_assert!(trace.events.iter().all(|event| event.time <= trace.span));
                let mut written = Vec::new();
                write_canonical(&trace, &mut written).unwrap();
                let again = parse(std::str::from_utf8(&written).unwrap(), "t").unwrap();
                prop_assert_eq!((again.events, again.span), (trace.events, trace.span));
            }
            Err(error) => prop_assert!(error.to_string().contains("\nhint: "), "{}", error),
        }
    }
}

#[test]
fn a_file_is_read_by_its_content_whatever_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counts.json");
    fs_err::write(&path, "0,add,a\r\n1000,remove,a").unwrap();
    let trace = read(&path).unwrap();
    assert_eq!(trace.format, TraceFormat::BambooEvents);
    assert_eq!(trace.span, SimTime::SECOND);
    assert_eq!(
        trace.notes,
        [
            "Bamboo events, times in milliseconds: 1 nodes, 1 at most up at once, observed for 1.00 s, mean availability 1.00"
        ]
    );
}

#[test]
fn a_missing_file_and_bytes_that_are_no_text_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent.csv");
    let message = read(&path).unwrap_err().to_string();
    assert!(message.contains("absent.csv") && message.contains("hint:"), "{message}");

    let path = folder.path().join("latin1.csv");
    fs_err::write(&path, b"time_s,event,node\n0,up,caf\xe9\n").unwrap();
    let message = read(&path).unwrap_err().to_string();
    assert!(message.contains("line 2: expected UTF-8 text, found the byte 0xe9"), "{message}");
    assert!(message.contains("hint:"), "{message}");
}

#[test]
fn a_trace_survives_json() {
    let trace = parse("time_s,event,node,gpu_count\n0,up,a,8\n5,notice,a\n9,down,a\n", "t").unwrap();
    let json = serde_json::to_string(&trace).unwrap();
    assert_eq!(serde_json::from_str::<Trace>(&json).unwrap(), trace);
    assert!(json.contains("\"format\":\"canonical\""), "{json}");
}

/// A small file of each format.
pub(super) const SAMPLES: [(TraceFormat, &str); 16] = [
    (TraceFormat::Canonical, "time_s,event,node,gpu_type\n0,up,a,T4\n60,notice,a,\n180,down,a,\n200,end,,\n"),
    (TraceFormat::BambooEvents, "0,add,a\n0,add,b\n60000,remove,a\n"),
    (TraceFormat::ParcaeCounts, "0,1\n0,2\n60000,1\n120000,1\n"),
    (TraceFormat::GcpCounts, "2021-12-11, 11:11:30, 5\n2021-12-11, 11:13:10, 3\n"),
    (TraceFormat::StepCounts, "0,10\n41093,10\n41093,9\n68252,9\n"),
    (TraceFormat::SailorLevels, "[{\"Time\": 0.0, \"GPUs\": 16},\n {\"Time\": 630.0, \"GPUs\": 10}]"),
    (
        TraceFormat::SailorCsv,
        ",Timestamp,A100-40_us-c1-a,V100-16_us-c1-a\n0,1712574014.0,32,96\n1,1712574137.5,8,240\n",
    ),
    (
        TraceFormat::SkyPilot,
        "{\"metadata\": {\"gap_seconds\": 300}, \"data\": [0, 3, 7, 0], \"prices\": [1, 1.5, 2, 2]}",
    ),
    (
        TraceFormat::PingFailures,
        "0,2022-10-26T22:05:04.000Z,0\n1,2022-10-26T22:15:04.000Z,1\n2,2022-10-26T22:25:04.000Z,0\n",
    ),
    (
        TraceFormat::EventBridge,
        "[{\"detail-type\":\"EC2 Spot Instance Interruption Warning\",\"time\":\"2026-01-01T00:10:00Z\",\"detail\":\
         {\"instance-id\":\"i-1\",\"instance-action\":\"terminate\"}},{\"detail-type\":\"EC2 Instance State-change Notification\",\
         \"time\":\"2026-01-01T00:00:00Z\",\"detail\":{\"instance-id\":\"i-1\",\"state\":\"running\"}}]",
    ),
    (
        TraceFormat::SpotRequests,
        "{\"SpotInstanceRequests\":[{\"SpotInstanceRequestId\":\"sir-1\",\"InstanceId\":\"i-1\",\"CreateTime\":\
         \"2026-01-01T00:00:00Z\",\"Status\":{\"Code\":\"instance-terminated-by-price\",\"UpdateTime\":\"2026-01-01T01:00:00Z\"}}]}",
    ),
    (
        TraceFormat::GcpAuditLog,
        "{\"protoPayload\":{\"methodName\":\"v1.compute.instances.insert\"},\"timestamp\":\"2026-01-01T00:00:00Z\",\
         \"resource\":{\"labels\":{\"instance_id\":\"7\",\"zone\":\"us-central1-a\"}}}\n\
         {\"protoPayload\":{\"methodName\":\"compute.instances.preempted\"},\"timestamp\":\"2026-01-01T01:00:00Z\",\
         \"resource\":{\"labels\":{\"instance_id\":\"7\",\"zone\":\"us-central1-a\"}}}\n",
    ),
    (
        TraceFormat::AzureScheduledEvents,
        "{\"time\":\"2026-01-19T18:00:00Z\",\"DocumentIncarnation\":1,\"Events\":[]}\n\
         {\"time\":\"2026-01-19T18:29:10Z\",\"DocumentIncarnation\":2,\"Events\":[{\"EventId\":\"e\",\"EventType\":\"Preempt\",\
         \"Resources\":[\"vm\"],\"NotBefore\":\"Mon, 19 Jan 2026 18:29:47 GMT\"}]}\n\
         {\"time\":\"2026-01-19T18:30:00Z\",\"DocumentIncarnation\":3,\"Events\":[]}\n",
    ),
    (
        TraceFormat::SlurmJobs,
        "JobID|Start|End|State|NNodes|NodeList\n1|2026-01-01T00:00:00|2026-01-01T01:00:00|PREEMPTED|3|gpu[01-02,07]\n",
    ),
    (
        TraceFormat::SlurmEvents,
        "NodeName|TimeStart|TimeEnd|State\na|2026-01-01T00:00:00|2026-01-01T01:00:00|DOWN\nb|2026-01-01T02:00:00|Unknown|DOWN\n",
    ),
    (
        TraceFormat::PrometheusRange,
        "{\"data\":{\"result\":[{\"metric\":{\"node\":\"a\"},\"values\":[[1717000000,\"1\"],[1717000060,\"0\"]]}]}}",
    ),
];

#[test]
fn each_format_is_recognised_converted_and_read_back() {
    let options = ReadOptions { gpu_type: Some("V100-16".into()), gpus_per_node: Some(2), ..ReadOptions::default() };
    for (format, text) in SAMPLES {
        let trace = parse_with(text, "t", &options).unwrap_or_else(|error| panic!("{format}: {error}"));
        assert_eq!(trace.format, format);
        assert!(trace.notes[0].contains("mean availability"), "{:?}", trace.notes);
        let ups = trace.events.iter().filter_map(|event| match &event.kind {
            TraceEventKind::Up(offer) => Some(offer),
            _ => None,
        });
        assert!(ups.clone().count() > 0);
        assert!(ups.clone().all(|offer| offer.gpu_type.is_some() && offer.gpu_count == Some(2)), "{format}");
        let mut written = Vec::new();
        write_canonical(&trace, &mut written).unwrap();
        let again = parse(std::str::from_utf8(&written).unwrap(), "t").unwrap();
        assert_eq!((again.events, again.span), (trace.events, trace.span), "{format}");
        let asked = ReadOptions { format: Some(format), ..options.clone() };
        assert_eq!(parse_with(text, "t", &asked).unwrap().span, trace.span);
    }
}

proptest! {
    /// Files that are nearly right are read or refused with a hint, whatever the options, and never end in a panic.
    #[test]
    fn damaged_files_are_traces_or_errors(
        sample in prop::sample::select(SAMPLES.to_vec()),
        cuts in prop::collection::vec((0.0_f64..1.0, 0_usize..12, "[0-9a-z\\[\\]{}\":,|. \n-]{0,6}"), 1..4),
        asked in prop::option::of(prop::sample::select(SAMPLES.map(|(format, _)| format).to_vec())),
        which_node in prop::sample::select(vec![None, Some(WhichNode::Zone), Some(WhichNode::Random { seed: 1 })]),
        gpus_per_node in prop::sample::select(vec![None, Some(0), Some(3)]),
    ) {
        let mut text = sample.1.to_owned();
        for (share, length, inserted) in cuts {
            let start = (text.len() as f64 * share) as usize;
            let end = (start + length).min(text.len());
            text.replace_range(start..end, &inserted);
        }
        let options = ReadOptions { format: asked, which_node, gpus_per_node, ..ReadOptions::default() };
        match parse_with(&text, "t", &options) {
            Ok(trace) => {
                prop_assert!(trace.events.is_sorted_by_key(|event| event.time));
                prop_assert!(trace.events.iter().all(|event| event.time <= trace.span));
                prop_assert!(TraceStatistics::of(&trace).mean_availability <= 1.0 + 1e-9);
            }
            Err(error) => prop_assert!(error.to_string().contains("\nhint: "), "{}", error),
        }
    }
}

#[rstest]
#[case(0, ReadOptions { polarity: Some(Polarity::Preempted), ..ReadOptions::default() }, "`--polarity` means nothing for canonical CSV")]
#[case(1, ReadOptions { which_node: Some(WhichNode::Oldest), ..ReadOptions::default() }, "`--which-node` means nothing for Bamboo events")]
#[case(7, ReadOptions { time_unit: Some(TimeUnit::Hours), ..ReadOptions::default() }, "`--time-unit` means nothing for SkyPilot JSON")]
fn options_without_a_meaning_are_refused(#[case] sample: usize, #[case] options: ReadOptions, #[case] part: &str) {
    let message = parse_with(SAMPLES[sample].1, "t", &options).unwrap_err().to_string();
    assert!(message.contains(part) && message.contains("\nhint: leave the option out"), "{message}");
}

/// Statistics of recorded traces, where the files are at hand: format, most nodes up, mean availability, losses per node-hour
/// and nodes per loss event (mean, p90, max), the last two only where they are published.
#[test]
fn recorded_traces_read_with_their_published_statistics() {
    type Known = (&'static str, TraceFormat, usize, (f64, f64), Option<(f64, [f64; 3])>);
    let known: [Known; 10] = [
        ("parcae-p3-counts.csv", TraceFormat::ParcaeCounts, 32, (0.745, 0.755), None),
        ("gcp-a100x1-east1b.txt", TraceFormat::GcpCounts, 64, (0.895, 0.905), Some((0.10, [4.3, 8.0, 36.0]))),
        ("bamboo-doc-p2-counts.csv", TraceFormat::StepCounts, 10, (0.99, 1.0), None),
        ("sailor-a100-levels.json", TraceFormat::SailorLevels, 14, (0.5, 1.0), None),
        ("sailor-a100-original.json", TraceFormat::SailorLevels, 16, (0.5, 1.0), None),
        ("sailor-het-counts.csv", TraceFormat::SailorCsv, 512, (0.3, 0.7), None),
        (
            "skypilot-16node-us-east-2b-v100.json",
            TraceFormat::SkyPilot,
            16,
            (0.43, 0.55),
            Some((0.38, [6.7, 16.0, 16.0])),
        ),
        ("skypilot-4node-us-west-2c-v100.json", TraceFormat::SkyPilot, 4, (0.34, 0.82), None),
        ("skypilot-1node-us-west-2a-k80.json", TraceFormat::SkyPilot, 1, (0.89, 0.90), None),
        ("ping-failed-us-west-2a-k80.csv", TraceFormat::PingFailures, 1, (0.89, 0.90), None),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/traces");
    let mut k80 = Vec::new();
    for (file, format, most, (low, high), losses) in known {
        let path = folder.join(file);
        if !path.exists() {
            continue;
        }
        let trace = read(&path).unwrap_or_else(|error| panic!("{error}"));
        let statistics = TraceStatistics::of(&trace);
        let lost = statistics.nodes_lost_per_loss_event;
        println!(
            "{file}: {} up, {}, availability {:.4}, {:.4} losses per node-hour, {lost:?}, {:?}",
            statistics.peak_nodes_up,
            format_seconds(statistics.span_s),
            statistics.mean_availability,
            statistics.losses_per_node_hour,
            statistics.up_time_s,
        );
        assert_eq!((trace.format, statistics.peak_nodes_up), (format, most), "{file}");
        assert!((low..=high).contains(&statistics.mean_availability), "{file}: {}", statistics.mean_availability);
        if let Some((rate, [mean, p90, max])) = losses {
            let lost = lost.unwrap();
            approx::assert_relative_eq!(statistics.losses_per_node_hour, rate, epsilon = 0.006);
            approx::assert_relative_eq!(lost.mean, mean, epsilon = 0.06);
            approx::assert_relative_eq!(lost.p90.round(), p90);
            approx::assert_relative_eq!(lost.max, max);
        }
        if file.contains("k80") {
            k80.push(statistics.mean_availability);
        }
    }
    // One market, recorded once as what was there and once as what failed.
    if let [first, second] = k80[..] {
        approx::assert_relative_eq!(first, second, epsilon = 0.001);
    }
}
