//! The plugin: injects the hooks whose conditions hold into a container that is being created.

use crate::{
    conditions::Subject,
    definition::{OciHook, Stage},
    directories::Definitions,
};
use nri_plugin::{
    opt,
    prelude::*,
    proto::{Hook, Hooks, Mount},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// Injects hooks of directories.
pub(crate) struct HookInjector {
    directories: Vec<PathBuf>,
    /// The definitions, if they are read only once.
    fixed: Option<Arc<Definitions>>,
    /// What was reported last, so that one mistake is not reported for each container.
    reported: Mutex<String>,
}

/// Definitions that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unusable(String);

impl HookInjector {
    /// Creates the plugin. If the directories are watched, they are read for each container:
    /// a definition holds for the next container after it was written.
    ///
    /// # Errors
    /// A definition is invalid. Later, invalid definitions are reported and left out.
    pub(crate) fn new(directories: Vec<PathBuf>, is_watching: bool) -> Result<Self, Unusable> {
        let definitions = Definitions::read(&directories);
        if !definitions.failures.is_empty() {
            return Err(Unusable(list(&definitions.failures)));
        }
        let fixed = (!is_watching).then(|| Arc::new(definitions));
        Ok(Self { directories, fixed, reported: Mutex::default() })
    }

    fn definitions(&self) -> Arc<Definitions> {
        if let Some(fixed) = &self.fixed {
            return fixed.clone();
        }
        let definitions = Definitions::read(&self.directories);
        let unusable: Vec<_> =
            definitions.failures.iter().chain(&definitions.without_program).collect();
        let text = list(&unusable);
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if *reported != text {
            for failure in &unusable {
                tracing::error!("{failure}");
            }
            *reported = text;
        }
        Arc::new(definitions)
    }
}

impl Plugin for HookInjector {
    async fn create_container(
        &self,
        _: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let (pod_name, name) = (pod.name, container.name);
        let mut annotations = container.annotations;
        annotations.extend(pod.annotations);
        let has_bind_mounts = container.mounts.iter().any(is_bind);
        let subject = Subject { annotations, args: container.args, has_bind_mounts };
        let mut hooks = Hooks::new();
        let mut injected = Vec::new();
        let definitions = self.definitions();
        for (file, definition) in &definitions.hooks {
            let matches = definition.conditions.matches(&subject);
            if !matches.map_err(|e| format!("hook {file}: {e}"))? {
                continue;
            }
            injected.push(file.as_str());
            for stage in &definition.stages {
                stage_of(&mut hooks, *stage).push(hook(&definition.hook));
            }
        }
        if injected.is_empty() {
            return Ok(Creation::default());
        }
        tracing::info!("{pod_name}/{name}: hooks of {}", injected.join(", "));
        let mut adjustment = Adjustment::new();
        adjustment.add_hooks(hooks);
        Ok(adjustment.into())
    }
}

/// Whether a mount is a bind mount, as the OCI runtime specification defines it.
fn is_bind(mount: &Mount) -> bool {
    mount.type_ == "bind" || mount.options.iter().any(|o| o == "bind" || o == "rbind")
}

fn stage_of(hooks: &mut Hooks, stage: Stage) -> &mut Vec<Hook> {
    match stage {
        Stage::CreateRuntime => &mut hooks.create_runtime,
        Stage::CreateContainer => &mut hooks.create_container,
        Stage::StartContainer => &mut hooks.start_container,
        Stage::Poststart => &mut hooks.poststart,
        Stage::Poststop => &mut hooks.poststop,
    }
}

fn hook(hook: &OciHook) -> Hook {
    Hook {
        path: hook.path.clone(),
        args: hook.args.clone().unwrap_or_default(),
        env: hook.env.clone().unwrap_or_default(),
        timeout: opt(hook.timeout),
        ..Default::default()
    }
}

fn list(failures: &[impl ToString]) -> String {
    failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::testing::{InProcessRuntime, container, pod};
    use std::fs;

    const DEFINITION: &str = r#"{"version": "1.0.0",
        "hook": {"path": "/bin/true", "args": ["true", "NAME"], "env": ["A=b"], "timeout": 3},
        "when": WHEN, "stages": STAGES}"#;

    fn write(dir: &tempfile::TempDir, name: &str, when: &str, stages: &str) {
        let text = DEFINITION.replace("NAME", name).replace("WHEN", when);
        fs::write(dir.path().join(name), text.replace("STAGES", stages)).unwrap();
    }

    fn start(dir: &tempfile::TempDir, is_watching: bool) -> InProcessRuntime<HookInjector> {
        let plugin = HookInjector::new(vec![dir.path().to_owned()], is_watching).unwrap();
        InProcessRuntime::start(plugin, "").unwrap()
    }

    #[test]
    fn hooks_are_injected_by_stage_in_order() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, "2.json", r#"{"always": true}"#, r#"["prestart", "poststop"]"#);
        write(&dir, "1.json", r#"{"annotations": {"^a$": "^pod$"}}"#, r#"["createRuntime"]"#);
        write(&dir, "3.json", r#"{"hasBindMounts": true}"#, r#"["startContainer"]"#);
        let runtime = start(&dir, true);
        let mut pod = pod("shop");
        pod.annotations.insert("a".into(), "pod".into());
        let mut container = container(&pod, "web");
        container.annotations.insert("a".into(), "container".into());
        let proc_mount =
            Mount { destination: "/proc".into(), type_: "proc".into(), ..Mount::new() };
        container.mounts.push(proc_mount);
        let injected = |container: &Container| {
            runtime.create_container(&pod, container).unwrap().adjust.hooks.clone().unwrap()
        };
        let hooks = injected(&container);
        let names = |hooks: &[Hook]| hooks.iter().map(|h| h.args[1].clone()).collect::<Vec<_>>();
        assert_eq!(names(&hooks.create_runtime), ["1.json", "2.json"]);
        assert_eq!(names(&hooks.poststop), ["2.json"]);
        assert!(hooks.prestart.is_empty() && hooks.start_container.is_empty());
        assert_eq!(hooks.poststop[0].timeout.value, 3);
        assert_eq!(hooks.poststop[0].env, ["A=b"]);
        container.mounts.push(Mount { options: vec!["rbind".into()], ..Mount::new() });
        let hooks = injected(&container);
        assert_eq!(names(&hooks.start_container), ["3.json"]);
    }

    #[test]
    fn watched_directories_change_what_is_injected() {
        let dir = tempfile::tempdir().unwrap();
        let (watching, fixed) = (start(&dir, true), start(&dir, false));
        let pod = pod("shop");
        let container = container(&pod, "web");
        let injects = |runtime: &InProcessRuntime<HookInjector>| {
            runtime.create_container(&pod, &container).unwrap().adjust.hooks.is_some()
        };
        assert!(!injects(&watching));
        write(&dir, "1.json", r#"{"always": true}"#, r#"["poststop"]"#);
        assert!(injects(&watching) && !injects(&fixed));
        fs::write(dir.path().join("2.json"), "invalid").unwrap();
        assert!(injects(&watching), "an invalid definition stopped the others");
        fs::remove_file(dir.path().join("1.json")).unwrap();
        assert!(!injects(&watching));
    }

    #[test]
    fn invalid_definitions_prevent_the_start() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, "1.json", r#"{"always": true}"#, r#"["later"]"#);
        let error = HookInjector::new(vec![dir.path().to_owned()], true).err().unwrap();
        assert!(error.to_string().contains("1.json: unknown stage \"later\""), "{error}");
    }

    #[test]
    fn a_condition_that_cannot_be_decided_refuses_the_container() {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, "1.json", r#"{"commands": ["sh"]}"#, r#"["poststop"]"#);
        let pod = pod("shop");
        let refused = start(&dir, true).create_container(&pod, &container(&pod, "web"));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with("hook 1.json: the container has no arguments"), "{refused}");
    }
}
