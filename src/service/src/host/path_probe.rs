//! Looks at paths that plugins, or the documents of containers, name: in a process of its own, with
//! a time limit.
//!
//! A path may lie on a file system that hangs, and who waits there may be beyond any signal. A
//! thread of ours would keep us from ending, and our locks from the next `nrid`; a child that hangs
//! costs its place in the process table. Some may hang at a time: then no more are started, and who
//! needs one is refused. Start from [`Looks::look`]; the other end is [`run`].

use nri_host::podman::{Asked, runs_infra};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{ExitCode, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    sync::{Semaphore, oneshot},
    time::timeout,
};

/// The first argument of a program that is to look.
pub const ARGUMENT: &str = "--look";
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many may be under way, those that hang included.
const MOST: usize = 32;

/// What is to be found out.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Question {
    /// Where these paths lead, links followed.
    pub real: Vec<String>,
    /// What stands at these paths, links not followed.
    pub nodes: Vec<String>,
    /// Whether this is what infra containers of Podman run.
    pub infra: Option<Asked>,
}

/// Answers in the order of the questions; none where the path leads nowhere.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Of [`Question::real`].
    pub real: Vec<Option<String>>,
    /// Of [`Question::nodes`].
    pub nodes: Vec<Option<Node>>,
    /// Of [`Question::infra`].
    pub infra: bool,
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Node {
    /// Kind and permission bits.
    pub mode: u32,
    /// The number of a device.
    pub rdev: u64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// Not in time.
    #[error("the file system hangs: no answer within {PATIENCE:?}")]
    Hangs,
    /// Too many do not end.
    #[error("{MOST} looks at paths that hang have not ended")]
    TooMany,
    /// It cannot be started, or fails.
    #[error("cannot look: {0}")]
    Failed(#[from] io::Error),
}

/// Those that are under way.
#[derive(Debug)]
pub struct Looks {
    program: PathBuf,
    places: Arc<Semaphore>,
}

impl Default for Looks {
    fn default() -> Self {
        Self { program: "/proc/self/exe".into(), places: Arc::new(Semaphore::new(MOST)) }
    }
}

impl Looks {
    /// Finds out.
    ///
    /// # Errors
    /// A path that hangs, first of all.
    pub async fn look(&self, question: &Question) -> Result<Answer, LookError> {
        let Ok(Ok(place)) = timeout(PATIENCE, self.places.clone().acquire_owned()).await else {
            return Err(LookError::TooMany);
        };
        let question = serde_json::to_vec(question).map_err(io::Error::from)?;
        let mut command = Command::new(&self.program);
        command.arg(ARGUMENT).current_dir("/").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            let ended = timeout(PATIENCE, talk(&mut child, &question)).await;
            let hangs = ended.is_err();
            let _ = tell.send(ended);
            if hangs {
                // If it may be killed it ends now; if not, the place is taken for as long.
                let _ = child.kill().await;
            }
            drop(place);
        });
        let (status, said) = match told.await {
            Ok(Ok(ended)) => ended?,
            Ok(Err(_)) => return Err(LookError::Hangs),
            Err(gone) => return Err(LookError::Failed(io::Error::other(gone))),
        };
        if !status.success() {
            return Err(LookError::Failed(io::Error::other(status.to_string())));
        }
        Ok(serde_json::from_slice(&said).map_err(io::Error::from)?)
    }
}

async fn talk(child: &mut Child, question: &[u8]) -> io::Result<(ExitStatus, Vec<u8>)> {
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends without reading has failed, which its status says.
        let _ = stdin.write_all(question).await;
    }
    let mut said = Vec::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_end(&mut said).await?;
    }
    Ok((child.wait().await?, said))
}

/// The program that looks: a question on stdin, the answer on stdout.
pub fn run() -> ExitCode {
    let Ok(question) = serde_json::from_reader::<_, Question>(io::stdin().lock()) else {
        return ExitCode::FAILURE;
    };
    let written = serde_json::to_vec(&answer(&question)).map_err(io::Error::from);
    match written.and_then(|bytes| io::stdout().lock().write_all(&bytes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer(question: &Question) -> Answer {
    let node = |path: &String| {
        let meta = std::fs::symlink_metadata(path).ok()?;
        Some(Node { mode: meta.mode(), rdev: meta.rdev() })
    };
    let real =
        |path: &String| Some(std::fs::canonicalize(path).ok()?.to_string_lossy().into_owned());
    Answer {
        real: question.real.iter().map(real).collect(),
        nodes: question.nodes.iter().map(node).collect(),
        infra: question.infra.as_ref().is_some_and(runs_infra),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(script: &str) -> (tempfile::TempDir, Looks) {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, Looks { program, ..Looks::default() })
    }

    #[test]
    fn links_are_followed_for_places_and_not_for_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        let paths =
            [link.to_str().unwrap().to_owned(), "/nowhere".to_owned(), "/dev/null".to_owned()];
        let found = answer(&Question { real: paths.to_vec(), nodes: paths.to_vec(), infra: None });
        let null = Some("/dev/null".to_owned());
        assert_eq!(found.real, [null.clone(), None, null]);
        let kinds: Vec<_> = found.nodes.iter().map(|n| n.map(|n| n.mode & 0o170_000)).collect();
        assert_eq!(kinds, [Some(0o120_000), None, Some(0o020_000)]);
    }

    #[tokio::test]
    async fn what_fails_says_so() {
        let (_dir, looks) = looks("exit 3");
        let error = looks.look(&Question::default()).await.unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
    }

    #[tokio::test]
    async fn those_that_hang_are_killed_and_give_their_places_back() {
        let (_dir, looks) = looks("exec sleep 1000");
        let question = Question::default();
        let all: Vec<_> = (0..MOST + 4)
            .map(|_| {
                let looks = Looks { program: looks.program.clone(), places: looks.places.clone() };
                let question = question.clone();
                tokio::spawn(async move { looks.look(&question).await })
            })
            .collect();
        for one in all {
            let error = one.await.unwrap().unwrap_err();
            assert!(matches!(error, LookError::Hangs | LookError::TooMany), "{error}");
        }
        let freed = looks.places.acquire_many(MOST as u32);
        drop(timeout(Duration::from_secs(20), freed).await.unwrap().unwrap());
    }
}
