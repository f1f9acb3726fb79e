//! Where things stand in a sweep file, for messages.

use toml::de::{DeTable, DeValue};

pub(super) fn line_at(text: &str, start: usize) -> usize {
    1 + text[..start.min(text.len())].bytes().filter(|byte| *byte == b'\n').count()
}

/// Where a dotted key stands, as `` `file` line 3 ``, in any of its spellings; the file alone where it isn't found.
pub(in crate::sweep) fn place_of(text: &str, file: &str, key: &str) -> String {
    let start = DeTable::parse(text).ok().and_then(|root| start_of(root.get_ref(), key));
    start.map_or_else(|| format!("`{file}`"), |start| format!("`{file}` line {}", line_at(text, start)))
}

fn start_of(table: &DeTable<'_>, key: &str) -> Option<usize> {
    table.iter().find_map(|(name, value)| {
        let name_text: &str = name.get_ref();
        if name_text == key {
            return Some(name.span().start);
        }
        let rest = key.strip_prefix(name_text)?.strip_prefix('.')?;
        match value.get_ref() {
            DeValue::Table(inner) => start_of(inner, rest),
            DeValue::Array(entries) => entries.iter().find_map(|entry| match entry.get_ref() {
                DeValue::Table(inner) => start_of(inner, rest),
                _ => None,
            }),
            _ => None,
        }
    })
}

/// Where the first name in backticks of a message stands, or the last part of it: the line that begins with it; else the
/// first line that says anything.
pub(in crate::sweep) fn place_of_word(text: &str, file: &str, message: &str) -> String {
    let named = message.split('`').nth(1).and_then(|name| name.rsplit('.').next()).filter(|name| !name.is_empty());
    let is_it = |line: &str, name: &str| {
        let rest = line.trim_start().strip_prefix(name);
        rest.is_some_and(|rest| rest.trim_start().starts_with('=')) || line.trim().trim_matches(['[', ']']) == name
    };
    let is_said = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let found = named.and_then(|name| text.lines().position(|line| is_it(line, name)));
    let line = found.or_else(|| text.lines().position(is_said)).map_or(1, |index| index + 1);
    format!("`{file}` line {line}")
}

/// What is wrong, without what to do.
pub(in crate::sweep) fn first_line(problem: &str) -> String {
    problem.lines().next().unwrap_or_default().to_owned()
}

/// What to do.
pub(in crate::sweep) fn hint_of(problem: &str) -> String {
    let hint = problem.split_once("\nhint: ").map(|(_, hint)| hint.to_owned());
    hint.unwrap_or_else(|| "`scenarios/aws-spot.toml` shows every key of a scenario".to_owned())
}
