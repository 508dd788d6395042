//! An expression bound to the points of experiments: checked before anything runs, and computed from what they came to.
//!
//! A quantity of several points is a list of numbers, in the order of the sweep. Lists of the same length compute
//! number by number, a single number with each of a list; `min`, `max` and `mean` make one number of a list. What is
//! left must be one number, or one truth.

use crate::bench::{Bench, TrialError};
use crate::reproduce::median;
use machine::kit::Kit;
use units::Duration;

use super::expression::{Expression, Fault, Node, Operator, Over, What};
use super::formulas::Formulas;
use super::measure::Measure;
use super::measured::measured;
use super::points::Trials;
use super::unit::{Amount, Dimension, amount};

/// Of tests that do not hold, so many are named.
const TESTS_SHOWN: usize = 3;
/// Of what tests are about, so many numbers are shown.
const QUANTITIES_SHOWN: usize = 8;

/// What expressions are computed with.
#[derive(Clone, Copy)]
pub(crate) struct Context<'s> {
    pub bench: &'s Bench,
    /// Times between completions are cut off to whole ones of this.
    pub whole: Option<Duration>,
    /// The constants of the formulas for rounds, if the study has some.
    pub formulas: Option<&'s Formulas>,
}

/// An expression and the trials of its quantities, each with those of its points.
pub(crate) struct Bound {
    pub expression: Expression,
    pub trials: Vec<Trials>,
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
                let quantity = &self.expression.quantities[*index];
                let count = if quantity.measure == Measure::Value { 1 } else { self.trials[*index].experiments.len() };
                match quantity.measure.is_truth() {
                    true => Ok((Kind::Truth, count)),
                    false => Ok((Kind::Number(quantity.dimension), count)),
                }
            }
            What::Negative(inner) | What::MiddlePass(inner) => {
                number(inner).map(|(dimension, count)| (Kind::Number(dimension), count))
            }
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
            What::Share(test) => truth(test).map(|_| (Kind::Number(Dimension::PLAIN), 1)),
            What::Where(_, key, test) => {
                let count = truth(test)?;
                let values = self.along(key, test, count).ok_or_else(|| {
                    fault(format!("'{key}' is no axis of the points that are compared, or one without numbers"))
                })?;
                values.iter().try_for_each(|value| alike(value.dimension, values[0].dimension))?;
                Ok((Kind::Number(values[0].dimension), 1))
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

    /// The values of an axis at the points of a test.
    fn along(&self, key: &str, test: &Node, count: usize) -> Option<Vec<Amount>> {
        let mut quantities = Vec::new();
        test.quantities(&mut quantities);
        let points = quantities.into_iter().map(|index| &self.trials[index]);
        points.filter(|trials| trials.settings.len() == count).find_map(|trials| trials.along(key))
    }

    /// The number, in bytes and seconds.
    pub fn number(&self, by: &Context, text: &str) -> Result<f64, TrialError> {
        match self.value(by, text, &self.expression.root)? {
            Value::Numbers(numbers) if numbers.len() == 1 => Ok(numbers[0]),
            other => unreachable!("it was checked: {other:?}"),
        }
    }

    /// Whether it holds, and the quantities that say so. Of tests that must all hold, those that do not are named, with
    /// their quantities alone.
    pub fn truth(&self, by: &Context, text: &str) -> Result<(bool, String), TrialError> {
        let mut tests = Vec::new();
        self.expression.root.tests(&mut tests);
        let (mut broken, all) = (Vec::new(), tests.len());
        for test in tests {
            let Value::Truth(holds) = self.value(by, text, test)? else { unreachable!("it was checked") };
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
            let dimension = quantity.dimension;
            let said = |value: f64| match quantity.measure.is_truth() {
                true => if value == 0.0 { "no" } else { "yes" }.to_owned(),
                false => Amount { value, dimension }.to_string(),
            };
            let amounts: Vec<String> = self.quantity(by, index)?.into_iter().map(said).collect();
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

    fn value(&self, by: &Context, text: &str, node: &Node) -> Result<Value, TrialError> {
        let numbers = |of: &Node| match self.value(by, text, of)? {
            Value::Numbers(numbers) => Ok::<_, TrialError>(numbers),
            Value::Truth(_) => unreachable!("it was checked"),
        };
        Ok(match &node.what {
            What::Number(amount) => Value::Numbers(vec![amount.value]),
            What::Quantity(index) => {
                let numbers = self.quantity(by, *index)?;
                match self.expression.quantities[*index].measure.is_truth() {
                    true => Value::Truth(numbers.into_iter().all(|number| number != 0.0)),
                    false => Value::Numbers(numbers),
                }
            }
            What::MiddlePass(inner) => Value::Numbers(self.middle_pass(by, text, inner)?),
            What::Negative(inner) => Value::Numbers(numbers(inner)?.into_iter().map(|number| -number).collect()),
            What::Not(inner) => Value::Truth(self.value(by, text, inner)? == Value::Truth(false)),
            What::Over(over, inner) => {
                let mut all = Vec::new();
                for of in inner {
                    all.extend(numbers(of)?);
                }
                Value::Numbers(match over {
                    Over::Absolute => all.into_iter().map(f64::abs).collect(),
                    _ => over.of(&all).into_iter().collect(),
                })
            }
            What::Share(test) => {
                let holds = self.holds(by, text, test)?;
                Value::Numbers(vec![holds.iter().filter(|holds| **holds).count() as f64 / holds.len() as f64])
            }
            What::Where(over, key, test) => {
                let holds = self.holds(by, text, test)?;
                let values = self.along(key, test, holds.len()).expect("it was checked");
                let those: Vec<f64> =
                    values.iter().zip(holds).filter(|(_, holds)| *holds).map(|(value, _)| value.value).collect();
                let one = over
                    .of(&those)
                    .ok_or_else(|| TrialError::nothing(format!("at no point holds '{}'", &text[test.place.clone()])))?;
                Value::Numbers(vec![one])
            }
            // Of many points, all must.
            What::Within(..) => Value::Truth(self.holds(by, text, node)?.into_iter().all(|holds| holds)),
            What::Two(operator, left, right) => match operator {
                Operator::And | Operator::Or => {
                    let [a, b] = [left, right].map(|of| self.value(by, text, of));
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
                _ => Value::Truth(self.holds(by, text, node)?.into_iter().all(|holds| holds)),
            },
        })
    }

    /// The median over the passes that come to anything, number by number; where one pass is looked at, what it comes
    /// to there.
    fn middle_pass(&self, by: &Context, text: &str, inner: &Node) -> Result<Vec<f64>, TrialError> {
        let mut quantities = Vec::new();
        inner.quantities(&mut quantities);
        let trials = quantities.into_iter().flat_map(|index| self.trials[index].experiments.iter());
        // All are asked for before one is given up, as in `quantity`.
        let outcomes: Vec<_> = trials.map(|experiment| by.bench.run(experiment)).collect();
        let mut passes = usize::MAX;
        for outcome in outcomes {
            passes = passes.min(outcome?.pass_count());
        }
        let numbers = || match self.value(by, text, inner)? {
            Value::Numbers(numbers) => Ok::<_, TrialError>(numbers),
            Value::Truth(_) => unreachable!("it was checked"),
        };
        if passes == 1 || passes == usize::MAX {
            return numbers();
        }
        let mut alone = Vec::new();
        let mut nothing = None;
        for pass in 0..passes {
            match by.bench.in_pass(pass, numbers) {
                Ok(numbers) => alone.push(numbers),
                Err(error @ TrialError::Nothing(_)) => nothing = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let (true, Some(nothing)) = (alone.is_empty(), nothing) {
            return Err(nothing);
        }
        Ok((0..alone[0].len()).map(|at| median(alone.iter().map(|numbers| numbers[at]).collect())).collect())
    }

    /// Whether a comparison holds, point by point.
    fn holds(&self, by: &Context, text: &str, test: &Node) -> Result<Vec<bool>, TrialError> {
        let numbers = |of: &Node| match self.value(by, text, of)? {
            Value::Numbers(numbers) => Ok::<_, TrialError>(numbers),
            Value::Truth(_) => unreachable!("it was checked"),
        };
        match &test.what {
            What::Within(left, share, right) => {
                let (a, share, b) = (numbers(left)?, numbers(share)?, numbers(right)?);
                let distance = pairs(&a, &b, |a, b| (a - b).abs());
                let most = pairs(&share, &b, |share, b| share * b.abs());
                Ok(pairs(&distance, &most, |distance, most| distance <= most))
            }
            What::Two(operator, left, right) => {
                let holds = |a: f64, b: f64| match operator {
                    Operator::Below => a < b,
                    Operator::AtMost => a <= b,
                    Operator::Above => a > b,
                    Operator::AtLeast => a >= b,
                    _ => unreachable!("it was checked"),
                };
                Ok(pairs(&numbers(left)?, &numbers(right)?, holds))
            }
            _ => unreachable!("it was checked"),
        }
    }

    /// What a quantity came to at its points.
    fn quantity(&self, by: &Context, index: usize) -> Result<Vec<f64>, TrialError> {
        let quantity = &self.expression.quantities[index];
        if quantity.measure == Measure::Value {
            let key = &quantity.names[0];
            let amount = said_of(by.bench.kit()?, key).map_err(TrialError::nothing)?;
            if amount.dimension != quantity.dimension {
                let said = format!("'{key}' was {}, and is {} now", quantity.dimension, amount.dimension);
                return Err(TrialError::nothing(said));
            }
            return Ok(vec![amount.value]);
        }
        if let Measure::Formula(term) = quantity.measure {
            let formulas = by.formulas.ok_or_else(|| TrialError::nothing("the study has no constants of formulas"))?;
            let experiments = self.trials[index].experiments.iter();
            return experiments.map(|experiment| formulas.term(by.bench, experiment, term)).collect();
        }
        let mut numbers = Vec::new();
        // All are asked for before one is given up, so that they run side by side (`Bench::prepare`).
        let outcomes: Vec<_> =
            self.trials[index].experiments.iter().map(|experiment| by.bench.run(experiment)).collect();
        for outcome in outcomes {
            numbers.push(measured(quantity, &*outcome?, by.whole)?);
        }
        Ok(numbers)
    }
}

impl Over {
    /// What becomes of many numbers; nothing of none, and of a sign that is of each.
    fn of(self, all: &[f64]) -> Option<f64> {
        let numbers = all.iter().copied();
        match self {
            Over::Absolute => None,
            Over::Mean if all.is_empty() => None,
            Over::Mean => Some(numbers.sum::<f64>() / all.len() as f64),
            Over::Least => numbers.reduce(f64::min),
            Over::Most => numbers.reduce(f64::max),
        }
    }
}

/// Two lists, number by number; one number with each of a list.
fn pairs<T>(a: &[f64], b: &[f64], with: impl Fn(f64, f64) -> T) -> Vec<T> {
    let at = |list: &[f64], index: usize| if list.len() == 1 { list[0] } else { list[index] };
    (0..a.len().max(b.len())).map(|index| with(at(a, index), at(b, index))).collect()
}

/// What a system says of a value of its parts. Refused in words if it says nothing, or no number.
pub(crate) fn said_of(kit: &Kit, key: &str) -> Result<Amount, String> {
    let text = match kit.current(key) {
        Ok(Some(text)) => text,
        Ok(None) => return Err(format!("the system says nothing of '{key}'")),
        Err(error) => return Err(error.to_string()),
    };
    amount(text.trim_matches('"')).ok_or_else(|| format!("'{key}' is {text}, which is no number with a unit"))
}
