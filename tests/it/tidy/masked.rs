//! Source text with comments and the contents of strings blanked out, so that what is left is code. Every line keeps its
//! number and its indentation.

/// The code of a source text.
pub fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = end_of_text(&chars, at);
        if end > at {
            masked.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            masked.push(chars[at]);
            at += 1;
        }
    }
    masked
}

/// Where the comment or literal that begins at `at` ends; `at` itself where none begins.
fn end_of_text(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => find(chars, at, |rest| rest[0] == '\n'),
        '/' if next == Some('*') => end_of_block_comment(chars, at),
        '"' => end_of_quoted(chars, at + 1, '"'),
        'r' if !is_word(chars, at.wrapping_sub(1)) || chars[at - 1] == 'b' => end_of_raw(chars, at),
        '\'' if next == Some('\\') => end_of_quoted(chars, at + 1, '\''),
        '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
}

fn is_word(chars: &[char], at: usize) -> bool {
    chars.get(at).is_some_and(|c| c.is_alphanumeric() || *c == '_')
}

fn find(chars: &[char], from: usize, is_end: impl Fn(&[char]) -> bool) -> usize {
    (from..chars.len()).find(|at| is_end(&chars[*at..])).unwrap_or(chars.len())
}

fn end_of_block_comment(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < chars.len() {
        match &chars[at..chars.len().min(at + 2)] {
            ['/', '*'] => (depth, at) = (depth + 1, at + 2),
            ['*', '/'] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn end_of_quoted(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    chars.len().min(at + 1)
}

/// `r"…"` or `r#"…"#`; `at` itself where the `r` is just a letter or a raw identifier's.
fn end_of_raw(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return at;
    }
    let closes = |rest: &[char]| rest[0] == '"' && rest[1..].iter().take_while(|c| **c == '#').count() >= hashes;
    chars.len().min(find(chars, open + 1, closes) + 1 + hashes)
}

#[cfg(test)]
mod tests {
    use super::code;

    #[test]
    fn what_is_left_is_code() {
        for (text, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("a(\"b \\\" c\") d", "a(        ) d"),
            ("a r\"b\\\" c", "a       c"),
            ("r#\"a \" b\"# c", "           c"),
            ("'\\'' 'x' 'a b", "         'a b"),
            ("for r in bar {}", "for r in bar {}"),
            ("r#type", "r#type"),
        ] {
            let masked = code(text);
            assert_eq!(masked.trim_end(), expected.trim_end(), "{text}");
            assert_eq!(masked.chars().count(), text.chars().count(), "{text}");
        }
    }
}
