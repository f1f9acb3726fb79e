//! TCP. Whoever connects proves first that it knows the secret of this run.

use super::frame::{self, MAX_BYTES};
use super::{GREETING, SILENCE, Transport, TransportError};
use crate::runtime::device::Secret;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
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

    /// Sends a message that is in several places, without putting it together first.
    pub fn send_parts(&mut self, parts: &[&[u8]]) -> Result<(), TransportError> {
        frame::write_parts(&mut self.writer, parts, &self.peer)?;
        self.writer.flush().map_err(|source| TransportError::from_io(&self.peer, source))
    }

    /// A handle that can shut the connection down.
    pub fn stream(&self) -> Result<TcpStream, TransportError> {
        self.reader.try_clone().map_err(|source| TransportError::from_io(&self.peer, source))
    }

    /// Its own side's interface.
    pub fn local_ip(&self) -> Result<IpAddr, TransportError> {
        let address = self.reader.local_addr().map_err(|source| TransportError::from_io(&self.peer, source))?;
        Ok(address.ip())
    }

    /// Whether the other side is on this machine, as far as addresses tell.
    pub fn is_within_this_machine(&self) -> Result<bool, TransportError> {
        let failed = |source| TransportError::from_io(&self.peer, source);
        let (own, peer) = (self.reader.local_addr().map_err(failed)?, self.reader.peer_addr().map_err(failed)?);
        Ok(own.ip() == peer.ip())
    }

    /// The same connection, now that it is known whose it is.
    #[must_use]
    pub fn named(self, peer: &impl ToString) -> Self {
        Self { peer: peer.to_string(), ..self }
    }

    /// From here on it gives up after `silence` without a byte.
    pub fn wait_at_most(&self, silence: Duration) -> Result<(), TransportError> {
        self.reader.set_read_timeout(Some(silence)).map_err(|source| TransportError::from_io(&self.peer, source))
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

/// A free port of the loopback interface, where no other machine reaches it.
pub const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A listener at this address; port 0 is any that is free.
pub fn listen(at: SocketAddr) -> Result<(TcpListener, SocketAddr), TransportError> {
    let failed = |source| TransportError::from_io(&at.to_string(), source);
    let listener = TcpListener::bind(at).map_err(failed)?;
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

/// Hears the greeting of whoever has connected: what it says once it has proved to know the secret.
pub fn accept(stream: TcpStream, secret: &Secret) -> Result<(TcpTransport, Vec<u8>), TransportError> {
    let peer = stream.peer_addr().map_or_else(|_| "a stranger".to_owned(), |address| address.to_string());
    stream.set_read_timeout(Some(GREETING)).map_err(|source| TransportError::from_io(&peer, source))?;
    // A stranger's first message is bounded before it is read.
    let limit = secret.bytes().len() + GREETING_BYTES;
    let first = frame::read(&mut &stream, limit as u64, &peer)?;
    match secret.opens(&first) {
        Some(greeting) => Ok((TcpTransport::new(stream, peer, SILENCE)?, greeting.to_vec())),
        None => Err(TransportError::Refused { peer }),
    }
}
