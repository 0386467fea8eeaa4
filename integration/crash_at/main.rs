//! `crash-at N [--except ARG] [--also PROGRAM MARK] --log FILE PROGRAM (--pid PID | --
//! COMMAND...)`: kills a program before the system call by which it would make the N-th change
//! outside of its processes.
//!
//! The program is traced with ptrace, with one counter for all its threads: the process PID, or
//! every process of PROGRAM among the descendants of COMMAND, whose exit code `crash-at` returns.
//! Each change is a line of the log. No process is killed if N is 0 or larger than the number of
//! changes. Processes that execute another program, or PROGRAM with the argument ARG, are not
//! counted. `--also` kills all processes of that program with MARK in their command line, too.

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
