//! Finds the SCIP solver's shared library and links it, when the feature `scip` is on.
//!
//! scip-sys brings the bindings only (see `.cargo/config.toml`), so the library is ours to find. In this order:
//!
//! 1. `$SCIPOPTDIR/lib`, for those who built their own;
//! 2. the usual library folders of the system;
//! 3. the `PySCIPOpt` wheel for Linux, which carries a complete libscip: pip fetches it once into the target folder. pip,
//!    because package registries are reachable from many networks where release pages are not.
//!
//! The folder is recorded in each binary as an absolute rpath: a binary runs from anywhere on this machine for as long as
//! the folder stands. To ship one, put the `.so` files of that folder beside it and set `LD_LIBRARY_PATH`.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::time::{Duration, SystemTime};

/// The bindings of scip-sys 0.1.28 are those of SCIP 10: another major version has other structs and signatures.
const SCIP_MAJOR: &str = "10";

/// This release carries SCIP 10.0.2.
const WHEEL: &str = "pyscipopt==6.3.0";

/// The wheels for `CPython` 3.11, by architecture. Only their C library is used, so the local Python may be another.
const WHEEL_SHA256: [(&str, &str); 2] = [
    ("x86_64", "6e3931d84f51cb1ca6646eea900012c5455af124774221318fecd731c79c80ca"),
    ("aarch64", "17bd07e48d277bbbc8f8221e399eb1ecfacd81f53c2e3744c4a8e82527735a6f"),
];

const WAYS_OUT: &str = "set `SCIPOPTDIR` to an installed SCIP 10, or install python3 with pip, \
                        or build with `--no-default-features` (own search only)";

/// Unpacks the shared libraries of the wheel `argv[1]` into the folder `argv[2]`.
const UNPACK: &str = r#"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith("pyscipopt.libs/")])
"#;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SCIPOPTDIR");
    record_commit();
    record_sources();
    if env::var_os("CARGO_FEATURE_SCIP").is_none() {
        return;
    }
    match find_scip() {
        Ok(folder) => link(&folder),
        Err(message) => println!("cargo::error={}", message.replace('\n', " ")),
    }
}

/// Gives the commit to the code, for the record that results keep; `unknown` where there is no git.
fn record_commit() {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=AUTOHET_COMMIT={commit}");
    // A commit moves the branch's file and is logged here.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// Gives a hash of the sources to the code: what is kept of one program's results must not be taken for another's.
fn record_sources() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let mut paths = vec![PathBuf::from("Cargo.lock")];
    let mut folders = vec![PathBuf::from("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { paths.push(path) }
        }
    }
    paths.sort();
    // FNV-1a: `std`'s hasher may change with a release.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for path in paths {
        let name = path.to_string_lossy().into_owned().into_bytes();
        for byte in name.into_iter().chain(fs::read(&path).unwrap_or_default()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo::rustc-env=AUTOHET_SOURCES={hash:016x}");
}

fn link(folder: &Path) {
    let shown = folder.display();
    println!("cargo::rerun-if-changed={}", folder.join(library_name()).display());
    println!("cargo::rustc-link-search=native={shown}");
    println!("cargo::rustc-link-lib=dylib=scip");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{shown}");
}

fn find_scip() -> Result<PathBuf, String> {
    if let Some(root) = env::var_os("SCIPOPTDIR") {
        let folder = Path::new(&root).join("lib");
        return match fs::canonicalize(&folder) {
            Ok(folder) if has_scip(&folder) => Ok(folder),
            _ => Err(format!("`SCIPOPTDIR`: no {} of SCIP {SCIP_MAJOR} in `{}`", library_name(), folder.display())),
        };
    }
    match system_folders().into_iter().find(|folder| has_scip(folder)) {
        Some(folder) => Ok(folder),
        None => fetch_wheel().map_err(|why| format!("cannot get the SCIP library: {why}; {WAYS_OUT}")),
    }
}

fn system_folders() -> Vec<PathBuf> {
    let multiarch = format!("/usr/lib/{}-linux-gnu", target("ARCH"));
    let folders = ["/usr/local/lib", "/usr/local/lib64", &multiarch, "/usr/lib64", "/usr/lib", "/opt/homebrew/lib"];
    // A library of this machine is of no use to another architecture.
    let native = env::var("HOST") == env::var("TARGET");
    folders.into_iter().filter(|_| native).map(PathBuf::from).collect()
}

/// Whether `folder` holds a libscip of the right major version, read off the file that the link leads to
/// (`libscip.so.10.0`, `libscip.10.0.dylib`).
fn has_scip(folder: &Path) -> bool {
    let Ok(file) = fs::canonicalize(folder.join(library_name())) else { return false };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').find(|part| part.bytes().all(|byte| byte.is_ascii_digit())) == Some(SCIP_MAJOR)
}

fn library_name() -> &'static str {
    if target("OS") == "macos" { "libscip.dylib" } else { "libscip.so" }
}

/// `CARGO_CFG_TARGET_*`, empty where the target has none.
fn target(key: &str) -> String {
    env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default()
}

/// Downloads and unpacks the wheel unless an earlier build, of whatever profile, has done so already.
fn fetch_wheel() -> Result<PathBuf, String> {
    let arch = target("ARCH");
    let sha256 = WHEEL_SHA256.iter().find(|(name, _)| *name == arch).map(|(_, sha256)| sha256);
    let (Some(sha256), "linux", "gnu") = (sha256, target("OS").as_str(), target("ENV").as_str()) else {
        return Err(format!("no wheel for `{}`", env::var("TARGET").unwrap_or_default()));
    };
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("no `OUT_DIR`")?);
    // cargo marks the root of the target folder with this file. There, debug and release builds share one copy.
    let root = out_dir.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).unwrap_or(&out_dir);
    let folder = root.join(format!("scip-{WHEEL}-{arch}").replace("==", "-"));
    if has_scip(&folder) {
        return Ok(folder);
    }
    // Another build may be doing the same: each works in a folder of its own, and the last step is a rename.
    let work = root.join(format!("scip-unpacking-{}", process::id()));
    let result = unpack_wheel(&work, &arch, sha256).and_then(|unpacked| {
        let _ = fs::remove_dir_all(&folder).and(fs::rename(unpacked, &folder));
        if has_scip(&folder) { Ok(()) } else { Err(format!("cannot write `{}`", folder.display())) }
    });
    let _ = fs::remove_dir_all(&work);
    result.map(|()| folder)
}

/// Leaves the wheel's libraries in a folder under `work`, with the `libscip.so` that the linker looks for.
fn unpack_wheel(work: &Path, arch: &str, sha256: &str) -> Result<PathBuf, String> {
    let io = |error: std::io::Error| format!("`{}`: {error}", work.display());
    fs::create_dir_all(work).map_err(io)?;
    let requirements = work.join("requirements.txt");
    fs::write(&requirements, format!("{WHEEL} --hash=sha256:{sha256}\n")).map_err(io)?;
    let mut pip = python();
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]);
    pip.args(["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"]);
    pip.arg("--platform").arg(format!("manylinux_2_28_{arch}"));
    pip.arg("--dest").arg(work).arg("--requirement").arg(&requirements);
    run(pip, "`python3 -m pip download`")?;

    let wheel = entry_of(work, |name| Path::new(name).extension().is_some_and(|end| end == "whl"))?;
    let mut unpack = python();
    unpack.args(["-c", UNPACK]).arg(wheel).arg(work);
    run(unpack, "`python3` with `zipfile`")?;

    let folder = work.join("pyscipopt.libs");
    let library = entry_of(&folder, |name| name.starts_with("libscip"))?;
    // An old date: cargo would take a file that is newer than this run of the script for a reason to run it again.
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::open(&library).and_then(|file| file.set_modified(long_ago)).map_err(io)?;
    symlink(Path::new(library.file_name().unwrap_or_default()), &folder.join(library_name())).map_err(io)?;
    Ok(folder)
}

fn python() -> Command {
    Command::new("python3")
}

fn run(mut command: Command, what: &str) -> Result<(), String> {
    let Output { status, stderr, .. } = command.output().map_err(|error| format!("cannot run {what}: {error}"))?;
    let stderr = String::from_utf8_lossy(&stderr);
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    if status.success() { Ok(()) } else { Err(format!("{what} failed: {}", last.trim())) }
}

fn entry_of(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    paths
        .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted))
        .ok_or_else(|| format!("{WHEEL} holds no libscip"))
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Never reached: wheels are fetched on Linux only, but the script compiles everywhere.
#[cfg(not(unix))]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    fs::copy(target, link).map(drop)
}
