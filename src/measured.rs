//! Training runs that other people measured: read, described as plans on clusters, and put beside what the simulator says.
//!
//! Two formats are known, told apart by content: a table of runs ([`Dataset`] lists its columns), and the plans with
//! measurements that Sailor (SOSP'25) publishes. Whatever the format, a run becomes a [`MeasuredRun`]: a model, a cluster
//! and a [`Plan`](crate::plan::Plan) of this project, executed by its own simulator. Nothing of a prediction knows where the
//! run came from.

mod accuracy;
mod dataset;
mod error;
mod gpus;
mod layout;
mod pipelines;
mod predict;
mod run;
mod statistics;
mod table;

pub use accuracy::{Accuracy, SkippedRun, SourceAccuracy};
pub use dataset::Dataset;
pub use error::MeasuredError;
pub use predict::{Predictor, Record};
pub use run::{MeasuredRun, MemoryScope, Quantity, Reading, Skip};
pub use statistics::Errors;
