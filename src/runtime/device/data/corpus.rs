//! The tokens of a file: bytes of a text, or numbers of two or four bytes each.

use crate::input::read_bytes;
use crate::runtime::device::DeviceError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file holds its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenFormat {
    /// UTF-8 text, one token a byte.
    Text,
    /// Unsigned numbers of two bytes, little endian.
    U16,
    /// Unsigned numbers of four bytes, little endian.
    U32,
}

/// A file as it was when it was read first: whoever reads it again finds the same, or knows that it doesn't.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusFile {
    path: PathBuf,
    bytes: u64,
    crc32: u32,
}

/// The tokens of a file.
#[derive(Clone)]
pub struct Corpus {
    format: TokenFormat,
    bytes: Arc<Vec<u8>>,
    file: Option<CorpusFile>,
}

/// What a worker is told of the data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataOrigin {
    /// There is no file: samples are drawn.
    Synthetic,
    /// It reads the file by itself.
    Path(TokenFormat, CorpusFile),
    /// The next message is the file's content.
    Message(TokenFormat),
}

impl TokenFormat {
    /// Bytes of a token.
    fn width(self) -> usize {
        match self {
            Self::Text => 1,
            Self::U16 => 2,
            Self::U32 => 4,
        }
    }
}

impl Corpus {
    /// Reads a file of at most `most_bytes`, and checks that it is in its format.
    ///
    /// # Errors
    /// [`DeviceError::Data`] says what is wrong with the file.
    pub fn read(path: &Path, format: TokenFormat, most_bytes: u64) -> Result<Self, DeviceError> {
        let bytes = read_bytes(path, most_bytes).map_err(|error| {
            let hint = "name a file that you may read and that fits into memory, once for each rank";
            refused(path, format!("can't be read: {error}"), hint)
        })?;
        check(path, &bytes, format)?;
        // What can't be opened twice, such as a pipe, and what a message can't name travels with the message.
        let place = path.canonicalize().ok().filter(|place| place.is_file() && place.to_str().is_some());
        let stamp = |path| CorpusFile { path, bytes: bytes.len() as u64, crc32: crc32fast::hash(&bytes) };
        let file = place.map(stamp);
        Ok(Self { format, bytes: Arc::new(bytes), file })
    }

    /// Reads the file again that another process has read before.
    pub(in crate::runtime::device) fn read_again(format: TokenFormat, file: CorpusFile) -> Result<Self, DeviceError> {
        let hint = "leave the data as it is for as long as the run lasts";
        let found = read_bytes(&file.path, file.bytes);
        let bytes = found.map_err(|error| refused(&file.path, format!("can't be read again: {error}"), hint))?;
        if bytes.len() as u64 != file.bytes || crc32fast::hash(&bytes) != file.crc32 {
            return Err(refused(&file.path, "has changed since the run began".to_owned(), hint));
        }
        Ok(Self { format, bytes: Arc::new(bytes), file: Some(file) })
    }

    /// The tokens that these bytes hold, which belong to no file.
    pub fn from_bytes(format: TokenFormat, bytes: Vec<u8>) -> Self {
        Self { format, bytes: Arc::new(bytes), file: None }
    }

    /// What a worker has to be told, and what it has to be sent besides.
    pub fn origin(&self) -> (DataOrigin, Option<&[u8]>) {
        match &self.file {
            Some(file) => (DataOrigin::Path(self.format, file.clone()), None),
            None => (DataOrigin::Message(self.format), Some(&self.bytes)),
        }
    }

    /// How it holds its tokens.
    pub fn format(&self) -> TokenFormat {
        self.format
    }

    /// Where it is from, for people.
    pub(super) fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "the data".to_owned(), |file| format!("`{}`", file.path.display()))
    }

    /// What tells it from others.
    pub(super) fn fingerprint(&self) -> String {
        let kind = match self.format {
            TokenFormat::Text => "text",
            TokenFormat::U16 => "u16",
            TokenFormat::U32 => "u32",
        };
        let crc32 = self.file.as_ref().map_or_else(|| crc32fast::hash(&self.bytes), |file| file.crc32);
        format!("{kind} of {} bytes (crc32 {crc32:08x})", self.bytes.len())
    }

    /// Bytes of all tokens.
    pub(super) fn byte_count(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.format.width()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens from `start` on.
    pub(super) fn tokens(&self, start: usize, count: usize) -> Vec<u32> {
        let width = self.format.width();
        self.bytes[start * width..(start + count) * width].chunks_exact(width).map(number).collect()
    }

    /// The first token that a vocabulary of this size doesn't have: its position, and which it is.
    pub(super) fn first_beyond(&self, vocab_size: u32) -> Option<(u64, u32)> {
        let tokens = self.bytes.chunks_exact(self.format.width()).map(number);
        let mut beyond = tokens.enumerate().filter(|(_, token)| *token >= vocab_size);
        beyond.next().map(|(position, token)| (position as u64, token))
    }
}

impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Corpus").field("format", &self.format).field("file", &self.file).finish_non_exhaustive()
    }
}

/// A number in little endian.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn check(path: &Path, bytes: &[u8], format: TokenFormat) -> Result<(), DeviceError> {
    let width = format.width();
    if !bytes.len().is_multiple_of(width) {
        let problem = format!("has {} bytes, which isn't a whole number of tokens of {width} bytes", bytes.len());
        return Err(refused(path, problem, "name the format with `--data-format text`, `u16` or `u32`"));
    }
    match std::str::from_utf8(bytes) {
        Err(error) if format == TokenFormat::Text => {
            let problem = format!("isn't UTF-8 text from byte {} on", error.valid_up_to());
            Err(refused(path, problem, "for a file of token numbers add `--data-format u16` or `--data-format u32`"))
        }
        _ => Ok(()),
    }
}

fn refused(file: &Path, problem: String, hint: &'static str) -> DeviceError {
    DeviceError::Data { file: file.to_owned(), problem, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn numbers_are_read_in_little_endian() {
        let file = file(&[1, 0, 2, 1, 255, 255, 0, 128]);
        let read = |format| Corpus::read(file.path(), format, 8).unwrap();
        assert_eq!(read(TokenFormat::U16).tokens(0, 4), [1, 258, 65_535, 32_768]);
        assert_eq!(read(TokenFormat::U16).tokens(1, 2), [258, 65_535]);
        assert_eq!(read(TokenFormat::U32).tokens(0, 2), [0x0102_0001, 0x8000_ffff]);
        assert_eq!(read(TokenFormat::U16).first_beyond(300), Some((2, 65_535)));
        assert_eq!(read(TokenFormat::U16).first_beyond(65_536), None);
    }

    #[test]
    fn a_worker_reads_what_the_coordinator_has_read_or_says_that_it_has_changed() {
        let file = file(b"a text");
        let corpus = Corpus::read(file.path(), TokenFormat::Text, 100).unwrap();
        let (DataOrigin::Path(format, stamp), None) = corpus.origin() else { panic!("it is a file") };
        assert_eq!(Corpus::read_again(format, stamp.clone()).unwrap().tokens(2, 2), [116, 101]);
        for changed in [&b"a tent"[..], b"a longer text", b"a"] {
            std::fs::write(file.path(), changed).unwrap();
            let message = Corpus::read_again(format, stamp.clone()).unwrap_err().to_string();
            assert!(message.contains("has changed") || message.contains("larger"), "{message}");
        }
    }

    #[test]
    fn files_that_hold_no_tokens_are_refused() {
        let message = |bytes: &[u8], format| Corpus::read(file(bytes).path(), format, 8).unwrap_err().to_string();
        assert!(message(&[65, 66, 255, 65], TokenFormat::Text).contains("isn't UTF-8 text from byte 2 on\nhint: "));
        assert!(message(&[1, 2, 3], TokenFormat::U16).contains("has 3 bytes, which isn't a whole number of tokens"));
        assert!(message(&[0; 9], TokenFormat::Text).contains("larger than"));
    }
}
