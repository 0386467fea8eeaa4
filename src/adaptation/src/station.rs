//! A station: a turn that is given first come, first served.
//!
//! Unlike a fair mutex, taking one's place in the queue is synchronous and apart from waiting for
//! the turn. That is what makes the line ([`crate::line`]) simple: a request takes its places at
//! all stations at once. It knows nothing of plugins.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// A queue for turns; clones are the same station.
#[derive(Clone, Default)]
pub(crate) struct Station(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    taken: bool,
    waiting: VecDeque<oneshot::Sender<Turn>>,
}

/// A place in the queue of a station. Dropping it leaves the queue.
pub(crate) enum Place {
    Granted(Turn),
    Waiting(oneshot::Receiver<Turn>),
}

/// The turn at a station. Dropping it passes the turn to the next in the queue.
pub(crate) struct Turn(Option<Station>);

impl Station {
    /// Takes the next place, now.
    pub(crate) fn queue(&self) -> Place {
        let mut queue = self.lock();
        if queue.taken {
            let (sender, receiver) = oneshot::channel();
            queue.waiting.push_back(sender);
            Place::Waiting(receiver)
        } else {
            queue.taken = true;
            Place::Granted(Turn(Some(self.clone())))
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the turn to the first who is still there; frees the station if there is nobody.
    fn pass(self) {
        loop {
            let next = {
                let mut queue = self.lock();
                match queue.waiting.pop_front() {
                    Some(next) => next,
                    None => {
                        queue.taken = false;
                        return;
                    }
                }
            };
            match next.send(Turn(Some(self.clone()))) {
                Ok(()) => return,
                // They left. The turn must not pass itself on in its own drop: a long queue of
                // leavers would recurse.
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

impl Place {
    /// Waits for the turn.
    pub(crate) async fn turn(self) -> Turn {
        match self {
            Self::Granted(turn) => turn,
            // A sender leaves the queue only to send, so the error does not occur.
            Self::Waiting(receiver) => receiver.await.unwrap_or(Turn(None)),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(station) = self.0.take() {
            station.pass();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(place: &mut Place) -> bool {
        match place {
            Place::Granted(_) => true,
            Place::Waiting(receiver) => match receiver.try_recv() {
                Ok(turn) => {
                    *place = Place::Granted(turn);
                    true
                }
                Err(_) => false,
            },
        }
    }

    #[test]
    fn turns_come_in_order_of_places() {
        let station = Station::default();
        let (mut a, mut b, mut c) = (station.queue(), station.queue(), station.queue());
        assert_eq!([granted(&mut a), granted(&mut b), granted(&mut c)], [true, false, false]);
        drop(a);
        assert_eq!([granted(&mut b), granted(&mut c)], [true, false]);
        drop(b);
        assert!(granted(&mut c));
        drop(c);
        assert!(granted(&mut station.queue()));
    }

    #[test]
    fn who_leaves_is_passed_over() {
        let station = Station::default();
        let first = station.queue();
        let leavers: Vec<_> = (0..100_000).map(|_| station.queue()).collect();
        let mut last = station.queue();
        drop(leavers);
        assert!(!granted(&mut last));
        drop(first);
        assert!(granted(&mut last));
    }

    #[test]
    fn a_turn_given_but_never_received_is_passed_on() {
        let station = Station::default();
        let (a, b, mut c) = (station.queue(), station.queue(), station.queue());
        drop(a);
        drop(b); // its turn is in the channel
        assert!(granted(&mut c));
    }
}
