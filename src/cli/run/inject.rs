//! A trace to be replayed on real processes.

use super::args::InjectedTraceArgs;
use crate::cli::job::apply_reading;
use crate::cluster::{Cluster, GpuSpec, Node, NodeDefaults};
use crate::elastic::MembershipChange;
use crate::replay::changes_by_time;
use crate::runtime::device::MAX_RANKS;
use crate::scenario::TraceSettings;
use crate::trace::{self, NodeEvent, NodeEventKind, OfferDefaults};
use crate::units::{SimTime, format_number};
use anyhow::anyhow;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::path::Path;

/// Speeds that are believed.
const SPEED: RangeInclusive<f64> = 1e-3..=1e6;

/// What the trace does.
pub(super) struct Injection {
    /// The nodes of its first moment.
    pub(super) start: Cluster,
    /// All nodes that ever come; of one that comes as another type, the last.
    pub(super) all: Cluster,
    /// What happens then, by time since the start.
    pub(super) changes: VecDeque<(SimTime, MembershipChange)>,
    /// The same from the start, nodes of the first moment included.
    pub(super) events: Vec<NodeEvent>,
    /// When the trace ends, since the start.
    pub(super) span: SimTime,
    /// What was understood, for stderr.
    pub(super) notes: Vec<String>,
}

impl InjectedTraceArgs {
    /// Reads the trace, if there is one; `node` is what nodes have where it doesn't say.
    pub(super) fn read(&self, node: NodeDefaults) -> anyhow::Result<Option<Injection>> {
        let speed = self.trace_speed;
        if !SPEED.contains(&speed) {
            let (low, high, speed) = (format_number(*SPEED.start()), format_number(*SPEED.end()), format_number(speed));
            return Err(anyhow!(
                "`--trace-speed` is `{speed}`, expected {low} to {high}\nhint: 60 makes a minute of each hour"
            ));
        }
        let Some(path) = &self.inject else { return Ok(None) };
        let mut settings = TraceSettings::default();
        apply_reading(&self.reading, &mut settings);
        let trace = trace::read_with(path, &settings.read_options())?;
        let gpu = settings.gpu_type.as_deref().map(GpuSpec::lookup).transpose()?;
        let defaults = OfferDefaults { gpu, gpus_per_node: settings.gpus_per_node, node };
        let events = trace.cluster_events(&defaults).map_err(|error| anyhow!("`{}`: {error}", path.display()))?;
        check_size(&events, path)?;
        Injection::new(&events, trace.span, speed, trace.notes)
            .map(Some)
            .ok_or_else(|| anyhow!("`{}` has no node that comes\nhint: name another trace", path.display()))
    }

    /// Options that say how to read a trace are idle without one; GPU types are also asked for by plans for GPUs.
    pub(super) fn check_idle(&self, takes_gpu_type: bool) -> anyhow::Result<()> {
        if self.inject.is_some() {
            return Ok(());
        }
        let reading = &self.reading;
        let given = [
            ("--trace-format", reading.trace_format.is_some()),
            ("--time-unit", reading.time_unit.is_some()),
            ("--polarity", reading.polarity.is_some()),
            ("--which-node", reading.which_node.is_some()),
            ("--gpus-per-node", reading.gpus_per_node.is_some()),
            ("--horizon", reading.horizon.is_some()),
            ("--gpu-type", reading.gpu_type.is_some() && !takes_gpu_type),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(anyhow!("`{option}` says how to read a trace\nhint: give one with `--inject`")),
            None => Ok(()),
        }
    }
}

impl Injection {
    /// Nothing where no node ever comes. Time begins with the first that does.
    fn new(events: &[NodeEvent], span: SimTime, speed: f64, notes: Vec<String>) -> Option<Self> {
        let changes = changes_by_time(events);
        let first = changes.iter().position(|(_, change)| !change.joined.is_empty())?;
        let origin = changes[first].0;
        let start = Cluster { nodes: changes[first].1.joined.clone() };
        let mut all: BTreeMap<&str, &Node> = BTreeMap::new();
        for (_, change) in &changes {
            all.extend(change.joined.iter().map(|node| (node.name.as_str(), node)));
        }
        let all = Cluster { nodes: all.into_values().cloned().collect() };
        let scaled = |time: SimTime| SimTime::from_seconds((time - origin).as_seconds() / speed);
        let changes = changes.into_iter().skip(first).enumerate().map(|(index, (time, change))| {
            // Who is there from the start doesn't join.
            let joined = if index == 0 { Vec::new() } else { change.joined };
            let losses_at = change.losses_at.map(&scaled);
            (scaled(time), MembershipChange { joined, losses_at, ..change })
        });
        let since = events.iter().filter(|event| event.time >= origin);
        let events = since.map(|event| NodeEvent { time: scaled(event.time), ..event.clone() }).collect();
        Some(Self { start, all, changes: changes.collect(), events, span: scaled(span), notes })
    }
}

/// Each GPU of the trace is a process of this machine.
fn check_size(events: &[NodeEvent], path: &Path) -> anyhow::Result<()> {
    let Some((time, gpus)) = gpus_up(events).find(|(_, gpus)| *gpus > MAX_RANKS as u64) else { return Ok(()) };
    Err(anyhow!(
        "`{}` has {gpus} GPUs up at {time}, each of them a process of this machine, at most {MAX_RANKS}\nhint: take a trace of fewer or smaller nodes",
        path.display(),
    ))
}

/// GPUs that are up from each event on.
pub(super) fn gpus_up(events: &[NodeEvent]) -> impl Iterator<Item = (SimTime, u64)> {
    let mut up: BTreeMap<&str, u32> = BTreeMap::new();
    events.iter().map(move |event| {
        match &event.kind {
            NodeEventKind::Up(node) => drop(up.insert(&node.name, node.gpu_count)),
            NodeEventKind::Down(name) => drop(up.remove(name.as_str())),
            NodeEventKind::Notice { .. } | NodeEventKind::Cancelled(_) => {}
        }
        (event.time, up.values().map(|count| u64::from(*count)).sum())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;

    #[test]
    fn time_begins_with_the_first_node_and_passes_faster() {
        let text = "time_s,event,node,gpu_type,gpu_count\n10,up,a,T4,1\n10,up,b,T4,2\n70,notice,a,,\n130,down,a,,\n\
                    130,up,c,T4,1\n";
        let events = parse(text, "t").unwrap().cluster_events(&OfferDefaults::default()).unwrap();
        let injection = Injection::new(&events, SimTime::SECOND * 190, 60.0, Vec::new()).unwrap();
        let start: Vec<_> = injection.start.nodes.iter().map(|node| (node.name.as_str(), node.gpu_count)).collect();
        assert_eq!(start, [("a", 1), ("b", 2)]);
        let changes: Vec<_> = injection.changes.iter().collect();
        assert_eq!(changes.len(), 3);
        assert!(changes[0].1.joined.is_empty());
        assert_eq!((changes[1].0, &changes[1].1.noticed[..]), (SimTime::SECOND, &["a".to_owned()][..]));
        assert_eq!((changes[2].0, &changes[2].1.lost[..]), (SimTime::SECOND * 2, &["a".to_owned()][..]));
        assert_eq!(changes[2].1.joined[0].name, "c");
        let times: Vec<_> = injection.events.iter().map(|event| event.time.as_seconds()).collect();
        assert_eq!((times, injection.span), (vec![0.0, 0.0, 1.0, 2.0, 2.0], SimTime::SECOND * 3));
    }
}
