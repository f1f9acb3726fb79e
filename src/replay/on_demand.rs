//! The nodes of a policy that doesn't live on spot capacity.

use super::oracle::needs;
use crate::cluster::{Cluster, Node};
use crate::elastic::{NodeClass, Policy, nameless};
use crate::plan::{PlanError, PlanRequest};
use crate::trace::{NodeEvent, NodeEventKind};
use crate::units::SimTime;
use std::collections::BTreeMap;

/// Nodes that are there from the begin on: of each kind (GPU type and count) as many as the trace has up at most, as they were
/// when it had, at on-demand prices.
pub(super) fn on_demand(events: &[NodeEvent]) -> Vec<NodeEvent> {
    let mut up: BTreeMap<(&str, u32), BTreeMap<&str, &Node>> = BTreeMap::new();
    let mut most: BTreeMap<(&str, u32), Vec<&Node>> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, (&str, u32)> = BTreeMap::new();
    for event in events {
        match &event.kind {
            NodeEventKind::Up(node) => {
                let kind = (node.gpu.name.as_str(), node.gpu_count);
                kinds.insert(&node.name, kind);
                let now = up.entry(kind).or_default();
                now.insert(&node.name, node);
                let before = most.entry(kind).or_default();
                if now.len() > before.len() {
                    *before = now.values().copied().collect();
                }
            }
            NodeEventKind::Down(name) => {
                if let Some(now) = kinds.get(name.as_str()).and_then(|kind| up.get_mut(kind)) {
                    now.remove(name.as_str());
                }
            }
            NodeEventKind::Notice { .. } | NodeEventKind::Cancelled(_) => {}
        }
    }
    let owned = |(number, node): (usize, &Node)| {
        let price_usd_per_hour = node.gpu.on_demand_usd_per_hour * f64::from(node.gpu_count);
        // The same name may have been of another kind at another time.
        let name = format!("{}#{number}", node.name);
        NodeEvent { time: SimTime::ZERO, kind: NodeEventKind::Up(Node { name, price_usd_per_hour, ..node.clone() }) }
    };
    most.into_values().flatten().enumerate().map(owned).collect()
}

/// Of these nodes those that a plan for them uses: nobody rents what would be idle.
///
/// Which ones of a kind is all the same. A plan for fewer nodes may use fewer still; there is always one that is left.
pub(super) fn rented(
    nodes: Vec<NodeEvent>,
    policy: &Policy,
    request: PlanRequest<'_>,
) -> Result<Vec<NodeEvent>, PlanError> {
    let mut rented = nodes;
    loop {
        let node = |event: &NodeEvent| match &event.kind {
            NodeEventKind::Up(node) => Some(node.clone()),
            NodeEventKind::Notice { .. } | NodeEventKind::Cancelled(_) | NodeEventKind::Down(_) => None,
        };
        // As everybody is asked, so that plans are made once.
        let cluster = nameless(&Cluster { nodes: rented.iter().filter_map(node).collect() });
        let planned = match policy.planner.plan(&PlanRequest { cluster: &cluster, ..request }.without_proof()) {
            Ok(planned) => planned,
            Err(PlanError::DoesNotFit { .. } | PlanError::EmptyCluster) => return Ok(rented),
            Err(error) => return Err(error),
        };
        let mut needed = needs(&planned.plan, &cluster);
        let before = rented.len();
        rented.retain(|event| {
            let class = node(event).map(|node| NodeClass::of(&node));
            let Some(left) = class.and_then(|class| needed.get_mut(&class)).filter(|left| **left > 0) else {
                return false;
            };
            *left -= 1;
            true
        });
        if rented.len() == before {
            return Ok(rented);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{OfferDefaults, parse};

    #[test]
    fn of_each_kind_as_many_as_ever_were_up() {
        let rows = "time_s,event,node,gpu_type,gpu_count,zone,price_usd_per_hour\n0,up,a,T4,4,z,1\n5,up,b,T4,4,z,1\n6,down,a,,,,\n\
                    9,up,c,T4,4,z,1\n9,up,d,V100-16,1,z,9\n";
        let events = parse(rows, "t").unwrap().cluster_events(&OfferDefaults::default()).unwrap();
        let found = on_demand(&events);
        let nodes: Vec<_> = found
            .iter()
            .map(|event| {
                let NodeEventKind::Up(node) = &event.kind else { panic!("{event:?}") };
                (event.time, node.name.as_str(), node.gpu_count, node.price_usd_per_hour)
            })
            .collect();
        // g4dn.metal costs 7.82 an hour for 8, p3.2xlarge 3.06.
        let expected = [("a#0", 4, 4.0 * 0.978), ("b#1", 4, 4.0 * 0.978), ("d#2", 1, 3.06)];
        assert_eq!(nodes, expected.map(|(name, gpus, price)| (SimTime::ZERO, name, gpus, price)));
    }
}
