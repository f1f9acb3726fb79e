//! What was paid for, in a page of a replay.

use super::Section;
use crate::replay::{PolicyOutcome, Replay, Spending};
use crate::report::figures::{figure, or_absent, percent, ratio};
use std::collections::BTreeMap;

/// What each policy paid for, and what the same GPU time would have cost on demand.
pub(super) fn costs(replay: &Replay) -> Section {
    let columns = [
        "policy",
        "GPUs",
        "storage",
        "egress",
        "between zones",
        "all, USD",
        "USD per 10^6 tokens",
        "GPUs on demand",
        "saved by spot",
    ];
    let row = |outcome: &PolicyOutcome| {
        let other = outcome.other;
        let on_demand: f64 = outcome.spending.iter().map(|spent| spent.on_demand.as_usd()).sum();
        let saved = ratio(outcome.usd, on_demand).map(|share| 1.0 - share);
        let usd = [outcome.usd, other.storage.usd, other.egress.usd, other.cross_zone.usd, outcome.total_usd()];
        let mut cells = vec![outcome.policy.to_owned()];
        cells.extend(usd.map(figure));
        cells.push(or_absent(ratio(outcome.total_usd(), outcome.tokens as f64 / 1e6), figure));
        cells.push(figure(on_demand));
        cells.push(or_absent(saved, percent));
        cells
    };
    let note = "In USD. Storage, egress and traffic between zones cost nothing where no price is given for them.";
    Section::new("Cost", note).with_table(&columns, replay.policies.iter().map(row).collect())
}

/// GPU time and money by type and zone, once for policies that paid for the same nodes.
pub(super) fn paid_gpus(replay: &Replay) -> Section {
    let mut payers: Vec<(Vec<&str>, &[Spending])> = Vec::new();
    for outcome in replay.policies.iter().filter(|outcome| !outcome.spending.is_empty()) {
        match payers.iter_mut().find(|(_, spending)| *spending == outcome.spending) {
            Some((names, _)) => names.push(outcome.policy),
            None => payers.push((vec![outcome.policy], &outcome.spending)),
        }
    }
    let mut rows = Vec::new();
    for (names, spending) in payers {
        let mut sums: BTreeMap<(&str, &str), [f64; 3]> = BTreeMap::new();
        for spent in spending {
            let sum = sums.entry((&spent.gpu_type, &spent.zone)).or_default();
            let parts = [spent.time.as_gpu_seconds() / 3600.0, spent.expense.as_usd(), spent.on_demand.as_usd()];
            sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        for ((gpu_type, zone), [hours, usd, on_demand]) in sums {
            let price = |usd: f64| or_absent(ratio(usd, hours), figure);
            let place = [gpu_type, zone].map(str::to_owned);
            let figures = [figure(hours), figure(usd), price(usd), price(on_demand)];
            rows.push([vec![names.join(", ")], place.to_vec(), figures.to_vec()].concat());
        }
    }
    let columns =
        ["paid by", "GPU type", "zone", "GPU-hours", "USD", "USD per GPU-hour", "on demand, USD per GPU-hour"];
    Section::new("GPUs paid for", "Whether a plan used them or not; means over time.").with_table(&columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn policies_that_paid_for_the_same_are_named_together() {
        let mut replay = fixture::small();
        replay.policies[1].spending = replay.policies[0].spending.clone();
        let paid = paid_gpus(&replay);
        assert_eq!(paid.rows, [["autohet, restart", "A100-80", "z", "0.2500", "0.5000", "2.000", "4.000"]]);
        let costs = costs(&replay);
        assert_eq!(costs.rows[0][1..6], ["0.9000", "0", "0", "0", "0.9000"]);
        assert_eq!(costs.rows[0][7..], ["1.000", "10.0 %"]);
    }
}
