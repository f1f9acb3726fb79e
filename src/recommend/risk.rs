//! What losses leave of a mix, on average.

use super::Offer;
use crate::elastic::ReconfigurationSettings;
use crate::trace::{Trace, TraceEventKind};
use std::collections::BTreeMap;

/// How nodes of one type come and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Risk {
    /// Losses of a node in an hour that it is up.
    pub losses_per_node_hour: f64,
    /// Mean time until another node takes its place.
    pub away_hours: f64,
}

impl Risk {
    /// The share of time that a node is up: of each cycle of being up and being away.
    pub fn availability(&self) -> f64 {
        1.0 / (1.0 + self.losses_per_node_hour * self.away_hours)
    }
}

/// Counted of one type while a trace passes.
#[derive(Clone, Copy, Default)]
struct Counted {
    up: u32,
    peak: u32,
    losses: u32,
    up_node_s: f64,
}

impl Counted {
    fn risk(&self, span_s: f64) -> Option<Risk> {
        let away_s = f64::from(self.peak) * span_s - self.up_node_s;
        (self.up_node_s > 0.0).then(|| Risk {
            losses_per_node_hour: f64::from(self.losses) / (self.up_node_s / 3600.0),
            away_hours: if self.losses > 0 { away_s.max(0.0) / 3600.0 / f64::from(self.losses) } else { 0.0 },
        })
    }
}

/// The risk of each offer's GPU type as a trace has it; that of all its nodes together for types that it doesn't have, whose
/// names come second.
///
/// As many nodes of a type as are up at once at most are taken to be wanted all the time: what of them isn't up is away.
pub fn risks_of_trace(trace: &Trace, offers: &[Offer]) -> Option<(Vec<Risk>, Vec<String>)> {
    let name =
        |gpu_type: &str| crate::cluster::GpuSpec::lookup(gpu_type).map_or(gpu_type.to_owned(), |gpu| gpu.name.clone());
    let mut types: BTreeMap<String, Counted> = BTreeMap::new();
    let mut of_node: BTreeMap<&str, String> = BTreeMap::new();
    let mut now = trace.events.first()?.time;
    let span_s = trace.span.saturating_sub(now).as_seconds();
    let ends = trace.events.iter().map(|event| (event.time, Some(event)));
    for (time, event) in ends.chain([(trace.span, None)]) {
        let passed_s = time.saturating_sub(now).as_seconds();
        for counted in types.values_mut() {
            counted.up_node_s += f64::from(counted.up) * passed_s;
        }
        now = time;
        match event.map(|event| (event.node.as_str(), &event.kind)) {
            Some((node, TraceEventKind::Up(offer))) => {
                let gpu_type = offer.gpu_type.as_deref().map(name).unwrap_or_default();
                let counted = types.entry(gpu_type.clone()).or_default();
                counted.up += 1;
                counted.peak = counted.peak.max(counted.up);
                of_node.insert(node, gpu_type);
            }
            Some((node, TraceEventKind::Down)) => {
                if let Some(counted) = of_node.remove(node).and_then(|gpu_type| types.get_mut(&gpu_type)) {
                    counted.up = counted.up.saturating_sub(1);
                    counted.losses += 1;
                }
            }
            _ => {}
        }
    }
    let add = |all: Counted, one: &Counted| Counted {
        up: 0,
        peak: all.peak + one.peak,
        losses: all.losses + one.losses,
        up_node_s: all.up_node_s + one.up_node_s,
    };
    let all = types.values().fold(Counted::default(), add).risk(span_s)?;
    let mut unknown = Vec::new();
    let risk = |offer: &Offer| {
        types.get(&offer.gpu.name).and_then(|counted| counted.risk(span_s)).unwrap_or_else(|| {
            unknown.push(offer.gpu.name.clone());
            all
        })
    };
    Some((offers.iter().map(risk).collect(), unknown))
}

/// What is expected of a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Expected {
    pub(super) tokens_per_s: f64,
    pub(super) usd_per_hour: f64,
}

impl Expected {
    /// The mean over the sets of nodes that can be up, each with its own `tokens_per_s`, less the pauses.
    pub(super) fn of(
        counts: &[u32],
        offers: &[Offer],
        risks: &[Risk],
        changes: &ReconfigurationSettings,
        iteration_s: f64,
        tokens_per_s: impl Fn(&[u32]) -> f64,
    ) -> Self {
        let chances: Vec<Vec<f64>> =
            counts.iter().zip(risks).map(|(&count, risk)| binomial(count, risk.availability())).collect();
        let mut mean = 0.0;
        let mut up = vec![0; counts.len()];
        loop {
            let chance: f64 = up.iter().zip(&chances).map(|(&up, chances)| chances[up as usize]).product();
            mean += chance * tokens_per_s(&up);
            // The next set, as a number in digits of unlike bases.
            let Some(digit) = (0..up.len()).find(|&digit| up[digit] < counts[digit]) else { break };
            up[digit] += 1;
            up[..digit].fill(0);
        }
        let nodes_up = |(&count, risk): (&u32, &Risk)| f64::from(count) * risk.availability();
        let all_up: f64 = counts.iter().zip(risks).map(nodes_up).sum();
        let losses_per_hour: f64 =
            counts.iter().zip(risks).map(|pair| nodes_up(pair) * pair.1.losses_per_node_hour).sum();
        let connect_s = changes.rendezvous_s
            + changes.communicators_s
            + changes.communicators_per_node_s * (all_up - 1.0).max(0.0)
            + changes.planning_s;
        // A loss cuts an iteration off in its middle and is to be noticed; a return stops training between two.
        let pause_s = 2.0 * connect_s + changes.detection_s + iteration_s / 2.0;
        let training_share = 1.0 / (1.0 + losses_per_hour * pause_s / 3600.0);
        let usd = |((&count, risk), offer): ((&u32, &Risk), &Offer)| {
            f64::from(count) * risk.availability() * offer.usd_per_node_hour()
        };
        Self { tokens_per_s: mean * training_share, usd_per_hour: counts.iter().zip(risks).zip(offers).map(usd).sum() }
    }
}

/// The chances that 0, 1, … of `count` are up, each with the chance `share`.
fn binomial(count: u32, share: f64) -> Vec<f64> {
    let mut chances = vec![1.0];
    for _ in 0..count {
        let mut next = vec![0.0; chances.len() + 1];
        for (up, chance) in chances.iter().enumerate() {
            next[up] += chance * (1.0 - share);
            next[up + 1] += chance * share;
        }
        chances = next;
    }
    chances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_those_of_coins() {
        assert_eq!(binomial(2, 0.5), [0.25, 0.5, 0.25]);
        assert_eq!(binomial(0, 0.3), [1.0]);
        let sum: f64 = binomial(30, 0.37).iter().sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }
}
