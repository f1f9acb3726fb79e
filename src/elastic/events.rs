//! What the world and the controller tell each other.

use super::peer_copies::PeerCopies;
use super::reconfiguration::Reconfiguration;
use crate::cluster::Node;
use crate::units::SimTime;
use std::sync::Arc;

/// What the world tells the controller.
#[derive(Clone, Debug)]
pub enum Event {
    /// Nodes came, are about to go, or went, all at one time.
    Membership(MembershipChange),
    /// The iteration that was started has ended.
    IterationDone,
    /// The snapshot that was asked for is complete, as far as training waits for it.
    SnapshotDone,
    /// A snapshot is complete in the host memory of others, on the disks, or in the object store.
    CheckpointDurable {
        /// Iterations done when it was taken.
        step: u64,
        /// Where it is now.
        place: CheckpointPlace,
    },
    /// The snapshot of this step can't be written.
    CheckpointFailed {
        /// Iterations done when it was taken.
        step: u64,
    },
    /// The change of plan that was asked for is complete.
    Reconfigured,
    /// Copies that state was to be read from can't be read.
    CopiesLost(LostCopies),
}

/// Copies of the state that turn out to be damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostCopies {
    /// Everything that this node keeps in host memory.
    Host {
        /// Its name.
        node: String,
    },
    /// Everything on the disk of this node.
    Disk {
        /// Its name.
        node: String,
    },
    /// A checkpoint in the object store.
    ObjectStore {
        /// Iterations done when it was taken.
        step: u64,
    },
}

/// Nodes that came, are about to go, or went.
#[derive(Clone, Debug, Default)]
pub struct MembershipChange {
    /// New nodes, empty.
    pub joined: Vec<Node>,
    /// Names of nodes under notice.
    pub noticed: Vec<String>,
    /// When the first of them is announced to be lost, where that is known.
    pub losses_at: Option<SimTime>,
    /// Names of nodes whose notice is void: they stay.
    pub spared: Vec<String>,
    /// Names of lost nodes.
    pub lost: Vec<String>,
}

/// Where a checkpoint can be safe from the loss of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPlace {
    /// Host memory of the nodes themselves and of those that were sent copies.
    Host,
    /// The nodes' own disks.
    Disk,
    /// The object store.
    ObjectStore,
}

/// What the controller asks of the world. An action replaces whatever was under way.
#[derive(Clone, Debug)]
pub enum Action {
    /// Run an iteration of the current plan.
    StartIteration,
    /// Stand still and copy the state to host memory; it becomes durable in the background.
    TakeSnapshot(Snapshot),
    /// Change to another plan.
    Reconfigure(Arc<Reconfiguration>),
    /// Nothing fits: wait for nodes.
    Wait {
        /// Step of which everything can still be read; iterations after it are lost.
        resume_step: u64,
    },
}

/// A snapshot to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Iterations done.
    pub step: u64,
    /// Stand still until it is in the object store, because the plan changes next and the policy reads from nowhere
    /// else.
    pub until_durable: bool,
    /// What is to be sent to the host memory of other nodes, in the background and before anything else.
    pub copies: Arc<PeerCopies>,
}
