//! Expressions over what experiments came to: how a printed number or a claim is said of a model.
//!
//! ```text
//! truth    = both { "or" both }            both    = test { "and" test }
//! test     = "not" test | sum [ ("<" | "<=" | ">" | ">=") sum | "within" sum "of" sum ]
//! sum      = product { ("+" | "-") product }
//! product  = factor { ("*" | "/") factor }
//! factor   = "-" factor | "(" truth ")" | ("min" | "max" | "mean") "(" sum { "," sum } ")" | "abs" "(" sum ")"
//!          | ("min" | "max" | "mean") "(" KEY "where" test ")" | "share" "(" test ")" | "middle-pass" "(" sum ")"
//!          | NUMBER [UNIT] | quantity
//! quantity = NAME [ "(" NAME { "," NAME } ")" ] [ "[" [EXPERIMENT ";"] KEY "=" VALUE { ";" KEY "=" VALUE } "]" ]
//! ```
//!
//! Names have hyphens and dots (`latency.p99`, `disk-0.1`), so a minus stands between blanks. What a quantity is of,
//! and whether units fit, is checked before anything runs (`bound.rs`).
//!
//! Rejected: the expression crates (`evalexpr`, `fasteval`) and script languages: none has units or quantities of
//! points, and a script can hide a trial of its own in a claim.

use std::ops::Range;

use super::deltas::Bounds;
use super::measure::{MEASURES, Measure};
use super::unit::{Amount, Dimension, Units};

/// A part of an expression and where it stands in its text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub place: Range<usize>,
    pub what: What,
}

impl Node {
    /// The tests that must all hold, if it is of several; otherwise itself.
    pub fn tests<'n>(&'n self, into: &mut Vec<&'n Node>) {
        match &self.what {
            What::Two(Operator::And, left, right) => [left, right].into_iter().for_each(|side| side.tests(into)),
            _ => into.push(self),
        }
    }

    /// Whether it is a comparison of numbers.
    pub fn compares(&self) -> bool {
        match &self.what {
            What::Within(..) => true,
            What::Two(operator, ..) => {
                matches!(operator, Operator::Below | Operator::AtMost | Operator::Above | Operator::AtLeast)
            }
            _ => false,
        }
    }

    /// The numbers of the quantities in it, in their order.
    pub fn quantities(&self, into: &mut Vec<usize>) {
        match &self.what {
            What::Number(_) => {}
            What::Quantity(index) => into.push(*index),
            What::Negative(inner) | What::Not(inner) | What::Share(inner) | What::MiddlePass(inner) => {
                inner.quantities(into);
            }
            What::Where(_, _, test) => test.quantities(into),
            What::Over(_, inner) => inner.iter().for_each(|node| node.quantities(into)),
            What::Two(_, left, right) => [left, right].into_iter().for_each(|node| node.quantities(into)),
            What::Within(left, share, right) => {
                [left, share, right].into_iter().for_each(|node| node.quantities(into));
            }
        }
    }
}

/// What it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    Number(Amount),
    /// By its number in [`Expression::quantities`].
    Quantity(usize),
    Negative(Box<Node>),
    Not(Box<Node>),
    /// Of all numbers of these together.
    Over(Over, Vec<Node>),
    Two(Operator, Box<Node>, Box<Node>),
    /// Of the values that an axis has at the points for which a test holds.
    Where(Over, String, Box<Node>),
    /// For what share of its points a test holds.
    Share(Box<Node>),
    /// The median of what it comes to in each pass.
    MiddlePass(Box<Node>),
    /// A number, the share, of what.
    Within(Box<Node>, Box<Node>, Box<Node>),
}

/// What becomes of many numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Least,
    Most,
    Mean,
    /// Of each.
    Absolute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Plus,
    Minus,
    Times,
    DividedBy,
    Below,
    AtMost,
    Above,
    AtLeast,
    And,
    Or,
}

/// A measure of points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantity {
    pub place: Range<usize>,
    pub measure: Measure,
    /// A stream, a node, or a part and a phase.
    pub names: Vec<String>,
    /// Which times between completions count.
    pub bounds: Bounds,
    /// An experiment other than the line's.
    pub experiment: Option<String>,
    /// Keys and values on top of the line's.
    pub point: Vec<(String, String)>,
    /// Of what it is; of a value plain, until its part was asked.
    pub dimension: Dimension,
}

/// An expression that can be read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    pub root: Node,
    pub quantities: Vec<Quantity>,
}

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    pub place: Range<usize>,
    pub said: String,
}

/// Reads an expression.
pub(crate) fn parse(text: &str, units: &Units) -> Result<Expression, Fault> {
    let mut parser = Parser { text, at: 0, units, quantities: Vec::new(), deep: 0 };
    let root = parser.truth()?;
    parser.blanks();
    match parser.rest().is_empty() {
        true => Ok(Expression { root, quantities: parser.quantities }),
        false => Err(parser.fault("an operator, or the end of the expression")),
    }
}

/// Keys and values, divided by semicolons or commas: `disks=2; size=32 KiB`.
pub(crate) fn point(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    for pair in divided(text, &[';', ',']).into_iter().map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("'{pair}' is not of the form key=value"))?;
        let (key, value) = (key.trim().trim_matches('"'), value.trim());
        if key.is_empty() || value.is_empty() {
            return Err(format!("'{pair}' is not of the form key=value"));
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// A text at its dividers that stand in no brackets.
fn divided<'t>(text: &'t str, dividers: &[char]) -> Vec<&'t str> {
    let (mut deep, mut from, mut pieces) = (0usize, 0, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => deep += 1,
            ']' => deep = deep.saturating_sub(1),
            _ if dividers.contains(&letter) && deep == 0 => {
                pieces.push(&text[from..at]);
                from = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    pieces.push(&text[from..]);
    pieces
}

/// So many parentheses within each other are a slip of the hand.
const DEEPEST: usize = 64;

struct Parser<'t> {
    text: &'t str,
    at: usize,
    units: &'t Units,
    quantities: Vec<Quantity>,
    deep: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn fault(&self, wanted: &str) -> Fault {
        let found = match self.rest().split_whitespace().next() {
            Some(word) => format!("'{word}'"),
            None => "the end".to_owned(),
        };
        let end = self.text.len();
        Fault {
            place: self.at.min(end)..end.min(self.at + 1).max(self.at),
            said: format!("{found}, where {wanted} is wanted"),
        }
    }

    /// Passes over a sign.
    fn sign(&mut self, sign: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    /// Passes over a word that is no longer than it looks.
    fn word(&mut self, word: &str) -> bool {
        self.blanks();
        let found = name_of(self.rest()) == word;
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn two(&self, operator: Operator, left: Node, right: Node) -> Node {
        let place = left.place.start..right.place.end;
        Node { place, what: What::Two(operator, Box::new(left), Box::new(right)) }
    }

    fn truth(&mut self) -> Result<Node, Fault> {
        self.deep += 1;
        if self.deep > DEEPEST {
            return Err(Fault {
                place: self.at..self.at,
                said: format!("more than {DEEPEST} parentheses within each other"),
            });
        }
        let mut left = self.both()?;
        while self.word("or") {
            let right = self.both()?;
            left = self.two(Operator::Or, left, right);
        }
        self.deep -= 1;
        Ok(left)
    }

    fn both(&mut self) -> Result<Node, Fault> {
        let mut left = self.test()?;
        while self.word("and") {
            let right = self.test()?;
            left = self.two(Operator::And, left, right);
        }
        Ok(left)
    }

    fn test(&mut self) -> Result<Node, Fault> {
        self.blanks();
        let start = self.at;
        if self.word("not") {
            self.deep += 1;
            if self.deep > DEEPEST {
                return Err(self.fault("a claim that says its 'not' less often"));
            }
            let inner = self.test()?;
            self.deep -= 1;
            return Ok(Node { place: start..self.at, what: What::Not(Box::new(inner)) });
        }
        let left = self.sum()?;
        if self.word("within") {
            let share = self.sum()?;
            if !self.word("of") {
                return Err(self.fault("'of' and a number, as in 'a within 5 % of b'"));
            }
            let right = self.sum()?;
            let place = left.place.start..right.place.end;
            return Ok(Node { place, what: What::Within(Box::new(left), Box::new(share), Box::new(right)) });
        }
        // The longer signs first.
        let signs =
            [("<=", Operator::AtMost), (">=", Operator::AtLeast), ("<", Operator::Below), (">", Operator::Above)];
        match signs.into_iter().find(|(sign, _)| self.sign(sign)) {
            Some((_, operator)) => {
                let right = self.sum()?;
                Ok(self.two(operator, left, right))
            }
            None => Ok(left),
        }
    }

    fn sum(&mut self) -> Result<Node, Fault> {
        let mut left = self.product()?;
        loop {
            let operator = match () {
                () if self.sign("+") => Operator::Plus,
                () if self.sign("-") => Operator::Minus,
                () => return Ok(left),
            };
            let right = self.product()?;
            left = self.two(operator, left, right);
        }
    }

    fn product(&mut self) -> Result<Node, Fault> {
        let mut left = self.factor()?;
        loop {
            let operator = match () {
                () if self.sign("*") => Operator::Times,
                () if self.sign("/") => Operator::DividedBy,
                () => return Ok(left),
            };
            let right = self.factor()?;
            left = self.two(operator, left, right);
        }
    }

    fn factor(&mut self) -> Result<Node, Fault> {
        self.blanks();
        let start = self.at;
        if self.sign("-") {
            let inner = self.factor_of_sign()?;
            return Ok(Node { place: start..self.at, what: What::Negative(Box::new(inner)) });
        }
        if self.sign("(") {
            let inner = self.truth()?;
            self.close(")")?;
            return Ok(inner);
        }
        if self.rest().starts_with(|letter: char| letter.is_ascii_digit()) {
            return self.number();
        }
        let name = name_of(self.rest());
        let over = match name {
            "min" => Some(Over::Least),
            "max" => Some(Over::Most),
            "mean" => Some(Over::Mean),
            "abs" => Some(Over::Absolute),
            "share" => {
                self.at += name.len();
                self.close("(")?;
                let test = self.test_of_points()?;
                return Ok(Node { place: start..self.at, what: What::Share(Box::new(test)) });
            }
            "middle-pass" => {
                self.at += name.len();
                self.close("(")?;
                let inner = self.one_deeper()?;
                self.close(")")?;
                return Ok(Node { place: start..self.at, what: What::MiddlePass(Box::new(inner)) });
            }
            "" => return Err(self.fault("a number, a quantity or '('")),
            _ => None,
        };
        self.at += name.len();
        let Some(over) = over else { return self.quantity(start, name) };
        self.close("(")?;
        self.deep += 1;
        if self.deep > DEEPEST {
            return Err(self.fault("an expression that is less deep"));
        }
        if let Some(key) = self.key_of_where().filter(|_| over != Over::Absolute) {
            let test = self.test_of_points()?;
            self.deep -= 1;
            return Ok(Node { place: start..self.at, what: What::Where(over, key, Box::new(test)) });
        }
        let mut inner = vec![self.sum()?];
        while over != Over::Absolute && self.sign(",") {
            inner.push(self.sum()?);
        }
        self.deep -= 1;
        self.close(")")?;
        Ok(Node { place: start..self.at, what: What::Over(over, inner) })
    }

    /// A sum within a parenthesis.
    fn one_deeper(&mut self) -> Result<Node, Fault> {
        self.deep += 1;
        if self.deep > DEEPEST {
            return Err(self.fault("an expression that is less deep"));
        }
        let inner = self.sum()?;
        self.deep -= 1;
        Ok(inner)
    }

    /// The key of an axis, if "where" follows it. Passes over both.
    fn key_of_where(&mut self) -> Option<String> {
        self.blanks();
        let (before, key) = (self.at, name_of(self.rest()).to_owned());
        self.at += key.len();
        let found = self.word("where");
        self.at = if found { self.at } else { before };
        found.then_some(key)
    }

    /// One comparison, and the parenthesis behind it.
    fn test_of_points(&mut self) -> Result<Node, Fault> {
        self.blanks();
        let start = self.at;
        let test = self.test()?;
        if !test.compares() {
            return Err(Fault {
                place: start..self.at,
                said: "one comparison is wanted, as in rate > 5 IOPS".to_owned(),
            });
        }
        self.close(")")?;
        Ok(test)
    }

    /// What a sign stands before: no second sign.
    fn factor_of_sign(&mut self) -> Result<Node, Fault> {
        self.blanks();
        if self.rest().starts_with('-') { Err(self.fault("a number or a quantity")) } else { self.factor() }
    }

    fn close(&mut self, sign: &str) -> Result<(), Fault> {
        if self.sign(sign) { Ok(()) } else { Err(self.fault(&format!("'{sign}'"))) }
    }

    /// A number and its unit. A word that follows is a unit, unless the language has it.
    fn number(&mut self) -> Result<Node, Fault> {
        let start = self.at;
        let length =
            self.rest().find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(self.rest().len());
        let digits = &self.rest()[..length];
        let number: f64 = match digits.parse() {
            Ok(number) => number,
            Err(_) => return Err(self.fault("a number such as 12 or 1.5")),
        };
        self.at += length;
        let end = self.at;
        self.blanks();
        let rest = self.rest();
        let word = rest.find(|letter: char| !letter.is_alphanumeric() && !"%/".contains(letter)).unwrap_or(rest.len());
        // "4 / x" is a quotient, "4 MB/s" is not.
        let is_unit = rest.starts_with(|letter: char| letter.is_alphabetic() || letter == '%');
        let word = if is_unit { &rest[..word] } else { "" };
        if word.is_empty() || ["and", "or", "of", "within"].contains(&word) {
            self.at = end;
            let amount = Amount { value: number, dimension: Dimension::PLAIN };
            return Ok(Node { place: start..end, what: What::Number(amount) });
        }
        let Some(one) = self.units.one(word) else { return Err(self.fault(super::unit::UNITS)) };
        self.at += word.len();
        let amount = Amount { value: number * one.value, ..one };
        Ok(Node { place: start..self.at, what: What::Number(amount) })
    }

    fn quantity(&mut self, start: usize, name: &str) -> Result<Node, Fault> {
        let place = start..self.at;
        let Some((_, measure)) = MEASURES.iter().find(|(known, _)| *known == name) else {
            let known = MEASURES.map(|(name, _)| name).join(", ");
            return Err(Fault { place, said: format!("'{name}' is no quantity; there are: {known}") });
        };
        let mut names = Vec::new();
        if self.sign("(") {
            let inside = self.until(')')?;
            names.extend(inside.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()));
        }
        let (least, most, what) = measure.names();
        if !(least..=most).contains(&names.len()) {
            return Err(Fault { place: start..self.at, said: format!("'{name}' has in its parentheses {what}") });
        }
        let bounds = measure.bounds(&names).map_err(|said| Fault { place: start..self.at, said })?;
        let (mut experiment, mut pairs) = (None, Vec::new());
        if self.sign("[") {
            let from = self.at;
            let mut inside = self.until(']')?;
            // What is no key with a value is the experiment, and stands first.
            let first = divided(inside, &[';', ',']).first().map_or("", |first| first.trim());
            if !first.is_empty() && !first.contains('=') {
                experiment = Some(first.to_owned());
                inside = inside.trim_start()[first.len()..].trim_start().trim_start_matches([';', ',']);
            }
            pairs = point(inside).map_err(|said| Fault { place: from..self.at, said })?;
        }
        let index = self.quantities.len();
        let place = start..self.at;
        let (measure, dimension) = (*measure, measure.dimension());
        let point = pairs;
        self.quantities.push(Quantity { place: place.clone(), measure, names, bounds, experiment, point, dimension });
        Ok(Node { place, what: What::Quantity(index) })
    }

    /// What stands before the sign that closes what was opened, which is passed over, too.
    fn until(&mut self, close: char) -> Result<&'t str, Fault> {
        let open = if close == ']' { '[' } else { '(' };
        let (from, mut deep) = (self.at, 0usize);
        for (at, letter) in self.rest().char_indices() {
            match letter {
                _ if letter == close && deep == 0 => {
                    self.at += at + letter.len_utf8();
                    return Ok(&self.text[from..from + at]);
                }
                _ if letter == close => deep -= 1,
                _ if letter == open => deep += 1,
                _ => {}
            }
        }
        self.at = self.text.len();
        Err(self.fault(&format!("'{close}'")))
    }
}

/// The name that a text begins with; empty if it begins with none.
fn name_of(text: &str) -> &str {
    if !text.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
        return "";
    }
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && !"._-".contains(letter));
    text[..end.unwrap_or(text.len())].trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Expression {
        parse(text, &Units::default()).unwrap_or_else(|fault| panic!("{text}: {} at {:?}", fault.said, fault.place))
    }

    fn refused(text: &str) -> String {
        parse(text, &Units::default()).expect_err(text).said
    }

    /// With every quantity as `q` and its number.
    fn shown(node: &Node) -> String {
        match &node.what {
            What::Number(amount) => format!("{}", amount.value),
            What::Quantity(index) => format!("q{index}"),
            What::Negative(inner) => format!("-{}", shown(inner)),
            What::Not(inner) => format!("!{}", shown(inner)),
            What::Over(over, inner) => {
                format!("{over:?}({})", inner.iter().map(shown).collect::<Vec<_>>().join(" "))
            }
            What::Two(operator, left, right) => format!("({operator:?} {} {})", shown(left), shown(right)),
            What::Where(over, key, test) => format!("{over:?}({key} where {})", shown(test)),
            What::Share(test) => format!("share{}", shown(test)),
            What::MiddlePass(inner) => format!("middle({})", shown(inner)),
            What::Within(a, share, b) => format!("(within {} {} {})", shown(a), shown(share), shown(b)),
        }
    }

    #[test]
    fn products_bind_closer_than_sums_and_sums_than_comparisons() {
        let tree = |text| shown(&read(text).root);
        assert_eq!(tree("1 + 2 * 3 - 4"), "(Minus (Plus 1 (Times 2 3)) 4)");
        assert_eq!(
            tree("bandwidth / 2 < 1.2 and not rate > 5 IOPS or 1 <= 2"),
            "(Or (And (Below (DividedBy q0 2) 1.2) !(Above q1 5)) (AtMost 1 2))"
        );
        assert_eq!(tree("max(bandwidth) within 5 % of 2 MB/s"), "(within Most(q0) 0.05 2000000)");
        assert_eq!(tree("-(4 ms) * 2"), "(Times -0.004 2)");
        assert_eq!(tree("min(rate[a], 3 * rate[b=1; c=2], 2)"), "Least(q0 (Times 3 q1) 2)");
        assert_eq!(tree("8/4/2"), "(DividedBy (DividedBy 8 4) 2)");
        assert_eq!(tree("min(size where rate > 2) / 2"), "(DividedBy Least(size where (Above q0 2)) 2)");
        assert_eq!(tree("share(rate within 5 % of 2) > 0.5"), "(Above share(within q0 0.05 2) 0.5)");
        assert_eq!(tree("middle-pass(rate / 2) > 1"), "(Above middle((DividedBy q0 2)) 1)");
    }

    #[test]
    fn a_quantity_has_names_an_experiment_and_a_point() {
        let read = read(
            "used(disk-0.1) + bandwidth(readers)[figure-03; disks=2, size=32 KiB] - time(os, copy)[system.disks=[\"a\", \"b\"]]",
        );
        let [used, bandwidth, time] = &read.quantities[..] else { panic!("three") };
        assert_eq!((used.measure, &*used.names[0]), (Measure::Used, "disk-0.1"));
        assert_eq!(bandwidth.experiment.as_deref(), Some("figure-03"));
        assert_eq!(bandwidth.point, [("disks", "2"), ("size", "32 KiB")].map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(time.names, ["os", "copy"]);
        assert_eq!(time.point[0].1, "[\"a\", \"b\"]");
    }

    #[test]
    fn what_cannot_be_read_is_said_with_what_would_be() {
        assert!(refused("bandwith > 1").starts_with("'bandwith' is no quantity; there are: bandwidth, rate, "));
        assert!(refused("1 +").starts_with("the end, where a number, a quantity or '(' is wanted"));
        assert!(refused("(1").contains("where ')' is wanted"));
        assert!(refused("1 2").contains("an operator, or the end"));
        assert!(refused("5 KB").contains("a unit such as MB/s"));
        assert!(refused("used > 1").contains("a node, as in used(disk-0)"));
        assert!(refused("command.saves(os)").contains("nothing: it is of all"));
        assert!(refused("share(rate)").contains("one comparison is wanted"));
        assert!(refused("min(size where rate > 1 and rate < 2)").contains("where ')' is wanted"));
        assert!(refused("rate[disks=] > 1").contains("'disks=' is not of the form key=value"));
        assert!(refused("rate[a; b; c=1]").contains("'b' is not of the form key=value"));
        assert!(refused("abs(1, 2)").contains("where ')' is wanted"));
        assert!(refused("1.2.3").contains("a number such as"));
        assert!(refused(&"(".repeat(100_000)).contains("within each other"));
        assert!(refused(&"-".repeat(100_000)).contains("a number or a quantity"));
        assert!(refused(&"not ".repeat(100_000)).contains("less often"));
        assert!(refused(&"abs(".repeat(100_000)).contains("less deep"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[ a-z0-9.()\\[\\];=<>*/+%\"-]{0,60}") {
            let _ = parse(&text, &Units::default());
        }
    }
}
