//! What can happen to a file.

use super::TraceFormat;
use rand::RngExt;
use rand_pcg::Pcg64;
use std::path::Path;

/// Largest input.
const MOST_BYTES: usize = 6000;
/// As much as is taken of a file.
const HEAD_BYTES: usize = 1500;

/// Words that make trouble.
const WORDS: [&str; 40] = [
    "",
    " ",
    "0",
    "-1",
    "-0",
    "1",
    "NaN",
    "nan",
    "inf",
    "-inf",
    "1e300",
    "1e-300",
    "1e9",
    "99999999999999999999",
    "18446744073709551616",
    "4294967296",
    "3153600000",
    "3153600000000",
    "0x10",
    "1,5",
    "1.5",
    "null",
    "true",
    "[]",
    "{}",
    "\"\"",
    "Unknown",
    "up",
    "down",
    "notice",
    "end",
    "add",
    "remove",
    "a",
    "\"a b \"",
    "ä",
    "\u{feff}",
    "gpu[01-99999]",
    "2026-02-30T00:00:00Z",
    "9999-12-31T23:59:59Z",
];

const PRICES: &str = "{\"SpotPriceHistory\":[\n{\"AvailabilityZone\":\"us-east-1a\",\"InstanceType\":\"p3.2xlarge\",\"ProductDescription\":\
                      \"Linux/UNIX\",\"SpotPrice\":\"0.918000\",\"Timestamp\":\"2026-01-01T00:10:00+00:00\"},\n{\"AvailabilityZone\":\
                      \"us-east-1a\",\"InstanceType\":\"p3.2xlarge\",\"ProductDescription\":\"Linux/UNIX\",\"SpotPrice\":\"\",\
                      \"Timestamp\":\"2026-01-01T00:00:00+00:00\"}]}";

/// What inputs are made from.
pub(super) struct Samples(Vec<Vec<u8>>);

impl Samples {
    /// The small files, a history of prices, and the heads of the traces of the repository, and of recorded ones where they
    /// are at hand.
    pub(super) fn new(small: &[(TraceFormat, &str)]) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut samples: Vec<Vec<u8>> = small.iter().map(|(_, text)| text.as_bytes().to_vec()).collect();
        samples.push(PRICES.as_bytes().to_vec());
        for folder in [root.join("traces"), root.join("../shared/data/traces")] {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
            let mut paths: Vec<_> = entries.filter(|path| path.is_file()).collect();
            paths.sort();
            samples.extend(paths.iter().filter_map(|path| std::fs::read(path).ok()).map(|mut bytes| {
                bytes.truncate(HEAD_BYTES);
                bytes
            }));
        }
        Self(samples)
    }

    fn any(&self, random: &mut Pcg64) -> &[u8] {
        &self.0[random.random_range(0..self.0.len())]
    }
}

/// A sample to which a few things have happened.
pub(super) fn mutated(samples: &Samples, random: &mut Pcg64) -> Vec<u8> {
    let mut bytes = samples.any(random).to_vec();
    for _ in 0..random.random_range(0..5_u32) {
        match random.random_range(0..4_u32) {
            0 => mutate_bytes(&mut bytes, random),
            1 => mutate_rows(&mut bytes, random),
            2 => mutate_cells(&mut bytes, random),
            _ => mutate_text(&mut bytes, samples, random),
        }
        bytes.truncate(MOST_BYTES);
    }
    bytes
}

/// A stretch of `bytes`, perhaps empty.
fn stretch(bytes: &[u8], random: &mut Pcg64, most: usize) -> std::ops::Range<usize> {
    let start = random.random_range(0..=bytes.len());
    start..(start + random.random_range(0..=most)).min(bytes.len())
}

fn mutate_bytes(bytes: &mut Vec<u8>, random: &mut Pcg64) {
    let at = stretch(bytes, random, 12);
    match random.random_range(0..6_u32) {
        0 => bytes.truncate(at.start),
        1 => drop(bytes.drain(at)),
        2 if at.start < bytes.len() => bytes[at.start] ^= 1 << random.random_range(0..8_u32),
        3 => drop(bytes.splice(at, (0..3).map(|_| random.random::<u8>()).collect::<Vec<_>>())),
        4 => {
            let invalid: [&[u8]; 4] = [b"\xff", b"\xc3", b"\0", b"\xed\xa0\x80"];
            bytes.splice(at, invalid[random.random_range(0..4)].to_vec());
        }
        _ => {
            let piece = bytes[at.clone()].to_vec();
            let again = piece.repeat(random.random_range(1..20));
            bytes.splice(at.end..at.end, again);
        }
    }
}

/// Deletes, doubles, moves or swaps lines.
fn mutate_rows(bytes: &mut Vec<u8>, random: &mut Pcg64) {
    let mut rows: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let (one, other) = (random.random_range(0..rows.len()), random.random_range(0..rows.len()));
    match random.random_range(0..4_u32) {
        0 => drop(rows.remove(one)),
        1 => rows.insert(other, rows[one].clone()),
        2 => rows.swap(one, other),
        _ => rows[one..].reverse(),
    }
    *bytes = rows.join(&b'\n');
}

/// Swaps cells, or puts a word in one's place.
fn mutate_cells(bytes: &mut Vec<u8>, random: &mut Pcg64) {
    const BETWEEN: &[u8] = b",|:\n[]{}";
    let mut cells: Vec<std::ops::Range<usize>> = Vec::new();
    let mut start = 0;
    for (place, byte) in bytes.iter().enumerate() {
        if BETWEEN.contains(byte) {
            cells.push(start..place);
            start = place + 1;
        }
    }
    cells.push(start..bytes.len());
    let mut pick = || cells[random.random_range(0..cells.len())].clone();
    let (one, other) = (pick(), pick());
    let (first, second) = if one.start <= other.start { (one, other) } else { (other, one) };
    if random.random_ratio(1, 2) || first == second {
        let word = WORDS[random.random_range(0..WORDS.len())];
        bytes.splice(second, word.bytes());
    } else {
        let (front, back) = (bytes[first.clone()].to_vec(), bytes[second.clone()].to_vec());
        bytes.splice(second, front);
        bytes.splice(first, back);
    }
}

fn mutate_text(bytes: &mut Vec<u8>, samples: &Samples, random: &mut Pcg64) {
    match random.random_range(0..6_u32) {
        0 => {
            *bytes =
                bytes.iter().flat_map(|byte| if *byte == b'\n' { vec![b'\r', b'\n'] } else { vec![*byte] }).collect();
        }
        1 => drop(bytes.splice(0..0, *b"\xef\xbb\xbf")),
        2 => {
            let at = stretch(bytes, random, 0);
            bytes.splice(at, WORDS[random.random_range(0..WORDS.len())].bytes());
        }
        3 => {
            // The rest of another file.
            let other = samples.any(random);
            let (here, there) = (random.random_range(0..=bytes.len()), random.random_range(0..=other.len()));
            bytes.truncate(here);
            bytes.extend(&other[there..]);
        }
        4 => {
            // Other digits.
            let digits: Vec<usize> = (0..bytes.len()).filter(|place| bytes[*place].is_ascii_digit()).collect();
            if !digits.is_empty() {
                let place = digits[random.random_range(0..digits.len())];
                bytes[place] = b'0' + random.random_range(0..10_u8);
            }
        }
        _ => drop(bytes.splice(0..0, *b"# a comment\n\n")),
    }
}
