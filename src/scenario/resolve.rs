//! From settings to the objects that the library works with.

use super::{NetworkSettings, PriceSettings, Scenario};
use crate::cluster::{GpuSpec, Link, NodeDefaults, Wiring};
use crate::cost::CostModel;
use crate::model::{ModelError, ModelSpec};
use crate::profile::{LayerProfile, ProfileError};
use crate::trace::prices::{PriceHistory, Quotes};
use crate::trace::{Trace, TraceError};

/// Why a scenario's job can't be priced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// There is no such model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The measured layer times can't be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

impl Scenario {
    /// The model that is trained.
    ///
    /// # Errors
    /// There is no such model, or it has no samples of so many tokens.
    pub fn model_spec(&self) -> Result<ModelSpec, ModelError> {
        ModelSpec::from_argument(&self.model)?.with_seq_length(self.seq_length)
    }

    /// The cost model of the scenario's model, with the profiles that it names.
    ///
    /// # Errors
    /// As [`model_spec`](Self::model_spec), or a profile can't be used.
    pub fn cost_model(&self) -> Result<CostModel, JobError> {
        self.cost_model_of(self.model_spec()?)
    }

    /// The cost model of another model, with the scenario's profiles.
    ///
    /// # Errors
    /// A profile can't be used.
    pub fn cost_model_of(&self, model: ModelSpec) -> Result<CostModel, JobError> {
        let measured = (!self.profile.is_empty()).then(|| LayerProfile::read_all(&self.profile, &model));
        let profile = measured.transpose()?;
        Ok(CostModel::new(model, self.cost, profile).with_framework(self.framework))
    }
}

impl PriceSettings {
    /// Prices over time for a replay of `trace`, where there is a history.
    ///
    /// # Errors
    ///
    /// [`TraceError`] where the history can't be read, or is of other times than the trace.
    pub fn quotes(&self, trace: &Trace) -> Result<Option<Quotes>, TraceError> {
        let Some(path) = &self.history else { return Ok(None) };
        let history = PriceHistory::read(path, &self.instances)?;
        let mut quotes = history.on_clock(trace.zero, trace.span)?;
        quotes.notes.splice(0..0, history.notes);
        for note in &mut quotes.notes {
            *note = format!("{}: {note}", path.display());
        }
        Ok(Some(quotes))
    }
}

impl NetworkSettings {
    /// What nodes have where neither trace nor cluster file says.
    pub fn node_defaults(&self) -> NodeDefaults {
        let nic = Link::from_gbit_per_s(self.nic_gbit_per_s, self.nic_latency_us * 1e-6);
        // Checked with the scenario.
        let named =
            |gpu_type: &str| GpuSpec::lookup(gpu_type).map_or_else(|_| gpu_type.to_owned(), |gpu| gpu.name.clone());
        let flows = self.flows.iter().map(|flow| (named(&flow.gpu_type), flow.curve())).collect();
        let wiring = Wiring { nics: self.nics_per_node, ..Wiring::default() };
        NodeDefaults { nic, wiring, flows, ..NodeDefaults::default() }
    }
}
