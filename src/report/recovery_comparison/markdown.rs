//! The results' `README.md`: ratios beside the paper's, why they differ, and every case.

use super::{COLUMNS, LostState, PAPER, RecoveryCase, RecoveryComparison, row, spread};
use crate::report::figures::percent;
use std::fmt::Write as _;

const NEVER: &str = "writing to a string doesn't fail";

/// The results as Markdown.
pub fn recovery_markdown(comparison: &RecoveryComparison) -> String {
    let mut text = format!(
        "# Recovery: AutoHet and Varuna, on this simulator\n\n\
         Written by `autohet-sim reproduce recovery`. `recovery.csv` has every figure, `recovery.svg` is the plot.\n\n\
         ![How many times as long Varuna stands still](recovery.svg)\n\n\
         Each case is a replay under both policies: a cluster trains, takes a checkpoint after ten minutes, and loses nodes later,\n\
         which equal, empty ones replace at once. What is lost is one node (*all local*: every layer is also in the memory of nodes\n\
         that are left), all nodes that hold the last layers in AutoHet's plan (*some local*), or all nodes (*none local*).\n\n\
         ## Beside the paper\n\n\
         AutoHet (arXiv 2512.20953) reports recovery {:.2} to {:.2} times as fast as Varuna's. What it counts as recovery isn't\n\
         known, so here are three: moving the state, all of the stop (noticing, planning, connecting, moving), and the stop with the\n\
         iterations that are done again.\n\n\
         | lost state | from near | moving state: least, median, most | stop | stop and iterations done again |\n\
         |---|---|---|---|---|\n",
        PAPER[0], PAPER[1]
    );
    for lost in LostState::ALL {
        let cases: Vec<&RecoveryCase> = comparison.cases.iter().filter(|case| case.lost_state == lost).collect();
        let near = spread(cases.iter().map(|case| case.local_share()).collect());
        writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            lost.title(),
            near.map_or_else(String::new, |[_, median, _]| percent(median)),
            three(cases.iter().filter_map(|case| case.fetch_ratio()).collect()),
            three(cases.iter().map(|case| case.stop_ratio()).collect()),
            three(cases.iter().map(|case| case.whole_ratio()).collect()),
        )
        .expect(NEVER);
    }
    text.push_str("\n## Where it differs, and why\n\n");
    for lost in LostState::ALL {
        let cases: Vec<&RecoveryCase> = comparison.cases.iter().filter(|case| case.lost_state == lost).collect();
        if let Some(why) = difference(lost, &cases) {
            writeln!(text, "- {why}").expect(NEVER);
        }
    }
    text.push_str(COMMON_CAUSES);
    text.push_str("\n## All cases\n\nSeconds of standing still, and ratios as above.\n\n");
    writeln!(text, "| {} |\n|{}", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len())).expect(NEVER);
    for case in &comparison.cases {
        writeln!(text, "| {} |", row(case).join(" | ")).expect(NEVER);
    }
    text
}

/// What is true of all cases.
const COMMON_CAUSES: &str = "\
- Noticing, planning and connecting are constants of `[reconfiguration]`, the same for both: they make ratios of the stop smaller\n  \
  than those of moving state. They were measured by others on clusters of 1 to 16 nodes, not chosen for this.\n\
- Varuna is at its best here: it moves only what each node needs, every node over its own way to the object store at the rate\n  \
  measured for S3 within a region, without a limit over all nodes. A store that many nodes share, or another region's, makes every\n  \
  ratio larger.\n\
- How long ago the last checkpoint was decides how much Varuna does again, and with it the last column: here five to seven\n  \
  minutes, in every case alike.\n";

fn three(values: Vec<f64>) -> String {
    spread(values).map_or_else(|| "-".to_owned(), |found| found.map(|ratio| format!("{ratio:.2}")).join(", "))
}

/// What separates the ratios of the stop from the paper's range, from the figures at hand.
fn difference(lost: LostState, cases: &[&RecoveryCase]) -> Option<String> {
    let [least, median, most] = spread(cases.iter().map(|case| case.stop_ratio()).collect())?;
    let extreme = cases.iter().max_by(|a, b| a.stop_ratio().total_cmp(&b.stop_ratio()))?;
    let within = cases.iter().filter(|case| (PAPER[0]..=PAPER[1]).contains(&case.stop_ratio())).count();
    let found = format!(
        "{}: {within} of {} cases are within the paper's range; the stop is {least:.2} to {most:.2} times as long under Varuna, \
         {median:.2} in the median, most for {} on {} at {} Gbit/s, where it moves state for {:.0} s and AutoHet for {:.0} s.",
        lost.title(),
        cases.len(),
        extreme.model,
        extreme.cluster,
        extreme.nic_gbit_per_s,
        extreme.varuna.fetch_s,
        extreme.autohet.fetch_s
    );
    let single = cases.iter().filter(|case| case.autohet.lost_iterations > 0).count();
    let single = match single {
        0 => String::new(),
        count => format!(
            " In {count} of them all copies of a stage were on the lost nodes (the plan has a single replica, or its replicas share \
             nodes): they are all local by name only, and go back to the checkpoint."
        ),
    };
    let why = match lost {
        LostState::AllLocal => {
            format!(
                "Here AutoHet moves what the new node lacks over the nodes' interfaces, so that the ratio grows with them and with the \
                 model, and iterations aren't lost.{single}"
            )
        }
        LostState::SomeLocal => {
            "Here AutoHet goes back to the checkpoint too: survivors read their own disks, at 1 GB/s, which is slower than the way to \
             the object store that Varuna takes. Near isn't fast by itself; a disk of local NVMe (`disk_bytes_per_s`) changes this."
                .to_owned()
        }
        LostState::NoneLocal => {
            "Here both read everything from the object store, and what differs are their plans: how evenly state is spread over nodes, \
             and how many copies of it are read."
                .to_owned()
        }
    };
    Some(format!("{found} {why}"))
}
