//! Whole-number arithmetic on values, which fio does wherever a keyword such as `$ncpus` was replaced.
//!
//! fio hands such a value to `bc`, whose numbers are whole unless told otherwise: `+ - * / % ^`, parentheses, division
//! toward zero. A value that is no formula stays as it is.

/// The value of a formula; `None` if it is none.
pub(crate) fn value(text: &str) -> Option<i128> {
    let mut rest = Parser { text: text.as_bytes(), at: 0, depth: 0 };
    let value = rest.sum()?;
    (rest.peek().is_none()).then_some(value)
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn take(&mut self, any: &[u8]) -> Option<u8> {
        let found = self.peek().filter(|byte| any.contains(byte))?;
        self.at += 1;
        Some(found)
    }

    fn sum(&mut self) -> Option<i128> {
        let mut left = self.product()?;
        while let Some(sign) = self.take(b"+-") {
            let right = self.product()?;
            left = if sign == b'+' { left.checked_add(right)? } else { left.checked_sub(right)? };
        }
        Some(left)
    }

    fn product(&mut self) -> Option<i128> {
        let mut left = self.power()?;
        while let Some(sign) = self.take(b"*/%") {
            let right = self.power()?;
            left = match sign {
                b'*' => left.checked_mul(right)?,
                b'/' => left.checked_div(right)?,
                _ => left.checked_rem(right)?,
            };
        }
        Some(left)
    }

    fn power(&mut self) -> Option<i128> {
        let base = self.factor()?;
        match self.take(b"^") {
            Some(_) => base.checked_pow(u32::try_from(self.power()?).ok()?),
            None => Some(base),
        }
    }

    fn factor(&mut self) -> Option<i128> {
        // Deeper nesting is no formula that a person wrote.
        const DEEPEST: u32 = 64;
        self.depth += 1;
        if self.depth > DEEPEST {
            return None;
        }
        let value = match self.take(b"-(") {
            Some(b'-') => self.factor()?.checked_neg(),
            Some(_) => {
                let inner = self.sum()?;
                self.take(b")").map(|_| inner)
            }
            None => {
                self.peek();
                let start = self.at;
                while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
                    self.at += 1;
                }
                std::str::from_utf8(&self.text[start..self.at]).ok()?.parse().ok()
            }
        };
        self.depth -= 1;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn formulas_are_those_of_bc() {
        let all =
            [("8192*1/2", 4096), ("2+3*4", 14), ("(2+3)*4", 20), ("2^3^2", 512), ("-7/2", -3), (" 4096 * 4 ", 16384)];
        for (text, wanted) in all {
            assert_eq!(value(text), Some(wanted), "{text}");
        }
        for text in ["", "4k", "1/0", "(2", "2 3", "job-2.dat", "9^999", &"(".repeat(100_000)] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
