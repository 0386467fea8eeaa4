//! Values that our own configuration must have for an installation.

use super::manifest::Manifest;
use crate::install::{
    editing::file::{ConfigFile, Format, path},
    engines::request::{FileTarget, InstallRequest, NriChoice},
    error::InstallError,
    own_config,
};

/// Returns the values: the real runtime of each further name, and the NRI that adapts containers.
pub(crate) fn target(
    request: &InstallRequest<'_>,
    manifest: &Manifest,
    engine: &str,
) -> Result<FileTarget, InstallError> {
    let file = request.own_config;
    let config = own_config::read(request.root, file)?;
    let mut target = FileTarget::new(file, Format::Toml);
    target.header = "# Configuration of nri-container-runtime.\n".to_owned();
    for runtime in &request.runtimes {
        let Some(real) = &runtime.real else { continue };
        let name = runtime.link_name();
        let at = path(["runtime", "names", &name, "path"]);
        if let Some(current) = config.runtime.names.get(&name).filter(|n| n.path != *real) {
            let has = |changes: &[_]| {
                changes.iter().any(|c: &super::manifest::Change| c.is_at(file, &at))
            };
            let mut users = manifest.engines.iter().filter(|(_, record)| has(&record.changes));
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
        // Absence means `auto`; only another value of the administrator's is overridden.
        Some(NriChoice::Auto) => {
            let record = manifest.engines.get(engine);
            if record.is_some_and(|record| record.changes.iter().any(|c| c.path == at)) {
                target.unset.push(at);
            } else if let Some(file) = ConfigFile::read(request.root, file, Format::Toml)?
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
