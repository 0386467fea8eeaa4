//! Command line of `nri-bench`.

use std::path::PathBuf;

/// Help of the command line.
const USAGE: &str = "usage: nri-bench [OPTIONS] [GROUP...]
  --quick          fewer repetitions, which take a few minutes
  --out DIR        directory of the results (default: integration/bench/results)
  --programs DIR   programs to measure (default: the directory of this program)
  --build COMMIT   also build COMMIT and HEAD, and compare the CPU time (takes long)
  GROUP            verb life create lives observe rules in-flight size memory cold build (default:
                   all but build)";

/// The command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) is_quick: bool,
    pub(crate) out: PathBuf,
    /// Directory of the programs under test.
    pub(crate) programs: PathBuf,
    /// Commit whose build is compared with the build of `HEAD`.
    pub(crate) build: Option<String>,
    groups: Vec<String>,
}

impl Options {
    /// Parses the command line; ends the process if it is wrong.
    pub(crate) fn parse(all_groups: &[&str]) -> Self {
        let mut options = Self {
            is_quick: false,
            out: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results")),
            programs: nri_integration::program_dir(),
            build: None,
            groups: Vec::new(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().unwrap_or_else(|| fail("an option lacks a value"));
            match argument.as_str() {
                "--quick" => options.is_quick = true,
                "--out" => options.out = value().into(),
                "--programs" => options.programs = value().into(),
                "--build" => options.build = Some(value()),
                "--help" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                group if all_groups.contains(&group) => {
                    options.groups.push(argument);
                }
                other => fail(&format!("unknown argument {other}")),
            }
        }
        options.programs = options.programs.canonicalize().unwrap_or_else(|e| {
            fail(&format!("{}: {e}", options.programs.display()));
        });
        options
    }

    /// Whether a group of rows is measured.
    pub(crate) fn wants(&self, group: &str) -> bool {
        let is_default = group != "build" || self.build.is_some();
        if self.groups.is_empty() { is_default } else { self.groups.iter().any(|g| g == group) }
    }

    /// Number of repetitions: `full`, or with `--quick` a tenth of `full`, but at least 10.
    pub(crate) fn rounds(&self, full: usize) -> usize {
        if self.is_quick { (full / 10).max(10) } else { full }
    }
}

fn fail(message: &str) -> ! {
    eprintln!("nri-bench: {message}\n{USAGE}");
    std::process::exit(2);
}
