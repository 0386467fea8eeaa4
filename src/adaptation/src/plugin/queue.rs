//! First-come, first-served queue of requests, of which one at a time holds the permit.
//!
//! Unlike with a fair mutex, taking a ticket is synchronous and separate from waiting for the
//! permit. That keeps the pipeline ([`crate::order::pipeline`]) simple: a request takes its tickets
//! in all queues at once. The queue knows nothing of plugins.

use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A queue of requests of which one at a time holds the permit. Clones are the same queue.
#[derive(Clone, Default)]
pub(crate) struct PluginQueue(Arc<Mutex<QueueState>>);

#[derive(Default)]
struct QueueState {
    permit_taken: bool,
    waiting: VecDeque<oneshot::Sender<QueuePermit>>,
}

/// A position in a queue. Dropping it leaves the queue.
pub(crate) enum Ticket {
    /// The permit was free.
    Granted(QueuePermit),
    /// The permit arrives through this channel.
    Waiting(oneshot::Receiver<QueuePermit>),
}

/// The permit of a queue. Dropping it passes the permit to the next ticket.
pub(crate) struct QueuePermit {
    queue: Option<PluginQueue>,
    waited: Duration,
}

impl PluginQueue {
    /// Takes the next position, without waiting.
    pub(crate) fn ticket(&self) -> Ticket {
        let mut queue = self.lock();
        if queue.permit_taken {
            let (sender, receiver) = oneshot::channel();
            queue.waiting.push_back(sender);
            Ticket::Waiting(receiver)
        } else {
            queue.permit_taken = true;
            Ticket::Granted(self.new_permit())
        }
    }

    fn new_permit(&self) -> QueuePermit {
        QueuePermit { queue: Some(self.clone()), waited: Duration::ZERO }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.0.lock()
    }

    /// Passes the permit to the first ticket that still waits; frees it if there is none.
    fn pass_on(self) {
        loop {
            let next = {
                let mut queue = self.lock();
                match queue.waiting.pop_front() {
                    Some(next) => next,
                    None => {
                        queue.permit_taken = false;
                        return;
                    }
                }
            };
            match next.send(self.new_permit()) {
                Ok(()) => return,
                // The ticket was dropped. An empty permit does not call `pass_on` when it is
                // dropped: with many dropped tickets in a row that recursion would be deep.
                Err(mut permit) => permit.queue = None,
            }
        }
    }
}

impl Ticket {
    /// Waits for the permit.
    pub(crate) async fn permit(self) -> QueuePermit {
        match self {
            Self::Granted(permit) => permit,
            // A sender is removed from the queue only to send, so the error does not occur.
            Self::Waiting(receiver) => {
                let start = Instant::now();
                let permit = receiver.await;
                let mut permit =
                    permit.unwrap_or(QueuePermit { queue: None, waited: Duration::ZERO });
                permit.waited = start.elapsed();
                permit
            }
        }
    }
}

impl QueuePermit {
    /// Returns the time that [`Ticket::permit`] took.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_granted(ticket: &mut Ticket) -> bool {
        match ticket {
            Ticket::Granted(_) => true,
            Ticket::Waiting(receiver) => match receiver.try_recv() {
                Ok(permit) => {
                    *ticket = Ticket::Granted(permit);
                    true
                }
                Err(_) => false,
            },
        }
    }

    #[test]
    fn permits_are_granted_in_the_order_of_tickets() {
        let queue = PluginQueue::default();
        let (mut a, mut b, mut c) = (queue.ticket(), queue.ticket(), queue.ticket());
        assert_eq!(
            [is_granted(&mut a), is_granted(&mut b), is_granted(&mut c)],
            [true, false, false]
        );
        drop(a);
        assert_eq!([is_granted(&mut b), is_granted(&mut c)], [true, false]);
        drop(b);
        assert!(is_granted(&mut c));
        drop(c);
        assert!(is_granted(&mut queue.ticket()));
    }

    #[test]
    fn dropped_tickets_are_skipped() {
        let queue = PluginQueue::default();
        let first = queue.ticket();
        // So many that a recursion for each dropped ticket would overflow the stack.
        let dropped: Vec<_> = (0..100_000).map(|_| queue.ticket()).collect();
        let mut last = queue.ticket();
        drop(dropped);
        assert!(!is_granted(&mut last));
        drop(first);
        assert!(is_granted(&mut last));
    }

    #[test]
    fn a_permit_that_was_sent_but_never_received_is_passed_on() {
        let queue = PluginQueue::default();
        let (a, b, mut c) = (queue.ticket(), queue.ticket(), queue.ticket());
        drop(a);
        drop(b); // the permit of b was in the channel
        assert!(is_granted(&mut c));
    }
}
