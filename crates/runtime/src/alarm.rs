//! Something that happens once, outside, and that tasks wait for: a signal from the user, the end of another thread.

use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Raised once, from any thread; clones name the same one.
#[derive(Clone, Default)]
pub struct Alarm {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    raised: bool,
    waiting: Vec<Waker>,
}

impl Alarm {
    /// Raises it, and says whether it had been raised before.
    pub fn raise(&self) -> bool {
        let (before, waiting) = {
            let mut state = self.state.lock().expect("no panic under this lock");
            (std::mem::replace(&mut state.raised, true), std::mem::take(&mut state.waiting))
        };
        waiting.into_iter().for_each(Waker::wake);
        before
    }

    /// True once it has been raised.
    pub fn is_raised(&self) -> bool {
        self.state.lock().expect("no panic under this lock").raised
    }

    /// Waits until it is raised.
    pub async fn raised(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.state.lock().expect("no panic under this lock");
            if state.raised {
                return Poll::Ready(());
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                state.waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

#[test]
fn another_thread_raises_the_alarm() {
    let runtime = crate::Runtime::live_timers();
    let alarm = Alarm::default();
    let raiser = std::thread::spawn({
        let alarm = alarm.clone();
        move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            (alarm.raise(), alarm.raise())
        }
    });
    let waiting = [alarm.clone(), alarm.clone()].map(|alarm| runtime.spawn(async move { alarm.raised().await }));
    runtime.block_on(async {
        for task in waiting {
            task.await;
        }
    });
    assert_eq!(raiser.join().unwrap(), (false, true));
    assert!(alarm.is_raised());
}
