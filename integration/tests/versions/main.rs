//! Plugins on several versions of upstream's Go stub, through the same scenarios: whoever has a
//! plugin that was built years ago keeps it.

mod life_cycle;
mod many;
mod pods;

use nri_integration::*;

/// The real runtime of these tests: what differs between runtimes is not what plugins see.
fn runc(test: &str) -> Option<&'static Runtime> {
    let (good, bad) = runtimes();
    let found = good.iter().find(|r| r.name == "runc");
    if found.is_none() {
        skip(test, bad.iter().find(|(name, _)| *name == "runc").map_or("no runc", |(_, why)| why));
    }
    found
}

/// All versions, with names under which they can be there at once; each round has other names,
/// since a name is also a journal.
fn named(round: &str) -> impl Iterator<Item = (&'static Version, String)> {
    versions("names").iter().zip(1..).map(move |(v, n)| (v, format!("{n}0-{}-{round}", v.name)))
}
