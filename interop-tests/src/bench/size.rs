//! How large what is shipped is: both binaries as they are in the image, and the image.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::binaries::{flock, flock_agent};

/// Megabytes (of a million) of the plugin, the agent and, where it was built, the image as an archive.
pub fn megabytes() -> Result<(f64, f64, Option<f64>)> {
    let of = |path: PathBuf| -> Result<f64> {
        let size = fs::metadata(&path).with_context(|| path.display().to_string())?.len();
        Ok(size as f64 / 1e6)
    };
    let image = env::var_os("FLOCK_IMAGE_TAR").map(PathBuf::from).map(of).transpose()?;
    Ok((of(flock()?)?, of(flock_agent()?)?, image))
}
