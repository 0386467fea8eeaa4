//! Merge vectors at a runtime under test. Three plugins give the replies of a vector, and the
//! runtime merges them. An expected conflict has to refuse the container. An expected result is
//! read by a fourth plugin, a validator, which receives the merged adjustment, its owners and the
//! updates of other containers; it rejects all containers, so that no value has to be possible on
//! this machine.

mod express;
mod run;

use crate::Error;
use nri_tests::vectors::Case;
use std::{fs, path::Path};

/// Files of vectors.
const FILES: [&str; 3] = ["create.jsonl", "update.jsonl", "stop.jsonl"];

/// Reads all vectors in a directory.
///
/// # Errors
/// If a file cannot be read, or a line is no vector.
pub(crate) fn load(dir: &Path) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for name in FILES {
        let path = dir.join(name);
        let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
        for (number, line) in text.lines().enumerate() {
            let case = Case::parse(line).map_err(|source| Error::Vector {
                path: path.clone(),
                line: number + 1,
                source: Box::new(source),
            })?;
            cases.push(case);
        }
    }
    Ok(cases)
}
