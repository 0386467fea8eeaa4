//! A future that completes even if its caller drops it.
//!
//! The future runs in the caller's task, which costs less than a task for each call. Only a dropped
//! future continues in a task of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::runtime::Handle;

/// A future that is polled by its caller and, if it is dropped before its end, by a new task.
pub(crate) struct Uncancelled<T: Send + 'static> {
    /// `None` after the future has completed or panicked.
    future: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    runtime: Handle,
}

/// Error of a future that panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

impl<T: Send + 'static> Uncancelled<T> {
    /// Wraps a future. Must be called within a tokio runtime.
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Some(Box::pin(future)), runtime: Handle::current() }
    }
}

impl<T: Send + 'static> Future for Uncancelled<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.future.as_mut() else { return Poll::Ready(Err(Panicked)) };
        // As in a task, a panic ends this future only.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(_) => Err(Panicked),
        };
        self.future = None;
        Poll::Ready(result)
    }
}

impl<T: Send + 'static> Drop for Uncancelled<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.runtime.spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn the_future_completes_with_its_caller_or_without_it() {
        for is_dropped in [false, true] {
            let (start, started) = oneshot::channel();
            let (end, ended) = oneshot::channel();
            let mut future = Box::pin(Uncancelled::new(async move {
                started.await.unwrap();
                end.send(7).unwrap();
                8
            }));
            assert!(is_pending(&mut future));
            if is_dropped {
                drop(future);
                start.send(()).unwrap();
            } else {
                start.send(()).unwrap();
                assert_eq!(future.await.unwrap(), 8);
            }
            assert_eq!(ended.await.unwrap(), 7);
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let future: Uncancelled<()> = Uncancelled::new(async { panic!("on purpose") });
        assert!(future.await.is_err());
    }

    fn is_pending<T: Send>(future: &mut Pin<Box<Uncancelled<T>>>) -> bool {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        future.as_mut().poll(&mut cx).is_pending()
    }
}
