//! Framing: length and CRC-32 of the message, four bytes each in little endian, then the message.

use super::TransportError;
use std::io::{Read, Write};

/// Length and checksum, four bytes each.
const HEADER_BYTES: usize = 8;
/// Longest message; anything longer is a stranger's or a broken peer's.
pub(super) const MAX_BYTES: u64 = 1 << 30;

/// Writes one message.
pub(super) fn write(stream: &mut impl Write, message: &[u8], peer: &str) -> Result<(), TransportError> {
    write_parts(stream, &[message], peer)
}

/// Writes one message that is in several places.
pub(super) fn write_parts(stream: &mut impl Write, parts: &[&[u8]], peer: &str) -> Result<(), TransportError> {
    let length = parts.iter().map(|part| part.len() as u64).sum();
    let mut checksum = crc32fast::Hasher::new();
    for part in parts {
        checksum.update(part);
    }
    if length > MAX_BYTES {
        return Err(TransportError::TooLong { peer: peer.to_owned(), length, limit: MAX_BYTES });
    }
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&(length as u32).to_le_bytes());
    header[4..].copy_from_slice(&checksum.finalize().to_le_bytes());
    stream
        .write_all(&header)
        .and_then(|()| parts.iter().try_for_each(|part| stream.write_all(part)))
        .map_err(|source| TransportError::from_io(peer, source))
}

/// Reads one message of at most `limit` bytes.
pub(super) fn read(stream: &mut impl Read, limit: u64, peer: &str) -> Result<Vec<u8>, TransportError> {
    let failed = |source| TransportError::from_io(peer, source);
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).map_err(failed)?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (length, expected) = (word(0), word(4));
    if u64::from(length) > limit {
        return Err(TransportError::TooLong { peer: peer.to_owned(), length: u64::from(length), limit });
    }
    let mut message = vec![0; length as usize];
    stream.read_exact(&mut message).map_err(failed)?;
    let found = crc32fast::hash(&message);
    if found != expected {
        return Err(TransportError::Checksum { peer: peer.to_owned(), length: message.len(), found, expected });
    }
    Ok(message)
}
