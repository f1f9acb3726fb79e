use super::*;
use crate::trace::durations::Durations;
use crate::trace::generator::{GeneratorSettings, generate};
use crate::trace::{Trace, TraceStatistics, parse, read};
use std::path::Path;

fn market(text: &str) -> RecordedMarket {
    fit(&parse(text, "t").unwrap()).unwrap()
}

fn generated(market: &RecordedMarket, seed: u64, hours: f64) -> Trace {
    let recorded = Some(market.clone());
    generate(&GeneratorSettings { seed, hours, recorded, ..GeneratorSettings::default() }).unwrap()
}

#[test]
fn losses_and_arrivals_by_hand() {
    // Two nodes; at 100 s the older goes (and is back at 160), at 200 s both go, one comes at 250 s, and nothing more until
    // 300 s.
    let text = "time_s,event,node,gpu_type,price_usd_per_hour\n0,up,a,T4,1\n10,up,b,T4,2\n70,notice,a,,\n100,down,a,,\n160,up,a,T4,3\n\
                200,down,a,,\n200,down,b,,\n250,up,b,T4,2\n300,end,,,\n";
    let market = market(text);
    let node = NodeOffer { gpu_type: Some("T4".into()), price_usd_per_hour: Some(2.0), ..NodeOffer::default() };
    assert_eq!((market.observed_s, &market.pools[..]), (300.0, &[RecordedPool { nodes: 2, node }][..]));
    let came = |after_s| RecordedChange {
        after_s,
        came: vec![PoolArrival { pool: 0, nodes: 1 }],
        ..RecordedChange::default()
    };
    let lost = |after_s, notice_s, ranks: &[u32]| RecordedChange {
        after_s,
        notice_s,
        lost: vec![PoolLoss { pool: 0, ranks: ranks.to_vec() }],
        ..RecordedChange::default()
    };
    let quiet = RecordedChange { after_s: 50.0, ..RecordedChange::default() };
    let expected =
        [came(0.0), came(10.0), lost(90.0, 30.0, &[0]), came(60.0), lost(40.0, 0.0, &[0, 1]), came(50.0), quiet];
    assert_eq!(market.changes, expected);
    assert_eq!((market.loss_events(), market.nodes_lost()), (2, 3));
}

#[test]
fn it_begins_as_the_recorded_one_and_goes_on_where_as_many_are_up() {
    // One node, up for 10 s and away for 5 s again and again: whatever is drawn, it can't be told from the trace.
    let rows = (0..40)
        .fold(String::new(), |rows, turn| rows + &format!("{},up,a,T4\n{},down,a,\n", 15 * turn, 15 * turn + 10));
    let market = market(&format!("time_s,event,node,gpu_type\n{rows}"));
    for seed in 0..5 {
        let trace = generated(&market, seed, 1.0);
        let times: Vec<u64> = trace.events.iter().map(|event| event.time.0 / 1_000_000_000).collect();
        let expected: Vec<u64> = (0..240).flat_map(|turn| [15 * turn, 15 * turn + 10]).collect();
        assert_eq!(times[..expected.len()], expected);
    }
}

#[test]
fn what_is_replayed_is_a_trace_and_survives_its_settings_file() {
    let market = fit(&read(Path::new("traces/aws-spot.csv")).unwrap()).unwrap();
    let settings = GeneratorSettings { recorded: Some(market), seed: 3, hours: 48.0, ..GeneratorSettings::default() };
    let text = toml::to_string(&settings).unwrap();
    assert_eq!(toml::from_str::<GeneratorSettings>(&text).unwrap(), settings);
    let trace = generate(&settings).unwrap();
    assert_eq!(trace.span, crate::units::SimTime::SECOND * 172_800);
    let mut written = Vec::new();
    crate::trace::write_canonical(&trace, &mut written).unwrap();
    assert_eq!(parse(std::str::from_utf8(&written).unwrap(), "t").unwrap().events, trace.events);
    assert_eq!(generate(&settings).unwrap(), trace);
    assert_ne!(generate(&GeneratorSettings { seed: 4, ..settings }).unwrap().events, trace.events);
}

#[test]
fn a_trace_without_a_loss_is_no_market() {
    assert_eq!(fit(&parse("time_s,event,node\n0,up,a\n60,end,\n", "t").unwrap()), None);
}

#[test]
fn settings_that_lead_nowhere_are_refused() {
    type Spoil = fn(&mut RecordedMarket);
    let good = market("time_s,event,node\n0,up,a\n60,down,a\n90,up,a\n");
    let spoiled: [(&str, Spoil); 9] = [
        ("recorded.changes[1].pool", |market| market.changes[1].lost[0].pool = 1),
        ("recorded.changes[1].lost.ranks", |market| market.changes[1].lost[0].ranks.clear()),
        ("recorded.changes[1].lost.ranks", |market| market.changes[1].lost[0].ranks[0] = 1),
        ("recorded.changes[0].came.nodes", |market| market.changes[0].came[0].nodes = 2),
        ("recorded.changes[2].after_s", |market| market.changes[2].after_s = f64::NAN),
        ("recorded.changes[1].after_s", |market| market.changes[1].after_s = 0.0),
        ("after_s, all together", |market| market.changes.iter_mut().skip(1).for_each(|change| change.after_s = 0.01)),
        ("recorded.pools[0].nodes", |market| market.pools[0].nodes = 0),
        ("recorded.changes", |market| market.changes.clear()),
    ];
    for (part, spoil) in spoiled {
        let mut market = good.clone();
        spoil(&mut market);
        let settings = GeneratorSettings { recorded: Some(market), ..GeneratorSettings::default() };
        let message = generate(&settings).unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{part}: {message}");
    }
}

/// A figure of several traces together, as numbers that are taken together: a sum over another one, or a share of the sorted.
enum Figure {
    Ratio(f64, f64),
    Quantile(f64, Vec<f64>),
}

impl Figure {
    fn value(&self) -> f64 {
        match self {
            Self::Ratio(sum, of) => sum / of,
            Self::Quantile(share, sorted) => quantile(sorted, *share),
        }
    }
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[index as usize], sorted[index.ceil() as usize]);
    low + index.fract() * (high - low)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// What traces are compared by.
fn figures(traces: &[Trace]) -> [(&'static str, Figure); 6] {
    let all: Vec<TraceStatistics> = traces.iter().map(TraceStatistics::of).collect();
    let sum = |of: fn(&TraceStatistics) -> f64| all.iter().map(of).sum::<f64>();
    let up_s = sorted(traces.iter().flat_map(|trace| Durations::up_times(trace).ended_s).collect());
    let bulks = sorted(traces.iter().flat_map(bulk_sizes).collect());
    let losses = sum(|s| s.loss_count as f64);
    [
        ("losses per node-hour", Figure::Ratio(losses, sum(|s| s.node_hours))),
        ("nodes per loss, mean", Figure::Ratio(losses, bulks.len() as f64)),
        ("nodes per loss, p90", Figure::Quantile(0.9, bulks)),
        ("availability", Figure::Ratio(sum(|s| s.mean_availability), all.len() as f64)),
        ("up-time median", Figure::Quantile(0.5, up_s.clone())),
        ("up-time p90", Figure::Quantile(0.9, up_s)),
    ]
}

fn bulk_sizes(trace: &Trace) -> Vec<f64> {
    let losses = trace.events.iter().filter(|event| event.kind == crate::trace::TraceEventKind::Down);
    let times: Vec<u64> = losses.map(|event| event.time.0).collect();
    times.chunk_by(|a, b| a == b).map(|chunk| chunk.len() as f64).collect()
}

/// Sixty generated traces as long as the recorded one, taken together, against it: which figures are off.
///
/// By 15 % at most, and quantiles alternatively by no more than what the recorded one tells of its market: its loss events are so
/// many observations of each, whose nodes go together, and the quantile of the market lies with 95 % between these shares of what
/// was observed (order statistics: no law of the values). Sizes of losses are whole: a quantile of them may be off by one node.
fn off(path: &Path) -> Vec<String> {
    let trace = read(path).unwrap();
    let market = fit(&trace).unwrap();
    let hours = market.observed_s / 3600.0;
    let traces: Vec<Trace> = (0..60).map(|seed| generated(&market, seed, hours)).collect();
    let events = market.loss_events() as f64;
    let pairs = figures(std::slice::from_ref(&trace)).into_iter().zip(figures(&traces));
    let judged = pairs.map(|((what, real), (_, made))| {
        let (real_value, made_value) = (real.value(), made.value());
        let told = format!("{what} {real_value:.3} {:+.1} %", (made_value / real_value - 1.0) * 100.0);
        let is_near = (made_value / real_value - 1.0).abs() <= 0.15;
        let is_one_node = what == "nodes per loss, p90" && (made_value - real_value).abs() <= 1.0;
        let is_unknown = match &real {
            Figure::Quantile(share, sorted) => {
                let spread = 1.96 * (share * (1.0 - share) / events).sqrt();
                (quantile(sorted, share - spread)..=quantile(sorted, share + spread)).contains(&made_value)
            }
            Figure::Ratio(..) => false,
        };
        let note = if is_near || is_one_node { "" } else { ", within what so few loss events tell" };
        println!("{}: {told}{note}", path.file_name().unwrap_or_default().to_string_lossy());
        (is_near || is_one_node || is_unknown, told)
    });
    judged.filter(|(is_right, _)| !is_right).map(|(_, told)| told).collect()
}

/// Fewer loss events are a story, and no statistics.
const FEWEST_LOSS_EVENTS: usize = 10;

#[test]
fn a_market_taken_from_a_trace_has_its_statistics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = vec![root.join("traces/aws-spot.csv")];
    let recorded = std::fs::read_dir(root.join("../shared/data/traces")).into_iter().flatten().flatten();
    paths.extend(recorded.map(|entry| entry.path()));
    paths.sort();
    let mut compared = 0;
    for path in &paths {
        let Ok(trace) = read(path) else { continue };
        if fit(&trace).is_some_and(|market| market.loss_events() >= FEWEST_LOSS_EVENTS) {
            let off = off(path);
            assert!(off.is_empty(), "{}: {off:?}", path.display());
            compared += 1;
        }
    }
    assert!(compared >= 1 && (paths.len() < 12 || compared >= 10), "{compared} of {paths:?}");
}
