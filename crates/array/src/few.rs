//! A few requests at once.
//!
//! A small write reads two members and then writes two, a mirror writes two or three. Their futures and results lie
//! side by side in the future that waits for them, without an allocation; only from four on is there one for all of
//! them.

use std::pin::pin;

use futures_util::future::{join, join_all, join3};
use smallvec::{SmallVec, smallvec};

/// Some things, usually no more than four.
pub(crate) type Few<T> = SmallVec<[T; 4]>;

/// Lets futures go on side by side until all are done; their results in the same order.
pub(crate) async fn side_by_side<F, I>(futures: I) -> Few<F::Output>
where
    F: Future,
    I: IntoIterator<Item = F, IntoIter: ExactSizeIterator>,
{
    let mut futures = futures.into_iter();
    let count = futures.len();
    let mut next = || futures.next().expect("there are as many as it says");
    match count {
        0 => Few::new(),
        1 => smallvec![next().await],
        2 => {
            // Pinned where they are made: what joins them moves, and they are large.
            let done = join(pin!(next()), pin!(next())).await;
            smallvec![done.0, done.1]
        }
        3 => {
            let done = join3(pin!(next()), pin!(next()), pin!(next())).await;
            smallvec![done.0, done.1, done.2]
        }
        _ => Few::from_vec(join_all(futures).await),
    }
}

#[test]
fn results_come_in_the_order_of_the_futures() {
    let runtime = runtime::Runtime::simulated();
    for count in 0..8u64 {
        let wait = |number: u64| {
            let runtime = &runtime;
            async move {
                runtime.sleep(units::Duration::micros(10 - number)).await;
                number
            }
        };
        let before = runtime.now();
        let done = runtime.block_on(side_by_side((0..count).map(wait).collect::<Vec<_>>()));
        assert_eq!(done.as_slice(), (0..count).collect::<Vec<_>>());
        assert_eq!(runtime.now().since(before), units::Duration::micros(if count > 0 { 10 } else { 0 }), "not in turn");
    }
}
