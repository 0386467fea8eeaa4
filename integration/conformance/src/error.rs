//! Errors that end the program. What a runtime does wrong is no error: it is the result of a case.

use std::path::PathBuf;

/// Why the program cannot run the cases or print their results.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file of cases, differences or explanations does not have the expected form.
    #[error("{}: {source}", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Position and error.
        source: Box<toml::de::Error>,
    },
    /// A file of results does not have the expected form.
    #[error("{}: not a file of `nri-conformance run --json`: {source}", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// Position and error.
        source: serde_json::Error,
    },
    /// A merge vector cannot be parsed.
    #[error("{}, line {line}: {source}", path.display())]
    Vector {
        /// The file.
        path: PathBuf,
        /// Number of the line.
        line: usize,
        /// Error of the parser.
        source: Box<nri_tests::vectors::Malformed>,
    },
    /// An option of the command line is missing.
    #[error("driver {driver} needs {option}")]
    Option {
        /// The driver.
        driver: &'static str,
        /// The missing option.
        option: &'static str,
    },
    /// No plugin can connect to the runtime, so that no case can run.
    #[error("no plugin can connect to {}: {reason}", socket.display())]
    Connect {
        /// Socket of the runtime.
        socket: PathBuf,
        /// Why the session was not opened.
        reason: String,
    },
    /// The async runtime or a temporary directory cannot be created.
    #[error("cannot start: {0}")]
    Start(#[source] std::io::Error),
}

impl Error {
    /// Returns a function that makes the error of a file.
    pub fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
