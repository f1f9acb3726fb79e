//! Which GPUs the instance types of AWS have, as its pages on accelerated computing say.

use super::GpuSpec;
use std::sync::Arc;

/// Name, GPU type of the catalog, GPUs.
const INSTANCES: [(&str, &str, u32); 45] = [
    ("p3.2xlarge", "V100-16", 1),
    ("p3.8xlarge", "V100-16", 4),
    ("p3.16xlarge", "V100-16", 8),
    ("p3dn.24xlarge", "V100-32", 8),
    ("p4d.24xlarge", "A100-40", 8),
    ("p4de.24xlarge", "A100-80", 8),
    ("p5.4xlarge", "H100", 1),
    ("p5.48xlarge", "H100", 8),
    ("p5e.48xlarge", "H200", 8),
    ("p5en.48xlarge", "H200", 8),
    ("g4dn.xlarge", "T4", 1),
    ("g4dn.2xlarge", "T4", 1),
    ("g4dn.4xlarge", "T4", 1),
    ("g4dn.8xlarge", "T4", 1),
    ("g4dn.16xlarge", "T4", 1),
    ("g4dn.12xlarge", "T4", 4),
    ("g4dn.metal", "T4", 8),
    ("g5g.xlarge", "T4", 1),
    ("g5g.2xlarge", "T4", 1),
    ("g5g.4xlarge", "T4", 1),
    ("g5g.8xlarge", "T4", 1),
    ("g5.xlarge", "A10G", 1),
    ("g5.2xlarge", "A10G", 1),
    ("g5.4xlarge", "A10G", 1),
    ("g5.8xlarge", "A10G", 1),
    ("g5.16xlarge", "A10G", 1),
    ("g5.12xlarge", "A10G", 4),
    ("g5.24xlarge", "A10G", 4),
    ("g5.48xlarge", "A10G", 8),
    ("g6.xlarge", "L4", 1),
    ("g6.2xlarge", "L4", 1),
    ("g6.4xlarge", "L4", 1),
    ("g6.8xlarge", "L4", 1),
    ("g6.16xlarge", "L4", 1),
    ("g6.12xlarge", "L4", 4),
    ("g6.24xlarge", "L4", 4),
    ("g6.48xlarge", "L4", 8),
    ("g6e.xlarge", "L40S", 1),
    ("g6e.2xlarge", "L40S", 1),
    ("g6e.4xlarge", "L40S", 1),
    ("g6e.8xlarge", "L40S", 1),
    ("g6e.16xlarge", "L40S", 1),
    ("g6e.12xlarge", "L40S", 4),
    ("g6e.24xlarge", "L40S", 4),
    ("g6e.48xlarge", "L40S", 8),
];

/// A type of instance.
#[derive(Clone, Debug, PartialEq)]
pub struct InstanceType {
    /// Its name: `p4d.24xlarge`.
    pub name: &'static str,
    /// Its GPUs.
    pub gpu: Arc<GpuSpec>,
    /// How many it has.
    pub gpu_count: u32,
}

impl InstanceType {
    /// The instance type of this name, if it has GPUs of the catalog.
    ///
    /// ```
    /// use autohet::cluster::InstanceType;
    /// assert_eq!(InstanceType::lookup("p4d.24xlarge").unwrap().gpu.name, "A100-40");
    /// assert_eq!(InstanceType::lookup("m5.large"), None);
    /// ```
    pub fn lookup(name: &str) -> Option<Self> {
        INSTANCES.iter().find(|(known, _, _)| *known == name).and_then(Self::of_row)
    }

    /// The first instance type with so many of these GPUs.
    pub fn with(gpu: &GpuSpec, gpu_count: u32) -> Option<Self> {
        let fits = |(_, name, count): &&(&str, &str, u32)| *name == gpu.name && *count == gpu_count;
        INSTANCES.iter().find(fits).and_then(Self::of_row)
    }

    fn of_row(&(name, gpu_type, gpu_count): &(&'static str, &'static str, u32)) -> Option<Self> {
        Some(Self { name, gpu: GpuSpec::lookup(gpu_type).ok()?, gpu_count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instance_has_gpus_of_the_catalog() {
        for (name, gpu_type, count) in INSTANCES {
            let found = InstanceType::lookup(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((found.gpu.name.as_str(), found.gpu_count), (gpu_type, count));
        }
        let t4 = GpuSpec::lookup("T4").unwrap();
        assert_eq!(InstanceType::with(&t4, 8).unwrap().name, "g4dn.metal");
        assert_eq!(InstanceType::with(&t4, 3), None);
    }
}
