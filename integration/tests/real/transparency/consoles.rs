//! Tests of `--console-socket`: terminals of detached containers and processes. The runtime sends
//! the controlling side of the terminal to the socket.

use super::{check_transparent, exit_status, path_str, status_and_output};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::{
    fs::File,
    io::{IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::unix::net::UnixListener,
};

/// Receives a terminal from the runtime. Returns the terminal and its name.
fn receive(listener: &UnixListener) -> (File, String) {
    let (stream, _) = listener.accept().unwrap();
    let mut name = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(&stream, &mut [IoSliceMut::new(&mut name)], &mut buffer, RecvFlags::CMSG_CLOEXEC)
            .unwrap();
    let terminal = buffer
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        })
        .expect("the runtime sends a descriptor");
    (File::from(terminal), String::from_utf8_lossy(&name[..received.bytes]).into_owned())
}

/// Reads the terminal until the text contains `end` or the terminal is closed.
fn read_to(terminal: &mut File, end: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 1024];
    while !text.contains(end) {
        match terminal.read(&mut buffer) {
            Ok(n @ 1..) => text.push_str(&String::from_utf8_lossy(&buffer[..n])),
            // A read fails when the last process of the terminal has exited.
            _ => break,
        }
    }
    text
}

/// Script that reports whether its standard files are a terminal, and prints the line it reads.
const SCRIPT: &str = "test -t 0 && test -t 1 && test -t 2 && echo terminal; read -r line; echo \
    \"read $line.\"; echo end; sleep 1000";

#[test]
fn console_sockets_of_create_run_and_exec_are_transparent() {
    check_transparent("--console-socket", |scenario| {
        let socket = scenario.node.path("console");
        let listener = UnixListener::bind(&socket).unwrap();
        let waiting = scenario.start_waiting_container("d");
        for verb in ["create", "run", "exec"] {
            let id = scenario.node.id(verb);
            let bundle =
                scenario.node.bundle(&id).terminal().arguments(&["/bin/sh", "-c", SCRIPT]).make();
            let mut command = scenario.command();
            command.arg(verb).args(["--console-socket", path_str(&socket)]);
            match verb {
                "exec" => command.args(["--detach", "--tty", &waiting, "/bin/sh", "-c", SCRIPT]),
                "run" => command.args(["--detach", "--bundle", path_str(bundle.dir()), &id]),
                _ => command.args(["--bundle", path_str(bundle.dir()), &id]),
            };
            let ended = scenario.node.run(command).success();
            let (mut terminal, name) = receive(&listener);
            if verb == "create" {
                scenario.call(&["start", &id]).success();
            }
            // Write to the terminal only after the first output, which the echo could precede
            // otherwise.
            let head = read_to(&mut terminal, "terminal\r\n");
            terminal.write_all(b"typed\n").unwrap();
            let tail = read_to(&mut terminal, "end\r\n");
            assert!(tail.contains("read typed."), "{head}{tail}");
            // The name may contain the number of the terminal, which differs between calls.
            let name: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
            scenario.note(
                verb,
                format_args!("{} {head:?} {tail:?} {name:?}", status_and_output(&ended)),
            );
        }
    });
}

#[test]
fn wrong_console_sockets_are_transparent() {
    check_transparent("wrong console sockets", |scenario| {
        let waiting = scenario.start_waiting_container("d");
        let nowhere = scenario.node.path("nowhere");
        let file = scenario.node.path("config.toml");
        for (n, socket) in [path_str(&nowhere), path_str(&file), ""].into_iter().enumerate() {
            let id = scenario.node.id(&format!("c{n}"));
            let bundle =
                scenario.node.bundle(&id).terminal().arguments(&["/bin/sleep", "1000"]).make();
            for verb in ["create", "run"] {
                let detach: &[&str] = if verb == "run" { &["--detach"] } else { &[] };
                let created = scenario.call(
                    &[
                        &[verb, "--console-socket", socket],
                        detach,
                        &["--bundle", path_str(bundle.dir()), &id],
                    ]
                    .concat(),
                );
                scenario.note(format_args!("{verb} {n}"), exit_status(&created));
                assert_ne!(created.code, Some(0));
                scenario.note("then", scenario.node.state(&id).is_some());
                scenario.node.bare(&["delete", "--force", &id]);
            }
            let exec = scenario.call(&[
                "exec",
                "--console-socket",
                socket,
                "--detach",
                "--tty",
                &waiting,
                "/bin/true",
            ]);
            scenario.note(format_args!("exec {n}"), exit_status(&exec));
        }
        // The process of this container has no terminal.
        let id = scenario.node.id("e");
        let bundle = scenario.node.bundle(&id).arguments(&["/bin/true"]).make();
        let ended = scenario.call(&[
            "create",
            "--console-socket",
            path_str(&nowhere),
            "--bundle",
            path_str(bundle.dir()),
            &id,
        ]);
        scenario.note("no terminal", exit_status(&ended));
    });
}
