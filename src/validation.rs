//! Prediction against measurement: profiles this machine, predicts an iteration with the simulator, and puts it beside what
//! was measured when the same plan ran for real.

mod compare;
mod links;
mod machine;
mod measure;
mod predict;
mod statistics;
mod worlds;

pub use compare::{CheckReport, Judged, OperationRow, Quantity, Row, compare};
pub use links::{Linked, measure_links, unhindered};
pub use machine::Machine;
pub use measure::{ProfileRequest, StageKind, measure_profile, median_profile};
pub use predict::{Host, Prediction, RankConditions, predict, with_host_links};
pub use worlds::{Lived, Recovered, Witness, WorldQuantity, WorldRow, compare_worlds};

use crate::runtime::sim::SimError;
use crate::training::TrainingError;

/// Why something can't be predicted or measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValidationError {
    /// Measuring failed.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// There is no prediction.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The model is too small to be cut.
    #[error(
        "`{model}` has {layers} layer, links are measured between two stages\nhint: profile a model of two layers or more"
    )]
    TooFewLayers {
        /// The model.
        model: String,
        /// Its layers.
        layers: u32,
    },
}
