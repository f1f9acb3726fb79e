//! The catalog of GPU types: `gpus.toml`, read once.

use super::{ClusterError, GpuSpec, Link};
use crate::suggest;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

static CATALOG: LazyLock<Vec<Entry>> = LazyLock::new(|| read(include_str!("gpus.toml")));

struct Entry {
    spec: Arc<GpuSpec>,
    /// The name and its aliases, folded.
    names: Vec<String>,
    sources: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct File {
    gpu: Vec<Raw>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    aliases: Vec<String>,
    memory_bytes: u64,
    fp32_flops_per_s: f64,
    fp16_flops_per_s: f64,
    bf16_flops_per_s: Option<f64>,
    hbm_bytes_per_s: f64,
    multiprocessors: u32,
    #[serde(default = "usual_product_share")]
    product_share: f64,
    #[serde(default = "usual_stream_share")]
    stream_share: f64,
    intra_node_kind: String,
    intra_node_bytes_per_s: f64,
    intra_node_latency_s: f64,
    host_bytes_per_s: f64,
    spot_usd_per_hour: f64,
    on_demand_usd_per_hour: f64,
    sources: BTreeMap<String, String>,
}

/// What most types reach: `cost::compute` says on what it was fitted.
fn usual_product_share() -> f64 {
    GpuSpec::USUAL_PRODUCT_SHARE
}

fn usual_stream_share() -> f64 {
    GpuSpec::USUAL_STREAM_SHARE
}

impl GpuSpec {
    /// Share of the peak that products reach on most types.
    pub const USUAL_PRODUCT_SHARE: f64 = 0.80;
    /// What a CPU core is called in plans; the catalog has none.
    pub const CORE: &str = "cpu";
    /// Share of the memory's bandwidth that element-wise operations reach on most types.
    pub const USUAL_STREAM_SHARE: f64 = 0.85;

    /// The GPU type of this name or alias; case and separators don't matter: `a100-40g`, `RTX3090`.
    ///
    /// ```
    /// use autohet::cluster::GpuSpec;
    /// assert_eq!(GpuSpec::lookup("A100-SXM4-80GB")?.name, "A100-80");
    /// assert!(GpuSpec::lookup("A100-60").is_err());
    /// # Ok::<(), autohet::cluster::ClusterError>(())
    /// ```
    pub fn lookup(name: &str) -> Result<Arc<Self>, ClusterError> {
        let wanted = suggest::fold(name);
        let found = CATALOG.iter().find(|entry| entry.names.contains(&wanted));
        found.map(|entry| Arc::clone(&entry.spec)).ok_or_else(|| ClusterError::UnknownGpu {
            name: name.to_owned(),
            hint: suggest::hint(name, Self::catalog().map(|spec| spec.name.as_str())),
        })
    }

    /// All GPU types of the catalog, in its order.
    pub fn catalog() -> impl Iterator<Item = &'static Arc<Self>> + Clone {
        CATALOG.iter().map(|entry| &entry.spec)
    }

    /// Where each figure of a catalogued type comes from, by figure: `("hbm", "llm-analysis")`. Empty for types that the
    /// catalog doesn't hold.
    pub fn sources(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let entry = CATALOG.iter().find(|entry| entry.spec.name == self.name);
        entry
            .into_iter()
            .flat_map(|entry| entry.sources.iter())
            .map(|(figure, source)| (figure.as_str(), source.as_str()))
    }
}

fn read(text: &str) -> Vec<Entry> {
    let file: File = toml::from_str(text).expect("the catalog in the crate is well-formed");
    file.gpu.into_iter().map(entry).collect()
}

fn entry(raw: Raw) -> Entry {
    let names = raw.aliases.iter().chain([&raw.name]).map(|name| suggest::fold(name)).collect();
    let spec = GpuSpec {
        name: raw.name,
        memory_bytes: raw.memory_bytes,
        fp32_flops_per_s: raw.fp32_flops_per_s,
        fp16_flops_per_s: raw.fp16_flops_per_s,
        bf16_flops_per_s: raw.bf16_flops_per_s,
        hbm_bytes_per_s: raw.hbm_bytes_per_s,
        multiprocessors: raw.multiprocessors,
        product_share: raw.product_share,
        stream_share: raw.stream_share,
        intra_node: Link { bytes_per_s: raw.intra_node_bytes_per_s, latency_s: raw.intra_node_latency_s },
        intra_node_kind: raw.intra_node_kind,
        host_bytes_per_s: raw.host_bytes_per_s,
        spot_usd_per_hour: raw.spot_usd_per_hour,
        on_demand_usd_per_hour: raw.on_demand_usd_per_hour,
    };
    Entry { spec: Arc::new(spec), names, sources: raw.sources }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_type_is_plausible_and_says_where_its_figures_come_from() {
        for spec in GpuSpec::catalog() {
            assert!((8e9..1e12).contains(&(spec.memory_bytes as f64)), "{}", spec.name);
            assert!((1e12..1e15).contains(&spec.fp32_flops_per_s), "{}", spec.name);
            assert!(spec.fp16_flops_per_s > spec.fp32_flops_per_s, "{}", spec.name);
            assert!((1e11..1e13).contains(&spec.hbm_bytes_per_s), "{}", spec.name);
            assert!((1e9..1e12).contains(&spec.intra_node.bytes_per_s), "{}", spec.name);
            assert!((30..200).contains(&spec.multiprocessors), "{}", spec.name);
            assert!(
                (0.4..1.0).contains(&spec.product_share) && (0.4..1.0).contains(&spec.stream_share),
                "{}",
                spec.name
            );
            assert!(spec.spot_usd_per_hour > 0.0, "{}", spec.name);
            assert!(spec.on_demand_usd_per_hour > spec.spot_usd_per_hour, "{}", spec.name);
            let figures: BTreeSet<_> = spec.sources().map(|(figure, _)| figure).collect();
            for figure in
                ["memory", "fp32", "fp16", "hbm", "multiprocessors", "intra_node", "host", "price", "on_demand"]
            {
                assert!(figures.contains(figure), "{} names no source for `{figure}`", spec.name);
            }
            assert_eq!(figures.contains("bf16"), spec.bf16_flops_per_s.is_some(), "{}", spec.name);
        }
    }

    #[test]
    fn names_and_aliases_are_unique() {
        let names: Vec<_> = CATALOG.iter().flat_map(|entry| &entry.names).collect();
        let unique: BTreeSet<_> = names.iter().collect();
        // A name may be listed twice for one type ("RTX3090" folds to "rtx3090"), never for two.
        for name in unique {
            assert_eq!(CATALOG.iter().filter(|entry| entry.names.contains(name)).count(), 1, "{name}");
        }
    }

    #[test]
    fn aliases_find_their_type() {
        for (alias, name) in [
            ("A100-40G", "A100-40"),
            ("a100-sxm4-40gb", "A100-40"),
            ("A100-80GB", "A100-80"),
            ("RTX3090", "RTX-3090"),
            ("rtx_4090", "RTX-4090"),
            ("H100-80", "H100"),
            ("v100-16", "V100-16"),
        ] {
            assert_eq!(GpuSpec::lookup(alias).unwrap().name, name);
        }
    }

    #[test]
    fn an_unknown_type_is_answered_with_near_ones() {
        let message = GpuSpec::lookup("H101").unwrap_err().to_string();
        assert!(message.starts_with("unknown GPU type `H101`\nhint: did you mean `H100`"), "{message}");
    }

    #[test]
    fn only_volta_and_turing_lack_bf16() {
        let without: Vec<_> =
            GpuSpec::catalog().filter(|spec| spec.bf16_flops_per_s.is_none()).map(|spec| spec.name.as_str()).collect();
        assert_eq!(without, ["V100-16", "V100-32", "T4", "RTX-2080", "RTX-2080-Ti", "Titan-RTX"]);
    }
}
