//! The rules as functions of one source text.

use super::masked::code;
use std::collections::BTreeMap;

/// Rooms that never import each other, whatever their order.
const STRANGERS: [&str; 2] = ["planner", "runtime"];

/// The modules that a `lib.rs` declares, in its order.
pub fn modules_in_order(lib: &str) -> Vec<String> {
    let declared = |line: &str| {
        let name = line.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';')?;
        Some(name.to_owned())
    };
    code(lib).lines().filter_map(declared).collect()
}

/// What a file uses of later rooms: one breach a use, with its place. Tests may look ahead.
pub fn import_breaches(
    path: &str,
    text: &str,
    is_test: bool,
    order: &BTreeMap<String, usize>,
    is_allowed: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let room = parts[0];
    let Some(home) = order.get(room) else { return vec![format!("{path}: `{room}` isn't declared in src/lib.rs")] };
    let tests = test_lines(text);
    let mut breaches = Vec::new();
    for (line, target) in uses(text, parts.len()) {
        if is_test || tests.get(line - 1) == Some(&true) {
            continue;
        }
        let Some(place) = order.get(&target) else { continue };
        let are_strangers = room != target && STRANGERS.contains(&room) && STRANGERS.contains(&target.as_str());
        if are_strangers {
            breaches.push(format!("{path}:{line}: `{room}` and `{target}` never import each other"));
        } else if place > home && !is_allowed(&target) {
            breaches.push(format!("{path}:{line}: `{room}` uses `{target}`, which comes after it"));
        }
    }
    breaches
}

/// Top-level modules that a text names through `crate::…` or through enough `super::`, with the line of each. `depth` is
/// the number of modules that the file is below the crate's root.
fn uses(text: &str, depth: usize) -> Vec<(usize, String)> {
    let code = code(text);
    let nesting = nesting(&code);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = next_path(&code, at) {
        let line = code[..start].matches('\n').count() + 1;
        let supers = leading_supers(&code[start..]);
        let skipped = if supers > 0 { supers * "super::".len() } else { "crate::".len() };
        at = start + skipped;
        if supers == 0 || supers >= depth + nesting[line - 1] {
            found.extend(names(&code[at..]).into_iter().map(|name| (line, name)));
        }
    }
    found
}

/// The next `crate::` or chain of `super::` from `from` on.
fn next_path(code: &str, from: usize) -> Option<usize> {
    let starts = |word: &str| {
        let mut at = from;
        while let Some(offset) = code[at..].find(word) {
            let start = at + offset;
            if !code[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                return Some(start);
            }
            at = start + word.len();
        }
        None
    };
    [starts("crate::"), starts("super::")].into_iter().flatten().min()
}

fn leading_supers(code: &str) -> usize {
    let mut rest = code;
    let mut count = 0;
    while let Some(after) = rest.strip_prefix("super::") {
        (rest, count) = (after, count + 1);
    }
    count
}

/// The first identifiers of what follows `crate::`: one, or those of a group `{a::…, b}`.
fn names(rest: &str) -> Vec<String> {
    let identifier = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = rest.strip_prefix('{') else { return vec![identifier(rest)] };
    let mut found = Vec::new();
    let mut depth = 0;
    let mut is_start = true;
    for (at, c) in group.char_indices() {
        match c {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            _ if is_start && !c.is_whitespace() => {
                found.push(identifier(&group[at..]));
                is_start = false;
            }
            _ => {}
        }
    }
    found
}

/// How many inline modules each line is within.
fn nesting(code: &str) -> Vec<usize> {
    let mut open: Vec<usize> = Vec::new();
    let mut nesting = Vec::new();
    for line in code.lines() {
        let indent = indent_of(line);
        if line.trim_end() == format!("{}}}", " ".repeat(indent)) && open.last() == Some(&indent) {
            open.pop();
        }
        nesting.push(open.len());
        if is_module(line) && line.trim_end().ends_with('{') {
            open.push(indent);
        }
    }
    nesting
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn is_module(line: &str) -> bool {
    without_visibility(line.trim_start()).starts_with("mod ")
}

fn without_visibility(code: &str) -> &str {
    let Some(rest) = code.strip_prefix("pub") else { return code };
    let rest = if rest.starts_with('(') { rest.split_once(')').map_or(rest, |(_, after)| after) } else { rest };
    rest.trim_start()
}

/// Which lines are compiled for tests only: items under `#[cfg(test)]`.
pub fn test_lines(text: &str) -> Vec<bool> {
    let code = code(text);
    let mut lines = code.lines();
    let mut marks = Vec::new();
    while let Some(line) = lines.next() {
        let is_test = line.trim() == "#[cfg(test)]";
        marks.push(is_test);
        if !is_test {
            continue;
        }
        let indent = indent_of(line);
        for line in lines.by_ref() {
            marks.push(true);
            let ends_item = line.trim_end().ends_with(';') || line.trim_start().starts_with('}');
            let is_one_line = line.trim_end().ends_with('}');
            if indent_of(line) == indent && (ends_item || is_one_line) {
                break;
            }
        }
    }
    marks
}

/// Module files that a file declares for tests only, as paths without `.rs`.
pub fn test_modules(path: &str, text: &str) -> Vec<String> {
    let tests = test_lines(text);
    let folder = path.trim_end_matches(".rs");
    let declared = |(line, is_test): (&str, &bool)| {
        let name = without_visibility(line.trim_start()).strip_prefix("mod ")?.trim_end().strip_suffix(';')?;
        is_test.then(|| format!("{folder}/{name}"))
    };
    code(text).lines().zip(&tests).filter_map(declared).collect()
}

/// Whether a file is one of the modules `test_only` or below one.
pub fn is_test_only(path: &str, test_only: &[String]) -> bool {
    let module = path.trim_end_matches(".rs");
    test_only.iter().any(|test| module.strip_prefix(test.as_str()).is_some_and(|r| r.is_empty() || r.starts_with('/')))
}

/// Where a word stands in code outside tests.
pub fn word_breaches(path: &str, text: &str, word: &str) -> impl Iterator<Item = String> {
    let tests = test_lines(text);
    let is_word = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word);
    let code = code(text);
    let found: Vec<String> = code
        .lines()
        .enumerate()
        .filter(|(at, line)| !tests[*at] && is_word(line))
        .map(|(at, _)| format!("{path}:{}: `{word}`", at + 1))
        .collect();
    found.into_iter()
}

/// Functions with the line of their `fn`, their name, and their length up to the closing brace.
pub fn function_lengths(text: &str) -> Vec<(usize, String, usize)> {
    let code = code(text);
    let lines: Vec<&str> = code.lines().collect();
    let measure = |(start, line): (usize, &&str)| {
        let name = function_name(line)?;
        let indent = indent_of(line);
        let ends = |line: &&str| {
            let trimmed = line.trim_end();
            indent_of(line) == indent && (trimmed.ends_with(';') || trimmed.ends_with('}'))
        };
        let length = lines[start..].iter().position(ends).map_or(lines.len() - start, |last| last + 1);
        Some((start + 1, name, length))
    };
    lines.iter().enumerate().filter_map(measure).collect()
}

fn function_name(line: &str) -> Option<String> {
    let mut rest = without_visibility(line.trim_start());
    for modifier in ["default ", "const ", "async ", "extern "] {
        rest = rest.strip_prefix(modifier).unwrap_or(rest);
    }
    let name: String = rest.strip_prefix("fn ")?.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    Some(name)
}

/// What says that something isn't finished, with its place.
pub fn no_leftovers(path: &str, text: &str) -> Vec<String> {
    let in_code = [concat!("to", "do!"), concat!("unim", "plemented!"), concat!("db", "g!("), concat!("#[ign", "ore")];
    let in_text = [concat!("FIX", "ME")];
    let code = code(text);
    let find = |text: &str, words: &[&'static str]| {
        let mut found = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let words = words.iter().filter(|word| line.contains(**word));
            found.extend(words.map(|word| format!("{path}:{}: `{word}`", at + 1)));
        }
        found
    };
    let mut found = find(&code, &in_code);
    found.extend(find(text, &in_text));
    found
}
