//! Mounts: `mounts`, identified by destination.
//!
//! Destinations are compared as they are written (`/data` and `/data/` are different), as upstream
//! does. If an adjustment names any mount, all mounts are sorted, so that a mount comes after the
//! mounts on its parent directories.

use crate::context::{ApplyContext, Propagation};
use crate::error::{ApplyError, in_field};
use crate::json::edit::{array, existing_array, put_list, put_text, set_at};
use crate::json::named;
use crate::json::read::{Object, Read, field_or_default, list, object, text};
use nri_api::{
    Marked,
    proto::{ContainerAdjustment, Field, Mount},
};
use serde_json::Value;
use std::collections::HashSet;

pub(crate) const PATH: [&str; 1] = ["mounts"];

pub(crate) fn read(spec: &Object) -> Read<Vec<Mount>> {
    field_or_default(spec, "mounts", list(read_one))
}

fn read_one(value: &Value) -> Read<Mount> {
    let fields = object(value)?;
    let mut mount = Mount::new();
    mount.destination = field_or_default(fields, "destination", text)?;
    mount.type_ = field_or_default(fields, "type", text)?;
    mount.source = field_or_default(fields, "source", text)?;
    mount.options = field_or_default(fields, "options", list(text))?;
    Ok(mount)
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    ctx: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    if adjust.mounts.is_empty() {
        return Ok(());
    }
    let destinations: HashSet<&str> =
        adjust.mounts.iter().map(|m| Marked::parse(&m.destination).key()).collect();
    if destinations.contains("") {
        return Err(ApplyError::Invalid {
            field: Field::Mounts,
            value: String::new(),
            why: "has no destination",
        });
    }
    remove(spec, &destinations)?;
    for mount in
        adjust.mounts.iter().filter(|m| matches!(Marked::parse(&m.destination), Marked::Set(_)))
    {
        apply_propagation(spec, mount, ctx)?;
        let value = to_oci(&mount.destination, &mount.type_, &mount.source, &mount.options);
        array(spec, &PATH).map_err(in_field("mounts"))?.push(value);
    }
    sort(spec, |destination| (depth(destination), destination.to_owned()))
}

/// Adds the mounts of CDI edits; each replaces the existing mounts on its destination. Then sorts
/// all mounts by depth; mounts of one depth keep their order.
pub(crate) fn replace(spec: &mut Value, mounts: Vec<(&str, Value)>) -> Result<(), ApplyError> {
    if mounts.is_empty() {
        return Ok(());
    }
    remove(spec, &mounts.iter().map(|(destination, _)| *destination).collect())?;
    let mounts = named::last_of_each(mounts).into_iter().map(|(_, mount)| mount);
    array(spec, &PATH).map_err(in_field("mounts"))?.extend(mounts);
    sort(spec, depth)
}

/// Removes all mounts on these destinations: if only the topmost mount on a destination were
/// removed, the mount below would become visible.
fn remove(spec: &mut Value, destinations: &HashSet<&str>) -> Result<(), ApplyError> {
    if let Some(mounts) = existing_array(spec, &PATH).map_err(in_field("mounts"))? {
        named::remove(mounts, named::name_field("destination"), destinations);
    }
    Ok(())
}

/// Sorts mounts by a key of their destinations; equal keys keep their order.
fn sort<K: Ord>(spec: &mut Value, key: impl Fn(&str) -> K) -> Result<(), ApplyError> {
    if let Some(mounts) = existing_array(spec, &PATH).map_err(in_field("mounts"))? {
        mounts.sort_by_cached_key(|mount| key(destination(mount)));
    }
    Ok(())
}

pub(crate) fn to_oci(destination: &str, kind: &str, source: &str, options: &[String]) -> Value {
    let mut mount = Object::new();
    mount.insert("destination".into(), destination.into());
    put_text(&mut mount, "type", kind);
    put_text(&mut mount, "source", source);
    put_list(&mut mount, "options", options);
    mount.into()
}

/// Depth of a destination: the number of slashes of the path without `.`, `..` and doubled slashes.
fn depth(destination: &str) -> usize {
    let absolute = destination.starts_with('/');
    let (mut names, mut above) = (0_usize, 0_usize);
    for name in destination.split('/') {
        match name {
            "" | "." => {}
            ".." if names > 0 => names -= 1,
            ".." => above += usize::from(!absolute),
            _ => names += 1,
        }
    }
    // Upstream counts the slashes of the cleaned path, so `/` has the depth of `/a`.
    match (absolute, names + above) {
        (true, n) => n.max(1),
        (false, n) => n.saturating_sub(1),
    }
}

fn destination(mount: &Value) -> &str {
    mount.get("destination").and_then(Value::as_str).unwrap_or_default()
}

/// Checks that the host's mount on which the source of `mount` lies has the propagation that the
/// last propagation option of `mount` needs. Then sets `linux.rootfsPropagation` to what that
/// option needs, unless its value suffices.
fn apply_propagation(
    spec: &mut Value,
    mount: &Mount,
    ctx: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let wanted = mount
        .options
        .iter()
        .rev()
        .find_map(|o| ["rprivate", "rshared", "rslave"].into_iter().find(|p| p == o));
    let Some(wanted @ ("rshared" | "rslave")) = wanted else { return Ok(()) };
    let found = (ctx.propagation)(&mount.source).ok_or_else(|| ApplyError::UnknownPropagation {
        destination: mount.destination.clone(),
        mount_source: mount.source.clone(),
        wanted,
    })?;
    let needed = match (wanted, found) {
        (_, Propagation::Shared) | ("rslave", Propagation::Slave) => None,
        ("rshared", _) => Some("shared"),
        _ => Some("shared or slave"),
    };
    if let Some(needed) = needed {
        let (destination, mount_source) = (mount.destination.clone(), mount.source.clone());
        return Err(ApplyError::Propagation { destination, mount_source, wanted, needed, found });
    }
    let rootfs = spec.get("linux").and_then(|l| l.get("rootfsPropagation")).and_then(Value::as_str);
    if wanted == "rslave" && matches!(rootfs, Some("rshared" | "rslave")) {
        return Ok(());
    }
    set_at(spec, &["linux"], "rootfsPropagation", wanted).map_err(in_field("mounts"))
}

#[cfg(test)]
mod tests {
    use super::depth;

    #[test]
    fn the_depth_is_the_number_of_slashes_of_the_cleaned_path() {
        for (path, slashes) in [
            ("/", 1),
            ("/a", 1),
            ("/a/", 1),
            ("/a//b/./c", 3),
            ("/../a", 1),
            ("/a/../..", 1),
            ("a/b", 1),
            ("", 0),
            ("../..", 1),
            ("a/..", 0),
        ] {
            assert_eq!(depth(path), slashes, "{path}");
        }
    }
}
