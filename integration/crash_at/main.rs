//! `crash-at N [--except ARG] [--also PROGRAM MARK] --log FILE PROGRAM (--pid PID | --
//! COMMAND...)`: kills a program before the system call by which it would make the N-th change
//! outside of its processes.
//!
//! `crash-at` traces with ptrace either the process PID, or COMMAND with all its descendants, and
//! then returns the exit code of COMMAND. It counts the changes of all threads of PROGRAM together
//! and writes a line to the log for each change. No process is killed if N is 0 or larger than the
//! number of changes. Changes by processes that execute another program, or PROGRAM with the
//! argument ARG, are not counted. `--also` kills at the same time all processes of another PROGRAM
//! that have MARK in their command line.

mod arguments;
mod points;
mod processes;
mod tracer;

use arguments::Arguments;

fn main() {
    let arguments = Arguments::parse(std::env::args_os().skip(1)).unwrap_or_else(|error| {
        eprintln!("crash-at: {error}");
        std::process::exit(2);
    });
    std::process::exit(tracer::trace(&arguments));
}
