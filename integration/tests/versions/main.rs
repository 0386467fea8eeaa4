//! Plugins on several versions of upstream's Go stub in the same scenarios, so that plugins built
//! years ago keep working.

mod life_cycle;
mod many;
mod pods;

use nri_integration::*;

/// Returns runc, the only runtime of these tests, since plugins see no difference between runtimes.
fn runc(test: &str) -> Option<&'static Runtime> {
    let (good, bad) = runtimes();
    let found = good.iter().find(|r| r.name == "runc");
    if found.is_none() {
        skip(test, bad.iter().find(|(name, _)| *name == "runc").map_or("no runc", |(_, why)| why));
    }
    found
}

/// Returns all versions with unique plugin names, so that they can be connected at once. Each round
/// has other names, since a name also identifies a journal.
fn named(round: &str) -> impl Iterator<Item = (&'static Version, String)> {
    versions("names").iter().zip(1..).map(move |(v, n)| (v, format!("{n}0-{}-{round}", v.name)))
}
