//! `summary.json`: the contract with whoever reads results by machine. `docs/schemas/summary.schema.json` states it.

use super::figures::ratio;
use super::records::Records;
use crate::metrics::Ledger;
use crate::model::ModelSpec;
use crate::replay::{PolicyOutcome, Replay};
use crate::trace::{Trace, TraceFormat, TraceStatistics};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Version of the summary's schema. It grows when a field is removed or changes its meaning, not when one is added.
pub const SUMMARY_SCHEMA_VERSION: u32 = 1;

/// The JSON schema (draft 2020-12) of [`Summary`].
pub const SUMMARY_SCHEMA: &str = include_str!("../../docs/schemas/summary.schema.json");

/// What came of a replay. Quotients whose divisor is zero (a mean of no recoveries, a price per token of no tokens) are
/// `null`; no field is ever NaN.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// [`SUMMARY_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What was understood of the trace.
    pub trace: TraceSummary,
    /// Name of the model.
    pub model: String,
    /// Tokens per sample.
    pub seq_length: u32,
    /// Samples per optimizer step.
    pub global_batch_size: u32,
    /// Seed of everything random, where something was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What each policy made of the trace, in the order asked for.
    pub policies: IndexMap<String, PolicySummary>,
}

/// What was understood of a trace, so that a wrong guess is seen at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// Name of the trace, without its folder and ending.
    pub name: String,
    /// The format that was recognised.
    pub format: TraceFormat,
    /// Length of the replay, from the trace's zero to its last row.
    pub span_s: f64,
    /// Distinct names of nodes.
    pub node_count: usize,
    /// Time-mean of the nodes up over the most that were up at once.
    pub mean_availability: f64,
    /// Nodes lost.
    pub loss_count: usize,
    /// Losses over node-hours.
    pub losses_per_node_hour: f64,
    /// GPU types in it.
    pub gpu_types: Vec<String>,
    /// What was understood, repaired or dropped while reading.
    pub notes: Vec<String>,
}

/// What one policy made of the trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicySummary {
    /// Iterations done and not rolled back.
    pub iterations: u64,
    /// Samples of those.
    pub samples: u64,
    /// Tokens of those.
    pub tokens: u64,
    /// `tokens` over the span of the trace; `null` for a span of zero.
    pub tokens_per_s: Option<f64>,
    /// Share of useful work in the GPU time paid; `null` where nothing was paid.
    pub goodput_share: Option<f64>,
    /// Changes of plan after the first start.
    pub recoveries: usize,
    /// Mean time from a stop of training to its start again; `null` without recoveries.
    pub recovery_s_mean: Option<f64>,
    /// Iterations done and then rolled back.
    pub lost_iterations: u64,
    /// GPU-seconds paid.
    pub paid_gpu_s: f64,
    /// GPU-seconds by row of the goodput ledger. They add up to `paid_gpu_s`.
    pub ledger_gpu_s: Ledger,
    /// Price of the GPU time.
    pub usd: f64,
    /// Price of checkpoints in the object store; 0 where storage has no price, as below.
    pub storage_usd: f64,
    /// Price of what was read from the object store.
    pub egress_usd: f64,
    /// Price of what training sent between zones.
    pub cross_zone_usd: f64,
    /// All of it.
    pub total_usd: f64,
    /// `total_usd` over millions of tokens that count; `null` where none do.
    pub usd_per_million_tokens: Option<f64>,
}

/// What a [`Summary`] is made from.
#[derive(Clone, Copy, Debug)]
pub struct SummaryInputs<'a> {
    /// Name of the trace, without its folder and ending.
    pub trace_name: &'a str,
    /// The trace.
    pub trace: &'a Trace,
    /// The model.
    pub model: &'a ModelSpec,
    /// Samples per optimizer step.
    pub global_batch_size: u32,
    /// Seed of everything random, where something was.
    pub seed: Option<u64>,
    /// The replay.
    pub replay: &'a Replay,
}

impl Summary {
    /// Sums up a replay.
    pub fn new(inputs: &SummaryInputs<'_>) -> Self {
        let span_s = inputs.replay.span.as_seconds();
        let policies = inputs.replay.policies.iter();
        Self {
            schema_version: SUMMARY_SCHEMA_VERSION,
            trace: TraceSummary::new(inputs),
            model: inputs.model.name.clone(),
            seq_length: inputs.model.seq_length,
            global_batch_size: inputs.global_batch_size,
            seed: inputs.seed,
            policies: policies.map(|o| (o.policy.to_owned(), PolicySummary::new(o, span_s))).collect(),
        }
    }

    /// The summary as the text of `summary.json`.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("a summary has string keys only");
        json.push('\n');
        json
    }
}

impl Summary {
    /// The policies, one a row, with all that the summary has of each.
    pub fn records(&self) -> Records {
        let row = |(policy, summary): (&String, &PolicySummary)| with_name("policy", policy, summary);
        Records::of_json(&self.policies.iter().map(row).collect::<Vec<_>>())
    }
}

/// A thing in JSON, its name before its fields.
pub(super) fn with_name(key: &str, name: &str, thing: &impl Serialize) -> Value {
    let mut row = Map::new();
    row.insert(key.to_owned(), name.into());
    let fields = serde_json::to_value(thing).expect("reports have string keys only");
    row.extend(fields.as_object().cloned().unwrap_or_default());
    Value::Object(row)
}

impl TraceSummary {
    fn new(inputs: &SummaryInputs<'_>) -> Self {
        let statistics = TraceStatistics::of(inputs.trace);
        Self {
            name: inputs.trace_name.to_owned(),
            format: inputs.trace.format,
            span_s: inputs.replay.span.as_seconds(),
            node_count: statistics.node_count,
            mean_availability: statistics.mean_availability,
            loss_count: statistics.loss_count,
            losses_per_node_hour: statistics.losses_per_node_hour,
            gpu_types: inputs.replay.gpu_types.clone(),
            notes: inputs.trace.notes.clone(),
        }
    }
}

impl PolicySummary {
    /// Sums up a policy over so many seconds of trace.
    pub fn new(outcome: &PolicyOutcome, span_s: f64) -> Self {
        let recovery_s: f64 = outcome.recoveries.iter().map(|r| r.end.saturating_sub(r.start).as_seconds()).sum();
        let paid = outcome.ledger.total() != crate::metrics::GpuTime::default();
        Self {
            iterations: outcome.iterations,
            samples: outcome.samples,
            tokens: outcome.tokens,
            tokens_per_s: ratio(outcome.tokens as f64, span_s),
            goodput_share: paid.then(|| outcome.ledger.goodput_share()),
            recoveries: outcome.recoveries.len(),
            recovery_s_mean: ratio(recovery_s, outcome.recoveries.len() as f64),
            lost_iterations: outcome.iterations_rolled_back,
            paid_gpu_s: outcome.paid.as_gpu_seconds(),
            ledger_gpu_s: outcome.ledger.clone(),
            usd: outcome.usd,
            storage_usd: outcome.other.storage.usd,
            egress_usd: outcome.other.egress.usd,
            cross_zone_usd: outcome.other.cross_zone.usd,
            total_usd: outcome.total_usd(),
            usd_per_million_tokens: ratio(outcome.total_usd(), outcome.tokens as f64 / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;
    use crate::trace;
    use serde_json::{Value, json};

    fn summary(replay: &Replay) -> Value {
        let trace = trace::parse("time_s,event,node\n0,up,a\n0,up,b\n40,down,b\n100,up,b\n", "hand-made").unwrap();
        let model = ModelSpec::preset("gpt3-1.3b").unwrap();
        let inputs = SummaryInputs {
            trace_name: "hand-made",
            trace: &trace,
            model: &model,
            global_batch_size: 16,
            seed: Some(7),
            replay,
        };
        serde_json::from_str(&Summary::new(&inputs).to_json()).unwrap()
    }

    fn assert_valid(summary: &Value) {
        let schema: Value = serde_json::from_str(SUMMARY_SCHEMA).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let errors: Vec<_> = validator.iter_errors(summary).map(|e| format!("{} {e}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    }

    #[test]
    fn a_summary_keeps_its_contract_and_the_right_numbers() {
        let summary = summary(&fixture::small());
        assert_valid(&summary);
        let autohet = &summary["policies"]["autohet"];
        assert_eq!(autohet["tokens"], json!(7 * 16 * 2048));
        assert_eq!(autohet["tokens_per_s"], json!(7.0 * 16.0 * 2048.0 / 100.0));
        assert_eq!(autohet["paid_gpu_s"], json!(1080.0));
        assert_eq!(autohet["goodput_share"], json!(0.5));
        assert_eq!(autohet["recovery_s_mean"], json!(7.5));
        assert_eq!(autohet["lost_iterations"], json!(1));
        assert_eq!((&autohet["total_usd"], &autohet["storage_usd"]), (&json!(0.9), &json!(0.0)));
        let rows = autohet["ledger_gpu_s"].as_object().unwrap();
        approx::assert_relative_eq!(rows.values().map(|row| row.as_f64().unwrap()).sum::<f64>(), 1080.0);
        assert_eq!(summary["trace"]["loss_count"], json!(1));
        let order: Vec<_> = summary["policies"].as_object().unwrap().keys().collect();
        assert_eq!(order, ["autohet", "restart"]);
    }

    #[test]
    fn nothing_done_gives_nulls() {
        let summary = summary(&fixture::idle());
        assert_valid(&summary);
        let restart = &summary["policies"]["restart"];
        for key in ["goodput_share", "recovery_s_mean", "usd_per_million_tokens"] {
            assert_eq!(restart[key], Value::Null, "{key}");
        }
        assert_eq!(restart["tokens_per_s"], json!(0.0));
    }

    #[test]
    fn the_schema_refuses_what_breaks_the_contract() {
        let schema: Value = serde_json::from_str(SUMMARY_SCHEMA).unwrap();
        let mut broken = summary(&fixture::small());
        broken["policies"]["autohet"].as_object_mut().unwrap().remove("tokens");
        assert!(!jsonschema::draft202012::new(&schema).unwrap().is_valid(&broken));
    }
}
