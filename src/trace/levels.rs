//! From how many nodes are up to which: one place that turns series of counts into events of named nodes.
//!
//! Counts say how many, not which, so a stated policy ([`WhichNode`]) picks the nodes that go. A node that comes gets the
//! lowest free number of its pool, so that names stay few: `v100-us-east-1a-003` is a slot, filled by a new node each time.

use super::calendar::Zero;
use super::error::TraceError;
use super::generator::streams::stream;
use super::options::{Polarity, ReadOptions, WhichNode};
use super::{NodeOffer, Trace, TraceEvent, TraceEventKind, TraceFormat};
use crate::units::{SimTime, format_seconds};
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::BTreeSet;

/// The most nodes or GPUs that a count may hold.
pub(super) const MOST: u32 = 16_384;
/// The most comings and goings: some hundreds of megabytes.
const MOST_EVENTS: u64 = 5_000_000;
/// The zones among which nodes of a count without zones are dealt, where losses go by zone.
const DEALT_ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// One count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    /// When it was taken.
    pub time: SimTime,
    /// What was there, or what was missing.
    pub count: u32,
    /// The price of a node that comes now.
    pub price_usd_per_hour: Option<f64>,
}

/// Counts of like nodes, in order of time. Of several samples of one time the last one holds.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// What the file says of each node.
    pub offer: NodeOffer,
    /// The counts.
    pub samples: Vec<Sample>,
}

/// What the counts of a file stand for.
pub(super) struct Levels<'a> {
    /// The file, for messages.
    pub file: &'a str,
    /// Its format.
    pub format: TraceFormat,
    /// What its times were taken for.
    pub unit: String,
    /// What its counts stand for unless an option says otherwise.
    pub polarity: Polarity,
    /// Whether each row stands where something changed, rather than at regular times.
    pub is_exact: bool,
    /// Whether the counts are of GPUs rather than of nodes.
    pub counts_gpus: bool,
    /// The series.
    pub pools: Vec<Pool>,
    /// What time zero stands for, where the file says it.
    pub zero: Option<Zero>,
    /// What else there is to say.
    pub notes: Vec<String>,
}

impl Levels<'_> {
    /// The trace, with names for the nodes.
    pub fn into_trace(mut self, options: &ReadOptions) -> Result<Trace, TraceError> {
        let polarity = options.polarity.unwrap_or(self.polarity);
        if polarity == Polarity::Preempted {
            self.pools.iter_mut().for_each(invert);
        }
        if self.counts_gpus {
            self.divide(options.gpus_per_node.unwrap_or(1).max(1));
        }
        let which_node = options.which_node.unwrap_or_default();
        let spacing = spacing(&self.pools);
        let span = self.pools.iter().filter_map(|pool| pool.samples.last()).map(|sample| sample.time).max();
        self.check_size()?;
        let mut events = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for mut pool in self.pools {
            pool.offer.zone = pool.offer.zone.take().or_else(|| options.zone.clone());
            let gpu_type = pool.offer.gpu_type.as_ref().or(options.gpu_type.as_ref());
            let plain = base_name(gpu_type.map(String::as_str), pool.offer.zone.as_deref());
            // Types and zones that differ in letter case or dashes only give one name.
            let numbered = (2..).map(|number| format!("{plain}.{number}"));
            let name =
                std::iter::once(plain.clone()).chain(numbered).find(|name| !names.contains(name)).unwrap_or(plain);
            names.push(name.clone());
            Namer::new(name, pool.offer, which_node).walk(&pool.samples, &mut events);
        }
        if events.is_empty() {
            let hint = "if the numbers count what is missing, say so with `--polarity preempted`, or the other way round \
                        with `--polarity available`";
            let (file, format) = (self.file.to_owned(), self.format.to_string());
            return Err(TraceError::NoNodes { file, format, hint: hint.to_owned() });
        }
        let of = if self.counts_gpus { "GPUs" } else { "nodes" };
        let mut notes =
            vec![format!("counts taken for {of} {polarity}, not the other way round: see the mean availability")];
        notes.push(format!("counts don't say which nodes go: {}", said(which_node)));
        if let Some((median_s, most_s)) = spacing.filter(|_| !self.is_exact) {
            let (median, most) = (format_seconds(median_s), format_seconds(most_s));
            notes.push(format!("samples are {median} apart in the median and {most} at most: a change lies up to that much before its row"));
        }
        notes.append(&mut self.notes);
        Ok(Trace::assemble(self.format, &self.unit, events, span.unwrap_or_default(), notes).starting(self.zero))
    }

    /// Refuses counts in which more nodes come and go than fit in memory: a small file can hold a great many.
    fn check_size(&self) -> Result<(), TraceError> {
        let changed = |pair: &[Sample]| u64::from(pair[0].count.abs_diff(pair[1].count));
        let in_pool = |pool: &Pool| {
            let first = pool.samples.first().map_or(0, |sample| u64::from(sample.count));
            first + pool.samples.windows(2).map(changed).sum::<u64>()
        };
        match self.pools.iter().map(in_pool).sum::<u64>() {
            count if count > MOST_EVENTS => Err(TraceError::TooManyEvents { file: self.file.to_owned(), found: count }),
            _ => Ok(()),
        }
    }

    /// Turns counts of GPUs into counts of nodes.
    fn divide(&mut self, gpus_per_node: u32) {
        let mut partial = 0_usize;
        for pool in &mut self.pools {
            pool.offer.gpu_count = Some(gpus_per_node);
            for sample in &mut pool.samples {
                partial += usize::from(sample.count % gpus_per_node > 0);
                sample.count /= gpus_per_node;
            }
        }
        self.notes.push(match gpus_per_node {
            1 => "the counts are of GPUs, taken for nodes of 1 GPU each (`--gpus-per-node`)".to_owned(),
            _ => format!("the counts are of GPUs, divided by {gpus_per_node} per node"),
        });
        if partial > 0 {
            self.notes.push(format!(
                "{partial} counts don't fill their last node of {gpus_per_node} GPUs: those GPUs are left out"
            ));
        }
    }
}

/// Makes counts of what is missing counts of what is there.
fn invert(pool: &mut Pool) {
    let most = pool.samples.iter().map(|sample| sample.count).max().unwrap_or_default();
    for sample in &mut pool.samples {
        sample.count = most - sample.count;
    }
}

/// Median and largest time between samples.
fn spacing(pools: &[Pool]) -> Option<(f64, f64)> {
    let gap_s = |pair: &[Sample]| pair[1].time.saturating_sub(pair[0].time).as_seconds();
    let mut gaps_s: Vec<f64> = pools.iter().flat_map(|pool| pool.samples.windows(2).map(gap_s)).collect();
    gaps_s.retain(|gap_s| *gap_s > 0.0);
    gaps_s.sort_by(f64::total_cmp);
    Some((*gaps_s.get(gaps_s.len() / 2)?, *gaps_s.last()?))
}

fn said(which_node: WhichNode) -> String {
    match which_node {
        WhichNode::Newest => "the newest go first (`--which-node`)".to_owned(),
        WhichNode::Oldest => "the oldest go first".to_owned(),
        WhichNode::Random { seed } => format!("they are drawn with the seed {seed}"),
        WhichNode::Zone => "they go zone by zone".to_owned(),
    }
}

/// The part of a pool's names before the number.
fn base_name(gpu_type: Option<&str>, zone: Option<&str>) -> String {
    let parts = [Some(gpu_type.unwrap_or("node")), zone].into_iter().flatten();
    let clean = |part: &str| part.trim().to_lowercase().replace(|c: char| c.is_whitespace() || c.is_control(), "-");
    parts.map(clean).collect::<Vec<_>>().join("-")
}

/// Gives nodes of one pool names, and picks those that go.
struct Namer {
    name: String,
    offer: NodeOffer,
    which_node: WhichNode,
    random: Pcg64,
    /// Numbers of the nodes that are up, in the order in which they came.
    up: Vec<u32>,
    /// Numbers below `next` that are free.
    free: BTreeSet<u32>,
    next: u32,
    /// The zone that loses first.
    zone: usize,
}

impl Namer {
    fn new(name: String, offer: NodeOffer, which_node: WhichNode) -> Self {
        let seed = if let WhichNode::Random { seed } = which_node { seed } else { 0 };
        let random = stream(seed, &format!("which node of {name}"));
        Self { name, offer, which_node, random, up: Vec::new(), free: BTreeSet::new(), next: 0, zone: 0 }
    }

    fn walk(&mut self, samples: &[Sample], events: &mut Vec<TraceEvent>) {
        for (index, sample) in samples.iter().enumerate() {
            if samples.get(index + 1).is_some_and(|next| next.time == sample.time) {
                continue;
            }
            let count = sample.count as usize;
            let is_loss = self.up.len() > count;
            while self.up.len() > count {
                let number = self.leave();
                events.push(TraceEvent { time: sample.time, node: self.named(number), kind: TraceEventKind::Down });
            }
            while self.up.len() < count {
                let number = self.come();
                let mut offer = self.offer.clone();
                offer.price_usd_per_hour = sample.price_usd_per_hour.or(offer.price_usd_per_hour);
                if self.deals_zones() {
                    offer.zone = Some(DEALT_ZONES[zone_of(number)].to_owned());
                }
                events.push(TraceEvent {
                    time: sample.time,
                    node: self.named(number),
                    kind: TraceEventKind::Up(offer),
                });
            }
            if is_loss {
                self.zone = (self.zone + 1) % DEALT_ZONES.len();
            }
        }
    }

    /// Whether nodes get a zone here: losses go by zone, and the file knows of none.
    fn deals_zones(&self) -> bool {
        self.which_node == WhichNode::Zone && self.offer.zone.is_none()
    }

    fn named(&self, number: u32) -> String {
        format!("{}-{number:03}", self.name)
    }

    fn come(&mut self) -> u32 {
        let number = self.free.pop_first().unwrap_or(self.next);
        self.next = self.next.max(number + 1);
        self.up.push(number);
        number
    }

    fn leave(&mut self) -> u32 {
        let newest = self.up.len() - 1;
        let place = match self.which_node {
            WhichNode::Oldest => 0,
            WhichNode::Random { .. } => self.random.random_range(0..=newest),
            WhichNode::Zone if self.deals_zones() => {
                let in_zone = |ahead| {
                    let zone = (self.zone + ahead) % DEALT_ZONES.len();
                    self.up.iter().rposition(|number| zone_of(*number) == zone)
                };
                (0..DEALT_ZONES.len()).find_map(in_zone).unwrap_or(newest)
            }
            WhichNode::Newest | WhichNode::Zone => newest,
        };
        let number = self.up.remove(place);
        self.free.insert(number);
        number
    }
}

fn zone_of(number: u32) -> usize {
    number as usize % DEALT_ZONES.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn levels(counts: &[(u64, u32)]) -> Levels<'static> {
        let sample = |&(s, count): &(u64, u32)| Sample { time: SimTime::SECOND * s, count, price_usd_per_hour: None };
        Levels {
            file: "t",
            format: TraceFormat::StepCounts,
            unit: "seconds".to_owned(),
            polarity: Polarity::Available,
            is_exact: false,
            counts_gpus: false,
            pools: vec![Pool { offer: NodeOffer::default(), samples: counts.iter().map(sample).collect() }],
            zero: None,
            notes: Vec::new(),
        }
    }

    fn story(trace: &Trace) -> String {
        let sign = |kind: &TraceEventKind| if matches!(kind, TraceEventKind::Up(_)) { '+' } else { '-' };
        let told = |e: &TraceEvent| {
            format!("{}{}{} ", e.time.as_seconds(), sign(&e.kind), e.node.trim_start_matches("node-0"))
        };
        trace.events.iter().map(told).collect()
    }

    #[test]
    fn each_policy_picks_its_nodes() {
        let told = |which_node| {
            let options = ReadOptions { which_node: Some(which_node), ..ReadOptions::default() };
            story(&levels(&[(0, 4), (9, 2), (12, 3), (20, 1)]).into_trace(&options).unwrap())
        };
        let up = "0+00 0+01 0+02 0+03 ";
        assert_eq!(told(WhichNode::Newest), format!("{up}9-03 9-02 12+02 20-02 20-01 "));
        assert_eq!(told(WhichNode::Oldest), format!("{up}9-00 9-01 12+00 20-02 20-03 "));
        // Zones: a has 0 and 3, b has 1, c has 2. The first loss takes a; 0 comes back; the second starts with b.
        assert_eq!(told(WhichNode::Zone), format!("{up}9-03 9-00 12+00 20-01 20-02 "));
        let random = WhichNode::Random { seed: 3 };
        assert_eq!(told(random), told(random));
        assert_ne!(told(random), told(WhichNode::Random { seed: 4 }));
    }

    #[test]
    fn of_several_counts_of_one_time_the_last_one_holds() {
        let trace = levels(&[(0, 1), (0, 2), (5, 1), (5, 2), (8, 2)]).into_trace(&ReadOptions::default()).unwrap();
        assert_eq!((story(&trace).as_str(), trace.span), ("0+00 0+01 ", SimTime::SECOND * 8));
    }

    #[test]
    fn pools_of_one_name_have_different_nodes_and_too_many_changes_are_refused() {
        let samples = || vec![Sample { time: SimTime::ZERO, count: 1, price_usd_per_hour: None }];
        let pool = |gpu_type: &str, zone: &str| {
            let offer = NodeOffer { gpu_type: Some(gpu_type.into()), zone: Some(zone.into()), ..NodeOffer::default() };
            Pool { offer, samples: samples() }
        };
        let pools = vec![pool("A-b", "c"), pool("a", "B-C"), pool("a", "b c")];
        let trace = Levels { pools, ..levels(&[]) }.into_trace(&ReadOptions::default()).unwrap();
        let names: Vec<&str> = trace.events.iter().map(|event| event.node.as_str()).collect();
        assert_eq!(names, ["a-b-c-000", "a-b-c.2-000", "a-b-c.3-000"]);
        let many: Vec<(u64, u32)> = (0..1000).map(|second| (second, if second % 2 == 0 { MOST } else { 0 })).collect();
        let message = levels(&many).into_trace(&ReadOptions::default()).unwrap_err().to_string();
        assert!(message.contains("16384000 comings and goings") && message.contains("\nhint: "), "{message}");
    }

    #[test]
    fn missing_nodes_are_turned_round() {
        let options = ReadOptions { polarity: Some(Polarity::Preempted), ..ReadOptions::default() };
        let trace = levels(&[(0, 0), (5, 1), (8, 0)]).into_trace(&options).unwrap();
        assert_eq!(story(&trace), "0+00 5-00 8+00 ");
        assert!(trace.notes[1].starts_with("counts taken for nodes preempted"), "{:?}", trace.notes);
        let message = levels(&[(0, 3), (5, 3)]).into_trace(&options).unwrap_err().to_string();
        assert!(message.contains("at least one node") && message.contains("--polarity available"), "{message}");
    }

    #[test]
    fn gpus_become_nodes_and_what_fills_none_is_said() {
        let options = ReadOptions { gpus_per_node: Some(4), ..ReadOptions::default() };
        let trace = Levels { counts_gpus: true, ..levels(&[(0, 8), (5, 7), (8, 3)]) }.into_trace(&options).unwrap();
        assert_eq!(story(&trace), "0+00 0+01 5-01 8-00 ");
        let TraceEventKind::Up(offer) = &trace.events[0].kind else { panic!() };
        assert_eq!(offer.gpu_count, Some(4));
        assert!(trace.notes.iter().any(|note| note.starts_with("2 counts don't fill")), "{:?}", trace.notes);
    }

    proptest! {
        /// Whatever the policy, as many nodes are up as were counted, and nobody leaves who isn't there.
        #[test]
        fn the_counts_are_kept(
            counts in prop::collection::vec(0_u32..40, 1..30),
            which_node in prop::sample::select(vec![WhichNode::Newest, WhichNode::Oldest, WhichNode::Random { seed: 5 }, WhichNode::Zone]),
        ) {
            let counts: Vec<(u64, u32)> = (0..).zip(counts).collect();
            let options = ReadOptions { which_node: Some(which_node), ..ReadOptions::default() };
            prop_assume!(counts.iter().any(|(_, count)| *count > 0));
            let trace = levels(&counts).into_trace(&options).unwrap();
            let mut up = HashSet::new();
            let mut events = trace.events.iter().peekable();
            for (second, count) in counts {
                while let Some(event) = events.next_if(|event| event.time == SimTime::SECOND * second) {
                    let is_possible = match event.kind {
                        TraceEventKind::Up(_) => up.insert(event.node.clone()),
                        _ => up.remove(&event.node),
                    };
                    prop_assert!(is_possible);
                }
                prop_assert_eq!(up.len(), count as usize);
            }
        }
    }
}
