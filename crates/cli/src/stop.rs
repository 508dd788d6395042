//! Ctrl-C, the signal of `kill` and that of a closed terminal, as something that tasks wait for.

use std::io::Write;

use runtime::Alarm;

/// An alarm that the first of them raises, saying `words`. Those that follow say that it is known, and end nothing:
/// what a server leaves half done is read by its next start as a crash, and whatever it does at its end is bounded in
/// time.
pub fn on_signals(words: &'static str) -> Alarm {
    let alarm = Alarm::default();
    let raise = alarm.clone();
    // Without a handler they end the program as ever.
    let _ = ctrlc::set_handler(move || {
        let words = if raise.raise() { "still ending (kill -9 ends it at once, as a crash would)" } else { words };
        let _ = writeln!(std::io::stderr(), "{words}");
    });
    alarm
}
