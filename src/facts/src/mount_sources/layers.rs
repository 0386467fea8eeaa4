//! The directories of an overlay, from its mount options.

use super::tree::is_in_volume;
use nri_mountinfo::{MountInfo, decode};
use std::path::{Path, PathBuf};

/// What a directory is for an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A layer that is only read.
    Lower,
    /// The layer that is written.
    Upper,
    /// Where files are prepared.
    Work,
}

/// The directories of an overlay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layers(Vec<(Role, PathBuf)>);

impl Layers {
    /// Reads mount options, separated by commas. `\` before a character takes it as it is.
    pub(crate) fn parse(options: &str) -> Self {
        Self::of_options(options, |value| value.into())
    }

    /// Reads the options of a mounted overlay. Relative paths, with which engines shorten long
    /// options, are relative to their store. Those of other overlays are relative to a directory
    /// that only the process knew that has mounted them.
    ///
    /// # Errors
    /// There are none, or the directory is unknown.
    pub(super) fn of_mount(mount: &MountInfo) -> Result<Self, String> {
        let options = &mount.super_options;
        let mut layers = Self::of_options(options, |value| decode(value.as_bytes()));
        let unknown = || format!("{:?}: overlay with unknown layers", mount.point);
        if layers.0.is_empty() {
            return Err(unknown());
        }
        let store = layers.store(&mount.point);
        for (_, path) in layers.0.iter_mut().filter(|(_, path)| path.is_relative()) {
            *path = store.as_ref().ok_or_else(unknown)?.join(&*path);
        }
        Ok(layers)
    }

    /// Returns the directory in which the engine has all layers that it mounts at `point`: that of
    /// `ID/merged` with the written layer `ID/diff` (Docker, Podman, CRI-O), or of the written
    /// layer `snapshots/ID/fs` (containerd, BuildKit). `None` for an overlay that a user can have
    /// an engine mount: a volume.
    pub(super) fn store(&self, point: &Path) -> Option<PathBuf> {
        let above = |path: &Path| path.parent().and_then(Path::parent).map(Path::to_owned);
        let upper = self.upper();
        if point.ends_with("merged") {
            let own = point.with_file_name("diff");
            return above(point).filter(|dir| upper.is_none_or(|upper| dir.join(upper) == own));
        }
        let snapshots = upper.filter(|upper| upper.is_absolute() && upper.ends_with("fs"));
        let snapshots = snapshots.and_then(above).filter(|dir| dir.ends_with("snapshots"));
        snapshots.filter(|_| !is_in_volume(point))
    }

    /// Returns the layer that is written.
    pub(super) fn upper(&self) -> Option<&Path> {
        self.0.iter().find(|(role, _)| *role == Role::Upper).map(|(_, path)| path.as_path())
    }

    /// Returns the directories, and whether each is written.
    pub(crate) fn with_access(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.iter().map(|(role, path)| (path, role != Role::Lower))
    }

    /// Returns the directories.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Role, &Path)> {
        self.0.iter().map(|(role, path)| (*role, path.as_path()))
    }

    fn of_options(options: &str, path: impl Fn(&str) -> PathBuf) -> Self {
        let mut layers = Vec::new();
        for option in split(options, ',') {
            let Some((key, value)) = option.split_once('=') else { continue };
            let value = path(value);
            let value = value.to_string_lossy();
            match key {
                "lowerdir" => {
                    let paths = split(&value, ':').filter(|path| !path.is_empty());
                    layers.extend(paths.map(|path| (Role::Lower, unescaped(path))));
                }
                "lowerdir+" | "datadir+" => layers.push((Role::Lower, value.as_ref().into())),
                "upperdir" => layers.push((Role::Upper, unescaped(&value))),
                "workdir" => layers.push((Role::Work, unescaped(&value))),
                _ => {}
            }
        }
        Self(layers)
    }
}

/// Splits at a separator that has no `\` before it.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    text.split(move |c| {
        let is_separator = c == separator && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_separator
    })
}

fn unescaped(text: &str) -> PathBuf {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_mountinfo::parse;

    fn check(found: &Layers, expected: &[(Role, &str)]) {
        let expected = expected.iter().map(|(role, path)| (*role, Path::new(*path)));
        assert_eq!(found.iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    use Role::{Lower, Upper, Work};

    #[test]
    fn layers_are_separated_by_colons_unless_they_are_escaped() {
        let options = "ro,lowerdir=/a\\:b:/c::/d,upperdir=/u\\,p,workdir=/w,index=off";
        let expected =
            [(Lower, "/a:b"), (Lower, "/c"), (Lower, "/d"), (Upper, "/u,p"), (Work, "/w")];
        check(&Layers::parse(options), &expected);
        check(&Layers::parse("lowerdir+=/a:b,datadir+=/c"), &[(Lower, "/a:b"), (Lower, "/c")]);
        check(&Layers::parse("rw,nodev"), &[]);
    }

    #[test]
    fn the_options_of_mounts_are_decoded_and_relative_paths_resolved() {
        let at = |point: &str, options: &str| {
            let line = format!("1 0 0:1 / {point} rw - overlay overlay {options}");
            Layers::of_mount(&parse(line.as_bytes())[0])
        };
        let of = |options: &str| at("/docker/overlay2/id/merged", options);
        let decoded = of("rw,lowerdir=/a\\040b:/c\\134:d,upperdir=/u\\054p,workdir=/w").unwrap();
        let expected = [(Lower, "/a b"), (Lower, "/c:d"), (Upper, "/u,p"), (Work, "/w")];
        check(&decoded, &expected);
        let relative = of("rw,lowerdir=l/A:l/B,upperdir=id/diff,workdir=id/work").unwrap();
        let expected = [
            (Lower, "/docker/overlay2/l/A"),
            (Lower, "/docker/overlay2/l/B"),
            (Upper, "/docker/overlay2/id/diff"),
            (Work, "/docker/overlay2/id/work"),
        ];
        check(&relative, &expected);
        let bundle = "/run/containerd/io.containerd.runtime.v2.task/default/c/rootfs";
        let relative = at(bundle, "rw,lowerdir=7/fs,upperdir=/snapshots/8/fs").unwrap();
        check(&relative, &[(Lower, "/snapshots/7/fs"), (Upper, "/snapshots/8/fs")]);
        assert!(of("rw").is_err());
    }

    /// A volume is mounted by an engine in whose working directory relative paths begin.
    #[test]
    fn relative_layers_of_a_volume_are_unknown() {
        let volume = "/var/lib/docker/volumes/ov/_data";
        for (point, upper) in [
            (volume, "/srv/shared/x/up"),
            (volume, "/snapshots/8/fs"),
            ("/docker/overlay2/id/merged", "/srv/shared/x/up"),
            ("/mnt", "/srv/shared/x/up"),
        ] {
            let line =
                format!("1 0 0:1 / {point} rw - overlay overlay rw,lowerdir=root,upperdir={upper}");
            assert!(Layers::of_mount(&parse(line.as_bytes())[0]).is_err(), "{point}, {upper}");
        }
    }
}
