//! An NRI plugin that mounts the cgroups of a container writable if an annotation of its pod says
//! so, as the plugin `writable-cgroups` of containerd/nri does. It does so only if the host has
//! mounted cgroups with `nsdelegate`: the kernel then keeps a container with a cgroup namespace of
//! its own from changing its own limits.

mod cgroup_mount;
mod host_mounts;

use nri_plugin::{
    effective_annotation,
    flags::{Flags, parse},
    prelude::*,
};
use std::{path::PathBuf, process::ExitCode};

/// Annotation that makes cgroups writable, with the value `true`.
const ANNOTATION: &str = "writable-cgroups.noderesource.dev";

/// NRI plugin that makes cgroups writable in containers that an annotation names.
#[derive(clap::Parser)]
#[command(name = "writable-cgroups", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
    /// Mounts of the host, in the format of /proc/PID/mountinfo (default:
    /// /host/proc/1/mountinfo if it exists, else /proc/self/mountinfo)
    #[arg(long, value_name = "PATH")]
    host_mount_file: Option<PathBuf>,
}

/// Makes cgroups writable.
struct WritableCgroups {
    /// Whether the host has mounted cgroups with `nsdelegate`.
    is_delegated: bool,
}

impl Plugin for WritableCgroups {
    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let named = format!("{}/{}/{}", pod.namespace, pod.name, container.name);
        if effective_annotation(&pod, ANNOTATION, &container.name) != Some("true") {
            tracing::debug!("{named}: no annotation {ANNOTATION} with the value true");
            return Ok(Creation::default());
        }
        if !self.is_delegated {
            tracing::warn!(
                "{named}: request ignored: the cgroup mount of the host has no nsdelegate"
            );
            return Ok(Creation::default());
        }
        let mount = cgroup_mount::find(&container.mounts)?;
        let mut adjustment = Adjustment::new();
        match cgroup_mount::writable(mount) {
            None => tracing::debug!("{named}: the cgroup mount is writable already"),
            Some(mount) => {
                tracing::info!("{named}: cgroups are writable");
                adjustment.override_mount(mount);
            }
        }
        Ok(adjustment.into())
    }
}

fn main() -> ExitCode {
    let line: CommandLine = parse();
    nri_plugin::logging::init();
    let path = line.host_mount_file.unwrap_or_else(host_mounts::default_path);
    let is_delegated = match host_mounts::has_nsdelegate(&path) {
        Ok(true) => {
            tracing::info!("the cgroup mount of the host has nsdelegate: cgroups can be writable");
            true
        }
        Ok(false) => {
            tracing::warn!("the cgroup mount of the host has no nsdelegate: no cgroup is writable");
            false
        }
        Err(error) => {
            tracing::warn!("{error}: no cgroup is writable");
            false
        }
    };
    line.plugin.builder(WritableCgroups { is_delegated }).main()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::{
        proto::Mount,
        testing::{InProcessRuntime, container, pod},
    };

    /// Returns the options of the mount that the container gets, or the error.
    fn adjusted(
        annotations: &[(&str, &str)],
        is_delegated: bool,
        options: Option<&[&str]>,
    ) -> Result<Option<Vec<String>>, String> {
        let runtime = InProcessRuntime::start(WritableCgroups { is_delegated }, "").unwrap();
        let mut pod = pod("p");
        for (key, value) in annotations {
            pod.annotations.insert((*key).to_owned(), (*value).to_owned());
        }
        let mut container = container(&pod, "c");
        container.mounts.extend(options.map(|options| Mount {
            destination: "/sys/fs/cgroup".into(),
            type_: "cgroup".into(),
            source: "cgroup".into(),
            options: options.iter().map(ToString::to_string).collect(),
            ..Default::default()
        }));
        let reply = runtime.create_container(&pod, &container).map_err(|e| e.0)?;
        let mounts = &reply.adjust.mounts;
        match &mounts[..] {
            [] => Ok(None),
            [removed, added] => {
                assert_eq!(removed.destination, "-/sys/fs/cgroup");
                assert_eq!((added.type_.as_str(), added.source.as_str()), ("cgroup", "cgroup"));
                Ok(Some(added.options.clone()))
            }
            _ => panic!("{mounts:?}"),
        }
    }

    const ON: [(&str, &str); 1] = [(ANNOTATION, "true")];

    #[test]
    fn an_annotation_makes_the_mount_writable() {
        let writable = Ok(Some(vec!["nosuid".to_owned(), "rw".to_owned()]));
        assert_eq!(adjusted(&ON, true, Some(&["ro", "nosuid"])), writable);
        assert_eq!(adjusted(&ON, true, Some(&["nosuid"])), writable);
        let container = "writable-cgroups.noderesource.dev/container.c";
        assert_eq!(adjusted(&[(container, "true")], true, Some(&["nosuid", "ro"])), writable);
        let pod = "writable-cgroups.noderesource.dev/pod";
        assert_eq!(adjusted(&[(pod, "true")], true, Some(&["nosuid", "ro"])), writable);
    }

    #[test]
    fn the_mount_stays_as_it_is() {
        let options: Option<&[&str]> = Some(&["ro"]);
        let container = "writable-cgroups.noderesource.dev/container.c";
        assert_eq!(adjusted(&[], true, options), Ok(None));
        assert_eq!(adjusted(&[(ANNOTATION, "True")], true, options), Ok(None));
        assert_eq!(adjusted(&[ON[0], (container, "false")], true, options), Ok(None));
        assert_eq!(adjusted(&ON, false, options), Ok(None));
        assert_eq!(adjusted(&ON, true, Some(&["rw", "nosuid"])), Ok(None));
        let error = adjusted(&ON, true, None).unwrap_err();
        assert!(error.contains("no /sys/fs/cgroup mount"), "{error}");
    }
}
