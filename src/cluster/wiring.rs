//! How the GPUs of a node get out of it, and to each other, where they share more than one network interface.

use super::{ClusterError, Node};
use crate::units::format_number;
use serde::{Deserialize, Serialize};

/// Network interfaces of a node, and the switches between its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wiring {
    /// Equal network interfaces, shared out evenly among the GPUs in the order of their numbers: one for all, one for each,
    /// or anything in between.
    pub nics: u32,
    /// The PCIe switches that the GPUs hang on; none where nothing but ports and interfaces is shared.
    pub switch: Option<PcieSwitch>,
}

/// A switch with the link that its GPUs share on their way to other switches and to the network.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PcieSwitch {
    /// GPUs behind each switch.
    pub gpus: u32,
    /// Bandwidth of its link, per direction.
    pub gbyte_per_s: f64,
}

impl Default for Wiring {
    /// One network interface, no switches.
    fn default() -> Self {
        Self { nics: 1, switch: None }
    }
}

impl Wiring {
    /// Refuses what a node of so many GPUs can't have.
    pub fn check(&self, gpu_count: u32) -> Result<(), ClusterError> {
        let refuse = |what: &str, value: String, expected: String| {
            Err(ClusterError::Number { what: what.to_owned(), value, expected })
        };
        if !(1..=gpu_count).contains(&self.nics) {
            let expected = format!("from 1 to the {gpu_count} GPUs of the node");
            return refuse("nics", self.nics.to_string(), expected);
        }
        let Some(PcieSwitch { gpus, gbyte_per_s }) = self.switch else { return Ok(()) };
        if !(1..=gpu_count).contains(&gpus) {
            let expected = format!("from 1 to the {gpu_count} GPUs of the node");
            return refuse("pcie_switch.gpus", gpus.to_string(), expected);
        }
        if !(1e-3..=1e5).contains(&gbyte_per_s) {
            return refuse("pcie_switch.gbyte_per_s", format_number(gbyte_per_s), "from 0.001 to 100000".to_owned());
        }
        Ok(())
    }
}

impl Node {
    /// The number of the network interface that a GPU uses.
    pub fn nic_of(&self, gpu: u32) -> u32 {
        (u64::from(gpu) * u64::from(self.wiring.nics) / u64::from(self.gpu_count.max(1))) as u32
    }

    /// Bandwidth of one network interface.
    pub fn nic_bytes_per_s(&self) -> f64 {
        self.nic.bytes_per_s / f64::from(self.wiring.nics.max(1))
    }

    /// What each of so many flows gets that leave the node at once, from GPUs as far apart as can be.
    pub fn nic_share_bytes_per_s(&self, flows: u32) -> f64 {
        self.nic.bytes_per_s / f64::from(flows.max(self.wiring.nics).max(1))
    }

    /// The number of the switch that a GPU hangs on.
    pub fn switch_of(&self, gpu: u32) -> Option<u32> {
        self.wiring.switch.map(|switch| gpu / switch.gpus.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, NodeDefaults};

    fn node(nics: u32) -> Node {
        let mut node = Cluster::parse_mix("8xA100-80", &NodeDefaults::default()).unwrap().nodes.remove(0);
        node.wiring = Wiring { nics, switch: Some(PcieSwitch { gpus: 2, gbyte_per_s: 24.0 }) };
        node
    }

    #[test]
    fn gpus_share_interfaces_evenly() {
        let used = |nics: u32| (0..8).map(|gpu| node(nics).nic_of(gpu)).collect::<Vec<_>>();
        assert_eq!(used(1), [0; 8]);
        assert_eq!(used(2), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(used(8), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(used(3), [0, 0, 0, 1, 1, 1, 2, 2]);
        let node = node(4);
        assert!((node.nic_share_bytes_per_s(1) - node.nic.bytes_per_s / 4.0).abs() < 1.0);
        assert!((node.nic_share_bytes_per_s(16) - node.nic.bytes_per_s / 16.0).abs() < 1.0);
        assert_eq!((node.switch_of(1), node.switch_of(2)), (Some(0), Some(1)));
    }

    #[test]
    fn what_a_node_cannot_have_is_refused() {
        let refused = |wiring: Wiring| wiring.check(4).unwrap_err().to_string();
        assert_eq!(Wiring { nics: 4, switch: None }.check(4), Ok(()));
        assert!(refused(Wiring { nics: 5, switch: None }).starts_with("`nics` is `5`"));
        assert!(refused(Wiring { nics: 0, switch: None }).starts_with("`nics` is `0`"));
        let switch = |gpus, gbyte_per_s| Wiring { nics: 1, switch: Some(PcieSwitch { gpus, gbyte_per_s }) };
        assert!(refused(switch(8, 24.0)).starts_with("`pcie_switch.gpus` is `8`"));
        assert!(refused(switch(4, f64::NAN)).starts_with("`pcie_switch.gbyte_per_s` is `NaN`"));
    }
}
