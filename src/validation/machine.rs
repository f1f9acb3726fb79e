//! The machine on which was measured.

use serde::Serialize;
use std::fmt;

/// What measurements depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Processor, as the system calls it.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Version of the kernel.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        let read = |path: &str| fs_err::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
        let or_unknown = |text: String| if text.is_empty() { "unknown".to_owned() } else { text };
        Self {
            cpu: or_unknown(model.map(|(_, name)| name.trim().to_owned()).unwrap_or_default()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: or_unknown(kernel),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = if self.cores == 1 { "core" } else { "cores" };
        write!(f, "{}, {} {cores}, kernel {}", self.cpu, self.cores, self.kernel)
    }
}
