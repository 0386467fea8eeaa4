//! Injection of our OCI hook into `config.json`, for containers of `run` and `restore`: the wrapper
//! becomes the runtime, so only a hook can report what happens to the container.
//!
//! Not for `create`, where the wrapper reports: a hook costs a process for every container. The
//! command names the incarnation of the container, so that a late hook reports nothing about the
//! next container of that id. A hook waits a moment for the next `nrid`, and starts none: it would
//! be a child of the runtime, and crun ends after its last child.

use nri_control::HookKind;
use nri_spec::OciConfig;
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

/// Command of the hook.
#[derive(Debug, Clone)]
pub struct HookCall {
    /// The program.
    pub program: PathBuf,
    /// Control socket.
    pub socket: PathBuf,
    /// Name of the container's record, see `ContainerKey::hook_name`.
    pub record: String,
    /// Time that the hook waits for a reply, which includes requests to plugins.
    pub timeout: Duration,
}

/// Failure to inject the hook.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// `hooks` is not an object.
    #[error("hooks is not an object")]
    NotAnObject,
    /// A stage of `hooks` is not a list.
    #[error("hooks.{0} is not a list")]
    NotAList(&'static str),
    /// The path of the hook or of the socket cannot be written as JSON.
    #[error("{0:?} is not UTF-8")]
    Name(PathBuf),
}

/// Adds our hook to each stage, after the hooks of the engine. Our hook therefore runs after
/// `createRuntime` hooks that set up the network. It does not run if a `poststart` hook of the
/// engine fails, just as plugins are not notified of a `start` that fails. The engine's hooks keep
/// their indexes, by which runtimes name a hook that failed.
///
/// # Errors
/// `hooks` is not an object of lists, or a path is not UTF-8. The config is then unchanged.
pub fn inject(config: &mut OciConfig, call: &HookCall) -> Result<(), InjectError> {
    let text =
        |p: &PathBuf| p.to_str().map(str::to_owned).ok_or_else(|| InjectError::Name(p.clone()));
    let (program, socket) = (text(&call.program)?, text(&call.socket)?);
    let mut arguments = vec![
        program.clone(),
        "--socket".to_owned(),
        socket,
        "--record".to_owned(),
        call.record.clone(),
    ];
    // Hooks in the bundles of running containers have this flag, so its name cannot change.
    arguments.extend(["--patience".to_owned(), call.timeout.as_secs().to_string()]);
    let mut hooks = match config.value().get("hooks") {
        Some(hooks) if !hooks.is_null() => hooks.clone(),
        _ => json!({}),
    };
    for kind in [HookKind::CreateRuntime, HookKind::Poststart, HookKind::Poststop] {
        let name = name(kind);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain([name]).collect();
        let hook = json!({"path": program, "args": arguments});
        let hooks = hooks.as_object_mut().ok_or(InjectError::NotAnObject)?;
        let list = hooks.entry(name).or_insert_with(|| json!([]));
        if list.is_null() {
            *list = json!([]);
        }
        list.as_array_mut().ok_or(InjectError::NotAList(name))?.push(hook);
    }
    if let Value::Object(config) = config.value_mut() {
        config.insert("hooks".to_owned(), hooks);
    }
    Ok(())
}

fn name(kind: HookKind) -> &'static str {
    match kind {
        HookKind::CreateRuntime => "createRuntime",
        HookKind::Poststart => "poststart",
        HookKind::Poststop => "poststop",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> HookCall {
        HookCall {
            program: "/x/nri-oci-hook".into(),
            socket: "/s".into(),
            record: "k".into(),
            timeout: Duration::from_secs(60),
        }
    }

    #[test]
    fn the_hook_is_added_after_those_of_the_engine() {
        let engine_hook = json!({"path": "/engine-hook"});
        let mut config = OciConfig::from_value(json!({
            "ociVersion": "1.0.2",
            "hooks": {
                "createRuntime": [engine_hook],
                "poststart": [engine_hook, engine_hook],
                "other": 1
            }
        }))
        .unwrap();
        inject(&mut config, &call()).unwrap();
        let hooks = &config.value()["hooks"];
        // Argument 7 is the last one: the stage.
        assert_eq!(hooks["createRuntime"][0], engine_hook);
        assert_eq!(hooks["createRuntime"][1]["args"][7], "createRuntime");
        assert_eq!(hooks["poststart"][1], engine_hook);
        assert_eq!(hooks["poststart"][2]["args"][7], "poststart");
        assert_eq!(hooks["poststop"][0]["args"][7], "poststop");
        assert_eq!(hooks["other"], 1);
    }

    #[test]
    fn a_stage_that_is_not_a_list_is_refused() {
        let mut config =
            OciConfig::from_value(json!({"ociVersion": "1.0.2", "hooks": {"poststop": 3}}))
                .unwrap();
        let before = config.value().clone();
        assert_eq!(
            inject(&mut config, &call()).unwrap_err().to_string(),
            "hooks.poststop is not a list"
        );
        assert_eq!(*config.value(), before);
    }
}
