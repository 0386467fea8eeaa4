//! Makes the tables and the picture from raw figures.

mod chart;
mod markdown;
mod tables;

use crate::raw;
use std::{fs, path::Path};

/// Writes `isolation.md` and `isolation.svg`.
pub(crate) fn write(dir: &Path, raw: &Path) {
    let (runs, samples) = raw::read(raw);
    let tables = tables::tables(&samples);
    let write = |name: &str, text: String| {
        let file = dir.join(name);
        fs::write(&file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    };
    write("isolation.md", markdown::document(&runs, &tables));
    write("isolation.svg", chart::chart(&tables));
}
