//! Plugins that come and go: each process of one has a journal of its own, so that a journal is a
//! session, and what is in it makes a [`View`].

use crate::{Journal, Node, Process, Program, View, write_program};
use std::{
    fs,
    path::{Path, PathBuf},
};

impl Node {
    /// Where the journals of sessions are.
    ///
    /// # Panics
    /// It cannot be made.
    pub fn journals(&self) -> PathBuf {
        let dir = self.path("journals");
        fs::create_dir_all(&dir).expect("our directory");
        dir
    }

    /// Installs a plugin that `nrid` launches, and launches again, as `NN-name`: a script, since
    /// what is launched has no arguments.
    ///
    /// # Panics
    /// It cannot be installed.
    pub fn launch_in_sessions(&self, name: &str, program: &Program, config: &str) {
        fs::write(self.path("conf.d").join(format!("{name}.conf")), config).expect("our directory");
        let journal = self.journals().join(name);
        let text = format!(
            "#!/bin/sh\nexec '{}' --log \"{}.$$\"\n",
            program.path().display(),
            journal.display()
        );
        let file = self.path("plugins").join(name);
        write_program(&file, &text);
    }

    /// The processes of plugins that have a journal there, with it.
    pub fn sessions(&self) -> Vec<(Process, PathBuf)> {
        let journals = self.journals().into_os_string().into_string().expect("our paths are UTF-8");
        let journal = |process: &Process| {
            let line = fs::read(format!("/proc/{}/cmdline", process.0)).ok()?;
            let mut arguments = line.split(|b| *b == 0).map(String::from_utf8_lossy);
            arguments.find(|a| a.starts_with(&journals)).map(|a| PathBuf::from(a.into_owned()))
        };
        Process::all().into_iter().filter_map(|p| journal(&p).map(|journal| (p, journal))).collect()
    }
}

impl View {
    /// The view of a session's plugin.
    pub fn of_session(journal: &Path) -> Self {
        Self::of(&Journal::new(journal).entries())
    }
}
