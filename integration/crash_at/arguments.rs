//! Command line of `crash-at`.

use std::{ffi::OsString, path::PathBuf};

/// The process or command to trace.
#[derive(Debug)]
pub(crate) enum Target {
    /// A running process.
    Pid(i32),
    /// A command to run.
    Command(Vec<OsString>),
}

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// Number of the change before which the program is killed; 0: never.
    pub(crate) at: usize,
    /// Program whose changes are counted.
    pub(crate) program: PathBuf,
    /// Argument that excludes processes of the program from the count.
    pub(crate) except: Option<String>,
    /// Another program to kill at the same time, and a text in the command line of its processes.
    pub(crate) also: Option<(PathBuf, String)>,
    /// File with a line for each change.
    pub(crate) log: PathBuf,
    pub(crate) target: Target,
}

impl Arguments {
    pub(crate) fn parse(mut list: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let text = |value: Option<OsString>, name: &str| {
            let value = value.ok_or_else(|| format!("{name}: value missing"))?;
            value.into_string().map_err(|_| format!("{name}: not UTF-8"))
        };
        let number = |value: String| {
            value.parse::<usize>().map_err(|e| format!("{value:?} is not a number: {e}"))
        };
        let at = number(text(list.next(), "N")?)?;
        let (mut except, mut also, mut log, mut program) = (None, None, None, None);
        while let Some(option) = list.next() {
            let option = text(Some(option), "option")?;
            let target = match option.as_str() {
                "--except" => {
                    except = Some(text(list.next(), &option)?);
                    continue;
                }
                "--also" => {
                    also = Some((text(list.next(), &option)?.into(), text(list.next(), &option)?));
                    continue;
                }
                "--log" => {
                    log = list.next().map(PathBuf::from);
                    continue;
                }
                "--pid" => {
                    let pid = number(text(list.next(), &option)?)?;
                    Target::Pid(pid.try_into().map_err(|_| format!("{pid}: not a process id"))?)
                }
                "--" => Target::Command(list.by_ref().collect()),
                _ => {
                    program = Some(PathBuf::from(option));
                    continue;
                }
            };
            let log = log.ok_or("--log missing")?;
            return Ok(Self {
                at,
                program: program.ok_or("program missing")?,
                except,
                also,
                log,
                target,
            });
        }
        Err("--pid or a command missing".to_owned())
    }
}
