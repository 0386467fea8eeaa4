//! Our own hook in a document: for the containers whose life no wrapper sees.

use nri_control::HookKind;
use nri_spec::OciConfig;
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};

/// How the hook is called.
#[derive(Debug, Clone)]
pub struct HookCall {
    /// The program.
    pub program: PathBuf,
    /// Control socket.
    pub socket: PathBuf,
    /// Record that it belongs to.
    pub record: String,
    /// How long an answer to it may take, while plugins are asked.
    pub patience: Duration,
}

/// Why the hook cannot be injected.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// The document has something else in its place.
    #[error("hooks.{0} is not a list")]
    NotAList(&'static str),
    /// The hook or the socket has a name that JSON cannot hold.
    #[error("{0:?} is not UTF-8")]
    Name(PathBuf),
}

/// Adds the hook, last among those of its stage: after `createRuntime` hooks that set up the
/// network, and after `poststart` hooks that fail, as a `start` whose hooks fail is not told
/// either. The engine's own keep their numbers, by which runtimes name the one that failed.
///
/// # Errors
/// `hooks` of the document is not an object of lists. Then it is unchanged.
pub fn inject(document: &mut OciConfig, call: &HookCall) -> Result<(), InjectError> {
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
    arguments.extend(["--patience".to_owned(), call.patience.as_secs().to_string()]);
    let mut hooks = match document.value().get("hooks") {
        Some(hooks) if !hooks.is_null() => hooks.clone(),
        _ => json!({}),
    };
    for kind in [HookKind::CreateRuntime, HookKind::Poststart, HookKind::Poststop] {
        let name = name(kind);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain([name]).collect();
        let hook = json!({"path": program, "args": arguments});
        let hooks = hooks.as_object_mut().ok_or(InjectError::NotAList("*"))?;
        let list = hooks.entry(name).or_insert_with(|| json!([]));
        if list.is_null() {
            *list = json!([]);
        }
        list.as_array_mut().ok_or(InjectError::NotAList(name))?.push(hook);
    }
    if let Value::Object(document) = document.value_mut() {
        document.insert("hooks".to_owned(), hooks);
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
            patience: Duration::from_secs(60),
        }
    }

    #[test]
    fn after_the_engines_own() {
        let theirs = json!({"path": "/theirs"});
        let mut document =
            OciConfig::from_value(json!({"ociVersion": "1.0.2", "hooks": {"createRuntime": [theirs], "poststart": [theirs, theirs], "other": 1}})).unwrap();
        inject(&mut document, &call()).unwrap();
        let hooks = &document.value()["hooks"];
        assert_eq!(hooks["createRuntime"][0], theirs);
        assert_eq!(hooks["createRuntime"][1]["args"][7], "createRuntime");
        assert_eq!(hooks["poststart"][1], theirs);
        assert_eq!(hooks["poststart"][2]["args"][7], "poststart");
        assert_eq!(hooks["poststop"][0]["args"][7], "poststop");
        assert_eq!(hooks["other"], 1);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let mut document =
            OciConfig::from_value(json!({"ociVersion": "1.0.2", "hooks": {"poststop": 3}}))
                .unwrap();
        let before = document.value().clone();
        assert_eq!(
            inject(&mut document, &call()).unwrap_err().to_string(),
            "hooks.poststop is not a list"
        );
        assert_eq!(*document.value(), before);
    }
}
