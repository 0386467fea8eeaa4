//! The engines that there are, and what each has to say.

use super::{
    containerd, crio, docker,
    document::{Document, Format},
    error::InstallError,
    isulad, nerdctl,
    own::Nri,
    plan::Target,
    podman,
    root::Root,
    version::Version,
    wrapper::Runtime,
};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Docker,
    Containerd,
    Podman,
    Crio,
    Isulad,
    Nerdctl,
}

/// What is asked of an engine.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) root: &'a Root,
    /// Our configuration.
    pub(crate) ours: &'a Path,
    /// The engine's file, if not the usual one.
    pub(crate) file: Option<&'a Path>,
    pub(crate) version: Option<Version>,
    pub(crate) runtimes: Vec<Runtime>,
    /// The first of `runtimes` becomes the default one.
    pub(crate) default: bool,
    pub(crate) nri: Option<Nri>,
}

/// What an engine needs.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(crate) targets: Vec<Target>,
    pub(crate) notes: Vec<String>,
    pub(crate) nri: OwnNri,
    /// How to try it.
    pub(crate) usage: Vec<String>,
}

/// An engine's own NRI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OwnNri {
    On,
    Off,
    /// It has none.
    #[default]
    None,
    /// Its version decides, which is not known.
    Unknown,
}

/// Where an engine's file has its runtimes.
#[derive(Debug, Clone)]
pub(crate) struct Schema {
    pub(crate) file: PathBuf,
    pub(crate) format: Format,
    /// The table of runtimes by name.
    pub(crate) runtimes: Vec<String>,
    /// Where a runtime has its path; nothing: it is a list of paths.
    pub(crate) binary: &'static [&'static str],
    /// The name of the default one.
    pub(crate) default: Vec<String>,
    /// The switch of the engine's own NRI, and what switches it off.
    pub(crate) own_nri: Option<(Vec<String>, bool)>,
}

impl Engine {
    /// As in the command line and in `[engines]`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::Podman => "podman",
            Self::Crio => "crio",
            Self::Isulad => "isulad",
            Self::Nerdctl => "nerdctl",
        }
    }

    /// The program that knows the engine's version.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Docker => "dockerd",
            other => other.name(),
        }
    }

    /// What makes it read its files; nothing if it reads them at each call.
    pub(crate) fn reload(self) -> Option<&'static str> {
        match self {
            Self::Docker => Some("systemctl reload docker"),
            Self::Containerd => Some("systemctl restart containerd"),
            // It rereads runtimes while it runs, but not NRI's settings (`cri-o:
            // docs/crio.conf.5.md`).
            Self::Crio => Some("systemctl restart crio"),
            Self::Isulad => Some("systemctl restart isulad"),
            Self::Podman | Self::Nerdctl => None,
        }
    }

    /// What makes it forget what has left its files.
    pub(crate) fn forget(self) -> Option<&'static str> {
        match self {
            // A reload keeps runtimes that are in the file no more (seen with 20.10, 26.1 and
            // 28.5).
            Self::Docker => Some("systemctl restart docker"),
            other => other.reload(),
        }
    }

    /// Whether it may have NRI of its own, and `[engines]` a key for it.
    pub(crate) fn has_nri(self) -> bool {
        matches!(self, Self::Docker | Self::Containerd | Self::Crio)
    }

    /// Names of runtimes that it has without any configuration.
    pub(crate) fn reserved(self) -> &'static [&'static str] {
        match self {
            Self::Docker => &["runc", "io.containerd.runc.v2"],
            Self::Containerd => &["runc"],
            Self::Podman => &[
                "crun",
                "runc",
                "kata",
                "runsc",
                "youki",
                "krun",
                "ocijail",
                "crun-vm",
                "crun-wasm",
                "runj",
            ],
            Self::Crio => &["runc", "crun"],
            Self::Isulad => &["runc", "lcr", "kata-runtime", "runsc"],
            Self::Nerdctl => &[],
        }
    }

    /// What it needs for what is asked.
    pub(crate) fn needs(self, asked: &Asked<'_>) -> Result<Needs, InstallError> {
        let taken = asked.runtimes.iter().find(|runtime| self.reserved().contains(&&*runtime.name));
        if let Some(runtime) = taken {
            return Err(InstallError::Reserved { engine: self.name(), name: runtime.name.clone() });
        }
        let schemas = self.schemas(asked.root, asked.file)?;
        for schema in &schemas {
            schema.check_names(asked)?;
        }
        let mut needs = match self {
            Self::Docker => docker::needs(asked),
            Self::Containerd => containerd::needs(asked),
            Self::Podman => podman::needs(asked),
            Self::Crio => crio::needs(asked),
            Self::Isulad => isulad::needs(asked),
            Self::Nerdctl => nerdctl::needs(asked),
        }?;
        if asked.default {
            needs.notes.extend(overridden(asked.root, &schemas, &needs.targets)?);
        }
        Ok(needs)
    }

    /// All files in which it may have runtimes, in the order in which it reads them.
    pub(crate) fn schemas(
        self,
        root: &Root,
        file: Option<&Path>,
    ) -> Result<Vec<Schema>, InstallError> {
        match self {
            Self::Docker => Ok(vec![docker::schema(file.unwrap_or(Path::new(docker::FILE)))]),
            Self::Containerd => containerd::schemas(root, file),
            Self::Podman => Ok(podman::schemas(root, file)),
            Self::Crio => Ok(crio::schemas(root, file)),
            Self::Isulad => Ok(vec![isulad::schema(file.unwrap_or(Path::new(isulad::FILE)))]),
            Self::Nerdctl => Ok(vec![]),
        }
    }
}

impl Schema {
    /// The file as it is; `None` if there is none.
    pub(crate) fn read(&self, root: &Root) -> Result<Option<Document>, InstallError> {
        read(root, &self.file, self.format)
    }

    /// A runtime's path.
    pub(crate) fn binary<'a>(&self, runtime: &'a Value) -> Option<&'a str> {
        if self.binary.is_empty() {
            return runtime.as_array()?.iter().find_map(Value::as_str);
        }
        self.binary.iter().try_fold(runtime, |value, name| value.get(name))?.as_str()
    }

    /// Where a runtime is.
    pub(crate) fn runtime(&self, name: &str) -> Vec<String> {
        self.runtimes.iter().cloned().chain([name.to_owned()]).collect()
    }

    fn check_names(&self, asked: &Asked<'_>) -> Result<(), InstallError> {
        let Some(document) = self.read(asked.root)? else { return Ok(()) };
        for runtime in &asked.runtimes {
            let at = self.runtime(&runtime.name);
            let there =
                document.get(&at).map_err(|e| InstallError::Document(self.file.clone(), e))?;
            let Some(there) = there else { continue };
            if self
                .binary(&there)
                .is_none_or(|path| !asked.root.is_ours(path) && path != runtime.path())
            {
                let value = there.to_string();
                return Err(InstallError::Collision {
                    file: self.file.clone(),
                    path: at.join("."),
                    value,
                });
            }
        }
        Ok(())
    }
}

/// Files that are read after ours and name another default runtime.
fn overridden(
    root: &Root,
    schemas: &[Schema],
    targets: &[Target],
) -> Result<Vec<String>, InstallError> {
    let Some(ours) = targets.first().map(|target| &target.file) else { return Ok(vec![]) };
    let at = schemas.iter().position(|schema| schema.file == *ours);
    let at = at.unwrap_or_else(|| {
        schemas.iter().take_while(|s| s.file.parent() != ours.parent() || s.file < *ours).count()
    });
    let mut notes = Vec::new();
    for schema in schemas.iter().skip(at).filter(|schema| schema.file != *ours) {
        let default = schema.read(root)?.map(|document| document.get(&schema.default)).transpose();
        if let Ok(Some(Some(name))) = default {
            notes.push(format!(
                "{} is read later and makes {name} the default runtime",
                schema.file.display()
            ));
        }
    }
    Ok(notes)
}

/// A file as it is; `None` if there is none.
pub(crate) fn read(
    root: &Root,
    file: &Path,
    format: Format,
) -> Result<Option<Document>, InstallError> {
    let bytes = root.read(file).map_err(|e| InstallError::Read(file.to_owned(), e))?;
    let document = bytes.map(|bytes| Document::parse(format, &bytes)).transpose();
    document.map_err(|e| InstallError::Document(file.to_owned(), e))
}
