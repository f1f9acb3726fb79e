//! Memory, as Linux tells it.

use std::fs;

/// Memory that a process has in use; nothing where the system doesn't say.
pub fn resident_bytes(process_id: u32) -> Option<u64> {
    of_file(&format!("/proc/{process_id}/status"), "VmRSS:")
}

/// Most memory that a process has had in use at once; nothing where the system doesn't say.
pub fn peak_bytes(process_id: u32) -> Option<u64> {
    of_file(&format!("/proc/{process_id}/status"), "VmHWM:")
}

/// Memory that processes can get without swapping; nothing where the system doesn't say.
pub fn available_bytes() -> Option<u64> {
    of_file("/proc/meminfo", "MemAvailable:")
}

fn of_file(path: &str, key: &str) -> Option<u64> {
    bytes(&fs::read_to_string(path).ok()?, key)
}

/// The figure behind a key, in kibibytes as all of them are.
fn bytes(table: &str, key: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_their_keys() {
        let table = "Name:\tx\nVmHWM:\t    2104 kB\nVmRSS:\t 12 kB\n";
        assert_eq!((bytes(table, "VmHWM:"), bytes(table, "VmRSS:")), (Some(2_154_496), Some(12_288)));
        assert_eq!(bytes("MemTotal:  9 kB\n", "MemAvailable:"), None);
    }
}
