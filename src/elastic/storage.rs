//! How fast checkpoints are written and read.

/// Bandwidths of what checkpoints are stored on, per direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StorageBandwidths {
    /// A node's local disk.
    pub disk_bytes_per_s: f64,
    /// Between one node and the object store.
    pub object_store_bytes_per_s: f64,
    /// Of the object store over all nodes together; `None` where it grows with them.
    pub object_store_total_bytes_per_s: Option<f64>,
}

impl Default for StorageBandwidths {
    /// A gp3 volume at its limit of 1 GB/s; 9.7 Gbit/s between a node and an object store in its region, as measured
    /// for S3; no limit over all nodes.
    fn default() -> Self {
        Self { disk_bytes_per_s: 1e9, object_store_bytes_per_s: 9.7e9 / 8.0, object_store_total_bytes_per_s: None }
    }
}

/// Why checkpoint settings can't be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{key}` is `{value}`, not a finite number above zero\nhint: the default is `{default}`")]
pub struct StorageError {
    /// Key of the setting.
    pub key: &'static str,
    /// Its value.
    pub value: f64,
    /// A value that works.
    pub default: f64,
}
