//! Slurm's compressed lists of nodes: `gpu[01-04,07],login1`.

/// The most nodes that one list may stand for.
const MOST_NODES: usize = 16_384;

/// The names in `list`, or what is wrong with it.
pub(super) fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in split_outside_brackets(list)? {
        let part = part.trim();
        if part.is_empty() {
            return Err("an empty name".to_owned());
        }
        expand_name(part, String::new(), &mut names)?;
    }
    Ok(names)
}

/// The parts between commas that stand in no brackets.
fn split_outside_brackets(list: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut start, mut is_inside) = (0, false);
    for (offset, c) in list.char_indices() {
        match c {
            '[' if is_inside => return Err("a `[` in brackets".to_owned()),
            ']' if !is_inside => return Err("a `]` without its `[`".to_owned()),
            '[' => is_inside = true,
            ']' => is_inside = false,
            ',' if !is_inside => {
                parts.push(&list[start..offset]);
                start = offset + 1;
            }
            _ => {}
        }
    }
    if is_inside {
        return Err("a `[` without its `]`".to_owned());
    }
    parts.push(&list[start..]);
    Ok(parts)
}

/// Puts what `rest` stands for behind `before`; each pair of brackets multiplies.
fn expand_name(rest: &str, before: String, names: &mut Vec<String>) -> Result<(), String> {
    let Some((plain, bracket)) = rest.split_once('[') else {
        if names.len() >= MOST_NODES {
            return Err(format!("more than {MOST_NODES} nodes"));
        }
        names.push(before + rest);
        return Ok(());
    };
    let (ranges, after) = bracket.split_once(']').ok_or("a `[` without its `]`")?;
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| match text.parse::<u32>() {
            Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
            _ => Err(format!("`{}` where a number belongs", crate::trace::error::shown(text))),
        };
        let (first, last) = (number(low)?, number(high)?);
        if first > last {
            return Err("a range that runs down".to_owned());
        }
        // Zeros in front count: 01 to 10 is 01, 02, …, 10.
        for number in first..=last {
            expand_name(after, format!("{before}{plain}{number:0width$}", width = low.len()), names)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("gpu[01-03,07]", "gpu01 gpu02 gpu03 gpu07")]
    #[case("a,b[9-11],c-d", "a b9 b10 b11 c-d")]
    #[case("r[1-2]n[08-09]x", "r1n08x r1n09x r2n08x r2n09x")]
    fn lists_are_expanded(#[case] list: &str, #[case] names: &str) {
        assert_eq!(expand(list).unwrap().join(" "), names);
    }

    #[rstest]
    fn broken_lists_are_refused(
        #[values(
            "a[1",
            "a]1",
            "a[1[2]]",
            "a[x]",
            "a[3-1]",
            "a[+1]",
            "a[1-]",
            "a,,b",
            "",
            "a[0-99999]",
            "a[1-200]b[1-200]"
        )]
        list: &str,
    ) {
        assert!(expand(list).is_err(), "{list}");
    }
}
