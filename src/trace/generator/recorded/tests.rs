use super::*;
use crate::trace::durations::Durations;
use crate::trace::generator::{GeneratorSettings, generate};
use crate::trace::statistics::Spread;
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
fn losses_ages_and_absences_by_hand() {
    // Two nodes; at 100 s the older goes (and is back at 160), at 200 s both go, and nothing more until 300 s: of that the
    // second is away for 50 s and the first for good.
    let text = "time_s,event,node,gpu_type\n0,up,a,T4\n10,up,b,T4\n70,notice,a,\n100,down,a,\n160,up,a,T4\n200,down,a,\n200,down,b,\n\
                250,up,b,T4\n300,end,,\n";
    let market = market(text);
    assert_eq!((market.observed_s, market.pools.len()), (300.0, 1));
    assert_eq!(market.pools[0].first_s, [0.0, 10.0]);
    let part =
        |ages: &[f64], away_s: &[f64]| vec![PoolLoss { pool: 0, up: 2, ages: ages.to_vec(), away_s: away_s.to_vec() }];
    let expected = [
        RecordedLoss { after_s: 100.0, notice_s: 30.0, of: part(&[0.75], &[60.0]) },
        // The youngest first: `a` has been back since 160 s. It is away for 100 s and more.
        RecordedLoss { after_s: 100.0, notice_s: 0.0, of: part(&[0.25, 0.75], &[100.0, 50.0]) },
        RecordedLoss { after_s: 50.0, ..RecordedLoss::default() },
    ];
    assert_eq!(market.losses, expected);
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
    let spoiled: [(&str, Spoil); 7] = [
        ("recorded.losses[0].pool", |market| market.losses[0].of[0].pool = 1),
        ("recorded.losses[0].ages", |market| market.losses[0].of[0].ages.clear()),
        ("recorded.losses[0].ages", |market| market.losses[0].of[0].ages[0] = 1.5),
        ("recorded.losses[0].away_s", |market| market.losses[0].of[0].away_s[0] = f64::NAN),
        ("after_s, all together", |market| market.losses.iter_mut().for_each(|loss| loss.after_s = 0.0)),
        ("recorded.pools[0].first_s", |market| market.pools[0].first_s.clear()),
        ("recorded.losses", |market| market.losses.clear()),
    ];
    for (part, spoil) in spoiled {
        let mut market = good.clone();
        spoil(&mut market);
        let settings = GeneratorSettings { recorded: Some(market), ..GeneratorSettings::default() };
        let message = generate(&settings).unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("\nhint: "), "{part}: {message}");
    }
}

/// What a trace is compared by.
#[derive(Clone, Copy, Debug)]
struct Likeness {
    losses_per_node_hour: f64,
    bulk_mean: f64,
    bulk_p90: f64,
    up_median_s: f64,
    up_p90_s: f64,
    availability: f64,
}

/// Of several traces together.
fn likeness(traces: &[Trace]) -> Likeness {
    let all: Vec<TraceStatistics> = traces.iter().map(TraceStatistics::of).collect();
    let sum = |of: fn(&TraceStatistics) -> f64| all.iter().map(of).sum::<f64>();
    let up_s = traces.iter().flat_map(|trace| Durations::up_times(trace).ended_s).collect();
    let bulks: Vec<f64> = traces.iter().flat_map(bulk_sizes).collect();
    let (up, bulk) = (Spread::of(up_s).unwrap(), Spread::of(bulks).unwrap());
    Likeness {
        losses_per_node_hour: sum(|s| s.loss_count as f64) / sum(|s| s.node_hours),
        bulk_mean: bulk.mean,
        bulk_p90: bulk.p90,
        up_median_s: up.median,
        up_p90_s: up.p90,
        availability: sum(|s| s.mean_availability) / all.len() as f64,
    }
}

fn bulk_sizes(trace: &Trace) -> Vec<f64> {
    let losses = trace.events.iter().filter(|event| event.kind == crate::trace::TraceEventKind::Down);
    let times: Vec<u64> = losses.map(|event| event.time.0).collect();
    times.chunk_by(|a, b| a == b).map(|chunk| chunk.len() as f64).collect()
}

/// Sixty generated traces as long as the recorded one, taken together, against it: by how much each figure is off.
fn compare(path: &Path) -> [f64; 6] {
    let trace = read(path).unwrap();
    let market = fit(&trace).unwrap();
    let hours = market.observed_s / 3600.0;
    let traces: Vec<Trace> = (0..60).map(|seed| generated(&market, seed, hours)).collect();
    let (real, made) = (likeness(std::slice::from_ref(&trace)), likeness(&traces));
    let pairs = [
        ("losses per node-hour", real.losses_per_node_hour, made.losses_per_node_hour),
        ("nodes per loss, mean", real.bulk_mean, made.bulk_mean),
        ("nodes per loss, p90", real.bulk_p90, made.bulk_p90),
        ("availability", real.availability, made.availability),
        ("up-time median", real.up_median_s, made.up_median_s),
        ("up-time p90", real.up_p90_s, made.up_p90_s),
    ];
    let mut off = pairs.map(|(_, real, made)| (made / real - 1.0).abs());
    let told = pairs.iter().map(|(what, real, made)| format!("{what} {real:.3} {:+.1} %", (made / real - 1.0) * 100.0));
    println!("{}: {}", path.file_name().unwrap_or_default().to_string_lossy(), told.collect::<Vec<_>>().join(", "));
    // Nodes come whole: a percentile of few losses may be off by one of them.
    if (real.bulk_p90 - made.bulk_p90).abs() <= 1.0 {
        off[2] = 0.0;
    }
    off
}

/// Losses per node-hour, bulk sizes and availability are within 15 % for all traces, and up-times for Bamboo's two and those of 4
/// and of 16 nodes. The median of the single K80 is off by one of its ticks of ten minutes, that of `aws-spot.csv`, which has 96
/// up-times in three pools, by 19 %. Of counts the newest nodes go first, so that most up-times are those of a few nodes that come
/// and go again and again: Parcae's median is 20 % off, those of GCP and Sailor 40 % to 80 %.
#[test]
fn a_market_taken_from_a_trace_has_its_statistics() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = [
        ("traces/aws-spot.csv", [0.25, 0.15]),
        ("../shared/data/traces/bamboo-p3-trace.csv", [0.15, 0.15]),
        ("../shared/data/traces/bamboo-g4dn-trace.csv", [0.15, 0.15]),
        ("../shared/data/traces/parcae-p3-counts.csv", [0.25, 0.15]),
        ("../shared/data/traces/gcp-a100x1-east1b.txt", [0.8, 0.4]),
        ("../shared/data/traces/skypilot-16node-us-east-2b-v100.json", [0.15, 0.15]),
        ("../shared/data/traces/skypilot-4node-us-west-2c-v100.json", [0.15, 0.15]),
        ("../shared/data/traces/skypilot-1node-us-west-2a-k80.json", [0.17, 0.15]),
        ("../shared/data/traces/ping-failed-us-west-2a-k80.csv", [0.17, 0.15]),
        ("../shared/data/traces/sailor-a100-levels.json", [0.45, 0.3]),
    ];
    for (file, up_times) in files {
        let path = root.join(file);
        if path.exists() {
            let off = compare(&path);
            assert!(off[..4].iter().all(|off| *off <= 0.15), "{file}: {off:?}");
            assert!(off[4..].iter().zip(up_times).all(|(off, most)| *off <= most), "{file}: {off:?}");
        }
    }
}
