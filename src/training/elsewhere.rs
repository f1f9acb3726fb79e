//! Nodes whose workers somebody else starts, on this machine or another.

use crate::runtime::device::{LOOPBACK, Secret};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Which nodes are elsewhere, and how their workers get in.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    /// Names of the nodes. All others are processes that the coordinator starts.
    pub nodes: BTreeSet<String>,
    /// Where the coordinator listens. Workers listen on the interface from which they reach it.
    pub listen: SocketAddr,
    /// What workers prove to know; a new one where nobody else has to know it.
    pub secret: Option<Secret>,
}

impl Default for Elsewhere {
    /// Nothing is elsewhere: all stays on the loopback interface.
    fn default() -> Self {
        Self { nodes: BTreeSet::new(), listen: LOOPBACK, secret: None }
    }
}
