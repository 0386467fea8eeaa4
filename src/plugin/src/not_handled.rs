//! The future of an event's default method, whose type tells it from a method of the plugin.

use crate::Reply;
use std::{
    any::TypeId,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

/// Future of a default method: replies with nothing. No other method returns this type, since it is
/// private to the crate.
pub(crate) struct NotHandled<T>(PhantomData<fn() -> T>);

impl<T> NotHandled<T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T: Default> Future for NotHandled<T> {
    type Output = Reply<T>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Reply<T>> {
        Poll::Ready(Ok(T::default()))
    }
}

/// Whether `F`, the future of a method that replies with `T`, is another one than the default's.
pub(crate) fn is_handled<F: 'static, T: 'static>() -> bool {
    TypeId::of::<F>() != TypeId::of::<NotHandled<T>>()
}
