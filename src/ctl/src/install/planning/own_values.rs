//! Values that our own configuration must have for an installation.

use super::manifest::{Change, Manifest};
use crate::install::{
    editing::file::{ConfigFile, Format, path},
    engines::request::{FileTarget, InstallRequest, NriChoice},
    error::InstallError,
    own_config,
};
use serde_json::{Value, json};

/// Key of the policies of plugins.
pub(crate) const POLICIES: &str = "plugin";

/// Text that a new configuration begins with.
const HEADER: &str = "\
# Configuration of nri-container-runtime.
#
# The policy below applies to each plugin that has no policy of its own: nrid launches such a plugin
# without capabilities. A plugin that needs capabilities gets a policy that lists them, such as:
#
#   [[plugin]]
#   match = \"10-my-plugin\"
#   capabilities = [\"net_admin\"]
#   no_new_privs = true
";

/// Returns the policies of plugins in a new installation. Every release that has policies accepts
/// these, so that an earlier release can use the configuration after a downgrade.
fn default_policies() -> Value {
    json!([{"match": "*", "capabilities": [], "no_new_privs": true}])
}

/// Whether this change of our configuration wrote the policies of plugins.
pub(crate) fn is_policy(change: &Change) -> bool {
    change.path == [POLICIES]
}

/// Returns a note if the values limit launched plugins.
pub(crate) fn note(target: &FileTarget) -> Option<String> {
    let limits = target.values.iter().any(|(at, _)| *at == [POLICIES]);
    limits.then(|| {
        let file = target.file.display();
        format!(
            "nrid launches plugins without capabilities, unless a policy in {file} lists some \
             for a plugin"
        )
    })
}

/// Returns the values: the real runtime of each runtime of `--runtime`, the NRI that adapts the
/// engine's containers, and the policy of plugins in a new installation.
pub(crate) fn target(
    request: &InstallRequest<'_>,
    manifest: &Manifest,
    engine: &str,
) -> Result<FileTarget, InstallError> {
    let file = request.own_config;
    let config = own_config::read(request.root, file)?;
    let mut target = FileTarget::new(file, Format::Toml);
    let current = ConfigFile::read(request.root, file, Format::Toml)?;
    let policies = path([POLICIES]);
    // A user's plugins have only what the user may do, and no capabilities to give up.
    let is_new = current.is_none() && manifest.engines.is_empty() && request.root.user().is_none();
    let current_policies = current.as_ref().map(|file| file.get(&policies)).transpose()?.flatten();
    // The policies are recorded for each engine; uninstalling the last engine removes them.
    let is_ours = || manifest.changes().any(|change| change.is_at(file, &policies));
    if is_new || (current_policies == Some(default_policies()) && is_ours()) {
        target.set(policies, default_policies());
    }
    target.header = match is_new {
        true => HEADER.to_owned(),
        false => "# Configuration of nri-container-runtime.\n".to_owned(),
    };
    for runtime in &request.runtimes {
        let Some(real) = &runtime.real else { continue };
        let name = runtime.link_name();
        let at = path(["runtime", "names", &name, "path"]);
        if let Some(current) = config.runtime.names.get(&name).filter(|n| n.path != *real) {
            let has_value = |changes: &[_]| changes.iter().any(|c: &Change| c.is_at(file, &at));
            let mut users =
                manifest.engines.iter().filter(|(_, record)| has_value(&record.changes));
            let users: Vec<&str> = users.by_ref().map(|(name, _)| &**name).collect();
            let real = current.path.clone();
            if users.iter().any(|user| *user != engine) {
                return Err(InstallError::NameOfOther { name, real, engines: users.join(", ") });
            }
            if users.is_empty() {
                let (file, value) = (file.to_owned(), real.display().to_string());
                return Err(InstallError::Collision { file, path: at.join("."), value });
            }
        }
        target.set(at, real.to_string_lossy());
    }
    let at = path(["engines", engine]);
    match request.nri {
        // A missing key means `auto`, so `auto` is only written over another value.
        Some(NriChoice::Auto) => {
            let record = manifest.engines.get(engine);
            if record.is_some_and(|record| record.changes.iter().any(|c| c.path == at)) {
                target.unset.push(at);
            } else if let Some(file) = current
                && file.get(&at)?.is_some_and(|value| value != "auto")
            {
                target.set(at, "auto");
            }
        }
        Some(NriChoice::Engine) => target.set(at, "engine"),
        Some(NriChoice::Ours) => target.set(at, "ours"),
        None => {}
    }
    Ok(target)
}
