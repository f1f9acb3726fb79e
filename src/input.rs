//! Files that the user names, read up to a size: a device that never ends, or the wrong file, must not fill the memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest trace: some five million events.
pub(crate) const MOST_TRACE_BYTES: u64 = 256 << 20;
/// Largest file of settings, nodes or measurements: far more than anybody writes.
const MOST_TEXT_BYTES: u64 = 16 << 20;

/// Reads a whole file of at most `most_bytes`.
pub(crate) fn read_bytes(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    // A device or a pipe has no length; those end, or not, while they are read.
    if file.metadata()?.len() > most_bytes {
        return Err(too_large(most_bytes));
    }
    let mut bytes = Vec::new();
    file.take(most_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes { Err(too_large(most_bytes)) } else { Ok(bytes) }
}

/// Reads a file of settings as text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read_bytes(path, MOST_TEXT_BYTES)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it isn't UTF-8 text"))
}

fn too_large(most_bytes: u64) -> io::Error {
    let limit = format!("it is larger than {} MiB, the most that is read", most_bytes >> 20);
    io::Error::new(io::ErrorKind::FileTooLarge, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_the_limit() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        std::fs::write(&path, [7; 100]).unwrap();
        assert_eq!(read_bytes(&path, 100).unwrap(), [7; 100]);
        assert_eq!(read_bytes(&path, 99).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(&path, "größe").unwrap();
        assert_eq!(read_text(&path).unwrap(), "größe");
    }

    #[cfg(unix)]
    #[test]
    fn a_device_without_end_is_refused() {
        let error = read_bytes(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 1 MiB, the most that is read");
    }
}
