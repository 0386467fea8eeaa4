//! Journals of plugin sessions: each process of a plugin writes its own journal, from which a
//! [`View`] is made.

use crate::{Journal, Node, Process, Program, View, write_program};
use std::{
    fs,
    path::{Path, PathBuf},
};

impl Node {
    /// Creates the directory of the session journals, and returns its path.
    ///
    /// # Panics
    /// The directory cannot be created.
    pub fn journals(&self) -> PathBuf {
        let dir = self.path("journals");
        fs::create_dir_all(&dir).expect("the test directory is writable");
        dir
    }

    /// Installs a plugin as `NN-name` that `nrid` launches and restarts. The installed file is a
    /// script that passes `--log` to the plugin, because `nrid` passes no arguments.
    ///
    /// # Panics
    /// The plugin cannot be installed.
    pub fn launch_in_sessions(&self, name: &str, program: &Program, config: &str) {
        fs::write(self.path("conf.d").join(format!("{name}.conf")), config)
            .expect("the test directory is writable");
        let journal = self.journals().join(name);
        let text = format!(
            "#!/bin/sh\nexec '{}' --log \"{}.$$\"\n",
            program.path().display(),
            journal.display()
        );
        let file = self.path("plugins").join(name);
        write_program(&file, &text);
    }

    /// Running plugin processes with the paths of their session journals.
    pub fn sessions(&self) -> Vec<(Process, PathBuf)> {
        let journals =
            self.journals().into_os_string().into_string().expect("paths of tests are UTF-8");
        let journal = |process: &Process| {
            let line = fs::read(format!("/proc/{}/cmdline", process.0)).ok()?;
            let mut arguments = line.split(|b| *b == 0).map(String::from_utf8_lossy);
            arguments.find(|a| a.starts_with(&journals)).map(|a| PathBuf::from(a.into_owned()))
        };
        Process::all().into_iter().filter_map(|p| journal(&p).map(|journal| (p, journal))).collect()
    }
}

impl View {
    /// Computes the view of a plugin from the journal of one session.
    pub fn of_session(journal: &Path) -> Self {
        Self::of(&Journal::new(journal).entries())
    }
}
