//! Which format a text is, told by its first line with content, or by the keys of its JSON.

use super::error::{TraceError, shown};
use super::json::{self, Document};
use super::options::UnknownWord;
use super::{azure, bamboo, canonical, counts, eventbridge, gcp_audit, gcp_counts, ping};
use super::{prometheus, sailor_csv, sailor_levels, skypilot, slurm, spot_requests};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The formats that can be read. A further format is a variant here with its row in `FORMATS`, a file beside this one, and
/// a test of how it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TraceFormat {
    /// This project's own CSV: a header with `time_s` (or `time`), `event`, `node`, and what is known of the node.
    Canonical,
    /// The event files of Bamboo (NSDI 2023): `milliseconds,add|remove,node` without a header.
    BambooEvents,
    /// Counts of nodes as Parcae has them (NSDI 2024): `milliseconds,count`, several rows a time.
    ParcaeCounts,
    /// Counts of nodes on GCP, published with Bamboo: `2021-12-11, 11:11:30, 55`.
    GcpCounts,
    /// Corners of a step function: `time,count`, two rows a change, in seconds or hours.
    StepCounts,
    /// Sailor's levels of GPUs (SOSP 2025): a JSON array of `Time` and `GPUs`.
    SailorLevels,
    /// Sailor's counts of GPUs by type and zone (SOSP 2025): a CSV with a column for each.
    SailorCsv,
    /// `SkyPilot`'s spot traces (NSDI 2024): JSON with `metadata.gap_seconds` and `data`.
    #[serde(rename = "skypilot")]
    SkyPilot,
    /// Their older form: `index,ISO time,fail`, in which a 1 is a failure.
    PingFailures,
    /// AWS `EventBridge`: interruption warnings and changes of state.
    #[serde(rename = "eventbridge")]
    EventBridge,
    /// `aws ec2 describe-spot-instance-requests`.
    SpotRequests,
    /// Google Cloud's audit log of Compute Engine.
    GcpAuditLog,
    /// Azure's scheduled events, polled.
    AzureScheduledEvents,
    /// Slurm's `sacct --parsable2`.
    SlurmJobs,
    /// Slurm's `sacctmgr show event --parsable2`.
    SlurmEvents,
    /// A range query's answer from Prometheus.
    PrometheusRange,
}

/// Each format with its word for options and files, and its name for people.
const FORMATS: [(TraceFormat, &str, &str); 16] = [
    (TraceFormat::Canonical, "canonical", "canonical CSV"),
    (TraceFormat::BambooEvents, "bamboo_events", "Bamboo events"),
    (TraceFormat::ParcaeCounts, "parcae_counts", "Parcae counts"),
    (TraceFormat::GcpCounts, "gcp_counts", "GCP counts"),
    (TraceFormat::StepCounts, "step_counts", "step counts"),
    (TraceFormat::SailorLevels, "sailor_levels", "Sailor levels"),
    (TraceFormat::SailorCsv, "sailor_csv", "Sailor CSV"),
    (TraceFormat::SkyPilot, "skypilot", "SkyPilot JSON"),
    (TraceFormat::PingFailures, "ping_failures", "ping failures"),
    (TraceFormat::EventBridge, "eventbridge", "AWS EventBridge"),
    (TraceFormat::SpotRequests, "spot_requests", "AWS spot requests"),
    (TraceFormat::GcpAuditLog, "gcp_audit_log", "GCP audit log"),
    (TraceFormat::AzureScheduledEvents, "azure_scheduled_events", "Azure scheduled events"),
    (TraceFormat::SlurmJobs, "slurm_jobs", "Slurm jobs"),
    (TraceFormat::SlurmEvents, "slurm_events", "Slurm events"),
    (TraceFormat::PrometheusRange, "prometheus_range", "Prometheus range query"),
];

impl TraceFormat {
    /// The words by which options name the formats.
    pub fn words() -> impl Iterator<Item = &'static str> {
        FORMATS.iter().map(|(_, word, _)| *word)
    }

    /// All formats, ours first.
    pub fn all() -> impl Iterator<Item = Self> {
        FORMATS.iter().map(|(format, _, _)| *format)
    }

    /// The word by which options name it.
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// All but the canonical CSV, for people.
    pub(super) fn further() -> String {
        FORMATS[1..].iter().map(|(_, _, name)| *name).collect::<Vec<_>>().join(", ")
    }

    fn row(self) -> &'static (Self, &'static str, &'static str) {
        FORMATS.iter().find(|(format, _, _)| *format == self).expect("every format has a row")
    }

    /// Whether files of this format are JSON.
    pub(super) fn is_json(self) -> bool {
        matches!(
            self,
            Self::SailorLevels
                | Self::SkyPilot
                | Self::EventBridge
                | Self::SpotRequests
                | Self::GcpAuditLog
                | Self::AzureScheduledEvents
                | Self::PrometheusRange
        )
    }

    /// Whether its times are bare numbers without a unit of their own.
    pub(super) fn has_bare_times(self) -> bool {
        matches!(self, Self::BambooEvents | Self::ParcaeCounts | Self::StepCounts | Self::SailorLevels)
    }

    /// Whether it says how many nodes are up, rather than which come and go.
    pub(super) fn has_counts(self) -> bool {
        matches!(
            self,
            Self::ParcaeCounts
                | Self::GcpCounts
                | Self::StepCounts
                | Self::SailorLevels
                | Self::SailorCsv
                | Self::SkyPilot
                | Self::PingFailures
        )
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().2)
    }
}

impl FromStr for TraceFormat {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let wanted = word.to_lowercase().replace('-', "_");
        let found = FORMATS.iter().find(|(_, word, _)| *word == wanted);
        found
            .map(|(format, _, _)| *format)
            .ok_or_else(|| UnknownWord::new("a trace format", word, &Self::words().collect::<Vec<_>>()))
    }
}

/// Refuses binary content that happens to be valid UTF-8.
pub(super) fn check_is_text(text: &str, name: &str) -> Result<(), TraceError> {
    let is_binary = |c: char| c.is_control() && !matches!(c, '\t' | '\r' | '\n');
    match text.char_indices().find(|(_, c)| is_binary(*c)) {
        None => Ok(()),
        Some((offset, c)) => Err(TraceError::NotText {
            file: name.to_owned(),
            line: 1 + text[..offset].matches('\n').count() as u64,
            found: format!("the control character U+{:04X}", u32::from(c)),
        }),
    }
}

/// What a text was recognised as: the format, and its JSON if it is some.
pub(super) type Recognised = (TraceFormat, Option<Document>);

/// The format of `text`, or an error that shows the line that fits none.
pub(super) fn recognise(text: &str, name: &str) -> Result<Recognised, TraceError> {
    let content = text.lines().zip(1..).find(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let Some((first, line)) = content else {
        return Err(TraceError::Empty { file: name.to_owned() });
    };
    let unknown = || TraceError::Unrecognised { file: name.to_owned(), line, found: shown(first) };
    if json::starts(text) {
        let document = Document::parse(text, name)?;
        if document.has(&["SpotPriceHistory"]) || document.has(&["SpotPrice", "Timestamp"]) {
            return Err(TraceError::PricesOnly { file: name.to_owned() });
        }
        let format = json_format(&document).ok_or_else(unknown)?;
        return Ok((format, Some(document)));
    }
    let format = if canonical::starts_with(first) {
        TraceFormat::Canonical
    } else if bamboo::starts_with(first) {
        TraceFormat::BambooEvents
    } else if gcp_counts::starts_with(first) {
        TraceFormat::GcpCounts
    } else if ping::starts_with(first) {
        TraceFormat::PingFailures
    } else if sailor_csv::starts_with(first) {
        TraceFormat::SailorCsv
    } else if slurm::jobs::starts_with(first) {
        TraceFormat::SlurmJobs
    } else if slurm::events::starts_with(first) {
        TraceFormat::SlurmEvents
    } else {
        counts::recognise(text, first).ok_or_else(unknown)?
    };
    Ok((format, None))
}

/// The format of JSON, told by its keys.
fn json_format(document: &Document) -> Option<TraceFormat> {
    type Fits = fn(&Document) -> bool;
    let formats: [(Fits, TraceFormat); 7] = [
        (sailor_levels::fits, TraceFormat::SailorLevels),
        (skypilot::fits, TraceFormat::SkyPilot),
        (eventbridge::fits, TraceFormat::EventBridge),
        (spot_requests::fits, TraceFormat::SpotRequests),
        (gcp_audit::fits, TraceFormat::GcpAuditLog),
        (azure::fits, TraceFormat::AzureScheduledEvents),
        (prometheus::fits, TraceFormat::PrometheusRange),
    ];
    formats.into_iter().find(|(fits, _)| fits(document)).map(|(_, format)| format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("time_s,event,node\n", TraceFormat::Canonical)]
    #[case("# a comment\n\nNode, Event ,time\n", TraceFormat::Canonical)]
    #[case("\"node\",\"event\",\"time_s\"\n", TraceFormat::Canonical)]
    #[case("1440000,remove,node13\r\n", TraceFormat::BambooEvents)]
    #[case("0,lost,node1", TraceFormat::BambooEvents)]
    #[case("780000,30\n", TraceFormat::ParcaeCounts)]
    #[case("0,10\n41093,10\n41093,9\n", TraceFormat::StepCounts)]
    #[case("\n\n2021-12-11, 11:11:30, 55\n", TraceFormat::GcpCounts)]
    #[case("0,2022-10-26T22:05:04.000Z,0\n", TraceFormat::PingFailures)]
    #[case(",Timestamp,A100-40_us-central1-a\n", TraceFormat::SailorCsv)]
    #[case("JobID|Start|End|State|NNodes|NodeList\n", TraceFormat::SlurmJobs)]
    #[case("Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n", TraceFormat::SlurmEvents)]
    #[case("[{\"Time\": 0, \"GPUs\": 1}]", TraceFormat::SailorLevels)]
    #[case("{\"metadata\": {}, \"data\": []}", TraceFormat::SkyPilot)]
    #[case("{\"detail-type\": \"x\"}\n{\"detail-type\": \"y\"}\n", TraceFormat::EventBridge)]
    #[case("{\"SpotInstanceRequests\": []}", TraceFormat::SpotRequests)]
    #[case("[{\"protoPayload\": {}}]", TraceFormat::GcpAuditLog)]
    #[case("{\"DocumentIncarnation\": 1, \"Events\": []}", TraceFormat::AzureScheduledEvents)]
    #[case("{\"status\": \"success\", \"data\": {\"result\": []}}", TraceFormat::PrometheusRange)]
    fn the_first_line_with_content_decides(#[case] text: &str, #[case] format: TraceFormat) {
        assert_eq!(recognise(text, "t").unwrap().0, format);
    }

    #[rstest]
    #[case("780000;30\n", "line 1", "780000;30")]
    #[case("\n\n2021-12-11 11:11:30 55\n", "line 3", "2021-12-11 11:11:30 55")]
    #[case("{\"metadata\":{}}", "line 1", "{\"metadata\":{}}")]
    fn other_content_is_shown(#[case] text: &str, #[case] line: &str, #[case] found: &str) {
        let message = recognise(text, "t").err().unwrap().to_string();
        assert!(message.contains(line) && message.contains(&shown(found)), "{message}");
        assert!(message.contains("hint: known are"), "{message}");
    }

    #[rstest]
    #[case("")]
    #[case("\n \n")]
    #[case("# only a comment\n")]
    fn an_empty_text_is_no_trace(#[case] text: &str) {
        let error = recognise(text, "t").err().unwrap();
        assert!(matches!(error, TraceError::Empty { .. }), "{error}");
        assert!(error.to_string().contains("hint:"));
    }

    #[test]
    fn binary_content_is_refused_with_its_line() {
        let message = check_is_text("time_s\n\u{0}\u{1}", "t").unwrap_err().to_string();
        assert!(message.contains("line 2") && message.contains("U+0000"), "{message}");
        check_is_text("tabs\tand\r\nlines", "t").unwrap();
    }

    #[test]
    fn formats_are_named_for_people() {
        assert_eq!(TraceFormat::Canonical.to_string(), "canonical CSV");
        assert_eq!(TraceFormat::BambooEvents.to_string(), "Bamboo events");
    }

    #[test]
    fn words_are_those_of_files_and_options() {
        for (format, word, _) in FORMATS {
            assert_eq!(serde_json::to_string(&format).unwrap(), format!("\"{word}\""));
            assert_eq!(word.replace('_', "-").parse(), Ok(format));
        }
        let message = "bambo-events".parse::<TraceFormat>().unwrap_err().to_string();
        assert!(message.contains("did you mean `bamboo_events`"), "{message}");
    }

    #[rstest]
    #[case("{\"SpotPriceHistory\": [{\"SpotPrice\": \"0.918000\", \"Timestamp\": \"2026-01-01T00:00:00Z\"}]}")]
    #[case("[{\"SpotPrice\": \"\", \"Timestamp\": \"2026-01-01T00:00:00Z\"}]")]
    fn prices_are_no_trace(#[case] text: &str) {
        let message = recognise(text, "t").err().unwrap().to_string();
        assert!(message.contains("AWS price history") && message.contains("makes no losses\nhint: "), "{message}");
    }
}
