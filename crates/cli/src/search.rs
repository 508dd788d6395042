//! `arraylab run --find-limit`: one experiment at one rate after the other.

use lab::find_limit::{Bound, Hunt};
use lab::{Point, Setting};

use crate::fail::Failure;
use crate::run::Done;

/// The search for a bound; refuses what cannot be searched.
pub fn hunt(points: &[Point], bound: Bound) -> Result<Hunt, Failure> {
    let [point] = points else {
        return Err(Failure::input(anyhow::anyhow!("--find-limit varies the rates itself; leave out [sweep]")));
    };
    Hunt::new(&point.experiment, bound).map_err(Failure::input)
}

/// Runs one rate after the other until the limit is known, or `over`. What each came to goes to `done`.
pub fn search(
    hunt: &mut Hunt,
    done: &mut Vec<Done>,
    mut run: impl FnMut(Point) -> Result<Done, Failure>,
    over: impl Fn() -> bool,
) -> Result<(), Failure> {
    while let Some(experiment) = hunt.next() {
        let mut one = run(Point::alone(experiment))?;
        let (tried, told) = hunt.take(&one.outcome);
        let figure = tried.judged.map_or(String::new(), |(_, worst)| format!(", {worst}"));
        eprintln!("offered {}: {} {}{figure}", tried.offered, hunt.bound(), tried.verdict());
        let set = |key: &str, value: String| Setting { key: key.to_owned(), value };
        one.point.settings = vec![set("offered", tried.offered.to_string()), set("bound", tried.verdict().to_owned())];
        let cut_short = one.outcome.conclusion.interrupted;
        done.push(one);
        told.map_err(Failure::input)?;
        if cut_short || over() {
            break;
        }
    }
    Ok(())
}
