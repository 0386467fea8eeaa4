//! `--console-socket`: terminals of detached containers and processes. The runtime sends the
//! controlling side of the terminal to the socket.

use super::{alike, how, saying, text};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::{
    fs::File,
    io::{IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::unix::net::UnixListener,
};

/// Receives the terminal that the runtime sends, and its name.
fn receive(listener: &UnixListener) -> (File, String) {
    let (stream, _) = listener.accept().unwrap();
    let mut name = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let got =
        recvmsg(&stream, &mut [IoSliceMut::new(&mut name)], &mut buffer, RecvFlags::CMSG_CLOEXEC)
            .unwrap();
    let terminal = buffer
        .drain()
        .find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        })
        .expect("a descriptor");
    (File::from(terminal), String::from_utf8_lossy(&name[..got.bytes]).into_owned())
}

/// Reads the terminal until `end` or until it is closed.
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
    alike("--console-socket", |stage| {
        let socket = stage.node.path("console");
        let listener = UnixListener::bind(&socket).unwrap();
        let waiting = stage.waiting("d");
        for verb in ["create", "run", "exec"] {
            let id = stage.node.id(verb);
            let bundle =
                stage.node.bundle(&id).terminal().arguments(&["/bin/sh", "-c", SCRIPT]).make();
            let mut command = stage.command();
            command.arg(verb).args(["--console-socket", text(&socket)]);
            match verb {
                "exec" => command.args(["--detach", "--tty", &waiting, "/bin/sh", "-c", SCRIPT]),
                "run" => command.args(["--detach", "--bundle", text(bundle.dir()), &id]),
                _ => command.args(["--bundle", text(bundle.dir()), &id]),
            };
            let ended = stage.node.run(command).success();
            let (mut terminal, name) = receive(&listener);
            if verb == "create" {
                stage.call(&["start", &id]).success();
            }
            // Typed before that, the echoed line could appear at different positions.
            let head = read_to(&mut terminal, "terminal\r\n");
            terminal.write_all(b"typed\n").unwrap();
            let tail = read_to(&mut terminal, "end\r\n");
            assert!(tail.contains("read typed."), "{head}{tail}");
            // The name may contain the number of the terminal, which differs between calls.
            let name: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
            stage.note(verb, format_args!("{} {head:?} {tail:?} {name:?}", saying(&ended)));
        }
    });
}

#[test]
fn wrong_console_sockets_are_transparent() {
    alike("wrong console sockets", |stage| {
        let waiting = stage.waiting("d");
        let nowhere = stage.node.path("nowhere");
        let file = stage.node.path("config.toml");
        for (n, socket) in [text(&nowhere), text(&file), ""].into_iter().enumerate() {
            let id = stage.node.id(&format!("c{n}"));
            let bundle =
                stage.node.bundle(&id).terminal().arguments(&["/bin/sleep", "1000"]).make();
            for verb in ["create", "run"] {
                let detach: &[&str] = if verb == "run" { &["--detach"] } else { &[] };
                let created = stage.call(
                    &[
                        &[verb, "--console-socket", socket],
                        detach,
                        &["--bundle", text(bundle.dir()), &id],
                    ]
                    .concat(),
                );
                stage.note(format_args!("{verb} {n}"), how(&created));
                assert_ne!(created.code, Some(0));
                stage.note("then", stage.node.state(&id).is_some());
                stage.node.bare(&["delete", "--force", &id]);
            }
            let exec = stage.call(&[
                "exec",
                "--console-socket",
                socket,
                "--detach",
                "--tty",
                &waiting,
                "/bin/true",
            ]);
            stage.note(format_args!("exec {n}"), how(&exec));
        }
        // A console socket for a process without a terminal.
        let id = stage.node.id("e");
        let bundle = stage.node.bundle(&id).arguments(&["/bin/true"]).make();
        let ended = stage.call(&[
            "create",
            "--console-socket",
            text(&nowhere),
            "--bundle",
            text(bundle.dir()),
            &id,
        ]);
        stage.note("no terminal", how(&ended));
    });
}
