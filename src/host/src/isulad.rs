//! NRI of a running iSulad: off by default, and for pods that Kubernetes creates by version 1 of
//! CRI only, which is off by default as well (`iSulad: src/daemon/config/isulad_config.c`,
//! `src/daemon/entry/cri/v1`). Its file has a fixed path.

use crate::{
    command_line::{in_root, root_of},
    daemon_json::read,
};
use nri_locate::{PLUGIN_DIR, PLUGIN_SOCKET};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const FILE: &str = "/etc/isulad/daemon.json";

/// The part of `daemon.json` about NRI.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct NriKeys {
    nri_support: bool,
    enable_cri_v1: bool,
    disable_connections: bool,
    /// Directory of the NRI plugins that iSulad launches.
    pub(crate) plugin_path: PathBuf,
}

impl Default for NriKeys {
    fn default() -> Self {
        Self {
            nri_support: false,
            enable_cri_v1: false,
            disable_connections: false,
            plugin_path: PLUGIN_DIR.into(),
        }
    }
}

impl NriKeys {
    /// Reads the file of a process.
    pub(crate) fn of(pid: i32) -> Self {
        read(&in_root(&root_of(pid), Path::new(FILE)))
    }

    /// Whether NRI is on.
    pub(crate) fn is_on(&self) -> bool {
        self.nri_support && self.enable_cri_v1
    }

    /// Returns the socket for plugins, whose path cannot be configured.
    pub(crate) fn socket(&self) -> Option<PathBuf> {
        (!self.disable_connections).then(|| PLUGIN_SOCKET.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nri_is_on_with_version_1_of_cri_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("daemon.json");
        let keys = |text: &str| -> NriKeys {
            std::fs::write(&file, text).unwrap();
            read(&file)
        };
        assert!(!keys("{}").is_on());
        assert!(!keys(r#"{"nri-support": true}"#).is_on());
        let on = keys(r#"{"nri-support": true, "enable-cri-v1": true, "group": "isula"}"#);
        assert!(on.is_on());
        assert_eq!(on.socket(), Some("/var/run/nri/nri.sock".into()));
        assert_eq!(on.plugin_path, Path::new("/opt/nri/plugins"));
        let other = keys(r#"{"disable-connections": true, "plugin-path": "/p"}"#);
        assert_eq!((other.socket(), other.plugin_path), (None, "/p".into()));
    }
}
