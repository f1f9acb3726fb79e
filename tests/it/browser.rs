//! Pages in a browser, where one is installed: no error in its console, nothing wider than a phone, text that can be read in
//! light and dark, values without a mouse.

use crate::support::Sandbox;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// What looks at a page from inside a frame, and writes down what it finds.
const EXAMINE: &str = include_str!("browser/examine.js");
/// Widths of a phone and of a window, in CSS pixels.
const WIDTHS: [u32; 2] = [380, 1100];
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn browser() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    BROWSERS.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|path| path.is_file())
}

/// Opens a file without a window. Whatever the browser leaves behind is in `place`, and goes with it.
fn open(browser: &Path, file: &Path, place: &Path) -> Output {
    let mut command = Command::new(browser);
    command.env("TMPDIR", place).env("HOME", place).env("XDG_CONFIG_HOME", place).env("XDG_CACHE_HOME", place);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    command.args(["--disable-breakpad", "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", place.join("profile").display()));
    command.arg(format!("file://{}", file.display())).output().unwrap()
}

/// What a browser finds in pages, each at every width in light and dark; `None` where there is no browser.
fn examined(pages: &[(&str, String)]) -> Option<(Vec<Value>, String)> {
    let browser = browser()?;
    let place = tempfile::tempdir().unwrap();
    let mut frames = Vec::new();
    for (name, page) in pages {
        assert!(page.contains("@media screen and (prefers-color-scheme: dark)"), "{name}");
        let [light, dark] =
            ["print and (color)", "screen"].map(|media| page.replace("screen and (prefers-color-scheme: dark)", media));
        for width in WIDTHS {
            frames.push(json!({ "name": format!("{name}, {width}, light"), "width": width, "page": light }));
            frames.push(json!({ "name": format!("{name}, {width}, dark"), "width": width, "page": dark }));
        }
    }
    // Within a script, what would end it is written otherwise.
    let frames = Value::Array(frames).to_string().replace('<', "\\u003c");
    let page =
        format!("<!doctype html><meta charset=\"utf-8\"><body><script>\nconst FRAMES = {frames};\n{EXAMINE}</script>");
    let file = place.path().join("examine.html");
    fs::write(&file, page).unwrap();
    let Output { stdout, stderr, .. } = open(&browser, &file, place.path());
    let (dom, log) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr).into_owned());
    let found = dom.split("<pre id=\"found\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let found = found.unwrap_or_else(|| panic!("the browser said nothing: {log}\n{dom:.2000}"));
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some((serde_json::from_str(&found).unwrap(), log))
}

/// A replay, a plan and a sweep with a baseline, as pages.
fn pages() -> Vec<(&'static str, String)> {
    let sandbox = Sandbox::with_small_trace();
    let job = ["--model", "gpt3-1.3b", "--global-batch-size", "16"];
    let replay =
        [&["--trace", "small.csv", "--policies", "all", "--report", "replay.html", "--quiet"], &job[..]].concat();
    let plan = [&["plan", "--cluster", "1x2xA100-80+1x4xT4", "--report", "plan.html"], &job[..]].concat();
    let sweep = "planners = [\"whale\", \"megatron\"]\neffort = \"fast\"\n[scenario]\nmodel = \"gpt3-1.3b\"\n\
                 training.global_batch_size = 16\n[grid]\ngpus.A100-80 = [0, 1, 2]\ngpus.T4 = [0, 4]\n";
    let line = sweep.replace("gpus.T4 = [0, 4]\n", "");
    let sandbox = sandbox.file("map.toml", sweep).file("line.toml", line);
    let ran = |args: &[&str]| {
        let ran = sandbox.run(args);
        assert!(ran.code.is_some_and(|code| code < 2), "{args:?}: {}", ran.stderr);
    };
    ran(&replay);
    ran(&plan);
    ran(&["sweep", "line.toml", "--report", "line.html", "--quiet"]);
    ran(&["sweep", "map.toml", "--quiet"]);
    let rows = sandbox.read("results/map/rows.csv");
    let before: String = rows.lines().map(|line| line.replacen(",ok,,", ",ok,,9", 1) + "\n").collect();
    let sandbox = sandbox.file("before.csv", before);
    let gate = ["sweep", "map.toml", "--baseline", "before.csv", "--report", "map.html", "--quiet"];
    assert_eq!(sandbox.run(&gate).code, Some(1), "worse than a baseline that was made so");
    ["replay.html", "plan.html", "line.html", "map.html"].map(|name| (name, sandbox.read(name))).to_vec()
}

#[test]
fn pages_are_fit_for_phones_and_eyes() {
    let pages = pages();
    for (name, page) in &pages {
        assert!(page.len() < 3_000_000, "{name}: {}", page.len());
    }
    let Some((found, log)) = examined(&pages) else {
        println!("not looked at in a browser: there is none of {BROWSERS:?} here");
        return;
    };
    assert_eq!(found.len(), 4 * pages.len());
    for page in &found {
        let name = page["name"].as_str().unwrap();
        assert_eq!(page["overflow"], json!(0), "{name} is wider than its window by so many pixels");
        assert_eq!(page["pale"], json!([]), "{name} has text that is hard to read");
        assert_eq!(page["mute"], json!([]), "{name} has figures that say nothing to the keyboard");
        assert_eq!(page["unreachable"], json!([]), "{name} has what the keyboard doesn't get to, or not in order");
        assert!(page["stops"].as_u64().unwrap() > 6, "{page}");
        assert!(page["texts"].as_u64().unwrap() > 40, "{page}");
    }
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn what_is_wrong_with_a_page_is_found() {
    let media = "@media screen and (prefers-color-scheme: dark) { body { background: #000; } }";
    let page = format!(
        "<!doctype html><style>body {{ background: #fff; }} {media}</style><p style=\"color:#999\">pale</p>\
         <div style=\"width:900px\">wide</div><figure data-says><svg></svg></figure><output></output>\
         <script>console.error(\"oh\"); no.such();</script>"
    );
    let Some((found, log)) = examined(&[("bad", page)]) else { return };
    let at = |name: &str| found.iter().find(|page| page["name"] == name).unwrap();
    assert_eq!(at("bad, 380, light")["pale"].as_array().unwrap().len(), 1, "{found:?}");
    assert!(at("bad, 380, light")["overflow"].as_u64().unwrap() > 500);
    // Black text on black.
    assert_eq!(at("bad, 1100, dark")["pale"][0]["text"], "wide");
    assert_eq!(at("bad, 1100, dark")["overflow"], 0);
    assert_eq!(at("bad, 1100, light")["mute"].as_array().unwrap().len(), 1);
    assert!(log.lines().filter(|line| line.contains("CONSOLE")).count() >= 2, "{log}");
}
