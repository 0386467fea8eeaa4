//! The command line of a plugin: the flags that upstream's plugins in Go have. (Feature `flags`.)
//!
//! Other flags are those of a [`clap::Parser`], which [`Flags`] is part of. Each flag may have one
//! dash as well as two, as in Go: `-idx 10`, `-idx=10`, `--idx 10`.
//!
//! ```
//! use nri_plugin::flags::Flags;
//!
//! /// Greets containers.
//! #[derive(clap::Parser)]
//! struct Options {
//!     #[command(flatten)]
//!     plugin: Flags,
//!     /// Greeting of containers
//!     #[arg(long, default_value = "hello")]
//!     text: String,
//! }
//!
//! let options: Options = nri_plugin::flags::parse_from(["greeter", "-idx", "10", "-text=hi"]);
//! assert_eq!(options.plugin.idx.as_deref(), Some("10"));
//! assert_eq!(options.text, "hi");
//! // options.plugin.builder(Greeter).main()
//! ```

use crate::{Builder, Plugin, Stub};
use clap::{ArgAction, Command, Parser, builder::BoolishValueParser};
use std::{ffi::OsString, path::PathBuf};

/// Flags of every plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct Flags {
    /// Name to register, unless a runtime launches the plugin
    #[arg(long)]
    pub name: Option<String>,
    /// Index to register, two digits, unless a runtime launches the plugin
    #[arg(long, value_name = "NN")]
    pub idx: Option<String>,
    /// Socket of the runtime
    #[arg(long, visible_alias = "socket-path", value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Log messages of the level debug
    #[arg(
        long,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        value_parser = BoolishValueParser::new(),
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub verbose: bool,
}

impl Flags {
    /// Returns a builder with the settings that are given, and sets the level of messages.
    pub fn builder<P: Plugin>(&self, plugin: P) -> Builder<P> {
        #[cfg(feature = "logging")]
        if self.verbose {
            crate::logging::init();
            // It is a level.
            crate::logging::set_level("debug").ok();
        }
        let mut builder = Stub::builder(plugin);
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        if let Some(index) = &self.idx {
            builder = builder.index(index);
        }
        if let Some(socket) = &self.socket {
            builder = builder.socket_path(socket);
        }
        builder
    }
}

/// Parses the command line of this process. After an error, and for `-help` and `-version`, the
/// process exits with a text, as [`Parser::parse`] does.
pub fn parse<T: Parser>() -> T {
    parse_from(std::env::args_os())
}

/// Parses a command line, the name of the program first, as [`parse`] does.
pub fn parse_from<T: Parser>(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> T {
    let mut command = T::command();
    command.build(); // adds --help and --version
    T::parse_from(arguments.into_iter().map(|argument| two_dashes(&command, argument.into())))
}

/// Adds a dash to a flag of the command that has only one.
fn two_dashes(command: &Command, argument: OsString) -> OsString {
    let is_flag = |name: &str| {
        command.get_arguments().any(|flag| {
            let aliases = flag.get_all_aliases().unwrap_or_default();
            flag.get_long().is_some_and(|long| name == long) || aliases.contains(&name)
        })
    };
    match argument.to_str().and_then(|text| text.strip_prefix('-')) {
        Some(flag) if is_flag(flag.split('=').next().unwrap_or_default()) => {
            format!("--{flag}").into()
        }
        _ => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[derive(Debug, PartialEq, Parser)]
    #[command(version)]
    struct Options {
        #[command(flatten)]
        plugin: Flags,
        #[arg(long)]
        add_env: Option<String>,
    }

    fn flags(arguments: &[&str]) -> Options {
        parse_from(["program"].iter().chain(arguments))
    }

    #[test]
    fn flags_have_one_dash_or_two() {
        let expected = Flags {
            name: Some("a".into()),
            idx: Some("10".into()),
            socket: Some("/s".into()),
            verbose: true,
        };
        let check = |arguments: &[&str]| assert_eq!(flags(arguments).plugin, expected);
        check(&["-name", "a", "-idx=10", "-socket", "/s", "-verbose"]);
        check(&["--name=a", "--idx", "10", "-socket-path=/s", "-verbose=true"]);
        assert_eq!(flags(&["-verbose=false"]).plugin, Flags::default());
        assert_eq!(flags(&[]).plugin, Flags::default());
        assert_eq!(flags(&["-add-env=-idx"]).add_env.as_deref(), Some("-idx"));
    }

    #[test]
    fn unknown_flags_are_errors() {
        let error = |argument: &str| {
            let mut command = Options::command();
            command.build();
            Options::try_parse_from(["p".into(), two_dashes(&command, argument.into())])
                .unwrap_err()
                .kind()
        };
        assert_eq!(error("-colour"), clap::error::ErrorKind::UnknownArgument);
        assert_eq!(error("-help"), clap::error::ErrorKind::DisplayHelp);
        assert_eq!(error("-version"), clap::error::ErrorKind::DisplayVersion);
        assert_eq!(error("-verbose=7"), clap::error::ErrorKind::ValueValidation);
    }
}
