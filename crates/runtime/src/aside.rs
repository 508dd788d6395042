//! What has to be waited for outside, by a call that cannot be made without waiting: a thread of its own makes it, and
//! a task waits for that.
//!
//! For what is rare and may take long, such as the look-up of a name: a thread costs some 20 us. A task that gives up
//! waiting leaves the thread behind, which ends when its call does, and at the latest with the process.
//!
//! Rejected: a pool of threads. Calls that hang would fill it, and others wait behind them.

use std::io;
use std::panic::resume_unwind;

use crate::Alarm;

/// Raises the alarm however a thread ends.
struct AtTheEnd(Alarm);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// Makes a call on a thread of that name, and waits for it without keeping other tasks waiting. An error if there is no
/// thread to be had.
///
/// # Panics
/// If the call does.
pub async fn aside<T: Send + 'static>(name: &str, call: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let ended = Alarm::default();
    let at_the_end = AtTheEnd(ended.clone());
    let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
        let _at_the_end = at_the_end;
        call()
    })?;
    ended.raised().await;
    // It has nothing left to do but to end.
    thread.join().map_or_else(|panic| resume_unwind(panic), Ok)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use units::Duration;

    use super::*;
    use crate::Runtime;

    #[test]
    fn others_go_on_meanwhile() {
        let runtime = Runtime::live_timers();
        let (ended, end) = std::sync::mpsc::channel();
        let waiting = runtime.spawn(async { aside("test", move || end.recv()).await.unwrap() });
        runtime.block_on(async {
            runtime.sleep(Duration::millis(5)).await;
            ended.send(7).unwrap();
            assert_eq!(waiting.await, Ok(7));
        });
    }

    #[test]
    fn a_call_that_panics_is_not_waited_for_without_end() {
        let runtime = Runtime::live_timers();
        let call = || runtime.block_on(aside("test", || -> u32 { panic!("as it is to") }));
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
    }
}
