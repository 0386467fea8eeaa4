//! Tests of `nrictl install containerd`: `containerd config dump` shows that an installation
//! changes only the keys of the wrapper's runtime handler and, with `--default`, the default
//! runtime.

use nri_integration::{engines::*, *};
use std::{collections::BTreeMap, fs, path::Path, process::Command};

/// Names of containerd's CRI plugin in configuration files of version 2 and of version 3.
const CRI: [&str; 2] = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"];

const WRAPPER: &str = "usr/local/bin/nri-container-runtime";

/// A root directory with `/etc/containerd` and the wrapper.
struct Image {
    dir: tempfile::TempDir,
}

impl Image {
    fn new(config: &str) -> Self {
        let image = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(image.dir.path().join("etc/containerd/conf.d")).unwrap();
        fs::create_dir_all(image.dir.path().join("usr/local/bin")).unwrap();
        fs::write(image.dir.path().join("etc/containerd/config.toml"), config).unwrap();
        write_program(&image.dir.path().join(WRAPPER), "#!/bin/sh\n");
        image
    }

    /// Writes a file that the main configuration file imports.
    fn write_drop_in(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join("etc/containerd/conf.d").join(name), text).unwrap();
    }

    /// Runs `nrictl`, which must succeed, on the root directory.
    fn nrictl(&self, arguments: &str) {
        let mut command = Command::new(program_dir().join("nrictl"));
        command.args(arguments.split_whitespace()).arg("--root").arg(self.dir.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments}: {output:?}");
    }

    /// Returns the values that `containerd config dump` prints, by their paths.
    fn dump(&self, containerd: &Path) -> BTreeMap<String, String> {
        let dir = self.dir.path().join("etc/containerd");
        let mut command = Command::new(containerd);
        // containerd before 2.0 resolves the patterns of `imports` relative to the working
        // directory.
        command.arg("-c").arg(dir.join("config.toml")).args(["config", "dump"]).current_dir(dir);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let mut values = BTreeMap::new();
        flatten("", &toml::Value::Table(text.parse().unwrap()), &mut values);
        // This list has the paths of imported files, to which an installation may add one.
        values.retain(|path, _| path != ".imports");
        values
    }
}

/// Adds the values below a TOML value to `values`, by their paths.
fn flatten(path: &str, value: &toml::Value, values: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                flatten(&format!("{path}.{name}"), value, values);
            }
        }
        toml::Value::String(text) => drop(values.insert(path.to_owned(), text.clone())),
        value => drop(values.insert(path.to_owned(), format!("{value:?}"))),
    }
}

/// Returns the paths whose values differ.
fn changed_paths(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let paths = before.keys().chain(after.keys());
    let mut changed: Vec<String> =
        paths.filter(|path| before.get(*path) != after.get(*path)).cloned().collect();
    changed.sort();
    changed.dedup();
    changed
}

/// A `config.toml` that imports a directory and configures the CRI plugin as on a real node.
fn main_file(version: usize) -> String {
    let cri = CRI[version - 2];
    let head = format!("version = {version}\nimports = [\"conf.d/*.toml\"]\noom_score = -999\n");
    let cni = format!("[plugins.\"{cri}\".cni]\n  conf_dir = \"/etc/cni/site\"\n");
    let runc = format!("[plugins.\"{cri}\".containerd.runtimes.runc]\n");
    let kind = "  runtime_type = \"io.containerd.runc.v2\"\n";
    let options = format!("[plugins.\"{cri}\".containerd.runtimes.runc.options]\n");
    format!("{head}{cni}{runc}{kind}{options}  SystemdCgroup = true\n")
}

/// Returns whether the path is below the CRI runtime handler of this name.
fn is_handler(path: &str, name: &str) -> bool {
    path.contains(&format!(".containerd.runtimes.{name}."))
}

/// `nrictl install` relies on this behavior of containerd, see
/// `src/ctl/src/install/engines/containerd/destination.rs`.
#[test]
fn containerd_merges_plugin_tables_of_imported_files_since_2_0() {
    for_each_suite("imported files of containerd", "containerd", |suite| {
        let containerd = suite.program("containerd");
        let is_new = suite.version("containerd") >= (2, 0);
        for version in [2, 3].into_iter().filter(|version| *version == 2 || is_new) {
            let image = Image::new(&main_file(version));
            let before = image.dump(&containerd);
            let cri = CRI[version - 2];
            let handler = format!(
                "version = {version}\n[plugins.\"{cri}\".containerd.runtimes.one]\n  \
                 runtime_type = \"io.containerd.runc.v2\"\n"
            );
            image.write_drop_in("zz-one.toml", &handler);
            let changed = changed_paths(&before, &image.dump(&containerd));
            let is_runc_changed = changed.iter().any(|path| path.ends_with("SystemdCgroup"));
            let is_only_handler_added = changed.iter().all(|path| is_handler(path, "one"));
            assert!(!changed.is_empty(), "version {version}: the imported file has no effect");
            assert_eq!(
                (is_runc_changed, is_only_handler_added),
                (!is_new, is_new),
                "version {version}: {changed:#?}"
            );
        }
    });
}

#[test]
fn an_installation_changes_only_the_wrappers_keys_of_containerd() {
    for_each_suite("nrictl install containerd", "containerd", |suite| {
        let containerd = suite.program("containerd");
        let containerd_version = suite.version("containerd");
        for version in
            [2, 3].into_iter().filter(|version| *version == 2 || containerd_version >= (2, 0))
        {
            for options in ["", "--default"] {
                let image = Image::new(&main_file(version));
                image.write_drop_in(
                    "10-site.toml",
                    &format!("version = {version}\noom_score = -998\n"),
                );
                let before = image.dump(&containerd);
                let (major, minor) = containerd_version;
                image.nrictl(&format!(
                    "install containerd --engine-version {major}.{minor} {options}"
                ));
                let after = image.dump(&containerd);
                let is_ours = |path: &&String| {
                    is_handler(path, "nri")
                        || !options.is_empty() && path.ends_with(".default_runtime_name")
                };
                let changed = changed_paths(&before, &after);
                let others: Vec<_> = changed.iter().filter(|path| !is_ours(path)).collect();
                assert!(others.is_empty(), "version {version} {options}: {others:#?}");
                let binary = changed.iter().find(|path| path.ends_with("nri.options.BinaryName"));
                assert_eq!(after[binary.unwrap()], format!("/{WRAPPER}"));
                // containerd 2.0 and later merge the tables of imported files, so nrictl writes a
                // file of its own. For older versions nrictl has to edit the file with the table.
                let drop_in = "etc/containerd/conf.d/zz-nri-container-runtime.toml";
                assert_eq!(image.dir.path().join(drop_in).exists(), containerd_version >= (2, 0));
                image.nrictl("uninstall containerd");
                assert_eq!(image.dump(&containerd), before);
            }
        }
    });
}
