//! Simulations that follow another clock.

use std::cell::Cell;
use std::rc::Rc;

use runtime::{Runtime, Signal};
use units::{Duration, Instant};

const MS: Duration = Duration::millis(1);

#[test]
fn a_simulation_is_run_up_to_an_instant_and_says_what_is_due_next() {
    let runtime = Runtime::simulated();
    let ticks = Rc::new(Cell::new(0));
    runtime.spawn_detached({
        let (runtime, ticks) = (runtime.clone(), Rc::clone(&ticks));
        async move {
            for _ in 0..3 {
                runtime.sleep(MS * 10).await;
                ticks.set(ticks.get() + 1);
            }
        }
    });
    let at = |ms: u64| Instant::START + MS * ms;
    assert_eq!((runtime.run_until(at(9)), ticks.get(), runtime.now()), (Some(at(10)), 0, at(9)));
    // What is due at that very instant is done.
    assert_eq!((runtime.run_until(at(20)), ticks.get()), (Some(at(30)), 2));
    assert_eq!((runtime.run_until(at(20)), ticks.get()), (Some(at(30)), 2));
    assert_eq!((runtime.run_until(at(90)), ticks.get(), runtime.now()), (None, 3, at(90)));
}

#[test]
fn runtimes_wake_each_other_s_tasks() {
    let (outer, inner) = (Runtime::live_timers(), Runtime::simulated());
    let (go, done) = (Signal::default(), Signal::default());
    let (gone, answered) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    inner.spawn_detached({
        let (inner, go, gone, done, answered) =
            (inner.clone(), go.clone(), Rc::clone(&gone), done.clone(), Rc::clone(&answered));
        async move {
            go.wait_until(|| gone.get()).await;
            inner.sleep(MS).await;
            answered.set(true);
            done.notify();
        }
    });
    outer.spawn_detached({
        let (inner, gone) = (inner.clone(), Rc::clone(&gone));
        async move {
            assert_eq!(inner.run_until(Instant::START), None);
            gone.set(true);
            go.notify();
            assert_eq!(inner.run_until(Instant::START), Some(Instant::START + MS));
            assert_eq!(inner.run_until(Instant::START + MS), None);
        }
    });
    outer.block_on(done.wait_until(|| answered.get()));
}
