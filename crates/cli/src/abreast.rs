//! Points of a sweep that need no real time, on all processors.
//!
//! A modelled run depends on its description and seed alone, so it comes out the same whatever runs beside it. Points
//! begin in their order and are handed on in it. So the numbers of folders and the lines of tables are those of a sweep
//! that runs one point after the other.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use lab::{Point, Target};
use record::RunFolder;

use crate::fail::Failure;
use crate::run::{Done, Kept, RECORDS, begin, in_folder};

/// Runs all points and hands each to `each`, in order. No more of them begin once `each` has answered false, or after
/// an interrupt; those under way are still handed on.
pub fn abreast(
    points: Vec<Point>,
    (runs, targets): (&Path, &[Target]),
    interrupted: &AtomicBool,
    each: &mut dyn FnMut(Result<Done, Failure>) -> bool,
) {
    let lanes = thread::available_parallelism().map_or(1, usize::from).min(points.len());
    let (stop, left) = (AtomicBool::new(false), Mutex::new(points.into_iter().enumerate()));
    let next = || -> Option<(usize, Point, Result<RunFolder, Failure>)> {
        // Under the lock, so that folders are made in the order of points.
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        if stop.load(Relaxed) || interrupted.load(Relaxed) {
            return None;
        }
        let (index, point) = left.next()?;
        let folder = begin(&point, runs, targets);
        Some((index, point, folder))
    };
    thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..lanes {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                let kept = Kept { runs, watch: false, metrics: None, conductor: None };
                while let Some((index, point, folder)) = next() {
                    let memory = RECORDS / lanes as u64;
                    let run =
                        |folder| in_folder(folder, point, &kept, (targets, memory), &Default::default(), interrupted);
                    if send.send((index, folder.and_then(run))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let (mut early, mut turn) = (BTreeMap::new(), 0);
        for (index, done) in receive {
            early.insert(index, done);
            while let Some(done) = early.remove(&turn) {
                turn += 1;
                if !each(done) {
                    stop.store(true, Relaxed);
                }
            }
        }
    });
}
