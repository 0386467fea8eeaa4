//! The creation that a dry run asks about: that of a bundle, or that of a known container.

use crate::{
    bundle::config_json::BundleError,
    error::Error,
    settings::load::Settings,
    state::{record::Record, registry::Registry},
    verb::request::VerbRequest,
};
use nri_adaptation::AdaptError;
use nri_control::{Ambiguous, Begin, Verb};
use nri_files::OsText;
use nri_locate::{Environment, RuntimeNotFound, find_runtime};
use rustix::fs::{Mode, OFlags, open};
use std::{
    io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// What a dry run asks about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DryRunSubject {
    /// A container that would be created from a bundle.
    Bundle {
        /// Directory of the bundle.
        dir: PathBuf,
        /// Id of the container. Default: the name of the directory.
        id: Option<String>,
    },
    /// A known container that a person means: what would be changed if it were created now.
    Container(String),
}

/// A dry run that gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum DryRunError {
    /// No such container is recorded.
    #[error("no container {0:?} is known; `nrictl containers --all` lists them")]
    Unknown(String),
    /// Several containers are meant.
    #[error(transparent)]
    Ambiguous(#[from] Ambiguous),
    /// The bundle cannot be opened.
    #[error("bundle {dir}: {source}", dir = .dir.display())]
    Bundle {
        /// Directory of the bundle.
        dir: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// There is no low-level runtime.
    #[error(transparent)]
    Runtime(#[from] RuntimeNotFound),
    /// The bundle cannot be used.
    #[error("{0}")]
    Creation(String),
    /// The plugins cannot be launched.
    #[error(transparent)]
    Plugins(#[from] AdaptError),
    /// Plugins, runtimes or file systems did not reply in time.
    #[error("no answer within {0:?}: a plugin, a runtime or a file system hangs")]
    TimedOut(Duration),
    /// This process was ended.
    #[error("ended by a signal")]
    Interrupted,
    /// Signals or orphans cannot be handled.
    #[error("cannot prepare the process: {0}")]
    Process(#[source] io::Error),
}

/// Returns the request of a wrapper that would create the container, and the record of the
/// container, if it was created before.
pub(super) async fn request_for(
    settings: &Settings,
    registry: &Registry,
    subject: &DryRunSubject,
) -> Result<(VerbRequest, Option<Arc<Record>>), DryRunError> {
    let refused = |error: Error| DryRunError::Creation(error.line(""));
    match subject {
        DryRunSubject::Container(wanted) => {
            let found = registry.find(wanted)?;
            let record = found.ok_or_else(|| DryRunError::Unknown(wanted.clone()))?.record();
            let request = of_record(&record).await.map_err(refused)?;
            Ok((request, Some(record)))
        }
        DryRunSubject::Bundle { dir, id } => {
            let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
            let unreadable = |source| DryRunError::Bundle { dir: dir.clone(), source };
            let meta = dir.metadata().map_err(unreadable)?;
            let records = registry.records_of_bundle((meta.dev(), meta.ino()));
            let is_wanted = |r: &&Arc<Record>| id.as_ref().is_none_or(|id| r.key.id == *id);
            if let Some(record) = records.iter().rfind(is_wanted) {
                let request = of_record(record).await.map_err(refused)?;
                return Ok((request, Some(record.clone())));
            }
            let environment = Environment::of_this_process();
            let runtime = find_runtime(None, None, &settings.config.runtime, &environment)?;
            let id = id.clone().unwrap_or_else(|| name_of(&dir));
            let begin = begin(id, &runtime, &dir);
            let bundle = open_directory(&dir).map_err(unreadable)?;
            let request = VerbRequest::parse(begin, Some(bundle), None).await.map_err(refused)?;
            Ok((request, None))
        }
    }
}

/// Returns the request for the creation of a container as it was created.
async fn of_record(record: &Record) -> Result<VerbRequest, Error> {
    let runtime = &record.runtime;
    let begin = Begin {
        root: Some(OsText::from(record.key.root.as_os_str())),
        globals: runtime.global_options().to_vec(),
        environment: runtime.environment.clone(),
        config: Some(OsText::from(Path::new(&record.bundle.name).as_os_str())),
        ..begin(record.key.id.clone(), runtime.path(), &record.bundle.dir)
    };
    let bundle = runtime.open(&record.bundle.dir, OFlags::DIRECTORY).map_err(|error| {
        let file = record.bundle.dir.clone();
        Error::from(BundleError::Read(file, error))
    })?;
    let namespace = runtime.namespace().cloned();
    VerbRequest::parse(begin, Some(bundle), namespace).await
}

fn begin(id: String, runtime: &Path, bundle: &Path) -> Begin {
    let path = |path: &Path| OsText::from(path.as_os_str());
    Begin {
        verb: Verb::Create,
        id,
        runtime: path(runtime),
        root: None,
        globals: Vec::new(),
        arguments: Vec::new(),
        bundle: Some(path(bundle)),
        config: None,
        cwd: path(bundle),
        environment: Vec::new(),
        resources: None,
        flag: false,
        hook: None,
        follow: false,
    }
}

fn open_directory(dir: &Path) -> io::Result<OwnedFd> {
    Ok(open(dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the name of the directory: the container's id for engines with a bundle for each.
fn name_of(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned()
}
