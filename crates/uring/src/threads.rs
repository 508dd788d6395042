//! The engine of threads: blocking calls, many at a time, where io_uring is forbidden.
//!
//! Workers take requests from one queue and make the same calls as the synchronous engine. A request costs two switches
//! of threads, several times the price of a ring; the depth that the device sees is the number of workers at most.

use std::fs::File;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender};
use device::{Reply, Request, Stamps};
use runtime::LiveClock;

use crate::sync;

/// Workers of one runtime: the largest depth that reaches a device through them.
const WORKERS: usize = 64;

/// A pool of workers; clones name the same one.
///
/// Dropping the last clone waits until the queue is empty and the workers have ended, as dropping the ring waits for
/// the kernel: a direct write that was abandoned, and ended only when somebody else had gone on through the page cache,
/// would make the kernel report an error to the next flush there.
#[derive(Clone)]
pub(crate) struct Threads {
    pool: Rc<Pool>,
    clock: LiveClock,
}

struct Pool {
    /// Absent only while the workers come to their end.
    queue: Option<Sender<Job>>,
    workers: Vec<JoinHandle<()>>,
}

/// One request, on its way to a worker.
struct Job {
    file: Arc<File>,
    request: Request,
    clock: LiveClock,
    done: Arc<Mutex<Outcome>>,
}

#[derive(Default)]
struct Outcome {
    reply: Option<Reply>,
    waker: Option<Waker>,
}

impl Threads {
    /// Starts the workers; fails only if not even one can be started.
    pub fn start(clock: LiveClock) -> std::io::Result<Threads> {
        let (queue, jobs) = crossbeam_channel::unbounded();
        let mut workers = Vec::with_capacity(WORKERS);
        for worker in 0..WORKERS {
            let jobs = jobs.clone();
            let started =
                std::thread::Builder::new().name(format!("io-{worker}")).stack_size(64 << 10).spawn(|| work(jobs));
            match started {
                Err(error) if worker == 0 => return Err(error),
                // The process may have no more threads: fewer will do.
                Err(_) => break,
                Ok(started) => workers.push(started),
            }
        }
        Ok(Threads { pool: Rc::new(Pool { queue: Some(queue), workers }), clock })
    }

    /// Carries a request out on a worker. If the future is dropped, the worker keeps the memory until it is done.
    pub async fn carry_out(&self, file: &Arc<File>, request: Request) -> Reply {
        let done = Arc::new(Mutex::new(Outcome::default()));
        let job = Job { file: Arc::clone(file), request, clock: self.clock, done: Arc::clone(&done) };
        let queue = self.pool.queue.as_ref().expect("the queue is there until the last clone is gone");
        assert!(queue.send(job).is_ok(), "workers live as long as there is someone to send");
        std::future::poll_fn(|context| {
            let mut done = done.lock().expect("no panic under this lock");
            match done.reply.take() {
                Some(reply) => Poll::Ready(reply),
                None => {
                    done.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue = None;
        for worker in self.workers.drain(..) {
            let ended = worker.join();
            assert!(ended.is_ok() || std::thread::panicking(), "workers do not panic");
        }
    }
}

fn work(jobs: Receiver<Job>) {
    for Job { file, mut request, clock, done } in jobs {
        let submitted = clock.now();
        let result = sync::rounds(&file, &mut request);
        let reply = request.answer(result, Stamps { submitted, completed: clock.now() });
        let waker = {
            let mut done = done.lock().expect("no panic under this lock");
            done.reply = Some(reply);
            done.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
