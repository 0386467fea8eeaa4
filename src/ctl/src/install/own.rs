//! Our own configuration: which real runtime a name of the wrapper means, and who adapts an
//! engine's containers.

use super::{
    document::{Format, path},
    error::InstallError,
    manifest::Manifest,
    plan::Target,
    root::Root,
    wrapper::Runtime,
};
use clap::ValueEnum;
use nri_config::Config;
use std::path::{Path, PathBuf};

/// Whose NRI adapts an engine's containers: `[engines]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Nri {
    /// The engine's while it is on, else ours.
    Auto,
    /// The engine's.
    Engine,
    /// Ours; the engine's is switched off in its configuration.
    Ours,
}

impl Nri {
    /// As the configuration says it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Engine => "engine",
            Self::Ours => "ours",
        }
    }
}

/// What our configuration must say.
pub(crate) fn target(
    root: &Root,
    file: &Path,
    manifest: &Manifest,
    engine: &str,
    runtimes: &[Runtime],
    nri: Option<Nri>,
) -> Result<Target, InstallError> {
    let text =
        root.read(file).map_err(|e| InstallError::Read(file.to_owned(), e))?.unwrap_or_default();
    let config = parse(file, &text)?;
    let mut target = Target::new(file, Format::Toml);
    target.header = "# Configuration of nri-container-runtime.\n".to_owned();
    for runtime in runtimes {
        let Some(real) = &runtime.real else { continue };
        let name = runtime.link_name();
        let at = path(["runtime", "names", &name, "path"]);
        if let Some(there) = config.runtime.names.get(&name).filter(|there| there.path != *real) {
            let change = |(other, record): (&String, &super::manifest::EngineRecord)| {
                record.changes.iter().any(|c| c.file == file && c.path == at).then(|| other.clone())
            };
            let users: Vec<String> = manifest.engines.iter().filter_map(change).collect();
            if users.iter().any(|user| user != engine) {
                return Err(InstallError::NameOfOther(name, there.path.clone(), users.join(", ")));
            }
            if users.is_empty() {
                let value = there.path.display().to_string();
                return Err(InstallError::Collision {
                    file: file.to_owned(),
                    path: at.join("."),
                    value,
                });
            }
        }
        target.set(at, real.to_string_lossy());
    }
    let at = path(["engines", engine]);
    match nri {
        // Absence means the same; what the administrator wrote is overridden only if it says
        // something else.
        Some(Nri::Auto) => {
            let said = super::document::Document::parse(Format::Toml, &text)
                .and_then(|document| document.get(&at))
                .map_err(|e| InstallError::Document(file.to_owned(), e))?;
            let ours = manifest
                .engines
                .get(engine)
                .is_some_and(|r| r.changes.iter().any(|c| c.path == at));
            if ours {
                target.unset.push(at);
            } else if said.is_some_and(|said| said != "auto") {
                target.set(at, "auto");
            }
        }
        Some(nri) => target.set(at, nri.word()),
        None => {}
    }
    Ok(target)
}

/// Our configuration is read by every wrapper: what it cannot read is not written.
pub(crate) fn parse(file: &Path, text: &[u8]) -> Result<Config, InstallError> {
    let wrong = |message: String| InstallError::Ours(PathBuf::from(file), message);
    let text = std::str::from_utf8(text).map_err(|_| wrong("not UTF-8".to_owned()))?;
    Config::parse(text).map_err(|e| wrong(e.to_string()))
}
