//! The machines in `tests/topologies`.

use nri_topology::hardware::{machine::Machine, sysfs};
use std::{fs, path::Path};

/// Returns the machines by name.
pub(crate) fn all() -> Vec<(String, Machine)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topologies");
    let mut machines: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let snapshot = fs::read_to_string(&path).unwrap().parse().unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, sysfs::machine(&snapshot).unwrap())
        })
        .collect();
    machines.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(machines.len(), 10);
    machines
}
