//! Cluster files: `[[nodes]]` tables in TOML.

use super::{
    Cluster, ClusterError, FlowCurve, GpuSpec, Link, Node, NodeDefaults, PcieSwitch, Wiring, check_size,
    nic_gbit_per_s, nic_latency_us, price_usd_per_hour,
};
use crate::input;
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

/// A cluster as it stands in its file.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct Raw {
    /// Groups of equal nodes.
    #[cfg_attr(test, schemars(with = "Vec<RawNodes>"))]
    #[serde(default)]
    nodes: Vec<Spanned<RawNodes>>,
}

/// Equal nodes.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct RawNodes {
    /// How many.
    #[cfg_attr(test, schemars(with = "u32", range(min = 1)))]
    count: Spanned<i64>,
    /// GPUs of each node.
    #[cfg_attr(test, schemars(with = "u32", range(min = 1)))]
    gpus: Spanned<i64>,
    /// GPU type, by any of its names.
    #[cfg_attr(test, schemars(with = "String"))]
    r#type: Spanned<String>,
    /// Availability zone.
    zone: Option<String>,
    /// Bandwidth of one network interface, per direction.
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    nic_gbit_per_s: Option<Spanned<f64>>,
    /// Latency of a network interface.
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    nic_latency_us: Option<Spanned<f64>>,
    /// Network interfaces of each node, at most one for each of its GPUs.
    #[cfg_attr(test, schemars(with = "Option<u32>"))]
    nics: Option<Spanned<i64>>,
    /// The PCIe switches that the GPUs hang on.
    #[cfg_attr(test, schemars(with = "Option<PcieSwitch>"))]
    pcie_switch: Option<Spanned<PcieSwitch>>,
    /// Price of one node; the catalog's where it is left out.
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    price_usd_per_hour: Option<Spanned<f64>>,
    /// What a single flow reaches, by the size of its messages.
    #[cfg_attr(test, schemars(with = "Option<FlowCurve>"))]
    flow: Option<Spanned<FlowCurve>>,
}

/// The JSON schema of a cluster file.
#[cfg(test)]
pub(crate) fn schema() -> schemars::Schema {
    schemars::schema_for!(Raw)
}

/// The text, to turn places in it into lines.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Cluster {
    /// Reads a cluster file.
    ///
    /// Each `[[nodes]]` table stands for `count` equal nodes of `gpus` GPUs of the `type`; `zone`, `nic_gbit_per_s` (of one
    /// interface), `nic_latency_us`, `nics`, `pcie_switch`, `flow` and `price_usd_per_hour` (of one node) may be left out.
    pub fn from_file(path: &Path, defaults: &NodeDefaults) -> Result<Self, ClusterError> {
        let text = input::read_text(path)
            .map_err(|error| ClusterError::Read { path: path.display().to_string(), problem: error.to_string() })?;
        Self::from_toml(&text, path, defaults)
    }

    fn from_toml(text: &str, path: &Path, defaults: &NodeDefaults) -> Result<Self, ClusterError> {
        let source = Source { path, text };
        let raw: Raw = toml::from_str(text)
            .map_err(|error| source.error(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
        let groups = raw
            .nodes
            .iter()
            .map(|nodes| source.group(nodes.get_ref(), defaults))
            .collect::<Result<Vec<_>, ClusterError>>()?;
        check_size(groups.iter().map(|(count, node)| (*count, node.gpu_count)))?;
        let mut cluster = Self::default();
        for (count, template) in groups {
            cluster.push_nodes(count, &template);
        }
        Ok(cluster)
    }
}

impl Source<'_> {
    fn group(&self, raw: &RawNodes, defaults: &NodeDefaults) -> Result<(u32, Node), ClusterError> {
        let count = self.count("count", &raw.count)?;
        let gpu_count = self.count("gpus", &raw.gpus)?;
        let gpu = GpuSpec::lookup(raw.r#type.get_ref()).map_err(|error| self.at(&raw.r#type, &error))?;
        let price = self.number("price_usd_per_hour", raw.price_usd_per_hour.as_ref(), price_usd_per_hour)?;
        let bandwidth = self.number("nic_gbit_per_s", raw.nic_gbit_per_s.as_ref(), nic_gbit_per_s)?;
        let latency_us = self.number("nic_latency_us", raw.nic_latency_us.as_ref(), nic_latency_us)?;
        let one = Link {
            bytes_per_s: bandwidth
                .map_or(defaults.nic.bytes_per_s, |gbit| Link::from_gbit_per_s(gbit, 0.0).bytes_per_s),
            latency_s: latency_us.map_or(defaults.nic.latency_s, |latency_us| latency_us * 1e-6),
        };
        let mut own = NodeDefaults { nic: one, ..defaults.clone() };
        if let Some(nics) = &raw.nics {
            own.wiring.nics = self.count("nics", nics)?;
            own.wiring.check(gpu_count).map_err(|error| self.at(nics, &error))?;
        }
        if let Some(switch) = &raw.pcie_switch {
            own.wiring.switch = Some(*switch.get_ref());
            let checked = Wiring { nics: 1, ..own.wiring }.check(gpu_count);
            checked.map_err(|error| self.at(switch, &error))?;
        }
        let (nic, wiring) = own.interfaces(gpu_count);
        if let Some(flow) = &raw.flow {
            flow.get_ref().check("flow").map_err(|error| self.at(flow, &error))?;
        }
        let node = Node {
            name: String::new(),
            flow: raw.flow.as_ref().map(|flow| *flow.get_ref()).or_else(|| defaults.flow(&gpu)),
            price_usd_per_hour: price.unwrap_or(gpu.spot_usd_per_hour * f64::from(gpu_count)),
            gpu,
            gpu_count,
            zone: raw.zone.clone().unwrap_or_else(|| defaults.zone.clone()),
            nic,
            wiring,
        };
        Ok((count, node))
    }

    fn count(&self, key: &str, value: &Spanned<i64>) -> Result<u32, ClusterError> {
        let found = *value.get_ref();
        u32::try_from(found).ok().filter(|count| *count > 0).ok_or_else(|| {
            self.error(value.span().start, format!("`{key}` is `{found}`, expected a whole number above zero"))
        })
    }

    fn number(
        &self,
        key: &str,
        value: Option<&Spanned<f64>>,
        check: fn(&str, f64) -> Result<f64, ClusterError>,
    ) -> Result<Option<f64>, ClusterError> {
        value.map(|value| check(key, *value.get_ref()).map_err(|error| self.at(value, &error))).transpose()
    }

    /// The same problem, with the place where it stands; the first line only, since a file has its own hint.
    fn at<T>(&self, place: &Spanned<T>, error: &ClusterError) -> ClusterError {
        let message = error.to_string();
        let (problem, hint) = message.split_once("\nhint: ").unwrap_or((&message, ""));
        let problem = if hint.starts_with("did you mean") { format!("{problem}; {hint}") } else { problem.to_owned() };
        self.error(place.span().start, problem)
    }

    fn error(&self, offset: usize, problem: String) -> ClusterError {
        let line = 1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count();
        ClusterError::File { path: self.path.display().to_string(), line, problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn parse(text: &str) -> Result<Cluster, ClusterError> {
        Cluster::from_toml(text, Path::new("cluster.toml"), &NodeDefaults::default())
    }

    #[test]
    fn a_file_gives_what_it_says_and_defaults_for_the_rest() {
        let cluster = parse(
            "[[nodes]]\ncount = 2\ngpus = 8\ntype = \"a100-40g\"\nzone = \"us-east-1a\"\nnic_gbit_per_s = 400\n\
             nic_latency_us = 15\nprice_usd_per_hour = 7.5\n\n[[nodes]]\ncount = 1\ngpus = 4\ntype = \"T4\"\n",
        )
        .unwrap();
        assert_eq!(cluster.nodes.len(), 3);
        let first = &cluster.nodes[0];
        assert_eq!((first.name.as_str(), first.gpu.name.as_str()), ("a100-40-0", "A100-40"));
        assert_eq!(first.zone, "us-east-1a");
        assert!((first.nic.bytes_per_s - 50e9).abs() < 1.0 && (first.nic.latency_s - 15e-6).abs() < 1e-12);
        assert!((first.price_usd_per_hour - 7.5).abs() < 1e-12);
        let last = &cluster.nodes[2];
        assert_eq!(last.nic, NodeDefaults::default().nic);
        assert!((last.price_usd_per_hour - 4.0 * last.gpu.spot_usd_per_hour).abs() < 1e-12);
    }

    #[test]
    fn interfaces_are_each_as_fast_as_the_file_says() {
        let node = "[[nodes]]\ncount = 1\ngpus = 4\ntype = \"A100-80\"\nnic_gbit_per_s = 200\nnics = 4\n";
        let node = parse(node).unwrap().nodes.remove(0);
        assert!((node.nic.bytes_per_s - 100e9).abs() < 1.0 && (node.nic_bytes_per_s() - 25e9).abs() < 1.0);
        let node = "[[nodes]]\ncount = 1\ngpus = 4\ntype = \"T4\"\npcie_switch = { gpus = 2, gbyte_per_s = 12 }\n";
        let switch = parse(node).unwrap().nodes[0].wiring.switch;
        assert_eq!(switch, Some(PcieSwitch { gpus: 2, gbyte_per_s: 12.0 }));
    }

    #[rstest]
    #[case::unknown_key("[[nodes]]\ncount = 1\ngpus = 1\ntype = \"T4\"\nnic = 3\n", 5, "`nic`")]
    #[case::zero_nodes("[[nodes]]\ncount = 0\ngpus = 1\ntype = \"T4\"\n", 2, "`count` is `0`")]
    #[case::negative_gpus("[[nodes]]\ncount = 1\ngpus = -8\ntype = \"T4\"\n", 3, "`gpus` is `-8`")]
    #[case::unknown_type("[[nodes]]\ncount = 1\ngpus = 1\ntype = \"H101\"\n", 4, "did you mean `H100`")]
    #[case::missing_key("[[nodes]]\ncount = 1\ngpus = 1\n", 1, "`type`")]
    #[case::wrong_type("[[nodes]]\ncount = \"two\"\ngpus = 1\ntype = \"T4\"\n", 2, "string")]
    #[case::nan("[[nodes]]\ncount = 1\ngpus = 1\ntype = \"T4\"\nnic_gbit_per_s = nan\n", 5, "`NaN`")]
    #[case::infinite("[[nodes]]\ncount = 1\ngpus = 1\ntype = \"T4\"\nprice_usd_per_hour = inf\n", 5, "`inf`")]
    #[case::negative("[[nodes]]\ncount = 1\ngpus = 1\ntype = \"T4\"\nnic_latency_us = -1.0\n", 5, "`-1`")]
    #[case::nics("[[nodes]]\ncount = 1\ngpus = 4\ntype = \"T4\"\nnics = 8\n", 5, "`nics` is `8`")]
    #[case::switch(
        "[[nodes]]\ncount = 1\ngpus = 4\ntype = \"T4\"\npcie_switch = { gpus = 2, gbyte_per_s = 0 }\n",
        5,
        "`pcie_switch.gbyte_per_s` is `0`"
    )]
    #[case::flow(
        "[[nodes]]\ncount = 1\ngpus = 1\ntype = \"T4\"\nflow = { gbyte_per_s = [0, 0, 0], from_bytes = 1, to_bytes = 2 }\n",
        5,
        "`flow.gbyte_per_s` is `0`"
    )]
    #[case::not_toml("[[nodes\n", 1, "")]
    fn bad_files_are_refused_with_the_line(#[case] text: &str, #[case] line: usize, #[case] part: &str) {
        let error = parse(text).unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with(&format!("cluster.toml:{line}: ")), "{message}");
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }

    #[test]
    fn empty_and_absurd_files_are_refused() {
        assert_eq!(parse(""), Err(ClusterError::Empty));
        let absurd = parse("[[nodes]]\ncount = 4000000000\ngpus = 4000000000\ntype = \"T4\"\n");
        assert!(matches!(absurd, Err(ClusterError::TooLarge { .. })), "{absurd:?}");
    }
}
