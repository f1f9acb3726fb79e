//! Plans beside those of a peer, by the peer's judge.

use super::records::Records;
use super::rented::shape;
use super::table::Screen;
use super::table::peer_rows;
use crate::plan::PlannedIteration;
use std::fmt::Write as _;

/// A setting with our plan and the peer's figure.
#[derive(Clone, Debug)]
pub struct PeerRow<'a> {
    /// Name of the setting.
    pub setting: &'a str,
    /// Iterations a second of the peer's plan.
    pub peer_per_s: f64,
    /// Our plan, by the same judge.
    pub planned: PlannedIteration,
}

impl PeerRow<'_> {
    /// Iterations a second of our plan.
    pub fn per_s(&self) -> f64 {
        1.0 / self.planned.predicted_iteration_s
    }

    /// Whether our plan is at least as fast, to the four digits of the peer's figure.
    pub fn is_met(&self) -> bool {
        self.per_s() >= self.peer_per_s - 0.5e-4
    }
}

/// The settings as CSV.
pub fn peer_csv(rows: &[PeerRow<'_>]) -> String {
    let mut text = "setting,peer_iterations_per_s,iterations_per_s,ratio,gpus,micro_batch_size,plan\n".to_owned();
    for row in rows {
        let plan = &row.planned.plan;
        let (setting, peer, ours) = (row.setting, row.peer_per_s, row.per_s());
        let (gpus, size, shape) = (plan.world_size(), plan.micro_batch_size, shape(plan));
        writeln!(text, "{setting},{peer:.4},{ours:.5},{:.3},{gpus},{size},\"{shape}\"", ours / peer)
            .expect("writing to a string doesn't fail");
    }
    text
}

/// The same as records.
pub fn peer_records(rows: &[PeerRow<'_>]) -> Records {
    let columns = [
        ("setting", "setting"),
        ("peer_iterations_per_s", "peer's\niterations/s"),
        ("iterations_per_s", "iterations/s"),
        ("ratio", "ratio"),
        ("gpus", "GPUs"),
        ("plan", "plan"),
    ];
    let mut records = Records::new(&columns);
    for row in rows {
        let plan = &row.planned.plan;
        let ratio = row.per_s() / row.peer_per_s;
        let figures = [row.peer_per_s, row.per_s(), ratio].map(super::sweep::rounded);
        let rest = [plan.world_size().into(), shape(plan).into()];
        records.push(std::iter::once(row.setting.into()).chain(figures).chain(rest).collect());
    }
    records
}

/// The settings as a table.
pub fn peer_table(rows: &[PeerRow<'_>], screen: Screen) -> String {
    let cells = rows.iter().map(|row| {
        let plan = &row.planned.plan;
        [
            row.setting.to_owned(),
            format!("{:.4}", row.peer_per_s),
            format!("{:.5}", row.per_s()),
            format!("{:.3}", row.per_s() / row.peer_per_s),
            plan.world_size().to_string(),
            plan.micro_batch_size.to_string(),
            shape(plan),
        ]
    });
    peer_rows(cells, screen)
}
