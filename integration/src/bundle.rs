//! Creates OCI bundles as an engine does.

use crate::{call, script};
use serde_json::Value;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// An OCI bundle and the options of `bundle.sh`; [`Bundle::make`] creates it on disk.
#[derive(Debug)]
pub struct Bundle {
    parent: PathBuf,
    dir: PathBuf,
    options: Vec<OsString>,
    arguments: Vec<OsString>,
}

impl Bundle {
    /// Describes a bundle for container `id` below the directory `parent`.
    pub fn new(parent: &Path, id: &str) -> Self {
        Self {
            parent: parent.to_owned(),
            dir: parent.join(id),
            options: Vec::new(),
            arguments: Vec::new(),
        }
    }

    /// Sets `linux.cgroupsPath`.
    pub fn cgroup(self, path: &str) -> Self {
        self.option("--cgroup", path)
    }

    /// Sets a root file system that bundles share, so that it is built only once.
    pub fn root(self, dir: &Path) -> Self {
        let dir = dir.to_str().expect("paths of tests are UTF-8").to_owned();
        self.option("--root", &dir)
    }

    /// Sets `linux.resources`.
    pub fn resources(self, json: &str) -> Self {
        self.option("--resources", json)
    }

    /// Adds an environment variable, `NAME=value`.
    pub fn env(self, variable: &str) -> Self {
        self.option("--env", variable)
    }

    /// Adds an annotation, `name=value`.
    pub fn annotation(self, annotation: &str) -> Self {
        self.option("--annotation", annotation)
    }

    /// Sets `process.terminal`.
    pub fn terminal(mut self) -> Self {
        self.options.push("--terminal".into());
        self
    }

    /// Sets `process.args`; the default is the probe.
    pub fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments = arguments.iter().map(Into::into).collect();
        self
    }

    fn option(mut self, name: &str, value: &str) -> Self {
        self.options.extend([name.into(), value.into()]);
        self
    }

    /// Creates the bundle.
    ///
    /// # Panics
    /// `bundle.sh` fails.
    #[must_use]
    pub fn make(self) -> Self {
        let mut command = Command::new(script("bundle.sh"));
        command.arg(&self.dir).args(&self.options);
        if !self.arguments.is_empty() {
            command.arg("--").args(&self.arguments);
        }
        call::run(command, &self.parent).success();
        self
    }

    /// Directory of the bundle.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Path of `config.json`.
    pub fn config(&self) -> PathBuf {
        self.dir.join("config.json")
    }

    /// Bytes of `config.json`.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.config()).unwrap_or_else(|e| panic!("{}: {e}", self.config().display()))
    }

    /// Parses `config.json`.
    pub fn oci_config(&self) -> Value {
        serde_json::from_slice(&self.bytes())
            .unwrap_or_else(|e| panic!("{}: {e}", self.config().display()))
    }

    /// Puts the container into a pod as CRI-O does; `kind` is `sandbox` or `container`.
    ///
    /// # Panics
    /// `config.json` does not exist, because [`Bundle::make`] was not called.
    pub fn annotate_as_crio(&self, pod: &str, kind: &str) {
        self.edit(|config| {
            let cgroup =
                config["linux"]["cgroupsPath"].as_str().expect("bundle.sh writes cgroupsPath");
            let crio_cgroup = match cgroup.rsplit_once('/') {
                Some((parent, id)) => format!("{parent}/crio-{id}"),
                None => cgroup.replace(":nri:", ":crio:"),
            };
            config["linux"]["cgroupsPath"] = crio_cgroup.into();
            config["annotations"]["io.container.manager"] = "cri-o".into();
            config["annotations"]["io.kubernetes.cri-o.SandboxID"] = pod.into();
            config["annotations"]["io.kubernetes.cri-o.ContainerType"] = kind.into();
        });
    }

    /// Changes `config.json`, as an engine would before the first call.
    pub fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut config = self.oci_config();
        change(&mut config);
        fs::write(self.config(), config.to_string()).expect("config.json is writable");
    }
}
