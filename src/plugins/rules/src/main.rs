//! An NRI plugin that applies the rules of a file to containers: values, defaults and limits of
//! resources, environment, mounts, devices and hooks, and refusals.
//!
//! | module | content |
//! |---|---|
//! | `file`, `compile`, `conflicts`, `load`, `mistake`, `hint` | from the text of a file to rules |
//! | `findings` | what fails for some containers |
//! | `expression`, `prepared`, `template`, `stack` | expressions, their functions and limits |
//! | `variables`, `facts`, `shared` | what expressions know of a container |
//! | `field`, `possible`, `quantity`, `amounts`, `unified` | fields, units, values |
//! | `rule`, `decide`, `changes`, `refusal` | what rules do with a container, without I/O |
//! | `plugin`, `try_out` | the plugin, and `nri-rules test` |

mod amounts;
#[cfg(test)]
mod behaviour;
mod changes;
mod compile;
mod conflicts;
mod decide;
mod expression;
mod facts;
mod field;
mod file;
mod findings;
mod hint;
mod load;
mod mistake;
mod plugin;
mod possible;
mod prepared;
mod quantity;
mod refusal;
mod rule;
mod shared;
mod stack;
mod template;
mod try_out;
mod unified;
mod variables;

use clap::{ArgGroup, Parser};
use findings::{Absent, Given};
use nri_control::{answers, touch_as_child};
use nri_locate::read_in_time;
use nri_plugin::flags::{Flags, parse};
use plugin::Rules;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// NRI plugin that applies the rules of a file to containers
#[derive(Parser)]
#[command(name = "nri-rules", version, args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
    /// File of rules, unless the runtime sends it; SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Check a file of rules
    Check {
        /// The file
        file: PathBuf,
        #[command(flatten)]
        options: CheckOptions,
    },
    /// Print what the rules of a file do with containers
    #[command(group(ArgGroup::new("containers").required(true)))]
    Test {
        /// The file
        file: PathBuf,
        /// Directory with a config.json
        #[arg(long, value_name = "DIR", group = "containers")]
        bundle: Option<PathBuf>,
        /// The containers in this program: of Docker, one as of a plain `docker run`, one with
        /// limits and a privileged one, and of Podman
        #[arg(long, group = "containers", conflicts_with = "Facts")]
        samples: bool,
        #[command(flatten)]
        facts: try_out::Facts,
    },
    /// Print the JSON schema of files of rules, for editors
    Schema,
}

#[derive(clap::Args)]
struct CheckOptions {
    /// Configuration of nrid, which says what facts there are; by default the one that nrid reads
    #[arg(long, value_name = "FILE")]
    nrid_config: Option<PathBuf>,
    /// Check without a configuration of nrid: all facts may be there
    #[arg(long, conflicts_with = "nrid_config")]
    no_nrid_config: bool,
    /// Look only for what the plugin refuses to load, and not for what refuses containers
    #[arg(long, conflicts_with_all = ["nrid_config", "no_nrid_config"])]
    only_load: bool,
}

/// A mistake in a file, or a container that would be refused.
const PROBLEM: u8 = 4;

fn main() -> ExitCode {
    if touch_as_child() {
        return ExitCode::SUCCESS;
    }
    let CommandLine { plugin, config, command } = parse();
    let result = match command {
        Some(command) => run(&command),
        None => {
            let builder = plugin.builder(Rules::default());
            return match config {
                Some(file) => builder.config_file(file).main(),
                None => builder.main(),
            };
        }
    };
    result.unwrap_or_else(|error| {
        // Nothing is left to report a failure to.
        let _ = writeln!(io::stderr(), "nri-rules: {error}");
        ExitCode::from(PROBLEM)
    })
}

fn run(command: &Command) -> Result<ExitCode, String> {
    let mut out = io::stdout().lock();
    match command {
        Command::Check { file, options } => {
            let rules = read(file)?;
            let given = given(&rules, options)?;
            let absent = rules.refusing().and_then(|rule| Some((rule, given.absent(file)?)));
            let found = check(&rules, &given, options)?;
            let mut err = io::stderr().lock();
            for finding in &found {
                writeln!(err, "nri-rules: {}: {finding}", file.display()).map_err(text)?;
            }
            if let Some((rule, Absent::Created(what))) = &absent {
                let (name, file) = (&rule.name, file.display());
                let what = format!("rule {name:?} refuses containers, but {what}");
                writeln!(err, "nri-rules: warning: {file}: {what}").map_err(text)?;
            }
            if !found.is_empty() {
                return Ok(ExitCode::from(PROBLEM));
            }
            let number = rules.rules.len();
            let rules = if number == 1 { "1 rule".to_owned() } else { format!("{number} rules") };
            writeln!(out, "{}: {rules}, no mistake found", file.display()).map_err(text)?;
            if let Some((_, Absent::Refused(what))) = absent {
                writeln!(out, "{}: {what}", file.display()).map_err(text)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Test { file, bundle, facts, .. } => {
            let rules = read(file)?;
            let created = match bundle {
                Some(dir) => try_out::bundle(&rules, dir, facts, &mut out),
                None => try_out::samples(&rules, &mut out),
            };
            Ok(if created.map_err(text)? { ExitCode::SUCCESS } else { ExitCode::from(PROBLEM) })
        }
        Command::Schema => {
            let schema = schemars::schema_for!(file::RuleFile);
            let json = serde_json::to_string_pretty(&schema).map_err(text)?;
            writeln!(out, "{json}").map_err(text)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns what is known of the configuration of `nrid`, if the rules depend on it.
fn given(rules: &rule::RuleSet, options: &CheckOptions) -> Result<Given, String> {
    let uses_facts = facts::OPTIONAL.iter().any(|fact| rules.variables.contains(*fact));
    if options.only_load || options.no_nrid_config || !uses_facts && !rules.refuses() {
        return Ok(Given::Unknown);
    }
    Given::of_configuration(options.nrid_config.as_deref())
}

/// Returns what would refuse containers, one line each.
fn check(
    rules: &rule::RuleSet,
    given: &Given,
    options: &CheckOptions,
) -> Result<Vec<String>, String> {
    if options.only_load {
        return Ok(Vec::new());
    }
    let found = findings::findings(rules, given).map_err(text)?;
    Ok(found.iter().map(ToString::to_string).collect())
}

/// Reads a file of rules.
fn read(file: &Path) -> Result<rule::RuleSet, String> {
    let in_file = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let content = read_in_time(file, load::MAX_FILE as u64, answers);
    let content = content.map_err(|error| in_file(&error))?;
    let content = String::from_utf8(content).map_err(|error| in_file(&not_utf8(&error)))?;
    load::load(&content).map_err(|error| in_file(&error))
}

/// Describes a file of other bytes, with line and column of the first one.
fn not_utf8(error: &std::string::FromUtf8Error) -> String {
    let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
    format!("line {line}, column {column}: the file is not UTF-8")
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_that_of_the_types() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("rules.schema.json");
        let schema = schemars::schema_for!(file::RuleFile);
        let expected = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        assert_eq!(
            std::fs::read_to_string(file).unwrap(),
            expected,
            "write it anew: cargo run -p nri-rules -- schema >src/plugins/rules/rules.schema.json"
        );
    }

    #[test]
    fn the_command_line_is_that_of_plugins_and_of_the_subcommands() {
        use clap::CommandFactory;
        CommandLine::command().debug_assert();
        let parse = |arguments: &[&str]| CommandLine::try_parse_from(arguments);
        assert!(parse(&["rules", "--idx", "10"]).is_ok());
        assert!(parse(&["rules", "test", "file"]).is_err(), "neither bundle nor samples");
        let both = ["rules", "test", "file", "--samples", "--bundle", "dir"];
        assert!(parse(&both).is_err());
        let ignored = ["rules", "test", "file", "--samples", "--label", "a=b"];
        assert!(parse(&ignored).is_err(), "the samples have their own labels");
        assert!(parse(&["rules", "test", "file", "--samples"]).is_ok());
    }

    #[test]
    fn a_file_of_other_bytes_is_named_with_their_place() {
        let error = String::from_utf8(b"rules:\n  - name: caf\xe9\n".to_vec()).unwrap_err();
        assert_eq!(not_utf8(&error), "line 2, column 14: the file is not UTF-8");
    }
}
