//! AutoHet's comparison with Varuna after a loss (arXiv 2512.20953), repeated on the simulated controller.

mod chart;
mod markdown;

pub use chart::recovery_svg;
pub use markdown::recovery_markdown;

use super::figures::ABSENT;
use super::{Screen, table::ratio_table};
use serde::Serialize;
use std::fmt::Write as _;

/// What the paper reports: recovery so many times as fast as Varuna's.
pub(super) const PAPER: [f64; 2] = [1.49, 4.38];

/// Where the state is that was lost with nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LostState {
    /// All of it also in the memory of nodes that are left.
    AllLocal,
    /// Some of it on nodes that are left.
    SomeLocal,
    /// None: no node is left.
    NoneLocal,
}

impl LostState {
    /// All of them, from near to far.
    pub const ALL: [Self; 3] = [Self::AllLocal, Self::SomeLocal, Self::NoneLocal];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::AllLocal => "all local",
            Self::SomeLocal => "some local",
            Self::NoneLocal => "none local",
        }
    }
}

/// All cases.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecoveryComparison {
    /// In the order of what was lost, of models, clusters and links.
    pub cases: Vec<RecoveryCase>,
}

/// A model on a cluster that loses nodes, which are replaced at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecoveryCase {
    /// The model.
    pub model: String,
    /// The nodes, in the mix notation.
    pub cluster: String,
    /// Bandwidth of their interfaces.
    pub nic_gbit_per_s: f64,
    /// Where the lost state is.
    pub lost_state: LostState,
    /// Nodes that were lost.
    pub nodes_lost: usize,
    /// How AutoHet's policy recovered.
    pub autohet: Recovered,
    /// How Varuna's did.
    pub varuna: Recovered,
}

/// One policy's recovery from one loss.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recovered {
    /// Until the loss is noticed.
    pub detect_s: f64,
    /// Planning.
    pub plan_s: f64,
    /// Rendezvous and communicators.
    pub connect_s: f64,
    /// Until the last rank has its state.
    pub fetch_s: f64,
    /// Iterations that are done again.
    pub lost_iterations: u64,
    /// Seconds of one of them.
    pub iteration_s: f64,
    /// Bytes that were already where they are needed, or on that node's disk.
    pub own_bytes: u64,
    /// Bytes from other nodes.
    pub peer_bytes: u64,
    /// Bytes from the object store.
    pub object_store_bytes: u64,
}

impl Recovered {
    /// From the loss until training goes on.
    pub fn stop_s(&self) -> f64 {
        self.detect_s + self.plan_s + self.connect_s + self.fetch_s
    }

    /// From the loss until training is as far as it was.
    pub fn whole_s(&self) -> f64 {
        self.stop_s() + self.lost_iterations as f64 * self.iteration_s
    }
}

impl RecoveryCase {
    /// How many times as long Varuna's state is under way; `None` where AutoHet's isn't at all.
    pub fn fetch_ratio(&self) -> Option<f64> {
        (self.autohet.fetch_s > 0.0).then(|| self.varuna.fetch_s / self.autohet.fetch_s)
    }

    /// How many times as long Varuna stands still.
    pub fn stop_ratio(&self) -> f64 {
        self.varuna.stop_s() / self.autohet.stop_s()
    }

    /// The same until both are as far as they were.
    pub fn whole_ratio(&self) -> f64 {
        self.varuna.whole_s() / self.autohet.whole_s()
    }

    /// Share of the state that AutoHet didn't read from the object store.
    pub fn local_share(&self) -> f64 {
        let Recovered { own_bytes, peer_bytes, object_store_bytes, .. } = self.autohet;
        let near = (own_bytes + peer_bytes) as f64;
        near / (near + object_store_bytes as f64).max(1.0)
    }
}

/// Figures as people read them: seconds to a tenth, ratios to a hundredth.
pub(super) fn row(case: &RecoveryCase) -> [String; 9] {
    let times = |ratio: f64| format!("{ratio:.2}");
    [
        case.lost_state.title().to_owned(),
        case.model.clone(),
        case.cluster.clone(),
        format!("{}", case.nic_gbit_per_s),
        format!("{:.1}", case.autohet.stop_s()),
        format!("{:.1}", case.varuna.stop_s()),
        case.fetch_ratio().map_or_else(|| ABSENT.to_owned(), times),
        times(case.stop_ratio()),
        times(case.whole_ratio()),
    ]
}

/// What the columns of [`row`] are.
pub(super) const COLUMNS: [&str; 9] =
    ["lost state", "model", "cluster", "Gbit/s", "autohet s", "varuna s", "fetch", "stop", "whole"];

/// The table for the screen.
pub fn recovery_table(comparison: &RecoveryComparison, screen: Screen) -> String {
    /// Of names and figures side by side.
    const WIDE: u16 = 104;
    let mut text = String::new();
    if screen.width >= WIDE {
        let rows: Vec<Vec<String>> = comparison.cases.iter().map(|case| row(case).to_vec()).collect();
        text = ratio_table(&COLUMNS, &rows, screen);
    } else {
        // A table for each job, whose names would leave no room for figures.
        let mut jobs: Vec<[String; 2]> = Vec::new();
        let job = |case: &RecoveryCase| [case.model.clone(), case.cluster.clone()];
        for job in comparison.cases.iter().map(job) {
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
        let kept = |cells: &[String; 9]| [&cells[..1], &cells[3..]].concat();
        let columns = kept(&COLUMNS.map(str::to_owned));
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        for [model, cluster] in &jobs {
            let cases = comparison.cases.iter().filter(|case| case.model == *model && case.cluster == *cluster);
            let rows: Vec<Vec<String>> = cases.map(|case| kept(&row(case))).collect();
            text = text + &format!("{model} on {cluster}\n") + &ratio_table(&columns, &rows, screen) + "\n";
        }
    }
    text.push_str(
        "seconds of standing still; ratios varuna / autohet: moving state,\n\
         standing still, standing still and iterations done again\n",
    );
    text
}

/// Every figure, a row for each case and policy.
pub fn recovery_csv(comparison: &RecoveryComparison) -> String {
    let mut text = String::from(
        "lost_state,model,cluster,nic_gbit_per_s,nodes_lost,policy,detect_s,plan_s,connect_s,fetch_s,stop_s,lost_iterations,\
         iteration_s,whole_s,own_bytes,peer_bytes,object_store_bytes\n",
    );
    for case in &comparison.cases {
        for (policy, found) in [("autohet", &case.autohet), ("varuna", &case.varuna)] {
            writeln!(
                text,
                "{},{},{},{},{},{policy},{},{},{},{},{},{},{},{},{},{},{}",
                case.lost_state.title().replace(' ', "_"),
                case.model,
                case.cluster,
                case.nic_gbit_per_s,
                case.nodes_lost,
                found.detect_s,
                found.plan_s,
                found.connect_s,
                found.fetch_s,
                found.stop_s(),
                found.lost_iterations,
                found.iteration_s,
                found.whole_s(),
                found.own_bytes,
                found.peer_bytes,
                found.object_store_bytes
            )
            .expect("writing to a string doesn't fail");
        }
    }
    text
}

/// The least, the median and the most; `None` of none.
pub(super) fn spread(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    Some([*values.first()?, values[values.len() / 2], *values.last()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn comparison() -> RecoveryComparison {
        let recovered = |fetch_s, lost_iterations| Recovered {
            detect_s: 10.0,
            plan_s: 2.0,
            connect_s: 38.0,
            fetch_s,
            lost_iterations,
            iteration_s: 5.0,
            own_bytes: 60,
            peer_bytes: 20,
            object_store_bytes: 20,
        };
        let case = |lost_state, near_s| RecoveryCase {
            model: "gpt3-6.7b".to_owned(),
            cluster: "8x1xA100-80".to_owned(),
            nic_gbit_per_s: 100.0,
            lost_state,
            nodes_lost: 1,
            autohet: recovered(near_s, 0),
            varuna: recovered(50.0, 10),
        };
        let cases = LostState::ALL.into_iter().zip([0.0, 25.0, 50.0]);
        RecoveryComparison { cases: cases.map(|(lost, near_s)| case(lost, near_s)).collect() }
    }

    #[test]
    fn ratios_by_hand() {
        let [near, some, far] = &comparison().cases[..] else { panic!("three cases") };
        assert_eq!((near.fetch_ratio(), some.fetch_ratio(), far.fetch_ratio()), (None, Some(2.0), Some(1.0)));
        approx::assert_relative_eq!(near.stop_ratio(), 100.0 / 50.0);
        approx::assert_relative_eq!(far.whole_ratio(), 150.0 / 100.0);
        approx::assert_relative_eq!(some.local_share(), 0.8);
        assert_eq!(spread(vec![3.0, 1.0, 2.0]), Some([1.0, 2.0, 3.0]));
        assert_eq!(spread(Vec::new()), None);
    }

    #[test]
    fn every_case_is_in_every_form() {
        let comparison = comparison();
        assert_eq!(recovery_csv(&comparison).lines().count(), 1 + 2 * 3);
        let columns: Vec<usize> = recovery_csv(&comparison).lines().map(|line| line.split(',').count()).collect();
        assert!(columns.iter().all(|count| *count == columns[0]));
        assert!(recovery_table(&comparison, Screen::PLAIN).lines().all(|line| line.chars().count() <= 80));
        let markdown = recovery_markdown(&comparison);
        assert!(LostState::ALL.iter().all(|lost| markdown.contains(lost.title())));
        assert!(recovery_svg(&comparison).contains("</svg>"));
    }
}
