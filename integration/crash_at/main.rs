//! `crash-at N [--except ARG] [--also PROGRAM MARK] --log FILE PROGRAM (--pid PID | --
//! COMMAND...)`: lets the N-th thing that a program is about to change outside itself not happen,
//! by killing the program before that system call.
//!
//! The program is traced, all its threads with one counter, either from now on (`--pid`) or
//! wherever it appears below the command; the command's own exit code is ours. What it does is
//! counted and told in the log, a line each. Nothing is killed if N is 0, or larger than what the
//! program does. Processes that execute another program, or this one with the argument ARG, are let
//! go. With the victim die all processes of PROGRAM whose command line holds MARK.

mod arguments;
mod points;
mod processes;
mod tracer;

use arguments::Arguments;

fn main() {
    let arguments = Arguments::parse(std::env::args_os().skip(1)).unwrap_or_else(|why| {
        eprintln!("crash-at: {why}");
        std::process::exit(2);
    });
    std::process::exit(tracer::trace(&arguments));
}
