//! What is seldom awaited, kept out of the way of what always is.

use futures_util::future::LocalBoxFuture;

/// A future in memory of its own, made there.
///
/// A request's future has room for every way that it might take. Boxed in line, the rare ones still take room on the
/// stack of whoever polls it, as that is where they are made (`tests/cost.rs` bounds what is left).
#[inline(never)]
pub(crate) fn rarely<'f, F: Future + 'f>(make: impl FnOnce() -> F) -> LocalBoxFuture<'f, F::Output> {
    Box::pin(make())
}
