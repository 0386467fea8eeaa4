//! The fact `mount_sources`: which files of the host the mounts of a container show. The sources
//! are taken from `config.json` here, and resolved on the host by `mount_sources`.

use crate::mount_sources::{Access, HostFiles, Layers, MountSource, Way};
use nri_spec::OciConfig;
use serde::Serialize;
use serde_json::Value;

/// Types of file systems without files of the host. Types that are not listed count as mounted
/// from a device, also those that have none, such as `debugfs`.
const WITHOUT_FILES: [&str; 8] =
    ["cgroup", "cgroup2", "devpts", "mqueue", "proc", "ramfs", "sysfs", "tmpfs"];

/// An object of the annotation.
#[derive(Debug, Serialize)]
struct ShownFiles<'a> {
    #[serde(flatten)]
    place: &'a Place,
    #[serde(flatten)]
    files: &'a HostFiles,
}

/// Where a container has a mount, and how.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Place {
    destination: String,
    /// The option that says whether mounts that are made later below the source appear in the
    /// container; empty without one: then they do, unless the source is private.
    propagation: String,
    /// The source as the file has it.
    source: String,
}

/// Sources of mounts, each with its destination.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MountSources {
    places: Vec<Place>,
    /// The sources, to be resolved.
    pub sources: Vec<MountSource>,
}

impl MountSources {
    /// Returns the sources of all mounts with files of the host, and the root file system. Paths of
    /// `config` are absolute.
    pub fn of(config: &OciConfig) -> Self {
        let mut found = Self::default();
        let mounts = config.get(&["mounts"]).and_then(Value::as_array);
        mounts.into_iter().flatten().for_each(|mount| found.add_mount(mount));
        if let Some(path) = config.rootfs_path() {
            let read_only = config.get(&["root", "readonly"]) == Some(&Value::Bool(true));
            let access = if read_only { Access::Read } else { Access::Write };
            found.add("/", "", path, Way::Root, access);
        }
        found
    }

    /// Returns the value of the annotation. `resolved` are the files at [`MountSources::sources`].
    ///
    /// # Errors
    /// A source could not be resolved.
    pub fn annotation(
        &self,
        resolved: Vec<Result<Vec<HostFiles>, String>>,
    ) -> Result<String, String> {
        let resolved = resolved.into_iter().collect::<Result<Vec<_>, _>>()?;
        let shown: Vec<_> = self
            .places
            .iter()
            .zip(&resolved)
            .flat_map(|(place, all)| all.iter().map(move |files| ShownFiles { place, files }))
            .collect();
        serde_json::to_string(&shown).map_err(|error| error.to_string())
    }

    fn add_mount(&mut self, mount: &Value) {
        let text = |key: &str| mount.get(key).and_then(Value::as_str).unwrap_or_default();
        let options = mount.get("options").and_then(Value::as_array).into_iter().flatten();
        let options: Vec<&str> = options.filter_map(Value::as_str).collect();
        let (destination, source, kind) = (text("destination"), text("source"), text("type"));
        let access = access(&options);
        let has = |name: &str| options.contains(&name);
        // With these options, runtimes ignore the type; without a type, a path can be nothing else.
        let is_bind = kind == "bind" || kind.is_empty();
        let propagation = propagation(&options);
        if has("rbind") || (is_bind && !has("bind")) {
            self.add(destination, propagation, source, Way::RecursiveBind, access);
        } else if has("bind") {
            self.add(destination, propagation, source, Way::Bind, access);
        } else if kind == "overlay" {
            let layers = Layers::parse(&options.join(","));
            for (path, writable) in layers.with_access() {
                let access = if writable { access } else { Access::Read };
                self.add(destination, "", &path.to_string_lossy(), Way::Layer, access);
            }
        } else if !WITHOUT_FILES.contains(&kind) {
            let source = if source.is_empty() { kind } else { source };
            self.add(destination, "", source, Way::Device, access);
        }
    }

    fn add(&mut self, destination: &str, propagation: &str, path: &str, way: Way, access: Access) {
        let [destination, propagation, source] =
            [destination, propagation, path].map(str::to_owned);
        self.places.push(Place { destination, propagation, source });
        self.sources.push(MountSource { path: path.to_owned(), way, access });
    }
}

/// Returns the option for the propagation of mounts: of several, the one that shows most.
fn propagation<'a>(options: &[&'a str]) -> &'a str {
    let names = ["rshared", "shared", "rslave", "slave", "rprivate", "private"];
    let names = names.iter().chain(&["runbindable", "unbindable"]);
    let mut found = names.filter_map(|name| options.iter().find(|option| *option == name));
    found.next().copied().unwrap_or_default()
}

/// Returns the access by the options of a mount, of which later ones override earlier ones.
fn access(options: &[&str]) -> Access {
    let last = |on: &str, off: &str| {
        options.iter().rfind(|option| **option == on || **option == off).is_some_and(|o| *o == on)
    };
    match (last("rro", "rrw"), last("ro", "rw")) {
        (true, _) => Access::ReadBelow,
        (false, true) => Access::Read,
        (false, false) => Access::Write,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount_sources::HostFilesKind;
    use serde_json::json;

    fn source(path: &str, way: Way, access: Access) -> MountSource {
        MountSource { path: path.to_owned(), way, access }
    }

    #[test]
    fn sources_with_files_of_the_host_are_found_in_all_spellings() {
        let mounts = json!([
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/t", "type": "tmpfs", "source": "/etc", "options": ["ro"]},
            {"destination": "/a", "type": "bind", "source": "/a", "options": ["rbind", "ro"]},
            {"destination": "/b", "type": "tmpfs", "source": "/b", "options": ["bind", "rro"]},
            {"destination": "/c", "type": "bind", "source": "/c"},
            {"destination": "/d", "source": "/d", "options": ["ro", "rw"]},
            {"destination": "/e", "type": "ext4", "source": "/dev/vda1", "options": ["ro"]},
            {"destination": "/f", "type": "debugfs"},
            {"destination": "/o", "type": "overlay", "source": "overlay", "options":
                ["lowerdir=/l:/m", "upperdir=/u", "workdir=/w"]},
        ]);
        let root = json!({"path": "/root", "readonly": true});
        let config = OciConfig::from_value(json!({"mounts": mounts, "root": root})).unwrap();
        let found = MountSources::of(&config);
        let expected = [
            ("/a", source("/a", Way::RecursiveBind, Access::Read)),
            ("/b", source("/b", Way::Bind, Access::ReadBelow)),
            ("/c", source("/c", Way::RecursiveBind, Access::Write)),
            ("/d", source("/d", Way::RecursiveBind, Access::Write)),
            ("/e", source("/dev/vda1", Way::Device, Access::Read)),
            ("/f", source("debugfs", Way::Device, Access::Write)),
            ("/o", source("/l", Way::Layer, Access::Read)),
            ("/o", source("/m", Way::Layer, Access::Read)),
            ("/o", source("/u", Way::Layer, Access::Write)),
            ("/o", source("/w", Way::Layer, Access::Write)),
            ("/", source("/root", Way::Root, Access::Read)),
        ];
        let found: Vec<_> =
            found.places.iter().map(|place| &*place.destination).zip(found.sources).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn of_several_options_for_propagation_the_one_counts_that_shows_most() {
        let of = |options: &[&str]| {
            let mount = json!({"destination": "/a", "source": "/a", "options": options});
            let config = OciConfig::from_value(json!({"mounts": [mount]})).unwrap();
            MountSources::of(&config).places[0].propagation.clone()
        };
        assert_eq!(of(&["rbind", "ro"]), "");
        assert_eq!(of(&["rbind", "rslave"]), "rslave");
        assert_eq!(of(&["bind", "shared", "rprivate"]), "shared");
        assert_eq!(of(&["bind", "private", "ro"]), "private");
    }

    #[test]
    fn an_annotation_has_all_sources_or_none() {
        let config = json!({"mounts": [
            {"destination": "/a", "type": "bind", "source": "/a", "options": ["rprivate"]},
            {"destination": "/b", "type": "bind", "source": "/b"},
        ]});
        let sources = MountSources::of(&OciConfig::from_value(config).unwrap());
        let files = |real: &str, file_type: &str| HostFiles {
            real: real.to_owned(),
            writable: true,
            kind: HostFilesKind::Bind,
            file_type: file_type.to_owned(),
        };
        let all = vec![Ok(vec![files("/x", "socket"), files("/y", "")]), Ok(Vec::new())];
        let expected = json!([
            {"destination": "/a", "source": "/a", "real": "/x", "writable": true, "kind": "bind",
             "type": "socket",
             "propagation": "rprivate"},
            {"destination": "/a", "source": "/a", "real": "/y", "writable": true, "kind": "bind",
             "type": "",
             "propagation": "rprivate"},
        ]);
        let annotation = sources.annotation(all).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&annotation).unwrap(), expected);
        let one = vec![Ok(Vec::new()), Err("\"/b\": not there".to_owned())];
        assert_eq!(sources.annotation(one), Err("\"/b\": not there".to_owned()));
    }
}
