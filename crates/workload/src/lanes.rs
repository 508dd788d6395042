//! Lanes: loops that go on side by side, each with a request of its own.
//!
//! A wake-up is for one lane, and only that one is polled. (`join_all` polls all of up to thirty at every wake-up, so
//! that each request of a modelled disk at depth 16 costs sixteen walks down into the model; futures-util's
//! `FuturesUnordered` polls one, but costs a request on the null device a fifth of its time, 0.18 us where it is 0.14
//! now.) A lane that is alone is awaited as it is: a list of one would put reference-counted wakers around it.

use std::future::Future;

use futures_buffered::FuturesUnorderedBounded;
use futures_util::StreamExt;

/// Runs all lanes to their ends.
pub(crate) async fn all<F: Future<Output = ()>>(lanes: impl IntoIterator<Item = F>) {
    let mut lanes: Vec<F> = lanes.into_iter().collect();
    match lanes.len() {
        1 => lanes.remove(0).await,
        _ => lanes.into_iter().collect::<FuturesUnorderedBounded<F>>().collect().await,
    }
}
