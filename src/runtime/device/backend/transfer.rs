//! Sends and receives between stages. A transfer begins when both ends are there: the receiver says so first.

use crate::program::{Op, RankProgram, Share};
use crate::runtime::device::DeviceError;
use crate::runtime::device::clock::Clock;
use crate::runtime::device::mailbox::Mailbox;
use crate::runtime::device::mesh::Wire;
use crate::runtime::device::numbers::{receive_into, to_bytes};
use crate::units::SimTime;
use std::ops::Range;
use std::sync::Arc;

/// What a rank holds of the activations between stages, and of their gradients.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct MessageShape {
    own: Share,
    /// Rows of the whole.
    rows: usize,
    /// Numbers in a row.
    width: usize,
}

impl MessageShape {
    /// That of a rank, where the whole has so many rows of so many numbers.
    pub(in super::super) fn new(rank: &RankProgram, rows: usize, width: usize) -> Self {
        Self { own: rank.activation_share(), rows, width }
    }

    /// That of a rank that holds so many numbers.
    pub(in super::super) fn holding(rank: &RankProgram, numbers: usize) -> Self {
        let own = rank.activation_share();
        Self { own, rows: numbers * own.of as usize, width: 1 }
    }

    fn len(&self) -> usize {
        self.own.within(self.rows).len() * self.width
    }

    /// Where a share lies in what the rank holds.
    fn place(&self, share: Share) -> Range<usize> {
        let (own, rows) = (self.own.within(self.rows), share.within(self.rows));
        (rows.start - own.start) * self.width..(rows.end - own.start) * self.width
    }
}

/// One stream of transfers. It has a connection to each rank of the neighbouring stage that takes part in them, and
/// serves one after the other; none at the ends of the pipeline, where the stream has nothing to do.
pub(super) struct Transfer {
    wires: Vec<Wire>,
    shape: MessageShape,
    mailbox: Arc<Mailbox>,
    /// What is on its way between the first and the last connection.
    under_way: Vec<f32>,
}

impl Transfer {
    pub(super) fn new(wires: Vec<Wire>, shape: MessageShape, mailbox: Arc<Mailbox>) -> Self {
        Self { wires, shape, mailbox, under_way: Vec::new() }
    }

    pub(super) fn run(&mut self, op: Op, clock: &Clock) -> Result<SimTime, DeviceError> {
        let (Op::Send { channel, .. } | Op::Receive { channel, .. }) = op else { unreachable!("{op} is no transfer") };
        let index = self.wires.iter().position(|wire| wire.channel == channel);
        let index = index.expect("streams without a neighbour have no instructions");
        let is_last = index + 1 == self.wires.len();
        let Wire { share, transport, .. } = &mut self.wires[index];
        let place = self.shape.place(*share);
        match op {
            Op::Send { micro_batch, direction, .. } => {
                if index == 0 {
                    self.under_way = self.mailbox.to_send().take(direction, micro_batch);
                }
                transport.receive()?;
                let start = clock.now();
                transport.send(&[])?;
                transport.send(&to_bytes(&self.under_way[place]))?;
                if is_last {
                    self.under_way = Vec::new();
                }
                transport.flush()?;
                Ok(start)
            }
            Op::Receive { micro_batch, direction, .. } => {
                if index == 0 {
                    self.under_way = vec![0.0; self.shape.len()];
                }
                transport.send(&[])?;
                // The sender answers at once if it's there: an empty message, then the values.
                transport.receive()?;
                let start = clock.now();
                let message = transport.receive()?;
                receive_into(&mut self.under_way[place], &message, |value, new| *value = new)?;
                if is_last {
                    let values = std::mem::take(&mut self.under_way);
                    self.mailbox.received().put(direction, micro_batch, values);
                }
                Ok(start)
            }
            _ => unreachable!("{op} is no transfer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_lie_where_the_rows_are() {
        // The second half of 7 rows of 2 is rows 3 to 6; its quarters are rows 3 to 4 and 5 to 6.
        let half = MessageShape { own: Share::of_rank(1, 2), rows: 7, width: 2 };
        assert_eq!(half.len(), 8);
        assert_eq!([2, 3].map(|quarter| half.place(Share::of_rank(quarter, 4))), [0..4, 4..8]);
        let whole = MessageShape { own: Share::WHOLE, rows: 7, width: 2 };
        assert_eq!(whole.place(Share::WHOLE), 0..14);
        assert_eq!(whole.place(Share::of_rank(1, 2)), 6..14);
    }
}
