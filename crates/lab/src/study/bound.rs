//! An expression bound to the points of experiments: checked before anything runs, and computed from what they came to.
//!
//! A quantity of several points is a list of numbers, in the order of the sweep. Lists of the same length compute
//! number by number, a single number with each of a list; `min`, `max` and `mean` make one number of a list. What is
//! left must be one number, or one truth.

use std::rc::Rc;

use crate::bench::{Bench, Outcome, Trial, TrialError};
use crate::experiment::Experiment;

use super::expression::{Expression, Fault, Measure, Moment, Node, Operator, Over, Quantity, What};
use super::unit::{Amount, Dimension};

/// Of tests that do not hold, so many are named.
const TESTS_SHOWN: usize = 3;
/// Of what tests are about, so many numbers are shown.
const QUANTITIES_SHOWN: usize = 8;

/// An expression and the trials of its quantities, each with those of its points.
pub(crate) struct Bound {
    pub expression: Expression,
    pub trials: Vec<Rc<[Experiment]>>,
}

/// What a node comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Truth,
    Number(Dimension),
}

/// A computed value.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Truth(bool),
    Numbers(Vec<f64>),
}

struct Of<'e>(&'e Experiment);

impl Trial for Of<'_> {
    fn experiment(&self) -> Experiment {
        self.0.clone()
    }
}

impl Bound {
    /// What it comes to, and whether units fit and lists become one.
    pub fn check(&self) -> Result<Kind, Fault> {
        let (kind, count) = self.kind(&self.expression.root)?;
        // A comparison of many holds if it holds for each.
        if count == 1 || kind == Kind::Truth { Ok(kind) } else { Err(self.many(&self.expression.root, count)) }
    }

    fn many(&self, node: &Node, count: usize) -> Fault {
        let said = format!(
            "it is of {count} points, where one is wanted; name one of them in brackets, as in bandwidth[disks=2], or take min, max or mean"
        );
        Fault { place: node.place.clone(), said }
    }

    /// The kind of a node and how many numbers it is.
    fn kind(&self, node: &Node) -> Result<(Kind, usize), Fault> {
        let fault = |said: String| Fault { place: node.place.clone(), said };
        let number = |of: &Node| match self.kind(of)? {
            (Kind::Number(dimension), count) => Ok((dimension, count)),
            (Kind::Truth, _) => {
                Err(Fault { place: of.place.clone(), said: "a truth, where a number is wanted".to_owned() })
            }
        };
        let truth = |of: &Node| match self.kind(of)? {
            (Kind::Truth, count) => Ok(count),
            _ => Err(Fault { place: of.place.clone(), said: "a number, where a comparison is wanted".to_owned() }),
        };
        let together = |a: usize, b: usize| match (a, b) {
            (a, b) if a == b => Ok(a),
            (1, many) | (many, 1) => Ok(many),
            (a, b) => Err(fault(format!("{a} points beside {b}; take as many of each"))),
        };
        let alike = |a: Dimension, b: Dimension| match a == b {
            true => Ok(()),
            false => Err(fault(format!("a unit that does not fit: {a} beside {b}"))),
        };
        match &node.what {
            What::Number(amount) => Ok((Kind::Number(amount.dimension), 1)),
            What::Quantity(index) => {
                let dimension = self.expression.quantities[*index].measure.dimension();
                Ok((Kind::Number(dimension), self.trials[*index].len()))
            }
            What::Negative(inner) => number(inner).map(|(dimension, count)| (Kind::Number(dimension), count)),
            What::Not(inner) => match truth(inner)? {
                1 => Ok((Kind::Truth, 1)),
                count => Err(self.many(inner, count)),
            },
            What::Over(over, inner) => {
                let (dimension, mut count) = number(&inner[0])?;
                for other in &inner[1..] {
                    let (another, more) = number(other)?;
                    alike(dimension, another)?;
                    count += more;
                }
                Ok((Kind::Number(dimension), if *over == Over::Absolute { count } else { 1 }))
            }
            What::Within(left, share, right) => {
                let ((a, left), (part, one), (b, right)) = (number(left)?, number(share)?, number(right)?);
                alike(a, b).and_then(|()| alike(part, Dimension::PLAIN))?;
                Ok((Kind::Truth, together(together(left, right)?, one)?))
            }
            What::Two(operator, left, right) => match operator {
                Operator::And | Operator::Or => Ok((Kind::Truth, truth(left)?.max(truth(right)?))),
                _ => {
                    let ((a, left), (b, right)) = (number(left)?, number(right)?);
                    let count = together(left, right)?;
                    let strange = || fault("a unit that nothing has".to_owned());
                    let kind = match operator {
                        Operator::Times => Kind::Number(a.times(b).ok_or_else(strange)?),
                        Operator::DividedBy => Kind::Number(a.over(b).ok_or_else(strange)?),
                        Operator::Plus | Operator::Minus => alike(a, b).map(|()| Kind::Number(a))?,
                        _ => alike(a, b).map(|()| Kind::Truth)?,
                    };
                    Ok((kind, count))
                }
            },
        }
    }

    /// The number, in bytes and seconds.
    pub fn number(&self, bench: &Bench, text: &str) -> Result<f64, TrialError> {
        match self.value(bench, text, &self.expression.root)? {
            Value::Numbers(numbers) if numbers.len() == 1 => Ok(numbers[0]),
            other => unreachable!("it was checked: {other:?}"),
        }
    }

    /// Whether it holds, and the quantities that say so. Of tests that must all hold, those that do not are named, with
    /// their quantities alone.
    pub fn truth(&self, bench: &Bench, text: &str) -> Result<(bool, String), TrialError> {
        let mut tests = Vec::new();
        self.expression.root.tests(&mut tests);
        let (mut broken, all) = (Vec::new(), tests.len());
        for test in tests {
            let Value::Truth(holds) = self.value(bench, text, test)? else { unreachable!("it was checked") };
            broken.extend((!holds).then_some(test));
        }
        let mut shown: Vec<String> = Vec::new();
        if all > 1 && !broken.is_empty() {
            let words = |node: &Node| text[node.place.clone()].split_whitespace().collect::<Vec<_>>().join(" ");
            let named: Vec<String> = broken.iter().take(TESTS_SHOWN).map(|node| words(node)).collect();
            let more = if broken.len() > named.len() { ", such as" } else { "" };
            shown.push(format!("{} of {all} do not hold{more}: {}", broken.len(), named.join("; ")));
        }
        let mut indices = Vec::new();
        match broken.is_empty() {
            true => self.expression.root.quantities(&mut indices),
            false => broken.iter().take(TESTS_SHOWN).for_each(|node| node.quantities(&mut indices)),
        }
        let mut quantities: Vec<String> = Vec::new();
        for index in indices {
            let quantity = &self.expression.quantities[index];
            let dimension = quantity.measure.dimension();
            let numbers = self.quantity(bench, index)?;
            let amounts: Vec<String> =
                numbers.into_iter().map(|value| Amount { value, dimension }.to_string()).collect();
            let said = format!("{} = {}", &text[quantity.place.clone()], amounts.join(", "));
            if !quantities.contains(&said) {
                quantities.push(said);
            }
        }
        let more = quantities.len().saturating_sub(QUANTITIES_SHOWN);
        quantities.truncate(QUANTITIES_SHOWN);
        shown.extend(quantities);
        shown.extend((more > 0).then(|| format!("and {more} more")));
        Ok((broken.is_empty(), shown.join("; ")))
    }

    fn value(&self, bench: &Bench, text: &str, node: &Node) -> Result<Value, TrialError> {
        let numbers = |of: &Node| match self.value(bench, text, of)? {
            Value::Numbers(numbers) => Ok::<_, TrialError>(numbers),
            Value::Truth(_) => unreachable!("it was checked"),
        };
        Ok(match &node.what {
            What::Number(amount) => Value::Numbers(vec![amount.value]),
            What::Quantity(index) => Value::Numbers(self.quantity(bench, *index)?),
            What::Negative(inner) => Value::Numbers(numbers(inner)?.into_iter().map(|number| -number).collect()),
            What::Not(inner) => Value::Truth(self.value(bench, text, inner)? == Value::Truth(false)),
            What::Over(over, inner) => {
                let mut all = Vec::new();
                for of in inner {
                    all.extend(numbers(of)?);
                }
                Value::Numbers(match over {
                    Over::Absolute => all.into_iter().map(f64::abs).collect(),
                    Over::Mean => vec![all.iter().sum::<f64>() / all.len() as f64],
                    Over::Least => all.into_iter().reduce(f64::min).into_iter().collect(),
                    Over::Most => all.into_iter().reduce(f64::max).into_iter().collect(),
                })
            }
            What::Within(left, share, right) => {
                let (a, share, b) = (numbers(left)?, numbers(share)?, numbers(right)?);
                let distance = pairs(&a, &b, |a, b| (a - b).abs());
                let most = pairs(&share, &b, |share, b| share * b.abs());
                // Of many points, all must.
                Value::Truth(pairs(&distance, &most, |distance, most| distance <= most).into_iter().all(|holds| holds))
            }
            What::Two(operator, left, right) => match operator {
                Operator::And | Operator::Or => {
                    let [a, b] = [left, right].map(|of| self.value(bench, text, of));
                    let (Value::Truth(a), Value::Truth(b)) = (a?, b?) else { unreachable!("it was checked") };
                    Value::Truth(if *operator == Operator::And { a && b } else { a || b })
                }
                Operator::Plus => Value::Numbers(pairs(&numbers(left)?, &numbers(right)?, |a, b| a + b)),
                Operator::Minus => Value::Numbers(pairs(&numbers(left)?, &numbers(right)?, |a, b| a - b)),
                Operator::Times => Value::Numbers(pairs(&numbers(left)?, &numbers(right)?, |a, b| a * b)),
                Operator::DividedBy => {
                    let below = numbers(right)?;
                    if below.contains(&0.0) {
                        let what = &text[right.place.clone()];
                        return Err(TrialError::nothing(format!("it divides by '{what}', which came to nothing")));
                    }
                    Value::Numbers(pairs(&numbers(left)?, &below, |a, b| a / b))
                }
                compared => {
                    let holds = |a: f64, b: f64| match compared {
                        Operator::Below => a < b,
                        Operator::AtMost => a <= b,
                        Operator::Above => a > b,
                        _ => a >= b,
                    };
                    let all = pairs(&numbers(left)?, &numbers(right)?, holds);
                    Value::Truth(all.into_iter().all(|holds| holds))
                }
            },
        })
    }

    /// What a quantity came to at its points.
    fn quantity(&self, bench: &Bench, index: usize) -> Result<Vec<f64>, TrialError> {
        let quantity = &self.expression.quantities[index];
        let mut numbers = Vec::new();
        // All are asked for before one is given up, so that they run side by side (`Bench::prepare`).
        let outcomes: Vec<_> = self.trials[index].iter().map(|experiment| bench.run(&Of(experiment))).collect();
        for outcome in outcomes {
            numbers.push(measured(quantity, &*outcome?)?);
        }
        Ok(numbers)
    }
}

/// Two lists, number by number; one number with each of a list.
fn pairs<T>(a: &[f64], b: &[f64], with: impl Fn(f64, f64) -> T) -> Vec<T> {
    let at = |list: &[f64], index: usize| if list.len() == 1 { list[0] } else { list[index] };
    (0..a.len().max(b.len())).map(|index| with(at(a, index), at(b, index))).collect()
}

/// A quantity of an outcome.
fn measured(quantity: &Quantity, outcome: &Outcome) -> Result<f64, TrialError> {
    let name = quantity.names.first().map(String::as_str);
    let figures = || match name {
        None => Ok(&outcome.figures),
        Some(name) => outcome
            .stream(name)
            .ok_or_else(|| TrialError::nothing(format!("no request of a stream or operation '{name}' was counted"))),
    };
    Ok(match quantity.measure {
        Measure::Bandwidth => figures()?.bandwidth.get(),
        Measure::Rate => figures()?.iops.get(),
        Measure::Requests => figures()?.requests as f64,
        Measure::Latency(moment) => {
            let latency = figures()?.latency.ok_or_else(|| TrialError::nothing("no request was counted"))?;
            let time = match moment {
                Moment::Mean => latency.mean,
                Moment::Min => latency.min,
                Moment::P50 => latency.p50,
                Moment::P90 => latency.p90,
                Moment::P99 => latency.p99,
                Moment::P999 => latency.p999,
                Moment::Max => latency.max,
            };
            time.as_seconds()
        }
        Measure::Used => {
            let node = name.expect("it was checked");
            let worked = outcome.load.at_work();
            let at_work = worked.iter().find(|(known, _)| *known == node).map(|(_, share)| share.get());
            // A part of a node, such as "fs programs".
            let within = || outcome.load.utilizations().into_iter().find(|(label, _)| label == node);
            let at_work = at_work.or_else(|| within().map(|(_, share)| share.get()));
            at_work.ok_or_else(|| {
                let known: Vec<&str> = worked.iter().map(|(node, _)| *node).collect();
                TrialError::nothing(format!("no node '{node}' says how much it works; these do: {}", known.join(", ")))
            })?
        }
        Measure::Time => {
            let phase = quantity.names.get(1).map(String::as_str);
            let chosen = |part: &str, of: &str| Some(part) == name && phase.is_none_or(|phase| phase == of);
            if !outcome.phases.keys().any(|(part, of)| chosen(part, of)) {
                let known: Vec<String> = outcome.phases.keys().map(|(part, phase)| format!("{part} {phase}")).collect();
                return Err(TrialError::nothing(format!(
                    "no request had spans of that part and phase; there are: {}",
                    known.join(", ")
                )));
            }
            outcome.mean(chosen).as_seconds()
        }
    })
}
