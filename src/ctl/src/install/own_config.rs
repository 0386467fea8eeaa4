//! Our own configuration. It maps names of the wrapper to real runtimes, and selects the NRI that
//! adapts an engine's containers: the engine's or ours.

use super::{
    editing::file::path,
    engines::request::{InstallRequest, NriChoice},
    error::InstallError,
    install_root::InstallRoot,
    plan::InstallPlan,
};
use nri_config::Config;
use std::path::Path;

/// Key of the policies of plugins.
pub(super) const POLICIES: &str = "plugin";

/// Texts that a configuration begins with: in a new installation, and otherwise. Every version that
/// has policies accepts this one, so that an earlier version can use the configuration after a
/// downgrade.
pub(super) const HEADERS: [&str; 2] = [
    "\
# Configuration of nri-container-runtime.
#
# The policy below applies to each plugin that has no policy of its own: nrid launches such a plugin
# without capabilities. A plugin that needs capabilities gets a policy that lists them, such as:
#
#   [[plugin]]
#   match = \"10-my-plugin\"
#   capabilities = [\"net_admin\"]
#   no_new_privs = true

[[plugin]]
match = \"*\"
capabilities = []
no_new_privs = true
",
    "# Configuration of nri-container-runtime.\n",
];

/// Reads the configuration. A missing file counts as an empty file.
pub(super) fn read(root: &InstallRoot, file: &Path) -> Result<Config, InstallError> {
    let text = root.read(file)?.unwrap_or_default();
    parse(file, std::str::from_utf8(&text).map_err(|_| "not UTF-8".to_owned()))
}

/// Parses the configuration. Every wrapper reads it, so a text that it would refuse is an error.
fn parse(file: &Path, text: Result<&str, String>) -> Result<Config, InstallError> {
    let parsed = text.and_then(|text| Config::parse(text).map_err(|error| error.to_string()));
    parsed.map_err(|reason| InstallError::OwnConfig { path: file.to_owned(), reason })
}

impl InstallPlan<'_> {
    /// Sets the real runtime of each runtime of `--runtime`, and the NRI that adapts the engine's
    /// containers. A new installation gets a policy of plugins.
    ///
    /// # Errors
    /// The configuration cannot be edited, or a name in it is taken.
    pub(super) fn configure(&mut self, request: &InstallRequest<'_>) -> Result<(), InstallError> {
        let (file, engine) = (request.own_config, self.engine.name());
        let config = read(request.root, file)?;
        // A user's plugins have only what the user may do, and no capabilities to give up.
        let is_new = self.old_record.engines.is_empty() && request.root.user().is_none();
        let current = self.file(file)?.clone();
        let is_new = is_new && current.before.is_none();
        if is_new {
            self.file(file)?.replace_text(HEADERS[0].to_owned())?;
            let file = file.display();
            self.notes.push(format!(
                "nrid launches plugins without capabilities, unless a policy in {file} lists some \
                 for a plugin"
            ));
        }
        for runtime in &request.runtimes {
            let Some(real) = &runtime.real else { continue };
            let name = runtime.link_name();
            let at = path(["runtime", "names", &name, "path"]);
            if let Some(other) = config.runtime.names.get(&name).filter(|n| n.path != *real) {
                let users = self.record.users(file, &at).map(|(name, _)| name);
                let users: Vec<&str> = users.collect();
                let real = other.path.clone();
                if users.is_empty() {
                    let (file, value) = (file.to_owned(), real.display().to_string());
                    return Err(InstallError::Collision { file, path: at.join("."), value });
                }
                if users != [engine] {
                    let engines = users.join(", ");
                    return Err(InstallError::NameOfOther { name, real, engines });
                }
            }
            self.set(&current, &at, real.to_string_lossy())?;
        }
        let at = path(["engines", engine]);
        match request.nri {
            // A missing key means `auto`, so `auto` is only written over another value.
            Some(NriChoice::Auto) if self.unset(&current, &at)? => {}
            Some(NriChoice::Auto) if current.get(&at).is_none_or(|value| value == "auto") => {}
            Some(NriChoice::Auto) => self.set(&current, &at, "auto")?,
            Some(NriChoice::Engine) => self.set(&current, &at, "engine")?,
            Some(NriChoice::Ours) => self.set(&current, &at, "ours")?,
            None => {}
        }
        parse(file, Ok(&self.file(file)?.text)).map(drop)
    }
}
