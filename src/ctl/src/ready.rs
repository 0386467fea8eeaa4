//! `nrictl ready`: whether `nrid` serves, by its readiness socket.

use crate::error::CtlError;
use nri_control::{READY, connect_to};
use nri_files::READY_SOCKET;
use std::{
    io::{
        self,
        ErrorKind::{ConnectionRefused, InvalidData, NotFound, TimedOut, WouldBlock},
        Read,
    },
    path::Path,
    time::Duration,
};

/// Time limit of the answer, and of a connection to an `nrid` whose queue of connections is full.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Asks the `nrid` of a state directory whether it serves.
///
/// # Errors
/// No `nrid` serves, or it does not answer.
pub(crate) fn ask(state_dir: &Path) -> Result<(), CtlError> {
    let socket = state_dir.join(READY_SOCKET);
    match answer(&socket) {
        Ok(()) => Ok(()),
        Err(e) if matches!(e.kind(), NotFound | ConnectionRefused) => {
            Err(CtlError::NotServing(socket))
        }
        Err(e) if matches!(e.kind(), TimedOut | WouldBlock) => {
            let error = io::Error::new(TimedOut, "no answer within 2 s");
            Err(CtlError::NotReady { socket, source: error })
        }
        Err(source) => Err(CtlError::NotReady { socket, source }),
    }
}

fn answer(path: &Path) -> io::Result<()> {
    let mut socket = connect_to(path, TIMEOUT)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    let mut answer = vec![0; READY.len()];
    socket.read_exact(&mut answer)?;
    if answer == READY.as_bytes() {
        Ok(())
    } else {
        Err(io::Error::new(InvalidData, "another program answers"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, io::Write, os::unix::net::UnixListener, thread};

    fn message(result: Result<(), CtlError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn only_an_nrid_that_answers_is_ready() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path();
        assert!(message(ask(state)).starts_with("no nrid serves "));
        fs::create_dir(state.join("plugins")).unwrap();
        let listener = UnixListener::bind(state.join(READY_SOCKET)).unwrap();
        // Accepted by the kernel, and never answered, as by an nrid that is stopped.
        assert!(message(ask(state)).ends_with("no answer within 2 s"));
        let server = thread::spawn(move || {
            // The first connection is that of the request above, which has ended.
            let answers: [&[u8]; 4] = [b"", b"ready\n", b"other\n", b"rea"];
            for answer in answers {
                let _ = listener.accept().unwrap().0.write_all(answer);
            }
        });
        ask(state).unwrap();
        assert!(message(ask(state)).ends_with("another program answers"));
        assert!(message(ask(state)).contains("does not answer"));
        server.join().unwrap();
        // The socket of an nrid that was killed.
        assert!(message(ask(state)).starts_with("no nrid serves "));
    }
}
