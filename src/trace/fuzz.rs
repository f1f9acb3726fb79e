//! Damaged files: every reader reads what it is given, or refuses it with a hint. It never panics or hangs, and what it reads
//! means the same when it is written and read again.
//!
//! Inputs are samples of all formats, mutated by chance and by the number of the case, so that a case can be repeated. The
//! environment variable `AUTOHET_FUZZ_CASES` says how many there are, `AUTOHET_FUZZ_FIRST` which is the first.

mod mutate;
mod oracle;

use super::durations::Durations;
use super::fits::Fit;
use super::generator::recorded;
use super::generator::streams::stream;
use super::prices::PriceHistory;
use super::tests::SAMPLES;
use super::*;
use mutate::{Samples, mutated};
use rand::RngExt;
use rand_pcg::Pcg64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Cases of a usual test run.
const USUAL_CASES: u64 = 4000;
/// How long one case may take, on a machine that does much else beside.
const DEADLINE: Duration = Duration::from_secs(20);

/// Aborts the test where one case of a worker takes longer than the deadline: a reader that hangs never comes back.
fn watch(cases: &[AtomicU64], is_over: &AtomicBool) {
    let mut seen = vec![(u64::MAX, Instant::now()); cases.len()];
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(20));
        for (case, (last, since)) in cases.iter().zip(&mut seen) {
            let now = case.load(Ordering::Relaxed);
            if now != *last {
                (*last, *since) = (now, Instant::now());
            } else if now != u64::MAX && since.elapsed() > DEADLINE {
                println!("case {now} takes longer than {DEADLINE:?}");
                std::process::abort();
            }
        }
    }
}

/// What came of the cases, for people.
#[derive(Clone, Copy, Default, Debug)]
struct Tally {
    read: u64,
    refused: u64,
    with_levels: u64,
    prices: u64,
    slowest: (Duration, u64),
}

impl Tally {
    fn with(self, other: Self) -> Self {
        Self {
            read: self.read + other.read,
            refused: self.refused + other.refused,
            with_levels: self.with_levels + other.with_levels,
            prices: self.prices + other.prices,
            slowest: self.slowest.max(other.slowest),
        }
    }
}

/// The cases of one worker.
fn work(cases: impl Iterator<Item = u64>, samples: &Samples, current: &AtomicU64) -> Tally {
    let mut tally = Tally::default();
    for case in cases {
        current.store(case, Ordering::Relaxed);
        let mut random = stream(case, "damaged files");
        let bytes = mutated(samples, &mut random);
        let begin = Instant::now();
        let done = catch_unwind(AssertUnwindSafe(|| check(&bytes, &mut random, &mut tally)));
        tally.slowest = tally.slowest.max((begin.elapsed(), case));
        assert!(done.is_ok(), "case {case}: {}", String::from_utf8_lossy(&bytes));
    }
    current.store(u64::MAX, Ordering::Relaxed);
    tally
}

#[test]
fn damaged_files_are_read_right_or_refused() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number of cases"));
    let cases = number("AUTOHET_FUZZ_CASES").unwrap_or(USUAL_CASES);
    let first = number("AUTOHET_FUZZ_FIRST").unwrap_or(0);
    let samples = Samples::new(&SAMPLES);
    let start = Instant::now();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let current: Vec<AtomicU64> = (0..workers).map(|_| AtomicU64::new(u64::MAX)).collect();
    let is_over = AtomicBool::new(false);
    let tally = thread::scope(|scope| {
        scope.spawn(|| watch(&current, &is_over));
        let working: Vec<_> = current
            .iter()
            .enumerate()
            .map(|(worker, current)| {
                let of_worker = (first..first + cases).skip(worker).step_by(workers);
                let samples = &samples;
                scope.spawn(move || work(of_worker, samples, current))
            })
            .collect();
        let tallies: Vec<_> = working.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        let tallies = tallies.into_iter().map(|tally| tally.expect("a worker told why it failed"));
        tallies.fold(Tally::default(), Tally::with)
    });
    println!("{cases} cases in {:.1?}: {tally:?}", start.elapsed());
    assert!(cases < USUAL_CASES || tally.read > cases / 20 && tally.refused > cases / 20, "{tally:?}");
}

fn check(bytes: &[u8], random: &mut Pcg64, tally: &mut Tally) {
    if random.random_ratio(1, 16) {
        check_prices(bytes, tally);
    }
    let options = options(random);
    match parse_bytes(bytes, "t", &options, true) {
        Err(error) => {
            tally.refused += 1;
            assert!(error.to_string().contains("\nhint: "), "{error}");
        }
        Ok(trace) => {
            tally.read += 1;
            check_story(&trace);
            check_written(&trace);
            if options.horizon.is_none() {
                let text = std::str::from_utf8(bytes).expect("it was read").trim_start_matches('\u{feff}');
                tally.with_levels += u64::from(oracle::check(text, &trace, &options));
            }
            if random.random_ratio(1, 32) {
                check_further(&trace);
            }
        }
    }
}

fn options(random: &mut Pcg64) -> ReadOptions {
    let formats: Vec<TraceFormat> = TraceFormat::all().collect();
    let mut options = ReadOptions::default();
    if random.random_ratio(1, 8) {
        options.format = Some(formats[random.random_range(0..formats.len())]);
    }
    match random.random_range(0..24) {
        0 => {
            options.time_unit =
                Some([TimeUnit::Milliseconds, TimeUnit::Seconds, TimeUnit::Hours][random.random_range(0..3)]);
        }
        1 => options.polarity = Some(Polarity::Preempted),
        2 => options.polarity = Some(Polarity::Available),
        3 => options.which_node = Some(WhichNode::Zone),
        4 => options.which_node = Some(WhichNode::Random { seed: 7 }),
        5 => options.gpus_per_node = Some([1, 3, 1024][random.random_range(0..3)]),
        6 => options.gpu_type = Some("T4".to_owned()),
        7 => options.horizon = Some(SimTime(random.random_range(0..1 << 50))),
        8 => options.zone = Some("z".to_owned()),
        _ => {}
    }
    options
}

/// Nobody leaves who isn't there, in order of time.
fn check_story(trace: &Trace) {
    let mut up = std::collections::HashSet::new();
    let mut now = SimTime::ZERO;
    for event in &trace.events {
        assert!(event.time >= now && event.time <= trace.span, "{event:?}");
        assert!(!event.node.is_empty(), "{event:?}");
        now = event.time;
        match &event.kind {
            TraceEventKind::Up(_) => assert!(up.insert(&event.node), "{event:?} is up"),
            TraceEventKind::Down => assert!(up.remove(&event.node), "{event:?} isn't up"),
            TraceEventKind::Notice { .. } | TraceEventKind::Cancelled => {
                assert!(up.contains(&event.node), "{event:?} isn't up");
            }
        }
    }
    assert!(trace.notes.first().is_some_and(|note| note.contains("mean availability")), "{:?}", trace.notes);
}

/// What is written and read again is the same.
fn check_written(trace: &Trace) {
    let mut written = Vec::new();
    write_canonical(trace, &mut written).expect("memory takes it");
    let text = String::from_utf8(written).expect("text is written");
    let again = parse(&text, "again").unwrap_or_else(|error| panic!("{error}\nof {text}"));
    assert_eq!((&again.events, again.span), (&trace.events, trace.span), "{text}");
}

/// What else is done with traces.
fn check_further(trace: &Trace) {
    let statistics = TraceStatistics::of(trace);
    assert!((0.0..=1.0 + 1e-9).contains(&statistics.mean_availability), "{statistics:?}");
    for durations in [Durations::up_times(trace), Durations::between_losses(trace)] {
        assert!(Fit::all(&durations).iter().all(|fit| fit.aic.is_finite()));
        assert!(durations.survival().iter().all(|corner| (0.0..=1.0).contains(&corner.share)));
    }
    if let Some(market) = recorded::fit(trace) {
        let settings = generator::GeneratorSettings { hours: 0.5, recorded: Some(market), ..Default::default() };
        match generator::generate(&settings) {
            Ok(trace) => check_story(&trace),
            Err(error) => assert!(error.to_string().contains("\nhint: "), "{error}"),
        }
    }
}

fn check_prices(bytes: &[u8], tally: &mut Tally) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match PriceHistory::parse(text, "t", &[]) {
        Ok(history) => {
            tally.prices += 1;
            drop(history.on_clock(Some(history.covers().0), SimTime::SECOND).expect("it covers its own begin"));
        }
        Err(error) => assert!(error.to_string().contains("\nhint: "), "{error}"),
    }
}
