//! Links as Sailor measures them.

use super::NodeNetwork;
use crate::cluster::{FlowCurve, GpuSpec, Link, NodeDefaults};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Smallest message that the parabolas were fitted to, and what they are held at below it.
const SMALLEST_MESSAGE_BYTES: f64 = 1e6;
/// Pairs scale if each of so many reaches this share of what one reaches by itself.
const SCALING: f64 = 0.75;
/// How keys begin that have bandwidths between nodes of any two types; behind it stands where they were measured.
const PAIRS: &str = "inter_node_pairs";

/// A parabola and the most that was measured.
type Fitted = ([f64; 3], f64);

/// By GPU type, what was measured.
#[derive(Deserialize)]
pub(super) struct Network {
    /// Within a node, by the number of GPUs that take part.
    #[serde(default)]
    intra_node: BTreeMap<String, BTreeMap<u32, Fitted>>,
    /// Between nodes of one type, by the number of pairs.
    #[serde(default)]
    inter_node_same_type: BTreeMap<String, BTreeMap<u32, Fitted>>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

impl Network {
    /// The type with the bandwidth that one of its GPUs reaches to another in the same node, where that was measured.
    pub(super) fn within(&self, gpu_type: &str, gpu: Arc<GpuSpec>) -> Arc<GpuSpec> {
        let measured = self.intra_node.get(gpu_type).and_then(|by_gpus| by_gpus.get(&2));
        let Some(&(_, bytes_per_s)) = measured.filter(|(_, most)| *most > 0.0 && most.is_finite()) else { return gpu };
        Arc::new(GpuSpec { intra_node: Link { bytes_per_s, ..gpu.intra_node }, ..(*gpu).clone() })
    }

    /// A node has as many interfaces as pairs that send at once without slowing each other down, and they carry what these
    /// reach together; one flow reaches what a single pair does.
    pub(super) fn between(&self, gpu_type: &str) -> NodeNetwork {
        let unknown = NodeNetwork::unused();
        let pairs = self.pairs(gpu_type);
        let Some(by_pairs) = self.inter_node_same_type.get(gpu_type).or(pairs.as_ref()) else { return unknown };
        let Some(&(curve, alone)) = by_pairs.get(&1) else { return unknown };
        let scales = |(pairs, (_, most)): &(&u32, &Fitted)| *most >= SCALING * f64::from(**pairs) * alone;
        let (nics, most) = by_pairs.iter().rfind(scales).map_or((1, alone), |(pairs, (_, most))| (*pairs, *most));
        if most <= 0.0 {
            return unknown;
        }
        let [a, b, _] = curve;
        // Beyond its vertex a parabola falls again, which no link does.
        let vertex = if a < 0.0 { 1e6 * (-b / (2.0 * a)).exp2() } else { 1e9 };
        let to_bytes = vertex.max(SMALLEST_MESSAGE_BYTES);
        let flow = FlowCurve { gbyte_per_s: curve, from_bytes: SMALLEST_MESSAGE_BYTES, to_bytes };
        let nic = Link { bytes_per_s: most, ..NodeDefaults::default().nic };
        NodeNetwork { nic, nics, flow: Some(flow).filter(|flow| flow.check("flow").is_ok()) }
    }

    /// Bandwidths between nodes of one type by the number of pairs, from those between any types: by type and number of GPUs
    /// at one end, then at the other.
    fn pairs(&self, gpu_type: &str) -> Option<BTreeMap<u32, Fitted>> {
        let tables = self.others.iter().filter(|(key, _)| key.starts_with(PAIRS));
        tables.filter_map(|(_, table)| table.get(gpu_type)?.as_object()).find_map(|by_count| {
            let measured = by_count.iter().filter_map(|(count, others)| {
                let fitted = others.get(gpu_type)?.get(count)?.clone();
                Some((count.parse().ok()?, serde_json::from_value(fitted).ok()?))
            });
            let found: BTreeMap<u32, Fitted> = measured.collect();
            (!found.is_empty()).then_some(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    fn network(text: &str) -> Network {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn interfaces_are_pairs_that_do_not_slow_each_other_down() {
        let two = r#"{"inter_node_same_type": {"T4": {"1": [[0, 0.1, 1], 2e9], "2": [[0, 0.1, 1], 3.9e9], "4": [[0, 0.1, 1], 4e9]}}}"#;
        let found = network(two).between("T4");
        assert_eq!(found.nics, 2);
        assert_relative_eq!(found.nic.bytes_per_s, 3.9e9);
        assert_relative_eq!(found.flow.unwrap().bytes_per_s(2e6), 1.1e9);
    }

    #[test]
    fn pairs_of_any_types_serve_where_those_of_one_are_not_given() {
        let pairs = r#"{"inter_node_pairs_1_to_n_gpus(zone a)": {"T4": {
            "1": {"L4": {"1": [[0, 0, 9], 9e9]}, "T4": {"1": [[0, 0, 1], 1e9], "2": [[0, 0, 1], 1e9]}},
            "2": {"T4": {"1": [[0, 0, 1], 1e9], "2": [[0, 0, 2], 2e9]}}}}, "units": "for people"}"#;
        let found = network(pairs).between("T4");
        assert_eq!(found.nics, 2);
        assert_relative_eq!(found.nic.bytes_per_s, 2e9);
        assert_eq!(network(pairs).between("L4").flow, None);
    }

    #[test]
    fn a_measured_link_within_a_node_takes_the_place_of_the_datasheets() {
        let gpu = GpuSpec::lookup("RTX-3090").unwrap();
        let measured = network(r#"{"intra_node": {"RTX-3090": {"2": [[0, 0, 5], 5e9], "4": [[0, 0, 8], 8e9]}}}"#);
        let found = measured.within("RTX-3090", Arc::clone(&gpu));
        assert_eq!((found.intra_node.bytes_per_s, found.name.as_str()), (5e9, "RTX-3090"));
        assert_eq!(measured.within("T4", Arc::clone(&gpu)).intra_node, gpu.intra_node);
    }
}
