//! Recognizes Docker by containerd's namespace. Names, labels and image are in files of dockerd,
//! `<data-root>/containers/<id>/{config.v2,hostconfig}.json`, which dockerd writes before it
//! creates the container. The data root is derived from mounts of files in that directory, or from
//! the path of the root file system, which is three levels below the data root with all storage
//! drivers. Sources: moby, `daemon/oci_linux.go`, `daemon/container/container.go`,
//! `daemon/snapshotter/mount.go`.

use crate::{Clues, EngineKind, Identity, Map, Source, Unreadable, cri_dockerd, paths, unreadable};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Files that dockerd writes for each container and mounts into it.
const MOUNTED: [&str; 3] = ["resolv.conf", "hostname", "hosts"];

/// containerd's namespaces that other engines use by default.
const OF_OTHERS: [&str; 3] = ["buildkit", "default", "k8s.io"];

/// Used part of `config.v2.json`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ConfigV2 {
    #[serde(rename = "ID")]
    id: Option<String>,
    name: Option<String>,
    config: Option<Config>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    image: Option<String>,
    labels: Option<Map>,
}

/// Used part of `hostconfig.json`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct HostConfig {
    annotations: Option<Map>,
    runtime: Option<String>,
}

/// Recognizes a container by containerd's namespace of its task. A dockerd with another namespace
/// (`--containerd-namespace`) is recognized if both a mount and the root file system name the same
/// directory of dockerd. Clients of containerd can imitate that, but not in the namespaces that
/// other engines use; they can choose `moby` as well.
pub(crate) fn identify_task(clues: &Clues<'_>, namespace: &str) -> Option<Identity> {
    let agree = || dir_from_root(clues).is_some_and(|dir| dirs_of_mounts(clues).contains(&dir));
    let is_docker = !OF_OTHERS.contains(&namespace) && (is_default_namespace(namespace) || agree());
    (is_docker && paths::is_component(clues.id)).then(|| docker(clues))
}

/// Recognizes a container whose bundle is no engine's by mounts of files of dockerd.
pub(crate) fn identify(clues: &Clues<'_>) -> Option<Identity> {
    let is_docker = paths::is_component(clues.id) && !dirs_of_mounts(clues).is_empty();
    is_docker.then(|| docker(clues))
}

fn docker(clues: &Clues<'_>) -> Identity {
    let mut dirs = dirs_of_mounts(clues);
    if let Some(dir) = dir_from_root(clues) {
        paths::add_unique(&mut dirs, dir);
    }
    let mut identity = Identity::alone(EngineKind::Docker, clues);
    identity.source = (!dirs.is_empty()).then_some(Source::Docker { dirs });
    identity
}

/// Whether dockerd has this namespace without being told to: `moby`, with remapped users
/// `moby-<uid>.<gid>`.
fn is_default_namespace(namespace: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match namespace.strip_prefix("moby") {
        Some("") => true,
        Some(rest) => rest
            .strip_prefix('-')
            .and_then(|ids| ids.split_once('.'))
            .is_some_and(|(uid, gid)| is_number(uid) && is_number(gid)),
        None => false,
    }
}

/// Returns the directories `containers/<id>` of the mounted files.
fn dirs_of_mounts(clues: &Clues<'_>) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for mount in clues.mounts {
        match paths::components(mount).as_deref() {
            Some([root @ .., "containers", id, file])
                if *id == clues.id && MOUNTED.contains(file) =>
            {
                paths::add_unique(&mut dirs, paths::absolute(root).join("containers").join(id));
            }
            _ => {}
        }
    }
    dirs
}

/// Derives the directory `containers/<id>` from the path of the root file system:
/// `<data-root>/overlay2/<x>/merged`, `<data-root>/rootfs/<snapshotter>/<id>`, and so on.
fn dir_from_root(clues: &Clues<'_>) -> Option<PathBuf> {
    match paths::components(clues.root)?.as_slice() {
        [data_root @ .., _, _, _] if !data_root.is_empty() => {
            Some(paths::absolute(data_root).join("containers").join(clues.id))
        }
        _ => None,
    }
}

/// Returns the directories in which dockerd may keep the files of a container, from the sources of
/// its mounts. Those of a container that shares the network of another one are in the directory
/// beside.
pub fn dirs<'a>(id: &str, sources: impl IntoIterator<Item = &'a str>) -> Vec<PathBuf> {
    let mut dirs = Vec::new();
    for source in sources {
        match paths::components(Path::new(source)).as_deref() {
            Some([root @ .., "containers", _, file])
                if MOUNTED.contains(file) && paths::is_component(id) =>
            {
                paths::add_unique(&mut dirs, paths::absolute(root).join("containers").join(id));
            }
            _ => {}
        }
    }
    dirs
}

/// Returns the current name of a container, from its `config.v2.json`: Docker renames a container
/// without a call of the runtime.
///
/// # Errors
/// The file cannot be parsed, or is of another container.
pub fn name(id: &str, config_v2: &[u8]) -> Result<String, Unreadable> {
    let own = parse(id, config_v2)?;
    let name = own.name.unwrap_or_default();
    Ok(name.strip_prefix('/').unwrap_or(&name).to_owned())
}

fn parse(id: &str, config_v2: &[u8]) -> Result<ConfigV2, Unreadable> {
    let own: ConfigV2 = unreadable::parse("config.v2.json", config_v2, unreadable::MAX_CONTAINER)?;
    if own.id.as_deref() == Some(id) {
        Ok(own)
    } else {
        Err(Unreadable::Other { what: "config.v2.json", found: own.id.unwrap_or_default() })
    }
}

/// Adds the facts from dockerd's files of this container. Labels of cri-dockerd are
/// ignored unless `cri_dockerd_runs`, since users of Docker can set the same labels.
///
/// # Errors
/// The files cannot be parsed, or are of another container; the identity is unchanged.
pub fn complete(
    identity: &mut Identity,
    id: &str,
    config_v2: &[u8],
    hostconfig: Option<&[u8]>,
    cri_dockerd_runs: bool,
) -> Result<(), Unreadable> {
    let own = parse(id, config_v2)?;
    let host: HostConfig = match hostconfig {
        Some(bytes) => unreadable::parse("hostconfig.json", bytes, unreadable::MAX_CONTAINER)?,
        None => HostConfig::default(),
    };
    let config = own.config.unwrap_or_default();
    identity.image = config.image.unwrap_or_default();
    identity.labels = config.labels.unwrap_or_default();
    identity.annotations = host.annotations.unwrap_or_default();
    identity.pod.runtime_handler = host.runtime.unwrap_or_default();
    let name = own.name.unwrap_or_default();
    let name = name.strip_prefix('/').unwrap_or(&name);
    if cri_dockerd_runs && cri_dockerd::complete(identity, id, name) {
        return Ok(());
    }
    if !name.is_empty() {
        identity.name = name.to_owned();
        identity.pod.name = name.to_owned();
    }
    identity.pod.labels.clone_from(&identity.labels);
    for (key, value) in &identity.annotations {
        identity.pod.annotations.entry(key.clone()).or_insert_with(|| value.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_beside_that_of_a_container_whose_network_is_shared() {
        let other = "/data/containers/c0/hosts";
        let of = |sources: &[&str]| dirs("c1", sources.iter().copied());
        assert_eq!(of(&["/srv", other, other]), [Path::new("/data/containers/c1")]);
        assert_eq!(of(&["/data/containers/c1/secret", "hosts", ""]), [""; 0].map(PathBuf::from));
        assert!(dirs("../c1", [other]).is_empty());
    }

    #[test]
    fn a_name_is_that_of_the_container_with_this_id() {
        let file = br#"{"ID": "c1", "Name": "/web"}"#;
        assert_eq!(name("c1", file).unwrap(), "web");
        assert_eq!(name("c1", br#"{"ID": "c1"}"#).unwrap(), "");
        assert!(name("c2", file).is_err() && name("c1", b"{").is_err());
    }
}
