//! Measured layer times, which replace the estimate where they are given.

mod blocks;
mod error;
mod file;
mod gather;
mod sailor;

pub use blocks::{BlockMemory, MeasuredBlock};
pub use error::ProfileError;
pub use file::{Measured, MeasuredLinks, ProfileEntry, ProfileFile};
pub use sailor::model_of_sailor;

use crate::ids::LayerId;
use crate::model::{Block, Execution, Precision};

/// Version of the profile's JSON schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Measured times of one model's blocks, by GPU type, tensor-parallel degree and micro-batch size.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerProfile {
    model: String,
    curves: Vec<Curve>,
    links: Option<MeasuredLinks>,
    is_whole: bool,
}

/// The measurements of one GPU type, precision and tensor-parallel degree, by micro-batch size.
#[derive(Clone, Debug, PartialEq)]
struct Curve {
    gpu: String,
    precision: Precision,
    tensor_parallel_size: u32,
    /// Ascending in the micro-batch size, each size once.
    points: Vec<(u32, ProfileEntry)>,
}

/// What is asked of a profile.
#[derive(Clone, Copy, Debug)]
pub struct ProfileQuery<'a> {
    /// Canonical name of the GPU type.
    pub gpu: &'a str,
    /// Number format.
    pub precision: Precision,
    /// Tensor-parallel degree.
    pub tensor_parallel_size: u32,
    /// Samples per micro batch.
    pub micro_batch_size: u32,
}

impl LayerProfile {
    /// Name of the model that was measured.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The same profile of a model that is no more than what was measured: nothing is added to it, such as a projection where
    /// its last block is the final norm alone.
    #[must_use]
    pub fn of_whole_model(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Whether the model is no more than what was measured.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The same profile, if it measures this model.
    pub fn for_model(self, model: &str) -> Result<Self, ProfileError> {
        if self.model == model {
            return Ok(self);
        }
        Err(ProfileError::OtherModel { profile: self.model, model: model.to_owned() })
    }

    /// Measured forward and backward seconds of `block`, between measured micro-batch sizes by linear interpolation.
    ///
    /// `None` where the profile doesn't measure the GPU type in any precision, or the block on it: the estimate serves
    /// then. An error where the type is measured, but not at this degree and precision or not around this micro-batch
    /// size: nothing is extrapolated.
    pub fn measured(&self, block: Block, query: ProfileQuery) -> Result<Option<Measured>, ProfileError> {
        if !self.curves.iter().any(|curve| curve.gpu == query.gpu) {
            return Ok(None);
        }
        let curve = self.curves.iter().find(|curve| curve.matches(query)).ok_or_else(|| self.missing(query))?;
        if curve.points.iter().all(|(_, entry)| entry.block(block).is_none()) {
            return Ok(None);
        }
        curve.interpolate(block, query.micro_batch_size).map(Some).ok_or_else(|| self.missing(query))
    }

    /// Measured seconds of the optimizer step for each parameter of a rank, where it was measured: at the first degree
    /// and micro-batch size in the file, on which it hardly depends.
    pub fn optimizer_s_per_parameter(&self, gpu: &str, precision: Precision) -> Option<f64> {
        let curves = self.curves.iter().filter(|curve| curve.gpu == gpu && curve.precision == precision);
        curves.flat_map(|curve| &curve.points).find_map(|(_, entry)| entry.optimizer_s_per_parameter)
    }

    /// What a backward pass is multiplied by while gradients are reduced, where that was measured: at the first degree and
    /// micro-batch size in the file.
    pub fn last_backward_factor(&self, gpu: &str, precision: Precision) -> Option<f64> {
        let curves = self.curves.iter().filter(|curve| curve.gpu == gpu && curve.precision == precision);
        curves.flat_map(|curve| &curve.points).find_map(|(_, entry)| entry.last_backward_factor)
    }

    /// Whether layers and both ends are measured on a GPU type for this execution.
    ///
    /// # Errors
    /// Where the type is measured, but not at this degree, size and precision.
    pub fn measures(&self, gpu: &str, execution: &Execution) -> Result<bool, ProfileError> {
        let query = ProfileQuery {
            gpu,
            precision: execution.precision,
            tensor_parallel_size: execution.tensor_parallel_size,
            micro_batch_size: execution.micro_batch_size,
        };
        for block in [Block::Embedding, Block::Layer(LayerId(0)), Block::Head] {
            if self.measured(block, query)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What messages between two processes took, where that was measured.
    pub fn links(&self) -> Option<MeasuredLinks> {
        self.links
    }

    fn missing(&self, query: ProfileQuery) -> ProfileError {
        let of_type = self.curves.iter().filter(|curve| curve.gpu == query.gpu);
        let available = of_type.map(Curve::describe).collect::<Vec<_>>().join("; ");
        ProfileError::NotMeasured {
            gpu: query.gpu.to_owned(),
            precision: query.precision.to_string(),
            tensor_parallel_size: query.tensor_parallel_size,
            micro_batch_size: query.micro_batch_size,
            available,
        }
    }
}

impl Curve {
    fn matches(&self, query: ProfileQuery) -> bool {
        self.tensor_parallel_size == query.tensor_parallel_size
            && self.precision == query.precision
            && self.gpu == query.gpu
    }

    /// The block's times at this micro-batch size, from the nearest measured sizes at or around it.
    fn interpolate(&self, block: Block, micro_batch_size: u32) -> Option<Measured> {
        let measured = || self.points.iter().filter_map(|(size, entry)| Some((*size, entry.block(block)?)));
        let below = measured().rfind(|(size, _)| *size <= micro_batch_size)?;
        let above = measured().find(|(size, _)| *size >= micro_batch_size)?;
        if below.0 == above.0 {
            return Some(below.1);
        }
        let share = f64::from(micro_batch_size - below.0) / f64::from(above.0 - below.0);
        let between = |low: f64, high: f64| low + share * (high - low);
        Some(Measured {
            forward_s: between(below.1.forward_s, above.1.forward_s),
            backward_s: between(below.1.backward_s, above.1.backward_s),
        })
    }

    fn describe(&self) -> String {
        let sizes = self.points.iter().map(|(size, _)| size.to_string()).collect::<Vec<_>>().join(", ");
        format!("{} t={} b={sizes}", self.precision, self.tensor_parallel_size)
    }
}

#[cfg(test)]
mod sailor_tests;
#[cfg(test)]
mod tests;
