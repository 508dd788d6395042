//! The sentences of a survey: one per verdict, with its numbers.

use units::{Frequency, Rate, Ratio};

use super::{KnownLimit, Part, Question, Tier};
use crate::bend::Verdict;

/// What a sentence about a part with several devices can tell.
pub(super) struct Story<'a> {
    pub part: &'a Part,
    pub question: Question,
    pub measured: f64,
    pub expected: f64,
    /// What the best of the devices delivers alone.
    pub one: f64,
    /// The shape of the curve, if it can be told.
    pub bend: Option<Verdict<Frequency>>,
}

impl Story<'_> {
    fn start(&self) -> String {
        let devices = self.part.order.len();
        let place = if self.part.tier == Tier::Host { String::new() } else { format!(" on {}", self.part.name) };
        format!("{devices} {}{place} deliver {}", noun(self.part), amount(self.question, self.measured))
    }

    fn share(&self) -> String {
        format!(
            "{} of the sum of the parts ({})",
            Ratio::new(self.measured / self.expected.max(1.0)),
            amount(self.question, self.expected)
        )
    }

    pub fn shared(&self) -> String {
        let times = self.measured / self.one.max(1e-9);
        let bend = match self.bend {
            Some(Verdict::Limited { reached_by, .. }) if (2..self.part.order.len()).contains(&reached_by) => {
                format!("; from {reached_by} on, more bring nothing")
            }
            Some(Verdict::Falls { at, .. }) if at < self.part.order.len() => {
                format!("; the most came with {at}, more disturb each other")
            }
            Some(Verdict::Slows { share, from }) => {
                format!("; from {from} on, each further one brings {share} of what it does alone")
            }
            _ => String::new(),
        };
        format!("{}, {times:.2} x one alone and {}{bend}: they share {}", self.start(), self.share(), self.part.name)
    }

    pub fn generator(&self, busy: f64) -> String {
        format!(
            "{}, {}, but the load generator itself was {} busy: generator-bound, the storage may deliver more",
            self.start(),
            self.share(),
            Ratio::new(busy)
        )
    }

    pub fn processors(&self, busy: f64) -> String {
        format!("{}, {}, with the processors {} busy: they are the limit", self.start(), self.share(), Ratio::new(busy))
    }

    /// The processors, by what the parts would need of them together.
    pub fn demand(&self, busy: f64, needed: f64) -> String {
        format!(
            "{}, {}, with the processors {} busy; alone, the parts need {} of them in sum: the processors are the limit",
            self.start(),
            self.share(),
            Ratio::new(busy),
            Ratio::new(needed)
        )
    }

    /// Two limits fit.
    pub fn undecided(&self, busy: f64, needed: f64) -> String {
        format!(
            "{}, {}, with the processors {} busy; alone, the parts need {} of them in sum, more than there is. The limit is {} \
             or the processors; a survey on more processors, or of larger requests, would decide",
            self.start(),
            self.share(),
            Ratio::new(busy),
            Ratio::new(needed),
            self.part.name
        )
    }

    pub fn others(&self, share: f64) -> String {
        format!(
            "{}, {}, while other programs took {} of the processors: say nothing of it; end them and survey again",
            self.start(),
            self.share(),
            Ratio::new(share)
        )
    }

    pub fn scales(&self) -> String {
        format!("{}, {}: nothing that they share limits them", self.start(), self.share())
    }

    pub fn noise(&self, relative: f64) -> String {
        format!(
            "{}, {}, but repeats differ by {} (standard error): too noisy to say; take a longer --time or more --repeats",
            self.start(),
            self.share(),
            Ratio::new(relative)
        )
    }
}

/// What a known limit allows, in the unit in which it was reached.
pub(super) enum Bound {
    Rate(Rate),
    /// It counts each request as so many pieces.
    Requests {
        number: Frequency,
        pieces: u64,
    },
}

pub(super) fn known(part: &Part, limit: &KnownLimit, bound: Bound, question: Question, measured: f64) -> String {
    let allows = match bound {
        Bound::Rate(rate) => rate.to_string(),
        Bound::Requests { number, pieces: 1 } => format!("{:.0} requests/s", number.get()),
        Bound::Requests { number, pieces } => {
            format!("{:.0} requests/s, and each of these is split into {pieces}", number.get())
        }
    };
    format!("{} delivers {}: {} allows {allows}", part.name, amount(question, measured), limit.what)
}

/// A device alone that keeps the thread which drives it busy all the time.
pub(super) fn driven(part: &Part, question: Question, measured: f64, busy: f64) -> String {
    format!(
        "{} delivers {} while the thread that drives it is {} busy: generator-bound, one processor is the limit",
        part.name,
        amount(question, measured),
        Ratio::new(busy)
    )
}

/// The only device, while other programs took the processors.
pub(super) fn disturbed(part: &Part, question: Question, measured: f64, share: f64) -> String {
    format!(
        "{} delivers {} while other programs took {} of the processors: say nothing of it; end them and survey again",
        part.name,
        amount(question, measured),
        Ratio::new(share)
    )
}

/// The only device, with everything else at ease.
pub(super) fn alone(part: &Part, question: Question, measured: f64, (generator, processors): (f64, f64)) -> String {
    format!(
        "{} delivers {} with the load generator {} and the processors {} busy: the limit is the device itself, at this depth",
        part.name,
        amount(question, measured),
        Ratio::new(generator),
        Ratio::new(processors)
    )
}

pub(super) fn operating_system(root: &Part, question: Question, os: f64, raw: f64, busy: Option<f64>) -> String {
    let busy = busy.map_or(String::new(), |busy| format!(", with the processors {} busy", Ratio::new(busy)));
    let (deliver, it) = verbs(root);
    format!(
        "through the operating system {deliver} {}, {} of the {} that {it} raw{busy}",
        amount(question, os),
        Ratio::new(os / raw.max(1e-9)),
        amount(question, raw)
    )
}

pub(super) fn depth(root: &Part, question: Question, one: f64, several: f64) -> String {
    let (deliver, it) = verbs(root);
    format!(
        "by one process per device, which waits for each request, {deliver} {}, {} of the {} that {it} with several \
         under way: queue depth limits such a process",
        amount(question, one),
        Ratio::new(one / several.max(1e-9)),
        amount(question, several)
    )
}

/// "4 files deliver", and how a sentence goes on about them.
fn verbs(root: &Part) -> (String, &'static str) {
    match root.order.len() {
        1 => ("1 device delivers".to_owned(), "it delivers"),
        devices => (format!("{devices} {} deliver", noun(root)), "they deliver"),
    }
}

/// A tier by name: the part itself where there is one, otherwise how many.
pub(super) fn tier(root: &Part, tier: Tier) -> String {
    let parts: Vec<&Part> = root.all().into_iter().map(|(_, part)| part).filter(|part| part.tier == tier).collect();
    match parts[..] {
        [part] => part.name.clone(),
        _ if tier == Tier::Disk && noun(root) == "files" => format!("{} files", parts.len()),
        _ => format!("{} {}s", parts.len(), tier.name()),
    }
}

/// What the leaves are: files if they are, disks otherwise.
fn noun(part: &Part) -> &'static str {
    let file = |leaf: &Part| leaf.below.is_empty() && !leaf.modelled && !leaf.name.starts_with("/dev/");
    if part.all().into_iter().any(|(_, part)| file(part)) { "files" } else { "devices" }
}

fn amount(question: Question, value: f64) -> String {
    match question {
        Question::Bandwidth => Rate::bytes_per_second(value).to_string(),
        Question::Requests => format!("{value:.0} requests/s"),
    }
}
