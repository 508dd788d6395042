//! Rust source as tokens with their lines: what is named, called, quoted, marked.

use std::str::FromStr;

use proc_macro2::{Delimiter, LexError, Spacing, TokenStream, TokenTree};

/// One source file.
#[derive(Debug)]
pub struct Code {
    tokens: TokenStream,
    lines: Vec<String>,
}

/// Something found, and its line, counted from 1.
pub type Found = (usize, String);

impl Code {
    /// Splits a source into tokens. Comments are gone, documentation has become attributes.
    pub fn read(text: &str) -> Result<Code, LexError> {
        Ok(Code { tokens: TokenStream::from_str(text)?, lines: text.lines().map(str::to_owned).collect() })
    }

    /// Every path of two or more parts that is named, such as `std::time::Instant`; `use std::{fs, io}` names two.
    pub fn paths(&self) -> Vec<Found> {
        let mut found = Vec::new();
        paths(self.tokens.clone(), &[], &mut found);
        found
    }

    /// Those paths that lie in one of `modules` (`std::time` holds `std::time::Instant`, and itself).
    pub fn paths_into(&self, modules: &[&str]) -> Vec<Found> {
        let within = |path: &str| {
            modules
                .iter()
                .any(|module| path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::")))
        };
        self.paths().into_iter().filter(|(_, path)| within(path)).collect()
    }

    /// The calls of macros with one of these names.
    pub fn macros(&self, names: &[&str]) -> Vec<Found> {
        let mut found = Vec::new();
        walk(&self.tokens, &mut |siblings, at| {
            if let [TokenTree::Ident(name), TokenTree::Punct(bang), TokenTree::Group(_), ..] = &siblings[at..]
                && bang.as_char() == '!'
                && names.iter().any(|known| name == known)
            {
                found.push((name.span().start().line, format!("{name}!")));
            }
        });
        found
    }

    /// Where the word `unsafe` stands.
    pub fn unsafes(&self) -> Vec<usize> {
        self.words_unsafe(|_| true)
    }

    /// Unsafe blocks and implementations without a comment `SAFETY:` on the statement they belong to.
    ///
    /// These claim that conditions are met. An unsafe function, trait or type of function only states them, in its
    /// documentation.
    pub fn unexplained_unsafes(&self) -> Vec<usize> {
        let explained = |line: usize| {
            let above = self.lines[..line - 1].iter().rev().map(|line| line.trim());
            // Upwards to the end of what stands before: a blank line, or a line of code that ends a statement or opens
            // a block.
            let statement = above.take_while(|line| {
                let comment_or_attribute = line.starts_with("//") || line.starts_with('#');
                comment_or_attribute || !(line.is_empty() || line.ends_with([';', '{', '}', ',']))
            });
            std::iter::once(self.lines[line - 1].trim()).chain(statement).any(|line| line.contains("SAFETY:"))
        };
        let claims = self.words_unsafe(|next| match next {
            TokenTree::Group(_) => true,
            TokenTree::Ident(word) => word == "impl",
            _ => false,
        });
        claims.into_iter().filter(|line| !explained(*line)).collect()
    }

    fn words_unsafe(&self, before: impl Fn(&TokenTree) -> bool) -> Vec<usize> {
        let mut found = Vec::new();
        walk(&self.tokens, &mut |siblings, at| {
            if let [TokenTree::Ident(word), next, ..] = &siblings[at..]
                && word == "unsafe"
                && before(next)
            {
                found.push(word.span().start().line);
            }
        });
        found
    }

    /// Tests: `#[test]`, and the macro of property tests.
    pub fn tests(&self) -> Vec<usize> {
        let properties = self.macros(&["proptest"]).into_iter().map(|(line, _)| line);
        self.attributes(|text| text == "test").into_iter().chain(properties).collect()
    }

    /// Tests that are switched off: `#[ignore]`, also as `#[cfg_attr(…, ignore)]`.
    pub fn ignored_tests(&self) -> Vec<usize> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let conditional =
            |text: &str| text.starts_with("cfg_attr") && text.split(|c| !is_word(c)).any(|word| word == "ignore");
        self.attributes(|text| text == "ignore" || text.starts_with("ignore =") || conditional(text))
    }

    /// The lines of attributes with such a text.
    fn attributes(&self, wanted: impl Fn(&str) -> bool) -> Vec<usize> {
        let mut found = Vec::new();
        walk(&self.tokens, &mut |siblings, at| {
            if let [TokenTree::Punct(hash), TokenTree::Group(attribute), ..] = &siblings[at..]
                && hash.as_char() == '#'
                && attribute.delimiter() == Delimiter::Bracket
                && wanted(&attribute.stream().to_string())
            {
                found.push(hash.span().start().line);
            }
        });
        found
    }

    /// The literals in the code, as they are written; documentation is none.
    pub fn strings(&self) -> Vec<Found> {
        let mut found = Vec::new();
        walk(&self.tokens, &mut |siblings, at| {
            let documents = at >= 2
                && matches!(&siblings[at - 2..at], [TokenTree::Ident(doc), TokenTree::Punct(equals)]
                    if doc == "doc" && equals.as_char() == '=');
            if let TokenTree::Literal(literal) = &siblings[at]
                && !documents
                && literal.to_string().contains('"')
            {
                found.push((literal.span().start().line, literal.to_string()));
            }
        });
        found
    }
}

/// Calls `visit` for every token of every nesting, with its siblings and its place among them.
fn walk(tokens: &TokenStream, visit: &mut impl FnMut(&[TokenTree], usize)) {
    let siblings: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for at in 0..siblings.len() {
        visit(&siblings, at);
        if let TokenTree::Group(group) = &siblings[at] {
            walk(&group.stream(), visit);
        }
    }
}

/// Collects paths; `prefix` is what stands before the braces of a `use` tree.
fn paths(tokens: TokenStream, prefix: &[String], found: &mut Vec<Found>) {
    let mut path = prefix.to_vec();
    let mut line = 0;
    // A path goes on if the last two tokens were `::`, or if it has not begun.
    let mut colons = 2;
    let mut renamed = false;
    let mut end = |path: &mut Vec<String>, line: usize| {
        if path.len() > prefix.len() && path.len() > 1 {
            found.push((line, path.join("::")));
        }
        path.clear();
        path.extend_from_slice(prefix);
    };
    let mut nested: Vec<(TokenStream, Vec<String>)> = Vec::new();
    for token in tokens {
        match token {
            // In a `use` tree, `as` and the new name are no part of the path.
            TokenTree::Ident(ident) if !prefix.is_empty() && (renamed || ident == "as") => renamed = !renamed,
            TokenTree::Ident(ident) => {
                if colons < 2 {
                    end(&mut path, line);
                }
                path.push(ident.to_string());
                line = ident.span().start().line;
                colons = 0;
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && (colons == 1 || punct.spacing() == Spacing::Joint) => {
                colons += 1;
            }
            TokenTree::Group(group) => {
                let tree = colons == 2 && path.len() > prefix.len() && group.delimiter() == Delimiter::Brace;
                nested.push((group.stream(), if tree { path.clone() } else { Vec::new() }));
                if tree {
                    path.truncate(prefix.len());
                }
                end(&mut path, line);
                colons = 2;
            }
            _ => {
                end(&mut path, line);
                colons = 2;
            }
        }
    }
    end(&mut path, line);
    for (tokens, prefix) in nested {
        paths(tokens, &prefix, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Code {
        Code::read(text).unwrap()
    }

    #[test]
    fn paths_are_found_wherever_they_stand() {
        let source = "
use std::{fs, time::{Duration, Instant as Now}};
use std::time;
fn f(when: ::std::time::SystemTime) { assert!(std::fs::exists(\"x\").is_ok()); std::mem::take(a) }
// std::fs in a comment
const TEXT: &str = \"std::fs in a text\";
/// `std::fs` in documentation
struct Fs { fs: u8 }
";
        let found = code(source).paths_into(&["std::time", "std::fs"]);
        let mut said: Vec<String> = found.iter().map(|(line, path)| format!("{line} {path}")).collect();
        said.sort();
        let expected = [
            "2 std::fs",
            "2 std::time::Duration",
            "2 std::time::Instant",
            "3 std::time",
            "4 std::fs::exists",
            "4 std::time::SystemTime",
        ];
        assert_eq!(said, expected);
        assert_eq!(code("use std::timeline::x;").paths_into(&["std::time"]), []);
    }

    #[test]
    fn macros_are_told_from_what_is_said_of_them() {
        let source = "fn f() { todo!(\"later\") }\n// todo!()\nconst A: &str = \"todo!()\";\nfn todo() {}";
        assert_eq!(code(source).macros(&["todo", "dbg"]), [(1, "todo!".to_owned())]);
        assert_eq!(code("fn f() { g(|| unimplemented!()); }").macros(&["unimplemented"]).len(), 1);
    }

    #[test]
    fn unsafe_code_is_seen_and_its_argument_looked_for() {
        let bad = "fn f() {\n    // SAFETY: of another statement.\n    g();\n    unsafe { h() }\n}";
        assert_eq!((code(bad).unsafes(), code(bad).unexplained_unsafes()), (vec![4], vec![4]));
        let good = "fn f() {\n    // SAFETY: h has no conditions.\n    #[allow(unsafe_code)]\n    let x =\n        unsafe { h() };\n}";
        assert_eq!((code(good).unsafes(), code(good).unexplained_unsafes()), (vec![5], vec![]));
        let stated = "/// # Safety\n/// The caller holds the lock.\npub unsafe fn f() {}\ntype F = unsafe fn();";
        assert_eq!((code(stated).unsafes(), code(stated).unexplained_unsafes()), (vec![3, 4], vec![]));
        assert_eq!(code("unsafe impl Send for X {}").unexplained_unsafes(), [1]);
        assert!(code("#![deny(unsafe_code)]\n// unsafe\nconst A: &str = \"unsafe\";").unsafes().is_empty());
    }

    #[test]
    fn tests_are_seen() {
        assert_eq!(
            code("#[test]\nfn a() {}\nproptest! { fn b() {} }\n// #[test]\n#[cfg(test)]\nmod c {}").tests(),
            [1, 3]
        );
    }

    #[test]
    fn switched_off_tests_are_seen() {
        let ignored = |text: &str| code(text).ignored_tests().len();
        assert_eq!(ignored("#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}"), 2);
        assert_eq!(ignored("#[cfg_attr(miri, ignore)]\nfn a() {}"), 1);
        assert_eq!(ignored("#[test]\nfn ignore() {}\n// #[ignore]\n/// ignore\nfn b() {}"), 0);
    }

    #[test]
    fn strings_are_found_and_documentation_is_none() {
        let source = "/// says \"no\"\nfn f() { print(r#\"<html>\"#); g('x', 7) }";
        assert_eq!(code(source).strings(), [(2, "r#\"<html>\"#".to_owned())]);
    }
}
