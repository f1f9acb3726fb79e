//! The house rules that no compiler checks, checked on the source text: who imports whom, who names what, how long things
//! are. The rules are stated in ARCHITECTURE.md; the text rules rely on rustfmt's layout.

mod masked;
mod rules;

use rules::{
    function_lengths, import_breaches, is_test_only, modules_in_order, no_leftovers, test_lines, test_modules,
    word_breaches,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file.
const MAX_FILE_LINES: usize = 400;
/// Longest function, from the line of its `fn` to its closing brace.
const MAX_FUNCTION_LINES: usize = 70;

/// Uses against the order of `src/lib.rs`: from, to, why. `planner` and `runtime` are in no need of one: they never
/// import each other, in either direction.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// Where a clock may be read: by the command line, and where training is real and what it reports are measurements. The
/// simulator, which is in `runtime` too, has none.
const CLOCK_HOMES: &[&str] = &["cli/", "runtime/device/", "training/", "training.rs"];

/// A word, the paths that may hold it in code outside tests, and what the rule is for.
const WORDS: &[(&str, &[&str], &str)] = &[
    ("russcip", &["planner/scip"], "one room knows the solver, so that it can be left out or exchanged"),
    ("scip_sys", &["planner/scip"], "one room knows the solver, so that it can be left out or exchanged"),
    (
        "burn_autodiff",
        &["runtime/device/"],
        "one room knows the tensor library, so that it can be left out or exchanged",
    ),
    ("burn_cuda", &["runtime/device/"], "one room knows the tensor library, so that it can be left out or exchanged"),
    ("cudarc", &["runtime/device/"], "one room knows the tensor library, so that it can be left out or exchanged"),
    ("burn_flex", &["runtime/device/"], "one room knows the tensor library, so that it can be left out or exchanged"),
    ("burn_tensor", &["runtime/device/"], "one room knows the tensor library, so that it can be left out or exchanged"),
    ("Instant", CLOCK_HOMES, "only the command line and real training look at a clock, so that results repeat"),
    ("SystemTime", CLOCK_HOMES, "only the command line and real training look at a clock, so that results repeat"),
    ("StdRng", &[], "its stream may change with a release; `rand_pcg` is fixed by name"),
    ("ThreadRng", &[], "randomness has a seed"),
];

/// Rooms that work on values only: no file is opened in them, but where training is real and its checkpoints are kept.
const NO_FILES_IN: &[&str] = &["units", "ids", "suggest", "plan", "cost", "planner", "program", "runtime", "elastic"];
/// What may open files nevertheless.
const FILE_HOMES: &[&str] = &["runtime/device/store"];

struct Source {
    /// Path below `src` or `tests`, with `/` between folders.
    path: String,
    text: String,
}

fn sources(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut folders = vec![root.clone()];
    let mut paths: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let source = |path: PathBuf| {
        let parts = path.strip_prefix(&root).unwrap().components();
        let parts: Vec<String> = parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        Source { path: parts.join("/"), text: fs::read_to_string(&path).unwrap() }
    };
    paths.into_iter().map(source).collect()
}

/// All Rust sources: of the library and its binaries, of these tests, of the benches.
fn all_sources() -> Vec<Source> {
    let mut all = Vec::new();
    for folder in ["src", "tests", "benches"] {
        if Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).is_dir() {
            let found = sources(folder).into_iter();
            all.extend(found.map(|source| Source { path: format!("{folder}/{}", source.path), ..source }));
        }
    }
    all
}

fn assert_none(breaches: &[String], rule: &str) {
    assert!(breaches.is_empty(), "{rule}:\n{}", breaches.join("\n"));
}

/// The modules of `src/lib.rs`, each with its place in the flow.
fn order() -> BTreeMap<String, usize> {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let modules = modules_in_order(&lib);
    assert!(modules.len() > 10, "found only {modules:?} in src/lib.rs");
    modules.into_iter().enumerate().map(|(place, name)| (name, place)).collect()
}

#[test]
fn modules_import_only_from_those_before_them() {
    let order = order();
    let sources = sources("src");
    let test_only: Vec<String> = sources.iter().flat_map(|file| test_modules(&file.path, &file.text)).collect();
    let mut breaches = Vec::new();
    for Source { path, text } in &sources {
        let room = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        if room == "lib" || room == "bin" {
            continue;
        }
        let is_test = is_test_only(path, &test_only);
        let allowed = |to: &str| EXCEPTIONS.iter().any(|(from, target, _)| *from == room && *target == to);
        breaches.extend(import_breaches(path, text, is_test, &order, &allowed));
    }
    assert_none(&breaches, "a module imports only from those before it in src/lib.rs");
}

#[test]
fn words_stay_in_their_rooms() {
    let sources = sources("src");
    let test_only: Vec<String> = sources.iter().flat_map(|file| test_modules(&file.path, &file.text)).collect();
    let mut breaches = Vec::new();
    for Source { path, text } in sources.iter().filter(|file| !is_test_only(&file.path, &test_only)) {
        for (word, homes, why) in WORDS {
            if !homes.iter().any(|home| path.starts_with(home)) {
                breaches.extend(word_breaches(path, text, word).map(|place| format!("{place}: {why}")));
            }
        }
        let room = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        if NO_FILES_IN.contains(&room) && !FILE_HOMES.iter().any(|home| path.starts_with(home)) {
            for word in ["fs", "fs_err", "File"] {
                breaches.extend(word_breaches(path, text, word).map(|place| format!("{place}: no I/O in `{room}`")));
            }
        }
    }
    assert_none(&breaches, "a word is used outside the room that it belongs to");
}

#[test]
fn files_and_functions_are_short() {
    let mut breaches = Vec::new();
    for Source { path, text } in &all_sources() {
        let lines = text.lines().count();
        if lines > MAX_FILE_LINES {
            breaches.push(format!("{path} has {lines} lines, at most {MAX_FILE_LINES}"));
        }
        for (line, name, length) in function_lengths(text) {
            if length > MAX_FUNCTION_LINES {
                breaches.push(format!("{path}:{line}: `{name}` has {length} lines, at most {MAX_FUNCTION_LINES}"));
            }
        }
    }
    assert_none(&breaches, "too long");
}

#[test]
fn nothing_is_left_unfinished() {
    let breaches: Vec<String> = all_sources().iter().flat_map(|file| no_leftovers(&file.path, &file.text)).collect();
    assert_none(&breaches, "left unfinished");
}

#[test]
fn modules_are_files_named_after_them() {
    let old_style: Vec<String> =
        all_sources().into_iter().map(|file| file.path).filter(|path| path.ends_with("/mod.rs")).collect();
    assert_none(&old_style, "`foo.rs` beside `foo/`, not `foo/mod.rs`");
}

/// The rules see what they are meant to see: each is broken once, on purpose.
mod the_rules_themselves {
    use super::*;

    fn flow() -> BTreeMap<String, usize> {
        [("units", 0), ("plan", 1), ("planner", 2), ("runtime", 3), ("elastic", 4)]
            .map(|(name, place)| (name.to_owned(), place))
            .into()
    }

    fn breaches(path: &str, text: &str) -> Vec<String> {
        import_breaches(path, text, false, &flow(), &|_| false)
    }

    #[test]
    fn lib_gives_the_order() {
        let lib = "//! Docs: pub mod not_this;\n\npub mod units;\n\nmod suggest;\npub mod plan;\nuse plan::Plan;\n";
        assert_eq!(modules_in_order(lib), ["units", "suggest", "plan"]);
    }

    #[test]
    fn imports_from_earlier_rooms_and_from_home_are_fine() {
        let text = "use crate::{plan::Plan, units::{Bytes, SimTime}};\nuse crate::runtime::drive;\nuse super::queue;\n";
        assert_eq!(breaches("runtime/sim.rs", text), Vec::<String>::new());
    }

    #[test]
    fn imports_from_later_rooms_are_found_in_every_spelling() {
        for text in [
            "use crate::elastic::Controller;",
            "fn f() -> crate::elastic::Policy { todo() }",
            "use crate::{\n    plan::Plan,\n    elastic::{Controller, Policy},\n};",
            "use super::super::elastic::Controller;",
            "pub use crate::elastic as rubber;",
        ] {
            let found = breaches("runtime/sim.rs", text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].starts_with("runtime/sim.rs:") && found[0].contains("`elastic`"), "{found:?}");
        }
        assert_eq!(breaches("plan.rs", "use super::planner::AutoHet;").len(), 1);
        assert_eq!(breaches("plan.rs", "mod inner {\n    use super::super::planner::AutoHet;\n}\n").len(), 1);
        assert_eq!(breaches("plan.rs", "mod inner {\n    use super::planner::AutoHet;\n}\n").len(), 0);
    }

    #[test]
    fn planner_and_runtime_are_strangers_whatever_their_order() {
        let found = breaches("runtime.rs", "use crate::planner::AutoHet;");
        assert_eq!(found.len(), 1, "{found:?}");
        let found = import_breaches("planner.rs", "use crate::runtime::drive;", false, &flow(), &|_| true);
        assert_eq!(found.len(), 1, "no exception makes them friends: {found:?}");
    }

    #[test]
    fn exceptions_are_by_name() {
        let text = "use crate::elastic::Policy;\nuse crate::runtime::drive;\n";
        let found = import_breaches("plan.rs", text, false, &flow(), &|to| to == "elastic");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`runtime`"), "{found:?}");
    }

    #[test]
    fn comments_and_strings_import_nothing() {
        let text = "//! See [drive](crate::elastic::x).\n/* crate::elastic */\nconst A: &str = \"crate::elastic::A\";\n\
                    const B: &str = r#\"a \" crate::elastic\"#;\nconst C: char = '\"'; // crate::elastic\n";
        assert_eq!(breaches("plan.rs", text), Vec::<String>::new());
        assert_eq!(breaches("plan.rs", "const C: char = '\"';\nuse crate::elastic::A;\n").len(), 1);
        assert_eq!(breaches("plan.rs", "fn f<'a>(x: &'a str) {}\nuse crate::elastic::A;\n").len(), 1);
    }

    #[test]
    fn tests_may_look_ahead() {
        let text = "#[cfg(test)]\nmod tests {\n    use crate::elastic::Policy;\n    fn f() {}\n}\n";
        assert_eq!(breaches("plan.rs", text), Vec::<String>::new());
        let text = "#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nuse crate::elastic::Policy;\n";
        assert_eq!(breaches("plan.rs", text).len(), 1);
        let declared = test_modules("plan.rs", "#[cfg(test)]\npub(crate) mod fixture;\nmod json;\n");
        assert_eq!(declared, ["plan/fixture"]);
        assert!(is_test_only("plan/fixture.rs", &declared) && is_test_only("plan/fixture/small.rs", &declared));
        assert!(!is_test_only("plan/json.rs", &declared));
    }

    #[test]
    fn words_are_whole_words_in_code() {
        let text = "use russcip::Model;\n// russcip\nlet russcip_like = \"russcip\";\n";
        assert_eq!(word_breaches("plan.rs", text, "russcip").collect::<Vec<_>>(), ["plan.rs:1: `russcip`"]);
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::time::Instant;\n}\n";
        assert_eq!(word_breaches("plan.rs", text, "Instant").count(), 0);
        assert_eq!(test_lines(text), [false, true, true, true, true]);
    }

    #[test]
    fn functions_are_measured_from_signature_to_brace() {
        let text = "impl A {\n    pub fn short() {}\n\n    fn long(\n        a: u8,\n    ) -> u8 {\n        if a > 0 {\n        }\n        a\n    }\n}\n\
                    trait B {\n    fn declared(&self) -> u8;\n    fn given(&self) {\n    }\n}\n";
        let found: Vec<(usize, String, usize)> = function_lengths(text);
        let expected = [(2, "short", 1), (4, "long", 7), (13, "declared", 1), (14, "given", 2)];
        assert_eq!(found, expected.map(|(line, name, length)| (line, name.to_owned(), length)));
        let body = "    let _ = 1;\n".repeat(MAX_FUNCTION_LINES - 1);
        assert_eq!(function_lengths(&format!("fn f() {{\n{body}}}\n"))[0].2, MAX_FUNCTION_LINES + 1);
    }

    #[test]
    fn leftovers_are_found() {
        for text in [
            concat!("fn f() { to", "do!() }"),
            concat!("fn f() { unim", "plemented!(\"later\") }"),
            concat!("fn f(x: u8) { db", "g!(x); }"),
            concat!("// FIX", "ME: later"),
            concat!("#[ign", "ore]\nfn f() {}"),
            concat!("#[ign", "ore = \"slow\"]\nfn f() {}"),
        ] {
            assert_eq!(no_leftovers("a.rs", text).len(), 1, "{text}");
        }
        assert_eq!(no_leftovers("a.rs", "// nothing to do!\nfn ignore() {}"), Vec::<String>::new());
    }
}
