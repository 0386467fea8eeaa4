//! Completion scripts for shells, from the definitions of the command line.

use crate::output::output;
use clap::{Command, ValueEnum};
use clap_complete::Shell;
use std::io::{self, Write};

/// A shell with a completion script.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Fish,
    Zsh,
}

/// Prints the completion script for a shell.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print(mut command: Command, shell: CompletionShell) -> io::Result<()> {
    let shell = match shell {
        CompletionShell::Bash => Shell::Bash,
        CompletionShell::Fish => Shell::Fish,
        CompletionShell::Zsh => Shell::Zsh,
    };
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    output().write_all(&script)
}
