//! Bytes between processes: a trait, and TCP.

mod frame;
mod tcp;
pub(super) mod throttle;

pub(super) use tcp::connect;
pub use tcp::{LOOPBACK, TcpTransport, accept, listen};

use std::io;
use std::time::Duration;

/// How long a peer may be silent before it counts as lost. A dead one is noticed at once, by its closed socket.
pub const SILENCE: Duration = Duration::from_mins(10);
/// How long a stranger may take to say who it is.
pub(super) const GREETING: Duration = Duration::from_secs(5);

/// A connection to one peer that carries whole messages, in order.
pub trait Transport: Send {
    /// Sends a message; returns once the system has taken it.
    fn send(&mut self, message: &[u8]) -> Result<(), TransportError>;
    /// The next message.
    fn receive(&mut self) -> Result<Vec<u8>, TransportError>;
    /// Waits until what was sent has left, where sending doesn't.
    fn flush(&mut self) -> Result<(), TransportError> {
        Ok(())
    }
}

/// Why a message didn't get through.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The peer closed the connection.
    #[error("{peer} has closed the connection")]
    Closed {
        /// The peer.
        peer: String,
    },
    /// The peer said nothing for too long.
    #[error("{peer} didn't answer in time")]
    TimedOut {
        /// The peer.
        peer: String,
    },
    /// Bytes that differ from those which were sent.
    #[error("a message of {length} bytes from {peer} has checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// The peer.
        peer: String,
        /// Bytes of the message.
        length: usize,
        /// Checksum of what came.
        found: u32,
        /// Checksum that came with it.
        expected: u32,
    },
    /// More than one message holds.
    #[error("a message with {peer} has {length} bytes, at most {limit} fit")]
    TooLong {
        /// The peer.
        peer: String,
        /// Bytes of the message.
        length: u64,
        /// Most bytes of a message.
        limit: u64,
    },
    /// A message that isn't the one that was waited for.
    #[error("a message of {found} bytes came where one of {expected} was due")]
    Length {
        /// Bytes of the message.
        found: usize,
        /// Bytes of the one that was waited for.
        expected: usize,
    },
    /// A peer that doesn't know the secret of this run.
    #[error("{peer} was refused: it doesn't know this run's secret")]
    Refused {
        /// The peer.
        peer: String,
    },
    /// Anything else.
    #[error("the connection to {peer} failed: {source}")]
    Io {
        /// The peer.
        peer: String,
        /// What the system said.
        source: io::Error,
    },
}

impl TransportError {
    fn from_io(peer: &str, source: io::Error) -> Self {
        let peer = peer.to_owned();
        match source.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted => Self::Closed { peer },
            // A read that times out is the one or the other, depending on the platform.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::TimedOut { peer },
            _ => Self::Io { peer, source },
        }
    }
}

#[cfg(test)]
mod tests;
