//! `arraylab run --find-limit`: one experiment at one rate after the other.

use lab::find_limit::{Bound, Search};
use lab::{Point, Setting};
use serde_json::{Value, json};
use units::Frequency;

use crate::fail::Failure;
use crate::run::Done;

/// The runs of a search, and where it ended.
pub struct Found {
    bound: Bound,
    search: Search,
    /// What the experiment offers by itself.
    offered: Frequency,
    /// At a lower rate too few requests would be counted.
    counted_out: bool,
}

/// Refuses what cannot be searched.
pub fn check(points: &[Point]) -> Result<(), Failure> {
    let [point] = points else {
        return Err(Failure::input(anyhow::anyhow!("--find-limit varies the rates itself; leave out [sweep]")));
    };
    match point.experiment.offered(1) {
        Some(_) => Ok(()),
        None => Err(Failure::input(anyhow::anyhow!(
            "--find-limit varies the rates of open loops, and '{}' has none; give a stream `arrivals`, such as {{ poisson = \"1000/s\" }}",
            point.experiment.name
        ))),
    }
}

/// Runs one rate after the other until the limit is known, or `over`. What each came to goes to `done`.
pub fn search(
    point: &Point,
    bound: Bound,
    done: &mut Vec<Done>,
    mut run: impl FnMut(Point) -> Result<Done, Failure>,
    over: impl Fn() -> bool,
) -> Result<Found, Failure> {
    let mut found = Found { bound, search: Search::default(), offered: Frequency::default(), counted_out: false };
    while let Some(factor) = found.search.next() {
        let experiment = point.experiment.faster(factor);
        let mut one = run(Point { settings: Vec::new(), experiment })?;
        let offered = one.outcome.offered.expect("an open loop was found before");
        found.offered = Frequency::per_second(offered.get() / factor);
        let offered = found.at(factor);
        let judged = bound.judge(&one.point.experiment, &one.outcome);
        let verdict = match judged {
            Some((true, _)) => "kept",
            Some((false, _)) => "broken",
            None => "-",
        };
        let figure = judged.map_or(String::new(), |(_, worst)| format!(", {worst}"));
        eprintln!("offered {offered}: {bound} {verdict}{figure}");
        let set = |key: &str, value: String| Setting { key: key.to_owned(), value };
        one.point.settings = vec![set("offered", offered.to_string()), set("bound", verdict.to_owned())];
        let cut_short = one.outcome.conclusion.interrupted;
        done.push(one);
        if cut_short || over() {
            break;
        }
        match judged {
            Some((kept, _)) => found.search.tell(factor, kept),
            None if found.search.broken.is_some() => {
                found.counted_out = true;
                break;
            }
            None => {
                return Err(Failure::input(anyhow::anyhow!(
                    "at {offered} fewer than {} requests were counted, too few to judge {bound}; lengthen run.measure",
                    bound.fewest()
                )));
            }
        }
    }
    Ok(found)
}

impl Found {
    fn at(&self, factor: f64) -> Frequency {
        Frequency::per_second(self.offered.get() * factor)
    }

    /// True if there is a rate at which the bound is kept.
    pub fn any(&self) -> bool {
        self.search.kept.is_some()
    }

    /// The answer, in a sentence.
    pub fn text(&self) -> String {
        let Found { bound, search, .. } = self;
        match (search.kept, search.broken) {
            (Some(kept), Some(broken)) if search.next().is_none() => {
                format!("limit: {bound} was kept at {} offered, and broken at {}", self.at(kept), self.at(broken))
            }
            (Some(kept), None) if search.next().is_none() => {
                format!("limit: none found; {bound} was kept at every rate up to {}", self.at(kept))
            }
            (None, Some(broken)) if search.next().is_none() || self.counted_out => {
                let lower =
                    if self.counted_out { "; of a lower one too few requests are counted in run.measure" } else { "" };
                format!("limit: none; {bound} was broken at every rate down to {}{lower}", self.at(broken))
            }
            _ => format!("limit: the search for {bound} was ended early"),
        }
    }

    /// The answer, for scripts.
    pub fn document(&self) -> Value {
        json!({
            "bound": self.bound.to_string(),
            "kept_at_per_s": self.search.kept.map(|factor| self.at(factor).get()),
            "broken_at_per_s": self.search.broken.map(|factor| self.at(factor).get()),
            "complete": self.search.next().is_none() || self.counted_out,
        })
    }
}
