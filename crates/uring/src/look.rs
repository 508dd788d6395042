//! Looking for what a prompt peer says next, before sleeping until it comes.
//!
//! A peer that has one request under way sends the next one some tens of microseconds after the reply. Sleeping that
//! long and being woken costs more than the request, most of all on a virtual machine, where a processor that halts is
//! woken by the host. So the ring asks the socket again and again, for [`LOOK`] at most, and yields the processor in
//! between, to the peer itself if both are on one.
//!
//! A look that finds nothing costs more than one that finds something saves. So it adds two to a doubt, from which each
//! look that finds takes one, and the more doubt there is, the more waits go without a look, up to 63 between two.
//! Looks go on where two of three find something; a peer that takes longer costs one look in 64 requests. QEMU's event
//! loops poll in much the same way, for 32 us at most (`poll-max-ns`), which is too short here: the peer has to be
//! woken, too.
//!
//! Measured with the loads of `benchsuite serve` on AMD's EPYC in a virtual machine, medians of seven turns of a second
//! for each build, 4 KiB at depth 1:
//! - with looks, 20,740 reads a second at 44.8 us of the server's processor time, and 17,210 writes at 54.0; without,
//!   10,050 at 41.8 and 7,230 at 59.4;
//! - in a busier hour 3,890 reads without, 5,130, 7,470 and 16,190 with looks of 10, 30 and 100 us;
//! - server and client on one processor: 34,790 reads without, 32,170 with looks that yield, 29,470 with looks that do
//!   not.
//!
//! Rejected: asking `poll(2)` before each receive, which takes no lock that the sender wants; it is no faster. Pauses
//! of 50 to 200 `spin_loop`s between looks: no cheaper.

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

    /// Of so many waits, how many begin with a look, if every `in_vain`th of these finds nothing.
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
