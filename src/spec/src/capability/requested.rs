//! Features that an adjustment requests: fields of the OCI config that it adds or changes.

use super::table::{Feature, features};
use crate::changes::{ChangedField, config_changes};
use nri_api::{also_set_by, proto::Field};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

/// A requested feature.
#[derive(Debug, PartialEq)]
pub(super) struct Requested {
    pub(super) feature: Feature,
    /// Name of the field for messages, with its key if it has one.
    pub(super) field: String,
    /// Fields whose owners may have requested the feature.
    pub(super) claims: Vec<(Field, Option<String>)>,
}

/// Returns the requested features, in the order of [`Feature`]. If the field of a feature is a list
/// or map, the feature is returned once for each new entry.
pub(super) fn requested(before: &Value, after: &Value) -> Vec<Requested> {
    let changes = config_changes(before, after);
    let mut all: Vec<_> = changes.iter().flat_map(of_change).collect();
    all.sort_by_key(|requested| requested.feature);
    all
}

fn of_change(change: &ChangedField) -> Vec<Requested> {
    let (Some(field), Some(value)) = (change.row.owner, &change.after) else { return Vec::new() };
    let owners = [Some(field), also_set_by(field)].into_iter().flatten();
    let claims: Vec<_> = owners.map(|owner| (owner, change.key.clone())).collect();
    let request = |(feature, field)| Requested { feature, field, claims: claims.clone() };
    match field {
        Field::SeccompPolicy => seccomp(value, change.before.as_ref()),
        Field::Mounts => mount_options(value, &change.name()),
        _ => features(field, change, value).iter().map(|f| (*f, change.name())).collect(),
    }
    .into_iter()
    .map(request)
    .collect()
}

/// Returns the features of a filter of system calls that the old one did not have.
fn seccomp<'a>(policy: &'a Value, before: Option<&'a Value>) -> Vec<(Feature, String)> {
    let old = before.map(flags).unwrap_or_default();
    let feature = |flag: &&str| match *flag {
        "SECCOMP_FILTER_FLAG_TSYNC"
        | "SECCOMP_FILTER_FLAG_LOG"
        | "SECCOMP_FILTER_FLAG_SPEC_ALLOW" => Some(Feature::SeccompFlags),
        "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV" => Some(Feature::SeccompWaitKillable),
        // Runtimes themselves refuse flags that they do not know.
        _ => None,
    };
    let named = |flag: &&str| Some((feature(flag)?, format!("seccomp flag {flag}")));
    let mut found: Vec<_> = flags(policy).difference(&old).filter_map(named).collect();
    let listener = |policy: &'a Value| policy.get("listenerPath").filter(|path| !path.is_null());
    let new = listener(policy);
    if new.is_some_and(|path| path != "") && new != before.and_then(listener) {
        found.push((Feature::SeccompListener, "seccomp listener".to_owned()));
    }
    found
}

fn flags(policy: &Value) -> BTreeSet<&str> {
    let flags = policy.get("flags").and_then(Value::as_array).into_iter().flatten();
    flags.filter_map(Value::as_str).collect()
}

/// Returns the features of the options of a new mount.
fn mount_options(mount: &Value, name: &str) -> Vec<(Feature, String)> {
    let options = mount.get("options").and_then(Value::as_array).into_iter().flatten();
    let mut seen = HashSet::new();
    let new = options.filter_map(Value::as_str).filter(|option| seen.insert(*option));
    new.filter_map(|option| Some((feature_of_option(option)?, format!("{name} option {option:?}"))))
        .collect()
}

/// The feature of a mount option; `None` for options that all runtimes support, and for options of
/// the file system.
fn feature_of_option(option: &str) -> Option<Feature> {
    const RECURSIVE: [&str; 19] = [
        "rro",
        "rrw",
        "rsuid",
        "rnosuid",
        "rdev",
        "rnodev",
        "rexec",
        "rnoexec",
        "rdiratime",
        "rnodiratime",
        "ratime",
        "rnoatime",
        "rrelatime",
        "rnorelatime",
        "rstrictatime",
        "rnostrictatime",
        "rsync",
        "rasync",
        "rdirsync",
    ];
    match option {
        "idmap" => Some(Feature::MountIdmap),
        "ridmap" => Some(Feature::MountIdmapRecursive),
        "nosymfollow" => Some(Feature::MountNoSymfollow),
        "rnosymfollow" => Some(Feature::MountNoSymfollowRecursive),
        "tmpcopyup" => Some(Feature::MountCopyUp),
        "copy-symlink" => Some(Feature::MountCopySymlink),
        "src-nofollow" | "dest-nofollow" => Some(Feature::MountNoFollow),
        option if RECURSIVE.contains(&option) => Some(Feature::MountRecursiveAttributes),
        _ => None,
    }
}
