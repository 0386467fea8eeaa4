//! The command line.

use std::{ffi::OsString, path::PathBuf};

/// What is traced.
#[derive(Debug)]
pub(crate) enum Target {
    /// A process that runs.
    Pid(i32),
    /// A command that is to be run.
    Command(Vec<OsString>),
}

/// What is to be done.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) at: usize,
    /// The program that is counted.
    pub(crate) program: PathBuf,
    /// But not with this argument.
    pub(crate) except: Option<String>,
    /// A program that dies with it, and what its command line holds.
    pub(crate) also: Option<(PathBuf, String)>,
    pub(crate) log: PathBuf,
    pub(crate) target: Target,
}

impl Arguments {
    pub(crate) fn parse(mut list: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let text = |value: Option<OsString>, of: &str| {
            let value = value.ok_or_else(|| format!("{of}: something is missing"))?;
            value.into_string().map_err(|_| format!("{of}: not UTF-8"))
        };
        let number = |value: String| value.parse::<usize>().map_err(|e| format!("{value}: {e}"));
        let at = number(text(list.next(), "N")?)?;
        let (mut except, mut also, mut log, mut program) = (None, None, None, None);
        while let Some(word) = list.next() {
            let word = text(Some(word), "options")?;
            let target = match word.as_str() {
                "--except" => {
                    except = Some(text(list.next(), &word)?);
                    continue;
                }
                "--also" => {
                    also = Some((text(list.next(), &word)?.into(), text(list.next(), &word)?));
                    continue;
                }
                "--log" => {
                    log = list.next().map(PathBuf::from);
                    continue;
                }
                "--pid" => {
                    let pid = number(text(list.next(), &word)?)?;
                    Target::Pid(pid.try_into().map_err(|_| format!("{pid}: no process id"))?)
                }
                "--" => Target::Command(list.by_ref().collect()),
                _ => {
                    program = Some(PathBuf::from(word));
                    continue;
                }
            };
            let log = log.ok_or("no --log")?;
            return Ok(Self {
                at,
                program: program.ok_or("no program")?,
                except,
                also,
                log,
                target,
            });
        }
        Err("neither --pid nor a command".to_owned())
    }
}
