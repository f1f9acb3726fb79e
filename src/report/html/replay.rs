//! The page of a replay.

use super::costs::{costs, paid_gpus};
use super::{Section, card, ledgers, plan_sections, render};
use crate::metrics::Activity;
use crate::replay::{PolicyOutcome, Replay};
use crate::report::figures::{count, figure, or_absent, percent, ratio};
use crate::report::iteration::IterationReport;
use crate::report::summary::PolicySummary;
use crate::report::throughput_chart::over_time_svg;
use crate::units::{format_bytes, format_seconds};

/// Recoveries that are listed of each policy; the rest is in `recoveries.csv`.
const MOST_RECOVERIES: usize = 100;

/// What a page of a replay is made from.
pub struct ReplayPage<'a> {
    /// Name of the trace.
    pub trace: &'a str,
    /// Name of the model.
    pub model: &'a str,
    /// The replay.
    pub replay: &'a Replay,
    /// Tokens of an iteration.
    pub tokens_per_iteration: u64,
    /// One iteration of the first plan, where there is a plan.
    pub iteration: Option<&'a IterationReport<'a>>,
    /// The resolved scenario.
    pub scenario: &'a str,
}

/// A replay as a page.
pub fn replay_html(page: &ReplayPage<'_>) -> String {
    let replay = page.replay;
    let span_s = replay.span.as_seconds();
    let first = replay.policies.first().map(|outcome| (outcome.policy, PolicySummary::new(outcome, span_s)));
    let mut cards = Vec::new();
    if let Some((policy, summary)) = &first {
        cards.push(card(&format!("mean tokens/s, {policy}"), or_absent(summary.tokens_per_s, figure)));
        cards.push(card(&format!("goodput share, {policy}"), or_absent(summary.goodput_share, percent)));
        cards.push(card("USD per million tokens", or_absent(summary.usd_per_million_tokens, figure)));
        cards.push(card("GPU-hours paid", figure(summary.paid_gpu_s / 3600.0)));
        cards.push(card("USD", figure(summary.usd)));
    }
    cards.push(card("nodes lost", count(replay.losses.iter().map(|(_, nodes)| u64::from(*nodes)).sum())));
    let ledger_of_each = replay.policies.iter().map(|outcome| (outcome.policy, &outcome.ledger));
    let mut sections = vec![
        policies(replay, span_s),
        Section::new(
            "Capacity and throughput",
            "GPUs that were up, with a tick for each loss, and what each policy made of them.",
        )
        .with_svg(over_time_svg(replay, page.tokens_per_iteration)),
        ledgers("Where the GPU time went", "Every GPU-second paid for, in exactly one part.", ledger_of_each),
        costs(replay),
        paid_gpus(replay),
        plans(replay),
    ];
    if let Some(iteration) = page.iteration {
        sections.extend(plan_sections(iteration, &format!("The first plan, by {}", iteration.plan.planner)));
    }
    sections.push(recoveries(replay));
    let note = "Every setting in force; `--scenario` takes it back.";
    sections.push(Section { text: page.scenario.to_owned(), ..Section::new("Scenario", note) });
    let title = format!("{} on {}", page.model, page.trace);
    let names: Vec<&str> = replay.policies.iter().map(|outcome| outcome.policy).collect();
    let asked = format!(
        "What becomes of training {} with {} tokens an iteration on {} of spot capacity ({}), under {}?",
        page.model,
        count(page.tokens_per_iteration),
        replay.span,
        replay.gpu_types.join(", "),
        names.join(", "),
    );
    render(&title, &asked, &cards, &sections)
}

fn policies(replay: &Replay, span_s: f64) -> Section {
    let columns = [
        "policy",
        "iterations",
        "mean tokens/s",
        "goodput share",
        "rolled back",
        "recoveries",
        "mean recovery",
        "lost work",
        "USD per 10^6 tokens",
    ];
    let row = |outcome: &PolicyOutcome| {
        let summary = PolicySummary::new(outcome, span_s);
        vec![
            outcome.policy.to_owned(),
            count(outcome.iterations),
            or_absent(summary.tokens_per_s, figure),
            or_absent(summary.goodput_share, percent),
            count(outcome.iterations_rolled_back),
            count(summary.recoveries as u64),
            or_absent(summary.recovery_s_mean, format_seconds),
            or_absent(ratio(outcome.ledger.get(Activity::LostWork).as_gpu_seconds(), summary.paid_gpu_s), percent),
            or_absent(summary.usd_per_million_tokens, figure),
        ]
    };
    Section::new("Policies", "").with_table(&columns, replay.policies.iter().map(row).collect())
}

/// The plans of each policy that ran longest.
fn plans(replay: &Replay) -> Section {
    const MOST_PLANS: usize = 5;
    let mut rows = Vec::new();
    for outcome in &replay.policies {
        let mut times = vec![0.0; outcome.plans.len()];
        for segment in &outcome.segments {
            if let Some(plan) = segment.plan {
                times[plan] += segment.end.saturating_sub(segment.start).as_seconds();
            }
        }
        let mut longest: Vec<usize> = (0..times.len()).collect();
        longest.sort_by(|a, b| times[*b].total_cmp(&times[*a]));
        for plan in longest.into_iter().take(MOST_PLANS) {
            let planned = &outcome.plans[plan];
            rows.push(vec![
                outcome.policy.to_owned(),
                format_seconds(times[plan]),
                format_seconds(planned.predicted_iteration_s),
                planned.plan.world_size().to_string(),
                crate::report::rented::shape(&planned.plan),
            ]);
        }
    }
    let columns = ["policy", "in force", "iteration", "GPUs", "replicas of (GPU type / degree : layers)"];
    Section::new("Plans", "Those that were in force longest.").with_table(&columns, rows)
}

fn recoveries(replay: &Replay) -> Section {
    let columns = [
        "policy",
        "at",
        "cause",
        "iterations lost",
        "took",
        "detect",
        "plan",
        "connect",
        "fetch",
        "own memory",
        "own disk",
        "peers",
        "object store",
    ];
    let mut rows = Vec::new();
    for outcome in &replay.policies {
        for recovery in outcome.recoveries.iter().take(MOST_RECOVERIES) {
            let fetched = recovery.fetched;
            let cause = format!("{:?}", recovery.cause).to_lowercase();
            let mut row = vec![
                outcome.policy.to_owned(),
                format_seconds(recovery.start.as_seconds()),
                cause,
                count(recovery.lost_iterations),
                format_seconds(recovery.end.saturating_sub(recovery.start).as_seconds()),
            ];
            let time = recovery.time;
            row.extend(
                [time.detect, time.plan, time.connect, time.fetch].map(|part| format_seconds(part.as_seconds())),
            );
            row.extend([fetched.own_memory, fetched.own_disk, fetched.peers, fetched.object_store].map(format_bytes));
            rows.push(row);
        }
    }
    Section::new(
        "Recoveries",
        "When training stopped and why, what the time went into, and where state came from: at most a hundred of each policy; \
         recoveries.csv has all.",
    )
    .with_table(&columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn a_replay_is_one_page() {
        let replay = fixture::small();
        let page = replay_html(&ReplayPage {
            trace: "a&b",
            model: "gpt3-1.3b",
            replay: &replay,
            tokens_per_iteration: 1000,
            iteration: None,
            scenario: "model = \"gpt3-1.3b\"",
        });
        for part in [
            "a&amp;b",
            "<svg",
            "restart",
            "Where the GPU time went",
            "title=\"restart, useful: ",
            "object store",
            "saved by spot",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(page.len() < 200_000, "{}", page.len());
    }
}
