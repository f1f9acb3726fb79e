//! Nodes that boot: paid for from their arrival on, and there for training once they have.

use crate::cluster::Node;
use crate::trace::{NodeEvent, NodeEventKind};
use crate::units::SimTime;
use std::collections::BTreeMap;

/// A node that boots.
struct Booting {
    node: Node,
    ready: SimTime,
    /// When it is to be lost, where it was warned while it booted.
    loss: Option<SimTime>,
}

impl Booting {
    fn come(self, seen: &mut Vec<NodeEvent>) {
        let name = self.node.name.clone();
        seen.push(NodeEvent { time: self.ready, kind: NodeEventKind::Up(self.node) });
        if let Some(loss) = self.loss {
            let kind = NodeEventKind::Notice { node: name, notice: loss.saturating_sub(self.ready) };
            seen.push(NodeEvent { time: self.ready, kind });
        }
    }
}

/// What training sees of a trace whose nodes take so long to boot: those that are gone by then were never there.
pub(super) fn booted(events: &[NodeEvent], boot: SimTime) -> Vec<NodeEvent> {
    let mut booting: BTreeMap<&str, Booting> = BTreeMap::new();
    let mut seen = Vec::with_capacity(events.len());
    for event in events {
        let name = match &event.kind {
            NodeEventKind::Up(node) => {
                let ready = event.time.saturating_add(boot);
                booting.insert(&node.name, Booting { node: node.clone(), ready, loss: None });
                continue;
            }
            NodeEventKind::Notice { node, .. } | NodeEventKind::Cancelled(node) | NodeEventKind::Down(node) => {
                node.as_str()
            }
        };
        match booting.get_mut(name) {
            Some(node) if event.time <= node.ready => match &event.kind {
                NodeEventKind::Notice { notice, .. } => node.loss = Some(event.time.saturating_add(*notice)),
                NodeEventKind::Cancelled(_) => node.loss = None,
                NodeEventKind::Up(_) | NodeEventKind::Down(_) => drop(booting.remove(name)),
            },
            _ => {
                if let Some(node) = booting.remove(name) {
                    node.come(&mut seen);
                }
                seen.push(event.clone());
            }
        }
    }
    for node in booting.into_values() {
        node.come(&mut seen);
    }
    seen.sort_by_key(|event| event.time);
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{OfferDefaults, parse};

    #[test]
    fn nodes_are_there_once_they_have_booted() {
        let rows = "time_s,event,node,gpu_type,gpu_count\n0,up,a,T4,1\n10,up,b,T4,1\n10,up,c,T4,1\n90,notice,c,,\n100,down,b,,\n\
                    170,down,c,,\n200,notice,a,,\n320,down,a,,\n";
        let events = parse(rows, "t").unwrap().cluster_events(&OfferDefaults::default()).unwrap();
        let seen: Vec<String> = booted(&events, SimTime::SECOND * 100)
            .iter()
            .map(|event| match &event.kind {
                NodeEventKind::Up(node) => format!("{} up {}", event.time.as_seconds(), node.name),
                NodeEventKind::Notice { node, notice } => {
                    format!("{} warned {node} {}", event.time.as_seconds(), notice.as_seconds())
                }
                NodeEventKind::Cancelled(node) => format!("{} spared {node}", event.time.as_seconds()),
                NodeEventKind::Down(node) => format!("{} down {node}", event.time.as_seconds()),
            })
            .collect();
        // `b` is lost before it is ready, at 110; `c` was warned at 90 and is ready at 110, with 60 s left.
        let expected = ["100 up a", "110 up c", "110 warned c 60", "170 down c", "200 warned a 120", "320 down a"];
        assert_eq!(seen, expected);
    }
}
