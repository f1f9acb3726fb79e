//! Sends and receives between stages. A transfer begins when both ends are there: the receiver says so first.

use crate::program::Op;
use crate::runtime::device::DeviceError;
use crate::runtime::device::all_reduce::{from_bytes, to_bytes};
use crate::runtime::device::clock::Clock;
use crate::runtime::device::mailbox::Mailbox;
use crate::runtime::device::transport::Transport;
use crate::units::SimTime;
use std::sync::Arc;

/// One stream of transfers over one connection.
pub(super) struct Transfer {
    /// Nothing at the ends of the pipeline, where the stream has nothing to do.
    wire: Option<Box<dyn Transport>>,
    mailbox: Arc<Mailbox>,
}

impl Transfer {
    pub(super) fn new(wire: Option<Box<dyn Transport>>, mailbox: Arc<Mailbox>) -> Self {
        Self { wire, mailbox }
    }

    pub(super) fn run(&mut self, op: Op, clock: &Clock) -> Result<SimTime, DeviceError> {
        let wire = self.wire.as_mut().expect("streams without a neighbour have no instructions");
        match op {
            Op::Send { micro_batch, direction, .. } => {
                let message = to_bytes(&self.mailbox.to_send().take(direction, micro_batch));
                wire.receive()?;
                let start = clock.now();
                wire.send(&[])?;
                wire.send(&message)?;
                wire.flush()?;
                Ok(start)
            }
            Op::Receive { micro_batch, direction, .. } => {
                wire.send(&[])?;
                // The sender answers at once if it's there: an empty message, then the values.
                wire.receive()?;
                let start = clock.now();
                let values = from_bytes(&wire.receive()?).collect();
                self.mailbox.received().put(direction, micro_batch, values);
                Ok(start)
            }
            _ => unreachable!("{op} is no transfer"),
        }
    }
}
