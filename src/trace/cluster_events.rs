//! From a trace to a cluster: what the trace leaves open about its nodes is filled in, once, before anything runs.

use super::{NodeOffer, Trace, TraceEventKind};
use crate::cluster::{ClusterError, GpuSpec, Node, NodeDefaults};
use crate::units::SimTime;
use std::sync::Arc;

/// A change of the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeEvent {
    /// When.
    pub time: SimTime,
    /// What.
    pub kind: NodeEventKind,
}

/// What happens to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeEventKind {
    /// A new, empty node is there.
    Up(Node),
    /// A node will be taken.
    Notice {
        /// Its name.
        node: String,
        /// From this event until then.
        notice: SimTime,
    },
    /// The notice of the node of this name is void.
    Cancelled(String),
    /// The node of this name is gone.
    Down(String),
}

/// What nodes are where the trace doesn't say.
#[derive(Clone, Debug, Default)]
pub struct OfferDefaults {
    /// GPU type of nodes without one.
    pub gpu: Option<Arc<GpuSpec>>,
    /// GPUs of nodes without a count.
    pub gpus_per_node: Option<u32>,
    /// Network interface, and zone of nodes without one.
    pub node: NodeDefaults,
}

/// Why a trace's nodes can't be understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// Neither the trace nor the command line says which GPUs a node has.
    #[error(
        "the trace doesn't say which GPUs node `{node}` has\nhint: name them, for example `--gpu-type V100-16 --gpus-per-node 1`"
    )]
    NoGpuType {
        /// The node.
        node: String,
    },
    /// Neither the trace nor the command line says how many GPUs a node has.
    #[error(
        "the trace doesn't say how many GPUs node `{node}` has\nhint: say how many, for example `--gpus-per-node 8`"
    )]
    NoGpuCount {
        /// The node.
        node: String,
    },
    /// The catalog doesn't have the GPU type.
    #[error("node `{node}` at {time_s} s: {source}")]
    Cluster {
        /// The node.
        node: String,
        /// Time of the event in the trace.
        time_s: f64,
        /// What is wrong.
        source: ClusterError,
    },
}

impl Trace {
    /// The same events with every node known in full, in order of time.
    pub fn cluster_events(&self, defaults: &OfferDefaults) -> Result<Vec<NodeEvent>, OfferError> {
        let resolve = |event: &super::TraceEvent| {
            let kind = match &event.kind {
                TraceEventKind::Up(offer) => NodeEventKind::Up(node(&event.node, event.time, offer, defaults)?),
                TraceEventKind::Notice { notice } => {
                    NodeEventKind::Notice { node: event.node.clone(), notice: *notice }
                }
                TraceEventKind::Cancelled => NodeEventKind::Cancelled(event.node.clone()),
                TraceEventKind::Down => NodeEventKind::Down(event.node.clone()),
            };
            Ok(NodeEvent { time: event.time, kind })
        };
        self.events.iter().map(resolve).collect()
    }
}

fn node(name: &str, time: SimTime, offer: &NodeOffer, defaults: &OfferDefaults) -> Result<Node, OfferError> {
    let gpu = match (&offer.gpu_type, &defaults.gpu) {
        (Some(gpu_type), _) => GpuSpec::lookup(gpu_type).map_err(|source| OfferError::Cluster {
            node: name.to_owned(),
            time_s: time.as_seconds(),
            source,
        })?,
        (None, Some(gpu)) => Arc::clone(gpu),
        (None, None) => return Err(OfferError::NoGpuType { node: name.to_owned() }),
    };
    let gpu_count = offer.gpu_count.or(defaults.gpus_per_node);
    let gpu_count = gpu_count.ok_or_else(|| OfferError::NoGpuCount { node: name.to_owned() })?;
    let price = offer.price_usd_per_hour.unwrap_or(gpu.spot_usd_per_hour * f64::from(gpu_count));
    let (nic, wiring) = defaults.node.interfaces(gpu_count);
    Ok(Node {
        name: name.to_owned(),
        flow: defaults.node.flow(&gpu),
        gpu,
        gpu_count,
        zone: offer.zone.clone().unwrap_or_else(|| defaults.node.zone.clone()),
        price_usd_per_hour: price,
        nic,
        wiring,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;

    fn defaults(gpu: Option<&str>, gpus_per_node: Option<u32>) -> OfferDefaults {
        let gpu = gpu.map(|name| GpuSpec::lookup(name).unwrap());
        OfferDefaults { gpu, gpus_per_node, node: NodeDefaults::default() }
    }

    #[test]
    fn what_the_trace_says_goes_before_the_defaults() {
        let text = "time_s,event,node,gpu_type,gpu_count,price_usd_per_hour\n0,up,a,T4,4,1.5\n0,up,b,,,\n";
        let events = parse(text, "t").unwrap().cluster_events(&defaults(Some("V100-16"), Some(2))).unwrap();
        let NodeEventKind::Up(a) = &events[0].kind else { panic!("{:?}", events[0]) };
        let NodeEventKind::Up(b) = &events[1].kind else { panic!("{:?}", events[1]) };
        assert_eq!((a.gpu.name.as_str(), a.gpu_count, a.price_usd_per_hour), ("T4", 4, 1.5));
        assert_eq!((b.gpu.name.as_str(), b.gpu_count), ("V100-16", 2));
        approx::assert_relative_eq!(b.price_usd_per_hour, 2.0 * b.gpu.spot_usd_per_hour);
    }

    #[test]
    fn open_questions_are_errors_that_say_how_to_answer_them() {
        let trace = parse("0,add,node1\r\n1000,remove,node1\r\n", "t").unwrap();
        let message = |defaults| trace.cluster_events(&defaults).unwrap_err().to_string();
        assert!(message(defaults(None, Some(1))).contains("--gpu-type V100-16"));
        assert!(message(defaults(Some("V100-16"), None)).contains("--gpus-per-node"));
    }
}
