//! Trace files as they are named: `a.csv`, or with what their nodes are, `a.csv:8xA100-40@us-east-1a`.

use super::error::{TraceError, shown};
use super::{ReadOptions, Trace, TraceEventKind};
use crate::cluster::GpuSpec;
use std::path::{Path, PathBuf};

/// The most GPUs that a node may have.
const MOST_GPUS: u32 = 1024;

/// A trace file, and what is known of its nodes beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceSource {
    /// The file.
    pub path: PathBuf,
    /// GPU type of its nodes.
    pub gpu_type: Option<String>,
    /// GPUs of each.
    pub gpus_per_node: Option<u32>,
    /// Their zone.
    pub zone: Option<String>,
}

impl TraceSource {
    /// Reads `FILE[:[GPUSx]TYPE[@ZONE]]` or `FILE:@ZONE`. A file that has the whole text for its name is that file, so that
    /// names with colons work.
    ///
    /// # Errors
    ///
    /// [`TraceError::Source`] shows the part after the colon that doesn't fit.
    pub fn parse(given: &Path) -> Result<Self, TraceError> {
        let plain = Self { path: given.to_owned(), ..Self::default() };
        let Some((path, nodes)) = given.to_str().and_then(|text| text.rsplit_once(':')) else { return Ok(plain) };
        if given.exists() || !Path::new(path).exists() {
            return Ok(plain);
        }
        let fault = |expected: &str, found: &str| TraceError::Source {
            text: shown(&given.display().to_string()),
            expected: expected.to_owned(),
            found: if found.is_empty() { "nothing".to_owned() } else { format!("`{}`", shown(found)) },
        };
        let (gpus, zone) = nodes.split_once('@').map_or((nodes, None), |(gpus, zone)| (gpus, Some(zone)));
        if let Some(zone) = zone.filter(|zone| zone.is_empty() || zone.contains(char::is_whitespace)) {
            return Err(fault("the name of a zone after `@`", zone));
        }
        let mut source = Self { path: path.into(), zone: zone.map(str::to_owned), ..Self::default() };
        if gpus.is_empty() && zone.is_some() {
            return Ok(source);
        }
        let is_count = |count: &str| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
        let gpu_type = match gpus.split_once('x').filter(|(count, _)| is_count(count)) {
            Some((count, gpu_type)) => {
                let number = count.parse().ok().filter(|number| (1..=MOST_GPUS).contains(number));
                source.gpus_per_node = Some(number.ok_or_else(|| fault("1 to 1024 GPUs a node", count))?);
                gpu_type
            }
            None => gpus,
        };
        let known = GpuSpec::lookup(gpu_type).map_err(|_| {
            let known = GpuSpec::catalog().map(|gpu| gpu.name.as_str());
            fault(&format!("a GPU type ({})", crate::suggest::hint(gpu_type, known)), gpu_type)
        })?;
        source.gpu_type = Some(known.name.clone());
        Ok(source)
    }

    /// `options` with what is known of this file's nodes.
    pub(super) fn options(&self, options: &ReadOptions) -> ReadOptions {
        ReadOptions {
            gpu_type: self.gpu_type.clone().or_else(|| options.gpu_type.clone()),
            gpus_per_node: self.gpus_per_node.or(options.gpus_per_node),
            zone: self.zone.clone().or_else(|| options.zone.clone()),
            ..options.clone()
        }
    }

    /// What its nodes are, short: the type, the zone, or both.
    pub(super) fn label(&self) -> String {
        let parts = [self.gpu_type.as_deref(), self.zone.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("@").to_lowercase()
    }

    /// Refuses a file that says of its nodes other than what was said of it.
    pub(super) fn check(&self, trace: &Trace) -> Result<(), TraceError> {
        for event in &trace.events {
            let TraceEventKind::Up(offer) = &event.kind else { continue };
            let gpu = offer
                .gpu_type
                .as_deref()
                .map(|name| GpuSpec::lookup(name).map_or_else(|_| name.to_owned(), |gpu| gpu.name.clone()));
            let said = [
                (gpu, self.gpu_type.clone()),
                (offer.zone.clone(), self.zone.clone()),
                (
                    offer.gpu_count.map(|count| format!("{count} GPUs")),
                    self.gpus_per_node.map(|count| format!("{count} GPUs")),
                ),
            ];
            let other = said.into_iter().find(|(found, asked)| asked.is_some() && found.is_some() && found != asked);
            if let Some((Some(found), Some(asked))) = other {
                return Err(TraceError::Contradicted {
                    file: self.path.display().to_string(),
                    node: shown(&event.node),
                    found: shown(&found),
                    asked: shown(&asked),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn parse(given: &str) -> Result<TraceSource, String> {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.csv", "b:V100-16", "c:d"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let source = TraceSource::parse(&folder.path().join(given)).map_err(|error| error.to_string())?;
        let path = source.path.strip_prefix(folder.path()).unwrap().to_owned();
        Ok(TraceSource { path, ..source })
    }

    #[rstest]
    #[case("a.csv", "a.csv", (None, None, None))]
    #[case("a.csv:A100-40", "a.csv", (Some("A100-40"), None, None))]
    #[case("a.csv:8xa100-40g@us-east-1a", "a.csv", (Some("A100-40"), Some(8), Some("us-east-1a")))]
    #[case("a.csv:@z", "a.csv", (None, None, Some("z")))]
    #[case("b:V100-16", "b:V100-16", (None, None, None))]
    #[case("b:V100-16:T4", "b:V100-16", (Some("T4"), None, None))]
    #[case("c:d", "c:d", (None, None, None))]
    #[case("absent:T4", "absent:T4", (None, None, None))]
    fn what_nodes_are_stands_after_the_last_colon(
        #[case] given: &str,
        #[case] path: &str,
        #[case] nodes: (Option<&str>, Option<u32>, Option<&str>),
    ) {
        let source = parse(given).unwrap();
        assert_eq!(source.path, Path::new(path));
        assert_eq!((source.gpu_type.as_deref(), source.gpus_per_node, source.zone.as_deref()), nodes);
    }

    #[rstest]
    #[case("a.csv:", "found nothing")]
    #[case("a.csv:A100-60", "`A100-40`")]
    #[case("a.csv:0xT4", "1 to 1024 GPUs a node, found `0`")]
    #[case("a.csv:T4@", "the name of a zone after `@`, found nothing")]
    fn other_words_are_shown(#[case] given: &str, #[case] part: &str) {
        let message = parse(given).unwrap_err();
        assert!(message.contains(part) && message.contains("\nhint: "), "{message}");
    }
}
