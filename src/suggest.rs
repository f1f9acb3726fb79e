//! "Did you mean": names close to one that isn't known.

/// The candidates nearest to `name`, best first, at most three. Case, `-`, `_` and spaces don't count.
pub(crate) fn near<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = fold(name);
    let mut scored: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let folded = fold(candidate);
            let contained = !wanted.is_empty() && (folded.contains(&wanted) || wanted.contains(&folded));
            let distance = if contained { 1 } else { edit_distance(&wanted, &folded) };
            (distance <= folded.chars().count().max(3) / 3).then_some((distance, candidate))
        })
        .collect();
    scored.sort_unstable();
    scored.dedup();
    scored.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// The candidate that is spelled most like `word`, to the letter, if any is near enough to have been meant.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = word.chars().count() / 3 + 1;
    let distances = candidates.into_iter().map(|candidate| (edit_distance(word, candidate), candidate));
    distances.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// A hint that names the nearest candidates, if any, and then all of them.
pub(crate) fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let near = near(name, candidates.clone());
    let all = candidates.into_iter().collect::<Vec<_>>().join(", ");
    if near.is_empty() {
        format!("known names: {all}")
    } else {
        let quoted = near.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
        format!("did you mean {quoted}? known names: {all}")
    }
}

/// The name in lower case without separators, so that `RTX3090` equals `rtx-3090`.
pub(crate) fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Levenshtein distance, by rows.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("same", "same"), 0);
    }

    #[test]
    fn near_names_come_first_and_far_ones_not_at_all() {
        let names = ["A100-40", "A100-80", "H100", "T4"];
        assert_eq!(near("a10040", names), ["A100-40", "A100-80"]);
        assert_eq!(near("H10O", names)[0], "H100");
        assert!(near("quantum", names).is_empty());
        assert_eq!(hint("quantum", names), "known names: A100-40, A100-80, H100, T4");
        assert!(hint("h-101", names).starts_with("did you mean `H100`?"));
    }

    #[test]
    fn the_nearest_word_is_one_that_could_be_meant() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(nearest("gpu_typ", ["gpu_count", "gpu_type"]), Some("gpu_type"));
        assert_eq!(nearest("colour", ["zone", "node"]), None);
    }
}
