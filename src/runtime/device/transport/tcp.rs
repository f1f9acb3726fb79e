//! TCP on the loopback interface. Whoever connects proves first that it knows the secret of this run.

use super::frame::{self, MAX_BYTES};
use super::{GREETING, SILENCE, Transport, TransportError};
use crate::runtime::device::Secret;
use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Longest greeting behind the secret.
const GREETING_BYTES: usize = 64;

/// A TCP connection that carries framed, checksummed messages.
#[derive(Debug)]
pub struct TcpTransport {
    reader: TcpStream,
    writer: BufWriter<TcpStream>,
    peer: String,
}

impl TcpTransport {
    /// Wraps a stream; `peer` is how errors call the other side. It gives up after `silence` without a byte.
    pub fn new(stream: TcpStream, peer: impl Into<String>, silence: Duration) -> Result<Self, TransportError> {
        let peer = peer.into();
        let failed = |source| TransportError::from_io(&peer, source);
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(silence)).map_err(failed)?;
        stream.set_write_timeout(Some(silence)).map_err(failed)?;
        let reader = stream.try_clone().map_err(failed)?;
        Ok(Self { reader, writer: BufWriter::new(stream), peer })
    }

    /// A second handle on the same connection, so that one thread can receive while another sends.
    pub fn duplicate(&self) -> Result<Self, TransportError> {
        let clone = |stream: &TcpStream| stream.try_clone().map_err(|error| TransportError::from_io(&self.peer, error));
        let writer = BufWriter::new(clone(&self.reader)?);
        Ok(Self { reader: clone(&self.reader)?, writer, peer: self.peer.clone() })
    }

    /// The same connection, now that it is known whose it is.
    #[must_use]
    pub fn named(self, peer: &impl ToString) -> Self {
        Self { peer: peer.to_string(), ..self }
    }

    /// From here on it waits for as long as it takes; only a closed connection ends it.
    pub fn wait_forever(&self) -> Result<(), TransportError> {
        self.reader.set_read_timeout(None).map_err(|source| TransportError::from_io(&self.peer, source))
    }
}

impl Transport for TcpTransport {
    fn send(&mut self, message: &[u8]) -> Result<(), TransportError> {
        frame::write(&mut self.writer, message, &self.peer)?;
        self.writer.flush().map_err(|source| TransportError::from_io(&self.peer, source))
    }

    fn receive(&mut self) -> Result<Vec<u8>, TransportError> {
        frame::read(&mut self.reader, MAX_BYTES, &self.peer)
    }
}

/// A listener on a free port of the loopback interface, where no other machine reaches it.
pub(in super::super) fn listen() -> Result<(TcpListener, SocketAddr), TransportError> {
    let failed = |source| TransportError::from_io("the loopback interface", source);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Connects, proves to know the secret and says what the connection is for.
pub(in super::super) fn connect(
    address: SocketAddr,
    secret: &Secret,
    greeting: &[u8],
    peer: &str,
) -> Result<TcpTransport, TransportError> {
    let stream =
        TcpStream::connect_timeout(&address, GREETING).map_err(|source| TransportError::from_io(peer, source))?;
    let mut transport = TcpTransport::new(stream, peer, SILENCE)?;
    transport.send(&[secret.bytes().as_slice(), greeting].concat())?;
    Ok(transport)
}

/// Takes a connection if one is waiting: its greeting, once it has proved to know the secret.
pub(in super::super) fn accept(
    listener: &TcpListener,
    secret: &Secret,
) -> Result<Option<(TcpTransport, Vec<u8>)>, TransportError> {
    let (stream, address) = match listener.accept() {
        Ok(accepted) => accepted,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(source) => return Err(TransportError::from_io("the loopback interface", source)),
    };
    let peer = address.to_string();
    let failed = |source| TransportError::from_io(&peer, source);
    stream.set_nonblocking(false).map_err(failed)?;
    stream.set_read_timeout(Some(GREETING)).map_err(failed)?;
    // A stranger's first message is bounded before it is read.
    let limit = secret.bytes().len() + GREETING_BYTES;
    let first = frame::read(&mut &stream, limit as u64, &peer)?;
    match secret.opens(&first) {
        Some(greeting) => Ok(Some((TcpTransport::new(stream, peer, SILENCE)?, greeting.to_vec()))),
        None => Err(TransportError::Refused { peer }),
    }
}
