//! The plugin's configuration in TOML. The documentation of `main.rs` describes the keys.

use nri_plugin::proto::*;
use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AdjustConfig {
    pub(crate) log: Option<PathBuf>,
    pub(crate) filter: Filter,
    pub(crate) create: Create,
    pub(crate) update: Option<Resources>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Filter {
    pub(crate) name: Option<String>,
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Create {
    pub(crate) refuse: Option<String>,
    pub(crate) args: Vec<String>,
    pub(crate) replace_args: bool,
    pub(crate) oom_score_adj: Option<i64>,
    pub(crate) cdi_devices: Vec<String>,
    pub(crate) env: Keyed,
    pub(crate) annotations: Keyed,
    pub(crate) sysctl: Keyed,
    pub(crate) mounts: Vec<MountRule>,
    pub(crate) remove_mounts: Vec<String>,
    pub(crate) devices: Vec<DeviceRule>,
    pub(crate) remove_devices: Vec<String>,
    pub(crate) rlimits: Vec<RlimitRule>,
    pub(crate) hooks: Vec<HookRule>,
    pub(crate) resources: Option<Resources>,
}

/// Values to set by their keys, and keys to remove.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Keyed {
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) remove: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MountRule {
    pub(crate) destination: String,
    pub(crate) source: String,
    #[serde(default)]
    pub(crate) r#type: String,
    #[serde(default)]
    pub(crate) options: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceRule {
    pub(crate) path: String,
    pub(crate) r#type: String,
    pub(crate) major: i64,
    pub(crate) minor: i64,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RlimitRule {
    pub(crate) r#type: String,
    pub(crate) hard: u64,
    pub(crate) soft: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HookRule {
    pub(crate) stage: Stage,
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: Vec<String>,
    pub(crate) timeout: Option<i64>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    Prestart,
    CreateRuntime,
    CreateContainer,
    StartContainer,
    Poststart,
    Poststop,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Resources {
    pub(crate) cpus: Option<String>,
    pub(crate) mems: Option<String>,
    pub(crate) shares: Option<u64>,
    pub(crate) quota: Option<i64>,
    pub(crate) period: Option<u64>,
    pub(crate) memory: Option<i64>,
    pub(crate) reservation: Option<i64>,
    pub(crate) swap: Option<i64>,
    pub(crate) pids: Option<i64>,
    pub(crate) hugepages: BTreeMap<String, u64>,
    pub(crate) unified: BTreeMap<String, String>,
    pub(crate) blockio_class: Option<String>,
    pub(crate) rdt_class: Option<String>,
}

impl Filter {
    pub(crate) fn matches(&self, pod: &PodSandbox, container: &Container) -> bool {
        let annotation = |key| container.annotations.get(key).or_else(|| pod.annotations.get(key));
        self.name.as_ref().is_none_or(|name| *name == container.name)
            && self.annotations.iter().all(|(key, value)| annotation(key) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the example in the documentation of the program.
    fn documented() -> String {
        let source = include_str!("main.rs");
        let toml = source
            .lines()
            .skip_while(|l| *l != "//! ```toml")
            .skip(1)
            .take_while(|l| *l != "//! ```");
        toml.map(|l| l.trim_start_matches("//!").trim_start_matches(' ').to_owned() + "\n")
            .collect()
    }

    #[test]
    fn the_documented_example_is_parsed() {
        let config: AdjustConfig = toml::from_str(&documented()).unwrap();
        let a = config.create.adjustment().build().unwrap();
        assert_eq!(a.args, ["", "sleep", "100"]);
        assert_eq!(a.env.iter().map(|e| e.key.as_str()).collect::<Vec<_>>(), ["-C", "A"]);
        assert_eq!(
            a.mounts.iter().map(|m| m.destination.as_str()).collect::<Vec<_>>(),
            ["-/var/cache", "/data"]
        );
        assert_eq!(a.linux.devices[1].file_mode.value, 0o666);
        assert_eq!(a.hooks.poststop[0].timeout.value, 5);
        assert_eq!(a.rlimits[0].soft, 512);
        let r = &a.linux.resources;
        assert_eq!(
            (r.cpu.cpus.as_str(), r.cpu.quota.value, r.memory.swap.value),
            ("0-1", 50000, 134217728)
        );
        assert_eq!((r.pids.limit, r.hugepage_limits[0].limit), (100, 4194304));
        assert_eq!(r.unified["memory.high"], "50000000");
        assert_eq!(config.update.unwrap().shares, Some(256));
    }

    #[test]
    fn an_unknown_key_is_named() {
        for (toml, key) in [
            ("colour = 1", "colour"),
            ("[create]\nmemory = 1", "memory"),
            ("[create.resources]\ncpu = 1", "`cpu`"),
            ("[[create.mounts]]\ndestination = \"/a\"\nsource = \"/b\"\nopts = []", "opts"),
        ] {
            let e = toml::from_str::<AdjustConfig>(toml).unwrap_err().to_string();
            assert!(e.contains(key) && e.contains("unknown field"), "{e}");
        }
    }

    #[test]
    fn a_filter_matches_names_and_annotations_of_container_or_pod() {
        let check = |filter: &str, is_match: bool| {
            let filter: Filter = toml::from_str(filter).unwrap();
            let pod = PodSandbox {
                annotations: [("a".into(), "pod".into())].into(),
                ..Default::default()
            };
            let annotations = [("b".into(), "own".into())].into();
            let container = Container { name: "web".into(), annotations, ..Default::default() };
            assert_eq!(filter.matches(&pod, &container), is_match, "{filter:?}");
        };
        check("", true);
        check("name = 'web'", true);
        check("name = 'db'", false);
        check("annotations = { a = 'pod', b = 'own' }", true);
        check("annotations = { a = 'other' }", false);
        check("name = 'web'\nannotations = { c = '' }", false);
    }
}
