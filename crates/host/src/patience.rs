//! What a killed program leaves behind for a moment.
//!
//! Who was killed with requests under way lets go of its files, sockets and ports when the kernel has ended these, some
//! tens of milliseconds later: a server that is started again at once finds them free within this time.

use std::time::{Duration, Instant};

/// How long letting go may take.
pub const LETTING_GO: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Tries until it succeeds or fails for a reason that does not pass, or for as long as letting go may take.
pub fn patiently<T, E>(attempt: impl Fn() -> Result<T, E>, passes: impl Fn(&E) -> bool) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if passes(&error) && begun.elapsed() < LETTING_GO => std::thread::sleep(LOOK_AGAIN),
            outcome => return outcome,
        }
    }
}
