//! The block syntax of DiskSim's parameter files.
//!
//! ```text
//! disksim_disk NAME {             a block: its kind, its name (nested blocks have none)
//!    Model = source FILE,         a value taken from another file
//!    Max queue length = 1,        a key is everything before the equals sign, blanks and dots and slashes included
//!    slips = [ 1, 2, 3 ],         a list
//!    Zones = [ dm_layout_g1_zone { ... }, ... ]
//! }                               # a comment
//! ```
//!
//! The grammar is not published; this follows the release's own files: a comma may be missing before a closing brace or
//! follow the last value, `-1` and `1e-3` are numbers, a word is anything without blanks and separators. Other
//! statements at the top of a file (`instantiate ...`, `source ...`) are skipped up to the next block.

use std::sync::Arc;

use super::{ImportError, Trouble};

/// A named or nested block.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block {
    pub kind: String,
    pub name: String,
    pub entries: Vec<Entry>,
    pub line: u32,
    /// The line of the closing brace.
    pub last_line: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub item: Item,
    pub line: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Number(f64),
    Word(String),
    Source(String),
    List(Vec<(Item, u32)>),
    Block(Block),
}

/// Deeper nesting is nobody's drive file; the limit keeps recursion bounded.
const DEEPEST: u32 = 16;

/// All blocks at the top of a file.
pub(super) fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Block>, ImportError> {
    let mut scanner = Scanner { file: Arc::clone(file), rest: text, line: 1 };
    let mut blocks = Vec::new();
    loop {
        let (words, stop) = scanner.until(&['{', '\n', '[', ']', '}', '=', ',']);
        let line = scanner.line;
        match stop {
            Some('{') => {
                let mut words = words.split_whitespace().map(str::to_owned);
                let (Some(kind), name) = (words.next(), words.next().unwrap_or_default()) else {
                    return Err(scanner.error(line, Trouble::Unexpected { found: '{', wanted: "the kind of a block" }));
                };
                blocks.push(scanner.block(kind, name, 0)?);
            }
            Some(_) => (),
            None => return Ok(blocks),
        }
    }
}

struct Scanner<'t> {
    file: Arc<str>,
    rest: &'t str,
    line: u32,
}

impl<'t> Scanner<'t> {
    fn error(&self, line: u32, trouble: Trouble) -> ImportError {
        ImportError { file: Arc::clone(&self.file), line, trouble }
    }

    /// Skips blanks, line ends and comments.
    fn blank(&mut self) {
        loop {
            // All that ends a word, or else a word may be empty and the scan never end.
            let trimmed = self.rest.trim_start_matches(|c: char| c.is_whitespace() && c != '\n' || c == '\u{feff}');
            self.rest = match trimmed.chars().next() {
                Some('\n') => {
                    self.line += 1;
                    &trimmed[1..]
                }
                Some('#') => &trimmed[trimmed.find('\n').unwrap_or(trimmed.len())..],
                _ => {
                    self.rest = trimmed;
                    return;
                }
            };
        }
    }

    /// The text up to one of the stops, comments cut off, and that stop, which is consumed; no stop at the end of the
    /// file.
    fn until(&mut self, stops: &[char]) -> (&'t str, Option<char>) {
        self.blank();
        let end = self.rest.find(|c| stops.contains(&c) || c == '#').unwrap_or(self.rest.len());
        let text = self.rest[..end].trim();
        self.line += self.rest[..end].matches('\n').count() as u32;
        self.rest = &self.rest[end..];
        if self.rest.starts_with('#') {
            self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
        }
        let stop = self.rest.chars().next().filter(|c| stops.contains(c));
        if let Some(stop) = stop {
            self.rest = &self.rest[stop.len_utf8()..];
            if stop == '\n' {
                self.line += 1;
            }
        }
        (text, stop)
    }

    fn peek(&mut self) -> Option<char> {
        self.blank();
        self.rest.chars().next()
    }

    fn bump(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }

    /// A block whose opening brace has been read.
    fn block(&mut self, kind: String, name: String, depth: u32) -> Result<Block, ImportError> {
        let line = self.line;
        if depth > DEEPEST {
            return Err(self.error(line, Trouble::TooDeep { limit: DEEPEST }));
        }
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            match self.peek() {
                Some('}') => {
                    self.bump();
                    return Ok(Block { kind, name, entries, line, last_line: self.line });
                }
                Some(',') => self.bump(),
                None => return Err(self.error(self.line, Trouble::Unclosed { what: kind, line })),
                Some(_) => {
                    let start = self.line;
                    let (key, stop) = self.until(&['=', ',', '{', '}', '[', ']', '\n']);
                    match stop {
                        Some('=') if !key.is_empty() => {
                            let item = self.item(depth)?;
                            if entries.iter().any(|entry| entry.key == key) {
                                return Err(self.error(start, Trouble::Twice { key: key.to_owned() }));
                            }
                            entries.push(Entry { key: key.to_owned(), item, line: start });
                        }
                        None => return Err(self.error(self.line, Trouble::Unclosed { what: kind, line })),
                        Some(_) => return Err(self.error(start, Trouble::NoValue { key: key.to_owned() })),
                    }
                }
            }
        }
    }

    fn item(&mut self, depth: u32) -> Result<Item, ImportError> {
        match self.peek() {
            Some('[') => {
                self.bump();
                self.list(depth + 1)
            }
            Some(found @ ('=' | ',' | '{' | '}' | ']')) => {
                Err(self.error(self.line, Trouble::Unexpected { found, wanted: "a value" }))
            }
            None => Err(self.error(self.line, Trouble::Ends { wanted: "a value" })),
            Some(_) => {
                let word = self.word();
                if word == "source" {
                    self.blank();
                    return Ok(Item::Source(self.word().to_owned()));
                }
                if self.peek() == Some('{') {
                    self.bump();
                    return Ok(Item::Block(self.block(word.to_owned(), String::new(), depth + 1)?));
                }
                match word.parse::<f64>() {
                    Ok(number) if number.is_finite() => Ok(Item::Number(number)),
                    _ => Ok(Item::Word(word.to_owned())),
                }
            }
        }
    }

    fn list(&mut self, depth: u32) -> Result<Item, ImportError> {
        let opened = self.line;
        if depth > DEEPEST {
            return Err(self.error(opened, Trouble::TooDeep { limit: DEEPEST }));
        }
        let mut items = Vec::new();
        loop {
            match self.peek() {
                Some(']') => {
                    self.bump();
                    return Ok(Item::List(items));
                }
                Some(',') => self.bump(),
                None => return Err(self.error(self.line, Trouble::Unclosed { what: "list".to_owned(), line: opened })),
                Some(_) => {
                    let line = self.line;
                    items.push((self.item(depth)?, line));
                }
            }
        }
    }

    fn word(&mut self) -> &'t str {
        let end = self.rest.find(|c: char| c.is_whitespace() || "=,{}[]#".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }
}
