//! GPU types as people write them: `A100-SXM4-80GB`, `T4-16GB x16`, `H100 96GB HBM2e 500W`.

use crate::cluster::GpuSpec;
use std::sync::Arc;

/// A type, and how many GPUs of it, where that is written.
pub(super) type Counted = (Arc<GpuSpec>, Option<u32>);

/// Types with how many GPUs of each, in the order in which they are written: `T4-16GB x12 + V100-16GB x4`. The number is
/// `None` where none is written. `Err` has the part that names no type of the catalog.
pub(super) fn parse(text: &str) -> Result<Vec<Counted>, String> {
    let parts = text.split(['+', ',', ';']).map(str::trim).filter(|part| !part.is_empty());
    let found = parts.map(|part| {
        let (name, count) = split_count(part);
        lookup(name).map(|gpu| (gpu, count)).ok_or_else(|| name.to_owned())
    });
    let found = found.collect::<Result<Vec<_>, String>>()?;
    if found.is_empty() { Err(text.to_owned()) } else { Ok(found) }
}

/// `12x T4` and `T4 x12` into `T4` and 12.
fn split_count(part: &str) -> (&str, Option<u32>) {
    if let Some((name, count)) = part.rsplit_once([' ', '\t'])
        && let Some(count) = count.strip_prefix(['x', 'X', '×']).and_then(|digits| digits.parse().ok())
    {
        return (name.trim(), Some(count));
    }
    if let Some((count, name)) = part.split_once(['x', 'X', '×'])
        && let Ok(count) = count.trim().parse()
    {
        return (name.trim(), Some(count));
    }
    (part, None)
}

/// The type whose name is the longest beginning of the text, word by word, and what is in brackets left out.
fn lookup(name: &str) -> Option<Arc<GpuSpec>> {
    let name = name.split('(').next().unwrap_or(name).trim();
    let ends: Vec<usize> =
        name.char_indices().filter(|(_, c)| matches!(c, ' ' | '-' | '_')).map(|(end, _)| end).collect();
    let mut beginnings = std::iter::once(name.len()).chain(ends.into_iter().rev());
    beginnings.find_map(|end| GpuSpec::lookup(&name[..end]).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_as_people_write_them() {
        for (text, name) in [
            ("A100-SXM4-80GB", "A100-80"),
            ("A100 (variant not stated in repo)", "A100-40"),
            ("H100 96GB HBM2e 500W (Meta Grand Teton)", "H100"),
            ("H100-SXM5-80GB 700W", "H100"),
            ("V100-SXM2-16GB", "V100-16"),
            ("GH-96", "GH200-96"),
        ] {
            let found = parse(text).unwrap();
            assert_eq!((found[0].0.name.as_str(), found[0].1, found.len()), (name, None, 1), "{text}");
        }
    }

    #[test]
    fn counts_and_mixes_are_read() {
        let counts = |text: &str| -> Vec<(String, Option<u32>)> {
            parse(text).unwrap().into_iter().map(|(gpu, count)| (gpu.name.clone(), count)).collect()
        };
        assert_eq!(counts("T4-16GB x16"), [("T4".to_owned(), Some(16))]);
        let mix = [("T4".to_owned(), Some(12)), ("V100-16".to_owned(), Some(4))];
        assert_eq!(counts("T4-16GB x12 + V100-SXM2-16GB x4"), mix);
        assert_eq!(counts("12x T4-16GB + 4x V100-16GB"), mix);
        assert_eq!(parse("T4 + Z9000-12GB").unwrap_err(), "Z9000-12GB");
        assert_eq!(parse("").unwrap_err(), "");
    }
}
