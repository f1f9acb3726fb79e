//! The model of a plan: a plan says itself what it trains, also where no preset does.

use super::{ModelError, ModelSpec};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A model as plans name it: a preset's name, or the whole shape of a model that is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected the name of a model or its description")]
pub enum PlannedModel {
    /// A preset.
    Preset(String),
    /// Any other.
    Described(Arc<ModelSpec>),
}

impl PlannedModel {
    /// How the model is called.
    pub fn name(&self) -> &str {
        match self {
            Self::Preset(name) => name,
            Self::Described(model) => &model.name,
        }
    }

    /// Whether it is this model: by its name, and by its shapes where it has them.
    pub fn is(&self, model: &ModelSpec) -> bool {
        match self {
            Self::Preset(name) => *name == model.name,
            Self::Described(described) => **described == *model,
        }
    }

    /// Its shapes.
    ///
    /// # Errors
    /// There is no such preset, or the description is none of a model that can be built.
    pub fn spec(&self) -> Result<ModelSpec, ModelError> {
        match self {
            Self::Preset(name) => ModelSpec::preset(name),
            Self::Described(model) => model.validate().map(|()| ModelSpec::clone(model)),
        }
    }
}

impl From<&ModelSpec> for PlannedModel {
    fn from(model: &ModelSpec) -> Self {
        match ModelSpec::preset(&model.name) {
            Ok(preset) if preset == *model => Self::Preset(preset.name),
            _ => Self::Described(Arc::new(model.clone())),
        }
    }
}

/// A preset's name.
impl From<&str> for PlannedModel {
    fn from(name: &str) -> Self {
        Self::Preset(name.to_owned())
    }
}

impl fmt::Display for PlannedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_named_and_others_described() {
        let preset = ModelSpec::preset("llama-7b").unwrap();
        let mine = ModelSpec { num_layers: 30, ..preset.clone() };
        for (model, text) in [(&preset, "\"llama-7b\""), (&mine, "{\"name\":\"llama-7b\",\"architecture\":\"llama\"")] {
            let planned = PlannedModel::from(model);
            let json = serde_json::to_string(&planned).unwrap();
            assert!(json.starts_with(text), "{json}");
            let read: PlannedModel = serde_json::from_str(&json).unwrap();
            assert_eq!((read.spec().unwrap(), read.name()), (model.clone(), "llama-7b"));
        }
        assert!(PlannedModel::from("llama-8b").spec().is_err());
    }
}
