//! The arguments up to the verb: global flags, including our own.

use crate::{
    flags::{GLOBAL, OWN_PREFIX},
    options::{Item, Options},
    verbs,
};
use std::ops::Range;

/// Values of the flags before the verb, and the position of the verb.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Globals<'a> {
    /// `--nri-runtime`
    pub nri_runtime: Option<&'a [u8]>,
    /// `--nri-config`
    pub nri_config: Option<&'a [u8]>,
    /// `--nri-help`
    pub nri_help: bool,
    /// `--nri-version`
    pub nri_version: bool,
    /// Name of an own flag without the value that it needs.
    pub without_value: Option<&'static str>,
    /// `--log`
    pub log: Option<&'a [u8]>,
    /// `--log-format`
    pub log_format: Option<&'a [u8]>,
    /// `--root`
    pub root: Option<&'a [u8]>,
    /// Whether a flag requests help or the version, so that the verb, if any, is not run.
    pub is_help: bool,
    /// Whether any of these flags is our own.
    pub has_own: bool,
    /// Index of the verb: the first argument that is neither a flag nor the value of a flag.
    pub verb: Option<usize>,
}

/// Reads `arguments` (argv without `argv[0]`) up to the verb. Calls `pass_on` with each range of
/// arguments that the real runtime must receive, which excludes our own flags and their values.
///
/// Reading never fails, since unknown arguments are passed on.
pub fn scan<'a>(arguments: &'a [&'a [u8]], mut pass_on: impl FnMut(Range<usize>)) -> Globals<'a> {
    let mut globals = Globals::default();
    let mut options = Options::new(arguments, GLOBAL);
    let mut from = 0;
    while let Some(item) = options.next() {
        let mut keep = true;
        match item {
            Item::Word(index) => {
                globals.verb = Some(index);
                break;
            }
            Item::Known { name, value, .. } => keep = !globals.take(name, value),
            Item::Unknown(index) => {
                // The next argument is either the flag's value or the verb. It is the value
                // unless a runtime has a verb of that name.
                if let Some(next) = arguments.get(index + 1)
                    && !arguments[index].contains(&b'=')
                    && !next.starts_with(b"-")
                    && !verbs::is_known(next)
                {
                    options.next = index + 2;
                }
            }
            Item::End => {}
        }
        if keep {
            pass_on(from..options.next);
        }
        from = options.next;
    }
    globals
}

impl<'a> Globals<'a> {
    /// Records a global flag. Returns whether the flag is our own.
    fn take(&mut self, name: &'static str, value: Option<&'a [u8]>) -> bool {
        if matches!(name, "nri-runtime" | "nri-config") && value.is_none_or(<[u8]>::is_empty) {
            self.without_value = Some(name);
        }
        match name {
            "nri-help" => self.nri_help = true,
            "nri-version" => self.nri_version = true,
            "nri-runtime" => self.nri_runtime = value,
            "nri-config" => self.nri_config = value,
            "log" => self.log = value,
            "log-format" => self.log_format = value,
            "root" => self.root = value,
            "help" | "usage" | "version" => self.is_help = true,
            _ => {}
        }
        let is_own = name.starts_with(OWN_PREFIX);
        self.has_own |= is_own;
        is_own
    }
}
