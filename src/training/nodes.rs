//! The nodes of a run, and which worker is which of their devices.

use crate::cluster::Node;
use crate::runtime::device::messages::WorkerId;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes that are there or on their way.
#[derive(Default)]
pub(super) struct Nodes {
    by_name: BTreeMap<String, Running>,
    of_worker: BTreeMap<WorkerId, String>,
}

struct Running {
    node: Node,
    /// By index of the GPU.
    workers: Vec<WorkerId>,
    joined: BTreeSet<WorkerId>,
}

impl Nodes {
    /// A node's workers were started, one per GPU.
    pub(super) fn insert(&mut self, node: Node, workers: Vec<WorkerId>) {
        for &worker in &workers {
            self.of_worker.insert(worker, node.name.clone());
        }
        self.by_name.insert(node.name.clone(), Running { node, workers, joined: BTreeSet::new() });
    }

    /// Whether a node of this name is there or on its way.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether a node of this name is there, with all of its workers.
    pub(super) fn has_joined(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|running| running.joined.len() == running.workers.len())
    }

    /// A worker has joined; returns its node if all of its workers have now.
    pub(super) fn join(&mut self, worker: WorkerId) -> Option<Node> {
        let running = self.by_name.get_mut(self.of_worker.get(&worker)?)?;
        running.joined.insert(worker);
        (running.joined.len() == running.workers.len()).then(|| running.node.clone())
    }

    /// The name of a worker's node.
    pub(super) fn node_of(&self, worker: WorkerId) -> Option<&str> {
        self.of_worker.get(&worker).map(String::as_str)
    }

    /// The worker that is this GPU of the node.
    pub(super) fn worker(&self, node: &str, gpu: u32) -> Option<WorkerId> {
        self.by_name.get(node)?.workers.get(gpu as usize).copied()
    }

    /// Workers of the node; none where there is no such node.
    pub(super) fn gpu_count(&self, node: &str) -> u32 {
        self.by_name.get(node).map_or(0, |running| running.workers.len() as u32)
    }

    /// Any worker of the node.
    pub(super) fn any_worker(&self, node: &str) -> Option<WorkerId> {
        self.worker(node, 0)
    }

    /// A worker by its node and device, for people.
    pub(super) fn describe(&self, worker: WorkerId) -> String {
        let Some(running) = self.node_of(worker).and_then(|node| self.by_name.get(node)) else {
            return worker.to_string();
        };
        let gpu = running.workers.iter().position(|other| *other == worker).unwrap_or_default();
        format!("device {gpu} of node `{}`", running.node.name)
    }

    /// Takes a node out: the node, whether all of its workers had joined, and its workers.
    pub(super) fn remove(&mut self, name: &str) -> Option<(Node, bool, Vec<WorkerId>)> {
        let Running { node, workers, joined } = self.by_name.remove(name)?;
        for worker in &workers {
            self.of_worker.remove(worker);
        }
        Some((node, joined.len() == workers.len(), workers))
    }

    /// Whether some node's workers haven't all joined yet.
    pub(super) fn are_on_their_way(&self) -> bool {
        self.by_name.values().any(|running| running.joined.len() < running.workers.len())
    }
}
