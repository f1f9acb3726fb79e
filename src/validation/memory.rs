//! Memory of processes, as Linux tells it.

/// Most bytes of memory that a process has had in use at once; nothing where the system doesn't say.
pub fn peak_memory_bytes(process_id: u32) -> Option<u64> {
    let status = fs_err::read_to_string(format!("/proc/{process_id}/status")).ok()?;
    high_water_mark_bytes(&status)
}

fn high_water_mark_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_read() {
        assert_eq!(high_water_mark_bytes("Name:\tx\nVmHWM:\t    2104 kB\nVmRSS:\t 12 kB\n"), Some(2_154_496));
        assert_eq!(high_water_mark_bytes("VmRSS:\t 12 kB\n"), None);
    }
}
