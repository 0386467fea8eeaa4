//! Tests of the compatibility with plugins that were built years ago, each with plugins that use
//! several versions of upstream's Go stub, and with those that are written from the tutorial today.

mod life_cycle;
mod many;
mod pods;
mod tutorial;

use nri_integration::*;

/// Returns runc. These tests use no other runtime, since plugins see no difference between
/// runtimes. Returns `None` after reporting a skip if no runc can be used.
fn runc(test: &str) -> Option<&'static Runtime> {
    let (usable, unusable) = runtimes();
    let found = usable.iter().find(|r| r.name == "runc");
    if found.is_none() {
        let runc = unusable.iter().find(|(name, _)| *name == "runc");
        skip(test, runc.map_or("no runc", |(_, reason)| reason));
    }
    found
}

/// Returns all versions, each with a unique plugin name, so that plugins of all versions can be
/// connected at the same time. The names contain `round`, because the journal of a plugin is named
/// after it, and each round needs new journals.
fn versions_with_names(round: &str) -> impl Iterator<Item = (&'static Version, String)> {
    versions("names").iter().zip(1..).map(move |(v, n)| (v, format!("{n}0-{}-{round}", v.name)))
}
