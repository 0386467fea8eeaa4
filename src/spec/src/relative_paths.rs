//! Relative paths of a `config.json`, which a runtime resolves in the directory of the bundle.

use crate::OciConfig;
use crate::oci_config::HOOK_KINDS;
use serde_json::Value;

/// Options of overlay mounts whose values are paths, or for the first, a list of paths.
const OVERLAY: [&str; 3] = ["lowerdir=", "upperdir=", "workdir="];

/// Makes the relative paths absolute against `bundle`, an absolute path, so that the `config.json`
/// means the same in another directory. Returns whether it was changed.
///
/// Paths in annotations, which some runtimes know, are left as they are.
pub fn resolve_paths(config: &mut OciConfig, bundle: &str) -> bool {
    let mut resolver = Resolver { bundle, changed: false };
    let config = config.value_mut();
    resolver.resolve(config.pointer_mut("/root/path"));
    resolver.resolve(config.pointer_mut("/linux/seccomp/listenerPath"));
    for namespace in entries(config.pointer_mut("/linux/namespaces")) {
        resolver.resolve(namespace.get_mut("path"));
    }
    // The others run in the container, and their paths are those of the container.
    for kind in HOOK_KINDS.into_iter().filter(|kind| *kind != "startContainer") {
        for hook in entries(config.pointer_mut(&format!("/hooks/{kind}"))) {
            resolver.resolve(hook.get_mut("path"));
        }
    }
    for mount in entries(config.get_mut("mounts")) {
        let is = |name: &str| mount.get("type").and_then(Value::as_str) == Some(name);
        let has = |name: &str| {
            let options = mount.get("options").and_then(Value::as_array);
            options.is_some_and(|options| options.iter().any(|option| option == name))
        };
        let (is_bind, is_overlay) = (is("bind") || has("bind") || has("rbind"), is("overlay"));
        if is_bind {
            resolver.resolve(mount.get_mut("source"));
        }
        if is_overlay {
            for option in entries(mount.get_mut("options")) {
                resolver.resolve_overlay(option);
            }
        }
    }
    resolver.changed
}

fn entries(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

struct Resolver<'a> {
    bundle: &'a str,
    changed: bool,
}

impl Resolver<'_> {
    fn resolve(&mut self, path: Option<&mut Value>) {
        if let Some(Value::String(path)) = path
            && let Some(absolute) = self.absolute(path)
        {
            (*path, self.changed) = (absolute, true);
        }
    }

    fn resolve_overlay(&mut self, option: &mut Value) {
        let Value::String(text) = option else { return };
        let Some(key) = OVERLAY.into_iter().find(|key| text.starts_with(key)) else { return };
        // A colon that belongs to a path has a backslash before it.
        let mut paths: Vec<String> = Vec::new();
        for part in text[key.len()..].split(':') {
            match paths.last_mut().filter(|path| path.ends_with('\\')) {
                Some(path) => *path += &format!(":{part}"),
                None => paths.push(part.to_owned()),
            }
        }
        let resolved: Vec<_> =
            paths.into_iter().map(|path| self.absolute(&path).unwrap_or(path)).collect();
        let resolved = resolved.join(":");
        let resolved = format!("{key}{resolved}");
        if resolved != *text {
            (*text, self.changed) = (resolved, true);
        }
    }

    /// Returns the absolute path; `None` if the path is absolute or empty.
    fn absolute(&self, path: &str) -> Option<String> {
        let is_relative = !path.starts_with('/') && !path.is_empty();
        is_relative.then(|| cleaned(&format!("{}/{path}", self.bundle)))
    }
}

/// Returns an absolute path without `.`, `..` and double slashes, as runc makes it: it refuses a
/// rootfs with them. The bundle's own path has no links.
fn cleaned(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_relative_to_the_bundle_become_absolute_and_nothing_else_changes() {
        let config = |prefix: &str| {
            let path = |path: &str| format!("{prefix}{path}");
            json!({
                "root": {"path": path("rootfs"), "readonly": true},
                "process": {"cwd": "relative", "args": ["./sh"]},
                "mounts": [
                    {"destination": "d", "type": "bind", "source": path("./data")},
                    {"destination": "/e", "source": path("../e"), "options": ["rbind", "ro"]},
                    {"destination": "/t", "type": "tmpfs", "source": "tmpfs", "options": ["ro"]},
                    {"destination": "/o", "type": "overlay", "source": "overlay", "options": [
                        format!("lowerdir={}:/abs:{}", path("a\\:b"), path("c")),
                        format!("upperdir={}", path("up")),
                        format!("workdir={}", path("work")),
                        "index=off"
                    ]},
                ],
                "hooks": {"createRuntime": [{"path": path("hook"), "args": ["hook"]}],
                    "startContainer": [{"path": "in/the/container"}]},
                "linux": {
                    "namespaces": [{"type": "pid"}, {"type": "network", "path": path("ns/net")}],
                    "seccomp": {"listenerPath": path("agent.sock")},
                    "devices": [{"path": "dev"}],
                },
            })
        };
        let mut relative = OciConfig::from_value(config("")).unwrap();
        let mut expected = config("/b/");
        expected["mounts"][0]["source"] = "/b/data".into();
        expected["mounts"][1]["source"] = "/e".into();
        assert!(resolve_paths(&mut relative, "/b"));
        assert_eq!(*relative.value(), expected);
        let mut absolute = relative.clone();
        assert!(!resolve_paths(&mut absolute, "/other"));
        assert_eq!(absolute, relative);
    }
}
