//! The results' `README.md`: every case, the ratios beside the paper's, and why they differ.

use super::{Family, PAPER_OVER_BOTH, RIVALS, ReproducedCase, Reproduction, by_family};
use crate::report::figures::{figure, or_absent, percent};
use std::fmt::Write as _;

const NEVER: &str = "writing to a string doesn't fail";
/// Ratios that differ by less are called the same.
const SAME: f64 = 0.05;

/// The results as Markdown.
pub fn reproduction_markdown(reproduction: &Reproduction) -> String {
    let mut text = String::from(
        "# AutoHet's comparison, on this simulator\n\n\
         Written by `autohet-sim reproduce paper`. `ratios.csv` has the plans of all planners, `ratios.svg` is the figure.\n\n\
         ![Throughput of AutoHet's plans over Megatron-LM's and Whale's](ratios.svg)\n\n\
         ## Beside the paper\n\n\
         AutoHet (arXiv 2512.20953) reports throughput on a testbed, as \"up to\" so many times that of Megatron-LM, by model,\n\
         and of Megatron-LM and Whale, over all. Here are simulated iterations of mixes of the same kind.\n\n\
         | model | over Megatron-LM: paper | here, up to | here, median | over Whale: paper | here, up to | here, median |\n\
         |---|---|---|---|---|---|---|\n",
    );
    let families = by_family(reproduction);
    for (family, cases) in &families {
        let [megatron, whale] = RIVALS.map(|(planner, _)| sorted(cases, planner));
        writeln!(
            text,
            "| {} | up to {:.2} | {} | {} | up to {PAPER_OVER_BOTH:.2} | {} | {} |",
            family.name,
            family.paper,
            times(megatron.last().copied()),
            times(median(&megatron)),
            times(whale.last().copied()),
            times(median(&whale))
        )
        .expect(NEVER);
    }
    text.push_str("\n## Where it differs, and why\n\n");
    for (family, cases) in &families {
        writeln!(text, "- {}", difference(*family, cases)).expect(NEVER);
    }
    text.push_str(COMMON_CAUSES);
    text.push_str(&all_cases(reproduction));
    text
}

/// What is true of all cases.
const COMMON_CAUSES: &str = "\
- Both rivals are at their best here: each searches all of its space (degrees, micro batch sizes, recomputation, GPU types\n  \
  that it would rather leave idle), is judged by the simulator, and runs the best of that. What the paper's authors let\n  \
  theirs search isn't known. That makes ratios here smaller.\n\
- Whale's published balancing is on equal terms with AutoHet's where all replicas can be of one shape, so that it loses only\n  \
  what whole layers and uneven counts cost it.\n\
- Nothing is measured: layer times are a roofline's, those of H800, H20 and RTX 3090 from datasheets. A type that in practice is\n  \
  farther from its datasheet than the others changes every ratio.\n\
- Batch, number format, network, memory sizes and which mixes were tried aren't known of the paper's testbed. What was assumed\n  \
  stands in each scenario, and none was chosen for its result.\n";

/// What separates a family's ratio over Megatron-LM from the paper's, from the figures at hand.
fn difference(family: Family, cases: &[&ReproducedCase]) -> String {
    let ratio = |case: &&&ReproducedCase| case.ratio_to("megatron").unwrap_or(0.0);
    let Some(best) = cases.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b))) else { return String::new() };
    let (most, room) = (ratio(&best), cases.iter().map(|case| case.uneven_power).fold(1.0, f64::max));
    let (name, paper) = (family.name, family.paper);
    let of = |planner: &str| match best.plans.iter().find(|plan| plan.planner == planner) {
        Some(plan) => format!("{} GPUs, {}", plan.gpus_in_use, plan.shape),
        None => "nothing".to_owned(),
    };
    let most_of = format!(
        "{name}: up to {most:.2} over Megatron-LM, the paper has up to {paper:.2}. It is {} on {}, where Megatron-LM's best grid is \
         {}, and AutoHet's plan {}.",
        best.model,
        best.cluster,
        of("megatron"),
        of("autohet")
    );
    let why = if (most / paper - 1.0).abs() < SAME {
        "The same to within 5 %, though on mixes that needn't be the paper's.".to_owned()
    } else if most > paper {
        format!(
            "More: in that case all GPUs together have {:.2} times the power that equal loads can use. What Megatron-LM loses \
             beyond it is what its grid has to do to fit memory with equal stages, that divide the layers, and equal replicas, \
             that divide the batch.",
            best.uneven_power
        )
    } else if room < paper {
        format!(
            "Less: in none of the mixes here do all GPUs together have more than {room:.2} times the power that equal loads \
             can use, by the layer times of this cost model. A larger ratio needs a mix more uneven than these, or a \
             Megatron-LM that is not at its best."
        )
    } else {
        format!(
            "Less, though a mix here has {room:.2} times the power that equal loads can use: Megatron-LM finds a grid that \
             comes near to AutoHet's plan, or transfers and gradient synchronisation, which all pay, are a larger part."
        )
    };
    format!("{most_of} {why}")
}

fn all_cases(reproduction: &Reproduction) -> String {
    let mut text = String::from(
        "\n## All cases\n\n\
         Iterations in seconds. *Uneven power*: all GPUs' layers per second over the most that some of the types have at the pace\n\
         of the slowest among them, which is what equal loads can use.\n\n\
         | model | GPUs | AutoHet tokens/s | over Megatron-LM | over Whale | uneven power |",
    );
    let others: Vec<&str> = reproduction.cases.first().map_or(Vec::new(), |case| {
        let names = case.plans.iter().map(|plan| plan.planner.as_str());
        names.filter(|name| *name != "autohet" && !RIVALS.iter().any(|(rival, _)| rival == name)).collect()
    });
    for other in &others {
        write!(text, " over {other} |").expect(NEVER);
    }
    writeln!(text, "\n|---|---|---|---|---|---|{}", "---|".repeat(others.len())).expect(NEVER);
    for case in &reproduction.cases {
        let tokens = case.tokens_per_s().map_or_else(|| "-".to_owned(), figure);
        let [megatron, whale] = RIVALS.map(|(planner, _)| times(case.ratio_to(planner)));
        let power = case.uneven_power;
        write!(text, "| {} | {} | {tokens} | {megatron} | {whale} | {power:.2} |", case.model, case.cluster)
            .expect(NEVER);
        for other in &others {
            write!(text, " {} |", times(case.ratio_to(other))).expect(NEVER);
        }
        text.push('\n');
    }
    text.push_str("\n## AutoHet's plans\n\n");
    text.push_str(&gaps(&reproduction.cases));
    text.push_str("| model | GPUs | plan: replicas x (GPU type:layers > next stage) | gap |\n|---|---|---|---|\n");
    for case in &reproduction.cases {
        let shape = case.plans.iter().find(|plan| plan.planner == "autohet").map_or("-", |plan| plan.shape.as_str());
        let gap = or_absent(case.gap(), percent);
        writeln!(text, "| {} | {} | {shape} | {gap} |", case.model, case.cluster).expect(NEVER);
    }
    text
}

/// What the gaps to the bound come to.
fn gaps(cases: &[ReproducedCase]) -> String {
    let mut gaps: Vec<f64> = cases.iter().filter_map(ReproducedCase::gap).collect();
    gaps.sort_by(f64::total_cmp);
    let at_rank = |share: f64| gaps.get(((share * gaps.len() as f64).ceil() as usize).saturating_sub(1)).copied();
    let (Some(p95), Some(middle)) = (at_rank(0.95), median(&gaps)) else { return String::new() };
    let most = gaps.last().copied();
    format!(
        "The *gap* is how much longer an iteration takes than the proven bound for plans of one tensor-parallel degree; a plan that\n\
         mixes degrees may be below it. Median {}, 95th percentile {}, largest {}.\n\n",
        percent(middle),
        percent(p95),
        or_absent(most, percent)
    )
}

fn sorted(cases: &[&ReproducedCase], planner: &str) -> Vec<f64> {
    let mut ratios: Vec<f64> = cases.iter().filter_map(|case| case.ratio_to(planner)).collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}
