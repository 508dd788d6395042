//! Ctrl-C, the signal of `kill` and that of a closed terminal, as something that tasks wait for.

use std::io::Write;

use runtime::Alarm;

/// An alarm that they raise, saying `words`. The second one ends the program at once.
pub fn on_signals(words: &'static str) -> Alarm {
    let alarm = Alarm::default();
    let raise = alarm.clone();
    // Without a handler they end the program as ever.
    let _ = ctrlc::set_handler(move || {
        if raise.raise() {
            std::process::exit(130);
        }
        let _ = writeln!(std::io::stderr(), "{words}");
    });
    alarm
}
