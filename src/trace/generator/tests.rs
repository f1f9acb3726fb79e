//! Generated markets as a whole.

use super::*;
use crate::trace::{TraceEventKind, TraceStatistics, parse, read, write_canonical};
use proptest::prelude::*;
use rstest::rstest;
use std::collections::BTreeSet;
use std::path::Path;

/// Three types in two zones, as the project's own trace has them.
fn three_types(seed: u64) -> GeneratorSettings {
    let pools = ["5x8xA100-40@us-east-1a:8.0", "4x8xV100-16@us-east-1b:6.5", "3x8xT4@us-east-1a:2.9"];
    let pools = pools.map(|pool| PoolSettings::parse(pool).unwrap()).into();
    GeneratorSettings { seed, pools, ..GeneratorSettings::default() }
}

fn written(trace: &Trace) -> String {
    let mut bytes = Vec::new();
    write_canonical(trace, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_generated_survives_its_file(seed: u64, hours in 0.01_f64..60.0, nodes in 1_u32..20, notice_s in 0_u32..4000) {
        let mut settings = GeneratorSettings { hours, ..three_types(seed) };
        settings.pools[0].nodes = nodes;
        settings.pools[1].notice_s = notice_s;
        settings.pools[2].price_usd_per_hour = None;
        let trace = generate(&settings).unwrap();
        // Reading it back also checks that the story holds together.
        prop_assert_eq!(parse(&written(&trace), "t").unwrap(), trace);
    }

    #[test]
    fn no_setting_within_its_range_breaks_the_generator(
        seed: u64, sigma in 0.0_f64..=3.0, share in 0.01_f64..=1.0, swing in 0.0_f64..=0.9, lifetime in 0.1_f64..100.0,
    ) {
        let mut settings = three_types(seed);
        for pool in &mut settings.pools {
            pool.up_time_mean_hours = lifetime;
            (pool.up_time_sigma, pool.return_sigma) = (sigma, 3.0 - sigma);
            (pool.bulk_share, pool.bulk_take, pool.zone_bulk_share) = (share, share, 1.0);
            (pool.no_notice_share, pool.day_swing, pool.price_swing) = (1.0 - share, swing, share);
        }
        let trace = generate(&settings).unwrap();
        prop_assert_eq!(parse(&written(&trace), "t").unwrap(), trace);
    }
}

#[test]
fn seeds_tell_traces_apart() {
    assert_eq!(written(&generate(&three_types(1)).unwrap()), written(&generate(&three_types(1)).unwrap()));
    assert_ne!(generate(&three_types(1)).unwrap().events, generate(&three_types(2)).unwrap().events);
}

/// The trace in the repository is what its README says it is.
#[test]
fn the_trace_in_the_repository_is_made_by_its_command() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/aws-spot.csv");
    let trace = generate(&three_types(291)).unwrap();
    assert_eq!(fs_err::read_to_string(&path).unwrap(), written(&trace));
    let statistics = TraceStatistics::of(&read(&path).unwrap());
    assert_eq!((statistics.node_count, statistics.loss_count, statistics.losses_without_notice), (12, 107, 13));
}

#[test]
fn a_pool_does_not_depend_on_pools_of_other_zones() {
    let of_the_v100 = |settings: &GeneratorSettings| {
        let events = generate(settings).unwrap().events;
        events.into_iter().filter(|event| event.node.starts_with("v100")).collect::<Vec<_>>()
    };
    let all = three_types(3);
    let alone = GeneratorSettings { pools: vec![all.pools[1].clone()], ..all.clone() };
    assert_eq!(of_the_v100(&all), of_the_v100(&alone));
}

#[test]
fn pools_that_are_alike_have_different_nodes() {
    let pools = vec![PoolSettings::parse("2x8xT4@a").unwrap(); 2];
    let settings = GeneratorSettings { pools, hours: 72.0, ..GeneratorSettings::default() };
    let trace = generate(&settings).unwrap();
    let names: BTreeSet<&str> = trace.events.iter().map(|event| event.node.as_str()).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["t4-a-01", "t4-a-02", "t4-a.2-01", "t4-a.2-02"]);
}

/// The ranges of the real traces: AWS p3 0.61 losses per node-hour at availability 0.75, g4dn 0.55 at 0.53, GCP 0.10 to
/// 0.28 at 0.90 and more; two to nine nodes a loss event; cv of the time between events 0.9 to 3.2.
#[test]
fn defaults_look_like_real_markets() {
    let seeds = 0..40_u64;
    let count = 40.0;
    let all: Vec<TraceStatistics> =
        seeds.map(|seed| TraceStatistics::of(&generate(&three_types(seed)).unwrap())).collect();
    let mean = |of: &dyn Fn(&TraceStatistics) -> f64| all.iter().map(of).sum::<f64>() / count;
    let near = |what: &str, value: f64, least: f64, most: f64| {
        assert!((least..=most).contains(&value), "{what}: {value} isn't within {least} to {most}");
    };
    near("availability", mean(&|s| s.mean_availability), 0.55, 0.85);
    near("losses per node-hour", mean(&|s| s.losses_per_node_hour), 0.3, 0.7);
    near("nodes per loss event", mean(&|s| s.nodes_lost_per_loss_event.unwrap().mean), 1.3, 2.5);
    near("p90 of nodes per loss event", mean(&|s| s.nodes_lost_per_loss_event.unwrap().p90), 2.0, 5.0);
    near("cv", mean(&|s| s.loss_interval_cv.unwrap()), 0.9, 2.0);
    let skew = |s: &TraceStatistics| s.up_time_s.unwrap().mean / s.up_time_s.unwrap().median;
    near("mean over median of up-times", mean(&skew), 1.3, 3.0);
    near("median up-time in minutes", mean(&|s| s.up_time_s.unwrap().median / 60.0), 30.0, 90.0);
    near("share without notice", mean(&|s| s.losses_without_notice as f64 / s.loss_count as f64), 0.05, 0.15);
    for statistics in &all {
        near("availability of a day", statistics.mean_availability, 0.4, 0.95);
        near("losses per node-hour of a day", statistics.losses_per_node_hour, 0.15, 1.0);
    }
}

#[test]
fn a_large_pool_has_larger_bulks_but_not_more_losses_per_node() {
    for (nodes, mean_bulk) in [(1, 1.0..=1.0), (4, 1.2..=2.0), (32, 3.0..=7.0), (128, 12.0..=28.0)] {
        let (mut losses, mut node_hours, mut loss_events) = (0, 0.0, 0);
        for seed in 0..10 {
            let mut pool = PoolSettings::new(nodes, 8, "T4");
            pool.zone = Some("z".to_owned());
            let settings = GeneratorSettings { seed, hours: 240.0, pools: vec![pool], ..GeneratorSettings::default() };
            let statistics = TraceStatistics::of(&generate(&settings).unwrap());
            losses += statistics.loss_count;
            node_hours += statistics.node_hours;
            loss_events += statistics.loss_event_count;
        }
        // Nodes stay up for 2 h on average, so half a loss per node-hour.
        let (rate, bulk) = (losses as f64 / node_hours, losses as f64 / f64::from(loss_events as u32));
        assert!((0.4..=0.65).contains(&rate), "{nodes} nodes: {rate} losses per node-hour");
        assert!(mean_bulk.contains(&bulk), "{nodes} nodes: {bulk} lost per loss event");
    }
}

#[test]
fn losses_follow_the_hours_of_the_day() {
    // Busiest 7 h after the start, so the hours 1 to 13 are the busy half: pace 1 + 0.5 × 2 / π on average, against
    // 1 − 0.5 × 2 / π, a ratio of 1.93; lifetimes that reach from one half into the other wash some of it out.
    let (mut busy, mut quiet) = ((0.0, 0.0), (0.0, 0.0));
    for seed in 0..40 {
        let (mut up, mut last_hour) = (0.0, 0.0);
        for event in generate(&three_types(seed)).unwrap().events {
            let hour = event.time.as_seconds() / 3600.0;
            let (losses, node_hours) = if (1.0..13.0).contains(&hour) { &mut busy } else { &mut quiet };
            *node_hours += up * (hour - last_hour);
            last_hour = hour;
            match event.kind {
                TraceEventKind::Up(_) => up += 1.0,
                TraceEventKind::Down => (up, *losses) = (up - 1.0, *losses + 1.0),
                TraceEventKind::Notice { .. } | TraceEventKind::Cancelled => {}
            }
        }
    }
    let ratio = (busy.0 / busy.1) / (quiet.0 / quiet.1);
    assert!((1.4..2.2).contains(&ratio), "{ratio}");
}

#[test]
fn nothing_random_left_gives_the_closed_form() {
    // One node that lives 2 h, is away for a factor of 0.5 to 1.5 of 30 min, and is warned 120 s before.
    let pool = PoolSettings {
        up_time_mean_hours: 2.0,
        up_time_sigma: 0.0,
        return_median_minutes: 30.0,
        return_sigma: 0.0,
        day_swing: 0.0,
        no_notice_share: 0.0,
        price_swing: 0.0,
        ..PoolSettings::parse("1x8xT4@z:2.9").unwrap()
    };
    let trace = generate(&GeneratorSettings { pools: vec![pool], ..GeneratorSettings::default() }).unwrap();
    let seconds = |index: usize| trace.events[index].time.as_seconds() as u64;
    assert_eq!((seconds(0), seconds(1), seconds(2)), (0, 7080, 7200));
    assert!((7200 + 900..=7200 + 2700).contains(&seconds(3)));
    assert_eq!(seconds(5) - seconds(3), 7200);
    assert_eq!(trace.events[1].kind, TraceEventKind::Notice { notice: SimTime::SECOND * 120 });
    let TraceEventKind::Up(offer) = &trace.events[0].kind else { panic!("expected an up") };
    assert_eq!(offer.price_usd_per_hour, Some(2.9));
}

#[test]
fn settings_are_read_with_defaults_and_without_slips() {
    let text = "seed = 7\n[[pools]]\ngpu_type = \"T4\"\ngpu_count = 8\nnodes = 3\n";
    let settings: GeneratorSettings = toml::from_str(text).unwrap();
    let pools = vec![PoolSettings::new(3, 8, "T4")];
    assert_eq!(settings, GeneratorSettings { seed: 7, pools, ..GeneratorSettings::default() });
    assert!(toml::from_str::<GeneratorSettings>("sede = 7").unwrap_err().to_string().contains("sede"));
    assert!(toml::from_str::<GeneratorSettings>(&format!("{text}bulk = 1\n")).is_err());
}

#[rstest]
#[case(|s: &mut GeneratorSettings| s.pools.clear(), "`pools`: expected at least one pool, found `none`")]
#[case(|s: &mut GeneratorSettings| s.hours = 0.0, "`hours`: expected a number above 0, at most 8784, found `0`")]
#[case(|s: &mut GeneratorSettings| s.hours = f64::NAN, "`hours`: expected a number above 0, at most 8784, found `NaN`")]
#[case(|s: &mut GeneratorSettings| s.start_hour_utc = 24.0, "`start_hour_utc`: expected a number from 0 to less than 24, found `24`")]
#[case(|s: &mut GeneratorSettings| s.pools[1].nodes = 0, "`pools[1].nodes`: expected a number from 1 to 10000, found `0`")]
#[case(|s: &mut GeneratorSettings| s.pools[0].gpu_count = 0, "`pools[0].gpu_count`")]
#[case(|s: &mut GeneratorSettings| s.pools[0].bulk_take = 0.0, "`pools[0].bulk_take`: expected a number from 0.01 to 1, found `0`")]
#[case(|s: &mut GeneratorSettings| s.pools[0].day_swing = 1.0, "`pools[0].day_swing`: expected a number from 0 to 0.9, found `1`")]
#[case(|s: &mut GeneratorSettings| s.pools[0].up_time_sigma = f64::INFINITY, "found `inf`")]
#[case(|s: &mut GeneratorSettings| s.pools[0].gpu_type = " ".into(), "`pools[0].gpu_type`: expected a name")]
#[case(|s: &mut GeneratorSettings| s.pools[0].zone = Some("a\nb".into()), "found `a\\nb`")]
#[case(|s: &mut GeneratorSettings| { s.hours = 8784.0; s.pools[0].nodes = 9999; }, "10 million node-hours")]
fn settings_out_of_range_are_refused(#[case] spoil: fn(&mut GeneratorSettings), #[case] expected: &str) {
    let mut settings = three_types(0);
    spoil(&mut settings);
    let message = generate(&settings).unwrap_err().to_string();
    assert!(message.starts_with("generator setting `") && message.contains(expected), "{message}");
    assert!(message.contains("\nhint: "), "{message}");
}
