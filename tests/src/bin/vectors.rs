//! `vectors FILE…`: runs files of merge vectors, and prints the first difference of each failed
//! case and the numbers of passed and failed cases.

use nri_tests::vectors::{Case, run};
use std::error::Error;
use std::io::{BufWriter, Write, stdout};
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut out = BufWriter::new(stdout().lock());
    let (mut passed, mut failed) = (0, 0);
    for file in std::env::args_os().skip(1) {
        let name = file.display().to_string();
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("cannot read {name}: {e}"))?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let case = Case::parse(line).map_err(|e| {
                let why = e.source().map(|s| format!(": {s}")).unwrap_or_default();
                format!("{name}:{}: {e}{why}", number + 1)
            })?;
            match run(&case) {
                Ok(()) => passed += 1,
                Err(difference) => {
                    failed += 1;
                    writeln!(out, "{}: {difference}", case.id)?;
                }
            }
        }
    }
    writeln!(out, "{passed} passed, {failed} failed")?;
    out.flush()?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
