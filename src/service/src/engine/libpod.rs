//! Labels of Podman's containers and pods, which are only in libpod's database: `db.sql`, an SQLite
//! file. Podman asked by its command would not answer: it holds the lock of a container while it
//! waits for the runtime.
//!
//! Podman writes the container's configuration before it calls the runtime, and holds no lock of
//! the database meanwhile. The database of Podman before 4.8 is of BoltDB, and is not read.

use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// Time that a query waits for a transaction of Podman.
const BUSY_TIMEOUT: Duration = Duration::from_millis(300);

/// Error of reading the database.
#[derive(Debug, thiserror::Error)]
pub enum LibpodError {
    /// None of the databases exists.
    #[error("libpod's database {0} does not exist; a BoltDB, as of Podman before 4.8, is not read")]
    Missing(PathBuf),
    /// The database has no such container.
    #[error("libpod's database {0} does not have the container")]
    Unknown(PathBuf),
    /// The database cannot be read.
    #[error("libpod's database {database}: {source}")]
    Query {
        /// Path of the database.
        database: PathBuf,
        /// Cause of the failure.
        source: rusqlite::Error,
    },
    /// The path is not that of a file.
    #[error("libpod's database {database}: {source}")]
    File {
        /// Path of the database.
        database: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}

/// Configurations of libpod, as JSON.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored {
    /// Configuration of the container.
    pub container: Vec<u8>,
    /// Configuration of its pod, if it has one.
    pub pod: Option<Vec<u8>>,
}

/// Reads the configuration of a container and of its pod from the first database that exists.
///
/// # Errors
/// See [`LibpodError`].
pub fn read(databases: &[PathBuf], id: &str) -> Result<Stored, LibpodError> {
    for database in databases {
        match database.metadata() {
            Ok(meta) if meta.is_file() => return query(database, id),
            Ok(_) => {
                let error = io::Error::other("is not a regular file");
                return Err(LibpodError::File { database: database.clone(), source: error });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(LibpodError::File { database: database.clone(), source });
            }
        }
    }
    Err(LibpodError::Missing(databases.first().cloned().unwrap_or_default()))
}

fn query(database: &Path, id: &str) -> Result<Stored, LibpodError> {
    let failed = |source| LibpodError::Query { database: database.to_owned(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    // Podman's library writes texts as blobs.
    let sql = "SELECT CAST(c.JSON AS BLOB), CAST(p.JSON AS BLOB) FROM ContainerConfig AS c \
               LEFT JOIN PodConfig AS p ON p.ID = c.PodID WHERE c.ID = ?1";
    let row = connection
        .query_row(sql, params![id], |row| Ok(Stored { container: row.get(0)?, pod: row.get(1)? }));
    let stored = row.optional().map_err(failed)?;
    stored.ok_or_else(|| LibpodError::Unknown(database.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_of_container_and_pod_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("db.sql");
        let missing = dir.path().join("missing.sql");
        let paths = [missing.clone(), database.clone()];
        assert!(matches!(read(&paths, "c1"), Err(LibpodError::Missing(path)) if path == missing));
        // The tables of Podman 5.4, without the columns that are not read.
        let podman = Connection::open(&database).unwrap();
        let tables = "CREATE TABLE PodConfig(ID TEXT PRIMARY KEY NOT NULL, JSON TEXT NOT NULL);
            CREATE TABLE ContainerConfig(ID TEXT PRIMARY KEY NOT NULL, PodID TEXT,
                JSON TEXT NOT NULL);
            INSERT INTO PodConfig VALUES ('p1', X'7B7D');
            INSERT INTO ContainerConfig VALUES ('c1', NULL, '{\"b\":2}'), ('c2', 'p1', '{}');";
        podman.execute_batch(tables).unwrap();
        let stored = |container: &str, pod: Option<&str>| Stored {
            container: container.into(),
            pod: pod.map(Into::into),
        };
        assert_eq!(read(&paths, "c1").unwrap(), stored("{\"b\":2}", None));
        assert_eq!(read(&paths, "c2").unwrap(), stored("{}", Some("{}")));
        let error = read(&paths, "c3").unwrap_err().to_string();
        assert!(error.ends_with("does not have the container"), "{error}");

        // A transaction of Podman delays the answer, but not without end.
        podman.execute_batch("BEGIN EXCLUSIVE").unwrap();
        assert!(matches!(read(&paths, "c1"), Err(LibpodError::Query { .. })));
        podman.execute_batch("COMMIT").unwrap();
        std::fs::write(&database, "no database").unwrap();
        assert!(matches!(read(&paths, "c1"), Err(LibpodError::Query { .. })));
    }
}
