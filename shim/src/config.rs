//! Reads the configuration file.
//!
//! A problem with it is kept beside the defaults rather than returned: verbs without an event must
//! work with a broken file.

use crate::{
    Error,
    call::{Call, working_dir},
};
use nri_config::{CONFIG_ENV, CONFIG_FILE, Config, Owner, RuntimeSettings, state_dir};
use nri_trust::Owners;
use std::{ffi::OsStr, io::ErrorKind, path::PathBuf};

/// The configuration, and what is to be known about its file.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Defaults where the file is missing or broken, but for the runtime of one that can be read.
    pub(crate) config: Config,
    /// What is wrong with the file.
    pub(crate) problem: Option<Error>,
    /// The file, absolute, where one was named.
    pub(crate) named: Option<PathBuf>,
}

impl Loaded {
    /// Reads the file that `option` (`--nri-config`) names, or the variable, or the default one.
    pub(crate) fn read(option: Option<&OsStr>, call: &Call) -> Self {
        let named = option.or_else(|| call.var(CONFIG_ENV)).map(|path| working_dir().join(path));
        let path = named.clone().unwrap_or_else(|| CONFIG_FILE.into());
        // It names programs that run with our rights. Looking at its path takes a few microseconds,
        // and comes first: nobody can change it then.
        let trusted = Owners::of_this_process().check_if_there(&path);
        let mut runtime = RuntimeSettings::default();
        let parsed = match trusted.map(|()| std::fs::read_to_string(&path)) {
            Ok(Ok(text)) => Config::parse(&text).map_err(|e| {
                // What is there has to be killed and deleted by the runtime that made it.
                runtime = RuntimeSettings::of_broken(&text);
                Error::Config(e, path)
            }),
            Ok(Err(e)) if named.is_none() && e.kind() == ErrorKind::NotFound => {
                Ok(Config::default())
            }
            Ok(Err(e)) => Err(Error::ConfigRead(e, path)),
            Err(e) => Err(Error::ConfigUntrusted(e, path)),
        };
        match parsed {
            Ok(config) => Self { config, problem: None, named },
            Err(e) => {
                Self { config: Config { runtime, ..Config::default() }, problem: Some(e), named }
            }
        }
    }

    /// The directory of sockets and locks, absolute.
    pub(crate) fn state_dir(&self, call: &Call) -> PathBuf {
        let dir = self.config.state_dir.clone().unwrap_or_else(|| state_dir(&Self::owner(call)));
        if dir.is_absolute() { dir } else { working_dir().join(dir) }
    }

    /// Whose `nrid` it is that this process would talk to.
    pub(crate) fn owner(call: &Call) -> Owner {
        let uid_map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let runtime_dir = call.var("XDG_RUNTIME_DIR").map(PathBuf::from);
        Owner::of(&uid_map, rustix::process::geteuid().as_raw(), runtime_dir)
    }
}
