//! What each policy made of the trace, side by side.

use super::Screen;
use super::grid::{Best, Grid};
use crate::metrics::Activity;
use crate::replay::{PolicyOutcome, Replay};
use crate::report::figures::{count, figure, percent, scaled};
use crate::report::summary::PolicySummary;
use crate::units::format_seconds;

/// The short table of a replay: one column a policy.
pub fn policy_table(replay: &Replay, screen: Screen) -> String {
    let span_s = replay.span.as_seconds();
    let summaries: Vec<_> = replay.policies.iter().map(|outcome| PolicySummary::new(outcome, span_s)).collect();
    let of = |figure: &dyn Fn(&PolicySummary) -> Option<f64>| summaries.iter().map(figure).collect::<Vec<_>>();
    let whole = |value: f64| count(value as u64);
    let mut grid = Grid {
        corner: "policy",
        names: replay.policies.iter().map(|outcome| outcome.policy.to_owned()).collect(),
        rows: Vec::new(),
    };
    grid.row("iterations", Best::Highest, &of(&|s| Some(s.iterations as f64)), whole);
    grid.row("tokens", Best::Highest, &of(&|s| Some(s.tokens as f64)), scaled);
    grid.row("mean tokens/s", Best::Highest, &of(&|s| s.tokens_per_s), figure);
    grid.row("goodput share", Best::Highest, &of(&|s| s.goodput_share), percent);
    grid.text_row("lost work, GPU-hours", replay.policies.iter().map(lost_work).collect());
    grid.row("iterations rolled back", Best::Lowest, &of(&|s| Some(s.lost_iterations as f64)), whole);
    grid.row("recoveries", Best::Neither, &of(&|s| Some(s.recoveries as f64)), whole);
    grid.row("mean time of recovery", Best::Lowest, &of(&|s| s.recovery_s_mean), format_seconds);
    grid.row("GPU-hours paid", Best::Neither, &of(&|s| Some(s.paid_gpu_s / 3600.0)), figure);
    grid.row("USD", Best::Lowest, &of(&|s| Some(s.total_usd)), figure);
    let other = [
        ("of it storage", of(&|s| Some(s.storage_usd))),
        ("of it reads of the store", of(&|s| Some(s.egress_usd))),
        ("of it traffic between zones", of(&|s| Some(s.cross_zone_usd))),
    ];
    for (name, usd) in other {
        if usd.iter().flatten().any(|usd| *usd > 0.0) {
            grid.row(name, Best::Lowest, &usd, figure);
        }
    }
    grid.row("USD per million tokens", Best::Lowest, &of(&|s| s.usd_per_million_tokens), figure);
    grid.render(screen)
}

fn lost_work(outcome: &PolicyOutcome) -> String {
    let lost = outcome.ledger.get(Activity::LostWork).as_gpu_seconds();
    let share = lost / outcome.ledger.total().as_gpu_seconds();
    let share = if share.is_finite() { format!(" ({})", percent(share)) } else { String::new() };
    format!("{}{share}", figure(lost / 3600.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn policies_stand_side_by_side() {
        insta::assert_snapshot!(policy_table(&fixture::small(), Screen::PLAIN), @r"
        ──────────────────────────────────────────────────────
         policy                           autohet     restart
        ──────────────────────────────────────────────────────
         iterations                             7           4
         tokens                             229 k       131 k
         mean tokens/s                      2,294       1,311
         goodput share                     50.0 %      16.7 %
         lost work, GPU-hours     0.02222 (7.4 %)   0 (0.0 %)
         iterations rolled back                 1           0
         recoveries                             2           1
         mean time of recovery             7.50 s     55.00 s
         GPU-hours paid                    0.3000      0.3000
         USD                               0.9000      0.9000
         USD per million tokens             3.924       6.866
        ──────────────────────────────────────────────────────
        ");
    }

    #[test]
    fn nothing_done_is_a_dash() {
        let table = policy_table(&fixture::idle(), Screen::PLAIN);
        assert!(
            table.lines().any(|line| line.trim_start().starts_with("mean time of recovery") && line.ends_with(" -"))
        );
        assert!(!table.contains("NaN"), "{table}");
    }

    #[test]
    fn many_policies_wrap_into_blocks_and_never_overflow() {
        let mut replay = fixture::small();
        let template = replay.policies[0].clone();
        replay.policies.extend(std::iter::repeat_n(template, 5));
        for width in [40, 60, 80, 120, 200] {
            let table = policy_table(&replay, Screen { width, is_styled: false });
            let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width), "{widest} columns in {width}:\n{table}");
        }
        assert_eq!(
            policy_table(&replay, Screen { width: 200, is_styled: false }).matches("iterations rolled").count(),
            1
        );
    }

    #[test]
    fn style_is_used_only_where_it_is_understood() {
        assert!(!policy_table(&fixture::small(), Screen::PLAIN).contains('\u{1b}'));
        assert!(policy_table(&fixture::small(), Screen { width: 80, is_styled: true }).contains('\u{1b}'));
    }
}
