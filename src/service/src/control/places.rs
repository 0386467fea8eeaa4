//! Places for connections to the control socket: a limit of all, and one of each process, so that
//! no process keeps the others out. Connections without a place wait in the queue of the socket.

use parking_lot::{Mutex, MutexGuard};
use std::{collections::HashMap, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Part of the places that one process may not take: a quarter.
const KEPT: usize = 4;

/// The places of a listener.
#[derive(Debug, Clone)]
pub struct Places {
    free: Arc<Semaphore>,
    of_process: usize,
    /// Number of connections by process.
    taken: Arc<Mutex<HashMap<i32, usize>>>,
}

/// A place, for one connection.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
    process: i32,
    taken: Arc<Mutex<HashMap<i32, usize>>>,
}

/// A process has as many connections as it may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("process {process} has {connections} connections to nrid already, the most that it may")]
pub struct TooMany {
    process: i32,
    connections: usize,
}

impl Places {
    /// Creates this number of places.
    pub fn new(total: usize) -> Self {
        let total = total.min(Semaphore::MAX_PERMITS);
        let of_process = (total - total / KEPT).max(1);
        Self { free: Arc::new(Semaphore::new(total)), of_process, taken: Arc::default() }
    }

    /// Waits until a place is free. `None` never happens: nothing closes the semaphore.
    pub async fn free(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().acquire_owned().await.ok()
    }

    /// Gives a free place to a connection of this process.
    ///
    /// # Errors
    /// The process has too many.
    pub fn take(&self, permit: OwnedSemaphorePermit, process: i32) -> Result<Place, TooMany> {
        let mut taken = lock(&self.taken);
        let connections = taken.entry(process).or_default();
        if *connections >= self.of_process {
            return Err(TooMany { process, connections: *connections });
        }
        *connections += 1;
        Ok(Place { _permit: permit, process, taken: self.taken.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        if let Some(connections) = taken.get_mut(&self.process) {
            *connections -= 1;
            if *connections == 0 {
                taken.remove(&self.process);
            }
        }
    }
}

fn lock(taken: &Mutex<HashMap<i32, usize>>) -> MutexGuard<'_, HashMap<i32, usize>> {
    taken.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_leaves_places_for_others_and_places_are_free_again() {
        let places = Places::new(8);
        let mut taken = Vec::new();
        for _ in 0..6 {
            taken.push(places.take(places.free().await.unwrap(), 7).unwrap());
        }
        let refused = places.take(places.free().await.unwrap(), 7).unwrap_err();
        assert_eq!(refused, TooMany { process: 7, connections: 6 });
        for process in [8, 9] {
            taken.push(places.take(places.free().await.unwrap(), process).unwrap());
        }
        assert_eq!(places.free.available_permits(), 0);
        taken.remove(0);
        taken.push(places.take(places.free().await.unwrap(), 7).unwrap());
        drop(taken);
        assert_eq!(places.free.available_permits(), 8);
        assert_eq!(lock(&places.taken).len(), 0);
    }
}
