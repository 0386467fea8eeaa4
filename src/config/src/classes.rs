//! `[blockio]`, `[rdt]` and `[cdi]`: where the classes and devices are defined that plugins name.

use crate::{paths, reference::section};
use serde::Deserialize;
use std::path::PathBuf;

section! {
    /// Classes that plugins assign by `blockio_class`.
    #[section("[blockio]", "Block I/O classes")]
    #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct BlockioSettings {
        /// The classes, in the format of [goresctrl](https://github.com/intel/goresctrl), YAML or
        /// JSON. The file is read whenever a plugin assigns a class.
        #[key(
            Path,
            Derived("there are no classes, and a class is refused."),
            "\"/etc/nri-container-runtime/blockio.yaml\""
        )]
        #[serde(alias = "config-file", deserialize_with = "paths::absolute_option")]
        pub config_file: Option<PathBuf>,
    }
}

section! {
    /// Classes that plugins assign by `rdt_class`.
    #[section("[rdt]", "RDT classes")]
    #[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct RdtSettings {
        /// The classes, in the format of goresctrl, YAML or JSON. The file is read whenever a
        /// plugin assigns a class.
        #[key(
            Path,
            Derived("the control groups in `/sys/fs/resctrl` are the classes."),
            "\"/etc/nri-container-runtime/rdt.yaml\""
        )]
        #[serde(alias = "config-file", deserialize_with = "paths::absolute_option")]
        pub config_file: Option<PathBuf>,
    }
}

section! {
    /// Devices of the Container Device Interface that plugins add by name.
    #[section("[cdi]", "CDI devices")]
    #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    pub struct CdiSettings {
        /// Directories of specification files. Where two define the same device, the later
        /// directory takes precedence.
        #[key(
            List("List of paths"),
            Value("[\"/etc/cdi\", \"/var/run/cdi\"]"),
            "[\"/etc/cdi\"]"
        )]
        #[serde(alias = "spec-dirs", deserialize_with = "paths::absolute_list")]
        pub spec_dirs: Vec<PathBuf> = vec!["/etc/cdi".into(), "/var/run/cdi".into()],
    }
}
