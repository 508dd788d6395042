//! What programs may rely on, under both clocks where both make sense.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_util::future::{Either, join_all, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt, join, pin_mut, select_biased};
use runtime::{Random, Resource, Runtime, Signal};
use units::{Duration, Instant};

/// Every behaviour that does not depend on the clock is checked under both.
fn both_clocks(test: impl Fn(Runtime)) {
    test(Runtime::simulated());
    test(Runtime::live_timers());
}

#[test]
fn tasks_run_and_hand_back_their_result() {
    both_clocks(|runtime| {
        let doubled = runtime.block_on(async {
            let task = runtime.spawn({
                let runtime = runtime.clone();
                async move {
                    runtime.sleep(Duration::micros(10)).await;
                    21 * 2
                }
            });
            task.await
        });
        assert_eq!(doubled, 42);
    });
}

#[test]
fn ordinary_futures_work() {
    both_clocks(|runtime| {
        runtime.block_on(async {
            let short = runtime.sleep(Duration::micros(100));
            let long = runtime.sleep(Duration::millis(20));
            join!(runtime.sleep(Duration::micros(1)), runtime.yield_now());
            pin_mut!(short, long);
            assert!(matches!(select(short, long).await, Either::Left(_)), "the shorter sleep ends first");
            let mut all: FuturesUnordered<_> = [3u64, 1, 2]
                .into_iter()
                .map(|n| {
                    let sleep = runtime.sleep(Duration::millis(n));
                    async move {
                        sleep.await;
                        n
                    }
                })
                .collect();
            let mut order = Vec::new();
            while let Some(n) = all.next().await {
                order.push(n);
            }
            assert_eq!(order, [1, 2, 3]);
            select_biased! {
                () = runtime.sleep(Duration::micros(1)).fuse() => (),
                () = std::future::pending::<()>().fuse() => unreachable!(),
            }
            join_all((0..100).map(|_| runtime.sleep(Duration::micros(5)))).await;
        });
    });
}

#[test]
fn a_sleep_in_the_past_is_ready_at_once() {
    both_clocks(|runtime| {
        runtime.block_on(async {
            runtime.sleep_until(Instant::START).await;
            runtime.sleep(Duration::ZERO).await;
        });
    });
}

#[test]
fn a_sleep_that_has_ended_may_wait_on() {
    both_clocks(|runtime| {
        runtime.block_on(async {
            let start = runtime.now();
            let mut sleep = pin!(runtime.sleep_until(start + Duration::micros(10)));
            for end in [10, 30, 30, 70].map(Duration::micros) {
                sleep.wait_on(start + end);
                sleep.as_mut().await;
                let slept = runtime.now().since(start);
                assert!(slept >= end && (slept == end || !runtime.is_simulated()), "{slept} for {end}");
            }
        });
    });
}

#[test]
fn virtual_time_jumps_and_never_waits() {
    let runtime = Runtime::simulated();
    let real = std::time::Instant::now();
    runtime.block_on(runtime.sleep(Duration::seconds(3_000_000_000)));
    assert_eq!(runtime.now(), Instant::START + Duration::seconds(3_000_000_000));
    assert!(real.elapsed().as_secs() < 60, "a century passes in less than a minute");
}

#[test]
fn timers_of_one_instant_fire_in_order_of_creation() {
    let runtime = Runtime::simulated();
    let order = Rc::new(RefCell::new(Vec::new()));
    for n in 0..50 {
        let (runtime, order) = (runtime.clone(), Rc::clone(&order));
        runtime.clone().spawn(async move {
            runtime.sleep_until(Instant::from_nanos(1000)).await;
            order.borrow_mut().push(n);
        });
    }
    runtime.block_on(runtime.sleep_until(Instant::from_nanos(1000)));
    runtime.block_on(runtime.sleep(Duration::nanos(1)));
    assert_eq!(*order.borrow(), (0..50).collect::<Vec<_>>());
}

/// A future that polls its child twice for every poll it gets, and counts.
struct Impatient<F>(F, Rc<Cell<u32>>);
impl<F: Future + Unpin> Future for Impatient<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<F::Output> {
        self.1.set(self.1.get() + 1);
        match Pin::new(&mut self.0).poll(context) {
            Poll::Ready(value) => Poll::Ready(value),
            Poll::Pending => Pin::new(&mut self.0).poll(context),
        }
    }
}

#[test]
fn futures_survive_a_poll_that_they_did_not_ask_for() {
    both_clocks(|runtime| {
        let resource = Resource::new(&runtime, 1);
        let polls = Rc::new(Cell::new(0));
        runtime.block_on(async {
            let held = resource.acquire(0).await;
            let second = runtime.spawn(Impatient(resource.acquire(0), Rc::clone(&polls)));
            let sleeper = runtime.spawn(Impatient(runtime.sleep(Duration::micros(50)), Rc::clone(&polls)));
            sleeper.await;
            drop(held);
            drop(second.await);
        });
        assert!(polls.get() >= 4);
        assert_eq!(resource.in_use(), 0);
    });
}

#[test]
fn a_late_waker_finds_nobody() {
    both_clocks(|runtime| {
        let kept = Rc::new(RefCell::new(None));
        runtime.block_on({
            let kept = Rc::clone(&kept);
            runtime.spawn(std::future::poll_fn(move |context| {
                *kept.borrow_mut() = Some(context.waker().clone());
                Poll::Ready(())
            }))
        });
        let waker = kept.borrow_mut().take().unwrap();
        let reached = Rc::new(Cell::new(false));
        runtime.block_on(async {
            let task = runtime.spawn({
                let (runtime, reached) = (runtime.clone(), Rc::clone(&reached));
                async move {
                    runtime.sleep(Duration::millis(1)).await;
                    reached.set(true);
                }
            });
            waker.wake_by_ref();
            runtime.yield_now().await;
            assert!(!reached.get(), "the task in the reused slot still sleeps");
            task.await;
        });
        drop(runtime);
        waker.wake();
    });
}

#[test]
fn another_thread_wakes_a_live_runtime() {
    let runtime = Runtime::live_timers();
    let started = std::time::Instant::now();
    let (sender, receiver) = std::sync::mpsc::channel::<std::task::Waker>();
    let thread = std::thread::spawn(move || {
        let waker = receiver.recv().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        waker.wake();
    });
    let mut sent = false;
    runtime.block_on(std::future::poll_fn(|context| {
        if std::mem::replace(&mut sent, true) {
            return Poll::Ready(());
        }
        sender.send(context.waker().clone()).unwrap();
        Poll::Pending
    }));
    thread.join().unwrap();
    assert!(started.elapsed().as_millis() >= 20);
}

#[test]
fn a_simulation_that_cannot_go_on_says_so() {
    let runtime = Runtime::simulated();
    let nothing = Signal::default();
    runtime.spawn_detached({
        let nothing = nothing.clone();
        async move { nothing.wait_until(|| false).await }
    });
    let stalled = runtime.try_block_on(async {
        runtime.sleep(Duration::millis(5)).await;
        std::future::pending::<()>().await;
    });
    let stalled = stalled.unwrap_err();
    assert_eq!((stalled.at, stalled.waiting_tasks), (Instant::START + Duration::millis(5), 1));
    assert!(stalled.to_string().contains("1 tasks wait"), "{stalled}");
}

#[test]
fn a_power_cut_drops_every_task() {
    let runtime = Runtime::simulated();
    let alive = Rc::new(());
    for _ in 0..10 {
        let (runtime, alive) = (runtime.clone(), Rc::clone(&alive));
        runtime.clone().spawn_detached(async move {
            runtime.sleep(Duration::seconds(1)).await;
            drop(alive);
        });
    }
    runtime.block_on(runtime.sleep(Duration::millis(1)));
    assert_eq!(Rc::strong_count(&alive), 11);
    runtime.clear();
    assert_eq!(Rc::strong_count(&alive), 1);
    runtime.block_on(runtime.sleep(Duration::seconds(2)));
}

#[test]
fn a_task_may_cut_the_power_of_its_own_runtime() {
    both_clocks(|runtime| {
        let (alive, reached) = (Rc::new(()), Rc::new(Cell::new(0)));
        let cutter = |waits: bool| {
            let (runtime, alive, reached) = (runtime.clone(), Rc::clone(&alive), Rc::clone(&reached));
            async move {
                runtime.clear();
                reached.set(reached.get() + 1);
                if waits {
                    runtime.sleep(Duration::micros(10)).await;
                    reached.set(100);
                }
                drop(alive);
            }
        };
        runtime.block_on(async {
            for waits in [true, false] {
                runtime.spawn_detached(cutter(waits));
                runtime.sleep(Duration::millis(1)).await;
                // The slots are used again by tasks that know nothing of the cut.
                let again = runtime.spawn(std::future::ready(7));
                assert_eq!(again.await, 7);
            }
        });
        assert_eq!((reached.get(), Rc::strong_count(&alive)), (2, 1));
    });
}

#[test]
fn runtimes_nest_and_do_not_mix_their_tasks() {
    let outer = Runtime::simulated();
    outer.block_on(async {
        let task = outer.spawn(outer.sleep(Duration::seconds(1)));
        let inner = Runtime::simulated();
        inner.block_on(inner.sleep(Duration::seconds(5)));
        assert_eq!(outer.now(), Instant::START);
        task.await;
        assert_eq!(outer.now(), Instant::START + Duration::seconds(1));
    });
}

#[test]
fn places_go_by_priority_then_by_arrival() {
    let runtime = Runtime::simulated();
    let resource = Resource::new(&runtime, 1);
    let order = Rc::new(RefCell::new(Vec::new()));
    runtime.block_on(async {
        let held = resource.acquire(0).await;
        let waiters: Vec<_> = [(2, 'a'), (1, 'b'), (2, 'c'), (0, 'd'), (1, 'e')]
            .into_iter()
            .map(|(priority, name)| {
                let (resource, order) = (resource.clone(), Rc::clone(&order));
                runtime.spawn(async move {
                    let _grant = resource.acquire(priority).await;
                    order.borrow_mut().push(name);
                })
            })
            .collect();
        runtime.yield_now().await;
        assert!(resource.try_acquire().is_none());
        drop(held);
        join_all(waiters).await;
    });
    assert_eq!(order.borrow().iter().collect::<String>(), "dbeac");
}

#[test]
fn a_waiter_that_gives_up_passes_its_place_on() {
    both_clocks(|runtime| {
        let resource = Resource::new(&runtime, 1);
        runtime.block_on(async {
            let held = resource.acquire(0).await;
            let mut granted_then_dropped = Box::pin(resource.acquire(0));
            let mut dropped_in_line = Box::pin(resource.acquire(0));
            assert!(granted_then_dropped.as_mut().now_or_never().is_none());
            assert!(dropped_in_line.as_mut().now_or_never().is_none());
            let last = runtime.spawn({
                let resource = resource.clone();
                async move { drop(resource.acquire(0).await) }
            });
            runtime.yield_now().await;
            drop(dropped_in_line);
            drop(held);
            drop(granted_then_dropped);
            last.await;
        });
        assert_eq!(resource.in_use(), 0);
    });
}

#[test]
fn abandoned_timers_cost_no_memory() {
    let runtime = Runtime::simulated();
    runtime.block_on(async {
        for _ in 0..100_000 {
            let work = runtime.sleep(Duration::micros(1));
            let limit = runtime.sleep(Duration::seconds(3600));
            pin_mut!(work, limit);
            select(work, limit).await;
        }
    });
    // The last abandoned timer, an hour away, must not hold time back or carry it on.
    assert_eq!(runtime.now(), Instant::START + Duration::micros(100_000));
}

#[test]
fn named_generators_repeat_and_differ() {
    use rand_distr::Distribution;
    let draw = |seed, name| -> Vec<f64> {
        let mut random = Random::named(seed, name);
        rand_distr::Exp1.sample_iter(&mut random).take(8).collect()
    };
    assert_eq!(draw(1, "arrivals"), draw(1, "arrivals"));
    assert_ne!(draw(1, "arrivals"), draw(1, "services"));
    assert_ne!(draw(1, "arrivals"), draw(2, "arrivals"));
}

#[test]
fn a_crew_borrows_and_ends_with_the_call() {
    struct Ends<'a>(&'a Cell<u32>);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let runtime = Runtime::simulated();
    let (passed, ended) = (Cell::new(0), Cell::new(0));
    let (done, over) = (Cell::new(0), Signal::default());
    let member = |millis: u64| {
        let (runtime, passed, ended, done, over) = (&runtime, &passed, &ended, &done, &over);
        async move {
            let _ends = Ends(ended);
            runtime.sleep(Duration::millis(millis)).await;
            passed.set(passed.get() + millis);
            done.set(done.get() + 1);
            over.notify();
        }
    };
    // Two of three are through when the call is over; the third is dropped where it stands.
    runtime.block_on_with([1, 2, 3].map(member), over.wait_until(|| done.get() == 2));
    assert_eq!((passed.get(), ended.get()), (3, 3));
    assert_eq!(runtime.now(), Instant::START + Duration::millis(2));
    // Nothing of it is left: its timer passes without anyone.
    runtime.block_on(runtime.sleep(Duration::millis(5)));
    assert_eq!(passed.get(), 3);
    // Also if the main future, or a member while it is polled, panics.
    for thrower in [true, false] {
        ended.set(0);
        let crew = [1, 2].map(|millis| {
            let (runtime, ended) = (&runtime, &ended);
            async move {
                let _ends = Ends(ended);
                runtime.sleep(Duration::millis(millis)).await;
                assert!(thrower, "a member fails");
            }
        });
        let main = async {
            runtime.sleep(Duration::micros(500)).await;
            assert!(!thrower, "the main future fails");
            std::future::pending::<()>().await
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on_with(crew, main)));
        assert!(caught.is_err());
        assert_eq!(ended.get(), 2);
    }
}

/// How often in a row somebody may go on instead of yielding, counted up to a hundred.
fn goes_on(runtime: &Runtime) -> u32 {
    (0..100).take_while(|_| runtime.may_go_on(runtime.now())).count() as u32
}

#[test]
fn who_is_alone_may_go_on_for_a_while() {
    both_clocks(|runtime| {
        runtime.block_on(async {
            let first = goes_on(&runtime);
            assert!((2..100).contains(&first), "{first} times");
            assert_eq!(goes_on(&runtime), 0, "now it is time to yield");
            runtime.yield_now().await;
            assert_eq!(goes_on(&runtime), first, "a new turn");
        });
    });
}

#[test]
fn who_has_company_may_not_go_on() {
    both_clocks(|runtime| {
        runtime.block_on(async {
            let due = runtime.sleep(Duration::seconds(3600));
            pin_mut!(due);
            assert!(futures_util::poll!(&mut due).is_pending());
            assert!(runtime.may_go_on(runtime.now()), "the timer has time");
            assert!(!runtime.may_go_on(runtime.now() + Duration::seconds(3600)), "the timer is due");

            let both = |_| {
                let runtime = runtime.clone();
                async move {
                    runtime.yield_now().await;
                    runtime.may_go_on(runtime.now())
                }
            };
            let mut tasks = [1, 2].map(|number| runtime.spawn(both(number)));
            assert!(!runtime.may_go_on(runtime.now()), "two tasks are ready");
            assert!(!(&mut tasks[0]).await, "the other is polled in the same turn");
        });
    });
}

#[test]
fn who_is_called_from_outside_may_not_go_on() {
    let runtime = Runtime::live_timers();
    runtime.block_on(async {
        let waker = std::future::poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        assert!(runtime.may_go_on(runtime.now()));
        std::thread::spawn(move || waker.wake()).join().unwrap();
        assert!(!runtime.may_go_on(runtime.now()), "another thread has called");
        // The call is a wake-up of its own, and counts as company until it has been heard.
        for _ in 0..3 {
            runtime.yield_now().await;
        }
        assert!(runtime.may_go_on(runtime.now()), "it was heard");
    });
}

/// Otherwise it would have more and more polls in each turn, as each poll of one that yields leads to another.
#[test]
fn who_was_woken_twice_has_one_poll_in_a_turn() {
    let runtime = Runtime::live_timers();
    let over = Rc::new(Cell::new(false));
    let twice = runtime.spawn({
        let (runtime, over) = (runtime.clone(), Rc::clone(&over));
        async move {
            for _ in 0..100 {
                join!(runtime.yield_now(), runtime.yield_now());
            }
            over.set(true);
        }
    });
    let turns = runtime.spawn({
        let runtime = runtime.clone();
        async move {
            let mut turns = 0;
            while !over.get() {
                runtime.yield_now().await;
                turns += 1;
            }
            turns
        }
    });
    let ((), turns) = runtime.block_on(futures_util::future::join(twice, turns));
    assert_eq!(turns, 100);
}
