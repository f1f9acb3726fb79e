//! Mix notation: `2x8xA100-80+4x8xH20`, nodes × GPUs × type.

use super::{Cluster, ClusterError, GpuSpec, Node, NodeDefaults, check_size};
use std::sync::Arc;

impl Cluster {
    /// Reads the mix notation. `8xT4` is one node of eight GPUs; nodes are named `a100-80-0`, `a100-80-1`, ….
    ///
    /// ```
    /// use autohet::cluster::{Cluster, NodeDefaults};
    /// let cluster = Cluster::parse_mix("2x8xA100-80+4x8xH20", &NodeDefaults::default())?;
    /// assert_eq!((cluster.nodes.len(), cluster.gpu_count()), (6, 48));
    /// assert_eq!(cluster.nodes[1].name, "a100-80-1");
    /// # Ok::<(), autohet::cluster::ClusterError>(())
    /// ```
    pub fn parse_mix(text: &str, defaults: &NodeDefaults) -> Result<Self, ClusterError> {
        if text.trim().is_empty() {
            return Err(ClusterError::Empty);
        }
        let part_of = |part: &str| match part.trim() {
            "" => Err(ClusterError::Mix { part: text.to_owned(), problem: "nothing stands beside a `+`".to_owned() }),
            part => parse_part(part),
        };
        let parts = text.split('+').map(part_of).collect::<Result<Vec<_>, _>>()?;
        check_size(parts.iter().map(|part| (part.nodes, part.gpus)))?;
        let mut cluster = Self::default();
        for Part { nodes, gpus, gpu } in parts {
            let (nic, wiring) = defaults.interfaces(gpus);
            let template = Node {
                name: String::new(),
                price_usd_per_hour: gpu.spot_usd_per_hour * f64::from(gpus),
                flow: defaults.flow(&gpu),
                gpu,
                gpu_count: gpus,
                zone: defaults.zone.clone(),
                nic,
                wiring,
            };
            cluster.push_nodes(nodes, &template);
        }
        Ok(cluster)
    }
}

struct Part {
    nodes: u32,
    gpus: u32,
    gpu: Arc<GpuSpec>,
}

fn parse_part(part: &str) -> Result<Part, ClusterError> {
    let mix = |problem: String| ClusterError::Mix { part: part.to_owned(), problem };
    let (first, rest) = split_count(part).ok_or_else(|| mix("expected a number and `x` first".to_owned()))?;
    let (nodes, gpus, name) = match split_count(rest) {
        Some((second, name)) => (first, second, name),
        None => ("1", first, rest),
    };
    let count = |what: &str, digits: &str| match digits.parse::<u32>() {
        Ok(0) => Err(mix(format!("zero {what}"))),
        Ok(count) => Ok(count),
        Err(_) => Err(mix(format!("`{digits}` {what} are too many"))),
    };
    let (nodes, gpus) = (count("nodes", nodes)?, count("GPUs", gpus)?);
    if name.is_empty() {
        return Err(mix("no GPU type".to_owned()));
    }
    Ok(Part { nodes, gpus, gpu: GpuSpec::lookup(name)? })
}

/// `8xT4` into `8` and `T4`; `None` where it doesn't begin with digits and an `x`, as `3090` and `T4` don't.
fn split_count(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = text[digits..].trim_start().strip_prefix(['x', 'X', '×', '*'])?;
    (digits > 0).then(|| (&text[..digits], rest.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn parse(text: &str) -> Result<Cluster, ClusterError> {
        Cluster::parse_mix(text, &NodeDefaults::default())
    }

    #[test]
    fn nodes_are_named_numbered_and_priced() {
        let cluster = parse("1x4xV100-16 + 2 × 8 × rtx3090 + 4xV100-16").unwrap();
        let names: Vec<_> = cluster.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["v100-16-0", "rtx-3090-0", "rtx-3090-1", "v100-16-1"]);
        let v100 = GpuSpec::lookup("V100-16").unwrap();
        assert!((cluster.nodes[0].price_usd_per_hour - 4.0 * v100.spot_usd_per_hour).abs() < 1e-12);
        assert_eq!(cluster.nodes[2].gpu_count, 8);
        assert_eq!(parse("8x3090").unwrap().nodes[0].gpu.name, "RTX-3090");
    }

    #[rstest]
    #[case::empty("", "the cluster has no nodes")]
    #[case::zero_nodes("0x8xT4", "cluster `0x8xT4`: zero nodes")]
    #[case::zero_gpus("2x0xT4", "cluster `2x0xT4`: zero GPUs")]
    #[case::no_count("T4", "cluster `T4`: expected a number")]
    #[case::negative("-1x8xT4", "cluster `-1x8xT4`: expected a number")]
    #[case::nan("NaNx8xT4", "cluster `NaNx8xT4`: expected a number")]
    #[case::no_type("2x8x", "cluster `2x8x`: no GPU type")]
    #[case::trailing_plus("8xT4+", "cluster `8xT4+`: nothing stands beside")]
    #[case::unknown("8xA100-60", "unknown GPU type `A100-60`")]
    #[case::absurd("100000x8xT4", "the cluster has 800000 GPUs, at most 24576")]
    #[case::wraps("4294967295x4294967295xT4+4294967295x4294967295xT4", "the cluster has 18446744073709551615 GPUs")]
    #[case::overflow("99999999999x8xT4", "cluster `99999999999x8xT4`: `99999999999` nodes are too many")]
    #[case::fraction("1.5xT4", "cluster `1.5xT4`: expected a number")]
    fn bad_mixes_are_refused_with_a_hint(#[case] text: &str, #[case] start: &str) {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.starts_with(start), "{message}");
        assert!(message.contains("\nhint: "), "{message}");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9xX+ A-Za-z.×-]{0,24}") {
            let _ = parse(&text);
        }
    }
}
