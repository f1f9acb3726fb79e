//! Profiles that are spread over several files.

use super::{LayerProfile, ProfileError, ProfileFile};
use crate::model::ModelSpec;
use std::fs;
use std::path::{Path, PathBuf};

impl LayerProfile {
    /// Reads the measurements of one model from any number of files and folders, each file in any of the known formats.
    ///
    /// Of a folder all `.json` files are read, in the order of their names, and those of other models passed over.
    ///
    /// # Errors
    /// Where a file can't be read, is none or measures what another one has measured; where nothing measures the model.
    pub fn read_all(paths: &[PathBuf], model: &ModelSpec) -> Result<Self, ProfileError> {
        let mut all = Self { model: model.name.clone(), curves: Vec::new(), links: None, is_whole: false };
        let mut other = None;
        for path in paths {
            let is_folder = path.is_dir();
            let files = if is_folder { files_of(path)? } else { vec![path.clone()] };
            for file in files {
                let read = ProfileFile::read(&file)?;
                if read.model == model.name {
                    all.add(read, &file.display().to_string())?;
                } else if is_folder {
                    other.get_or_insert(read.model);
                } else {
                    return Err(ProfileError::OtherModel { profile: read.model, model: model.name.clone() });
                }
            }
        }
        if all.curves.is_empty() {
            let profile = other.unwrap_or_else(|| "none".to_owned());
            return Err(ProfileError::OtherModel { profile, model: model.name.clone() });
        }
        all.check_layers(model)
    }

    /// The same profile, if blocks that were measured one by one are those of this model.
    fn check_layers(self, model: &ModelSpec) -> Result<Self, ProfileError> {
        let expected = model.num_layers as usize + 2;
        match self.block_count() {
            Some(found) if found != expected => Err(ProfileError::Blocks { model: self.model, found, expected }),
            _ => Ok(self),
        }
    }
}

/// The `.json` files of a folder, by name.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>, ProfileError> {
    let refused = |problem: String| ProfileError::Read { path: folder.display().to_string(), problem };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| refused(error.to_string()))? {
        let path = entry.map_err(|error| refused(error.to_string()))?.path();
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(refused("the folder has no `.json` file".to_owned()));
    }
    files.sort();
    Ok(files)
}
