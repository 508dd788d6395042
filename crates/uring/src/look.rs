//! Looking for what a prompt peer says, before sleeping until it does.
//!
//! Between two requests of a peer that has one under way there are some tens of microseconds. A server that sleeps meanwhile, and a processor that does, pay for it more than for the
//! request, most of all on a virtual machine, where waking a processor is the host's work. So the ring looks for the message again and again, for [`LOOK`] at most, and
//! leaves the processor in between to whoever else is ready for it: the peer itself, if both are on one.
//!
//! A look in vain is time lost, more than one that finds saves. It adds two to a doubt from which each that finds takes one, and the more doubt there is, the more waits go without, up to
//! 63 between two looks: so looks go on where two of three find, and a peer that takes longer costs one in so many requests. QEMU's event loops poll in much the same way, for 32 us at
//! most (`poll-max-ns`); a virtual processor's wake-ups, the peer's among them, take longer than that.
//!
//! Requests of 4 KiB at depth 1 on AMD's EPYC in a virtual machine, two builds in seven turns of a second each (the loads of `benchsuite serve`): 20,740 for 10,050 reads a second at
//! 44.8 for 41.8 us of the server's processor time, 17,210 for 7,230 writes at 54.0 for 59.4. Looks of 10 and 30 us are too short there: 5,130 and 7,470 reads a second, where none
//! made 3,890 and 100 us 16,190 (a busier hour). With server and client on one processor, looks that yield it cost little: 32,170 reads a second for 34,790 without, and 29,470
//! with looks that do not yield.
//!
//! Rejected: asking `poll(2)` first, which takes no lock that the sender wants; it is as fast.

use units::Duration;

/// How long a message is looked for.
pub(crate) const LOOK: Duration = Duration::micros(100);
/// What a look in vain adds to the doubt.
const IN_VAIN: u32 = 2;
/// There is no more doubt than this, and no pause that is longer than two to its power.
const MOST_DOUBT: u32 = 6;

/// Whether the next wait begins with a look.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    doubt: u32,
    /// Waits that are still to go without.
    without: u32,
}

impl Looks {
    /// A wait begins: true if by a look.
    pub fn is_due(&mut self) -> bool {
        assert!(self.without < 1 << self.doubt, "a pause is no longer than the doubt is large");
        let due = self.without == 0;
        self.without = self.without.saturating_sub(1);
        due
    }

    /// What a look came to.
    pub fn ended(&mut self, found: bool) {
        assert_eq!(self.without, 0, "nobody looks in a pause");
        self.doubt = if found { self.doubt.saturating_sub(1) } else { MOST_DOUBT.min(self.doubt + IN_VAIN) };
        self.without = (1 << self.doubt) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many waits, how many begin with a look, if every `n`th look is in vain.
    fn looks_in(looks: &mut Looks, waits: usize, in_vain: usize) -> usize {
        let mut made = 0;
        for _ in 0..waits {
            if looks.is_due() {
                made += 1;
                looks.ended(made % in_vain > 0);
            }
        }
        made
    }

    #[test]
    fn looks_in_vain_become_rare() {
        let mut looks = Looks::default();
        assert_eq!(looks_in(&mut looks, 100, usize::MAX), 100, "a prompt peer is looked for each time");
        // Behind the first three there are 3, 15 and 63 waits without; from there on each 64th is one.
        assert_eq!(looks_in(&mut looks, 3 + 3 + 15 + 63, 1), 3);
        assert_eq!(looks_in(&mut looks, 640, 1), 10);
    }

    #[test]
    fn looks_that_find_bring_them_back() {
        let mut looks = Looks::default();
        looks_in(&mut looks, 1000, 1);
        let made = looks_in(&mut looks, 1000, usize::MAX);
        assert!(made > 1000 - 128, "after a pause, and one of half its length, and so on: {made}");
    }

    #[test]
    fn a_peer_that_is_prompt_half_the_time_is_left_alone() {
        let mut looks = Looks::default();
        let made = looks_in(&mut looks, 10_000, 2);
        assert!(made < 10_000 / 20, "{made}");
        let mut looks = Looks::default();
        let made = looks_in(&mut looks, 10_000, 10);
        assert!(made > 10_000 / 2, "nine in ten is prompt: {made}");
    }
}
