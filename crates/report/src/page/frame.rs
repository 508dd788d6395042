//! What all pages have in common: the head, the style, headings, paragraphs, tables, and the texts to be unfolded at
//! the end.
//!
//! Everything stands in the one file: no script, no font, no picture from elsewhere, so that it can be mailed, archived
//! and opened without a network. Colours are variables, so that a reader whose screen is dark gets a dark page; paper
//! is always light. Charts are in the file twice, wide and narrow ([`crate::chart`]), and the style shows one: letters
//! in a picture that is shrunk to a telephone are too small to read.

use std::fmt::Write;
use std::time::SystemTime;

use chrono::{DateTime, Utc};

use crate::Table;
use crate::text::escaped;

const STYLE: &str = "\
:root{--ink:#1f2430;--soft:#5a6070;--rule:#ddd;--paper:#fff;--limit:#eef4fa;--advice:#fdf5e6;--text:#f6f7f9;--grid:#e4e6ea;--begins:#8a90a0;
--shaded:#f3f1ea;--idle:#f3e7c9;--c0:#1f2430;--c1:#0072b2;--c2:#d55e00;--c3:#009e73;--c4:#cc79a7;--c5:#e69f00;--c6:#56b4e9;--c7:#8a7a00}
@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;--ink:#e3e6ec;--soft:#a2aaba;--rule:#3a404c;--paper:#15181e;--limit:#17293b;
--advice:#35290f;--text:#1e2229;--grid:#2c313b;--begins:#7a8190;--shaded:#24262a;--idle:#3d341c;--c0:#e3e6ec;--c1:#4aa3df;--c2:#f0803c;--c3:#2fc295;
--c4:#d99abf;--c5:#e6a93a;--c6:#8fd0f5;--c7:#c9b838}}
html{background:var(--paper)}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);max-width:1140px;margin:2em auto;padding:0 1em;overflow-wrap:anywhere}
h1{font-size:1.6em;margin:0}h2{font-size:1.15em;margin:2em 0 .5em;border-bottom:1px solid var(--rule)}
.about{color:var(--soft);margin:0 0 1.5em}.limit{font-size:1.1em;background:var(--limit);border-left:4px solid var(--c1);padding:.6em 1em;margin:.5em 0}
.advice{background:var(--advice);border-left:4px solid var(--c5);padding:.4em 1em;margin:.5em 0}
table{border-collapse:collapse;margin:.5em 0;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
th,td{text-align:right;padding:.15em .9em .15em 0;white-space:nowrap}th{font-weight:600;border-bottom:1px solid var(--begins)}
.words{text-align:left}svg{width:100%;height:auto;font-family:system-ui,sans-serif;font-size:12px}
figure{margin:0 0 1em}figcaption{color:var(--soft);font-size:.85em}.narrow{display:none;font-size:16px}.scroll{overflow-x:auto}
.chart text,.lanes text{fill:var(--ink)}.chart .title{font-weight:600;font-size:1.08em}
.line{fill:none;stroke-width:1.6;stroke-linecap:round;stroke-linejoin:round}.narrow .line{stroke-width:2.4}
.chart .grid,.lanes .grid{stroke:var(--grid);fill:none}.begins{stroke:var(--begins);stroke-dasharray:4 3;fill:none}.shaded{fill:var(--shaded)}
.lanes .paper{fill:var(--paper)}.lanes .idle{fill:var(--idle)}.tip{fill:transparent}.tip:hover{fill:#0072b218}
pre{background:var(--text);padding:1em;overflow-x:auto;font-size:12.5px}footer{color:var(--soft);margin:3em 0 1em;font-size:.85em}
@media screen and (max-width:640px){body{margin:1em auto}.wide{display:none}.narrow{display:block}.lanes{min-width:900px}}
@media print{body{margin:0}.tip{display:none}figure,tr{break-inside:avoid}h2{break-after:avoid}th,td{white-space:normal}pre{white-space:pre-wrap}}
";

/// A page that is being written.
pub(crate) struct Frame {
    html: String,
}

impl Frame {
    /// The head: what the page is about, and when that began, if it is known.
    pub fn new(title: &str, started: Option<SystemTime>, about: &str) -> Frame {
        let begun = |started| DateTime::<Utc>::from(started).format("begun %Y-%m-%d %H:%M:%S UTC, ").to_string();
        let about = started.map_or(String::new(), begun) + about;
        let html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>{0}</h1>\n<p class=\"about\">{1}</p>\n",
            escaped(title),
            escaped(&about)
        );
        Frame { html }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.html, "<h2>{}</h2>", escaped(text));
    }

    /// A paragraph; the class may be empty.
    pub fn paragraph(&mut self, class: &str, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = writeln!(self.html, "<p{class}>{}</p>", escaped(text));
    }

    /// A table under a heading.
    pub fn section(&mut self, title: &str, table: &Table) {
        self.heading(title);
        self.table(table);
    }

    /// A table.
    pub fn table(&mut self, table: &Table) {
        self.html.push_str(&table.html());
    }

    /// Text as it would stand in a terminal.
    pub fn plain(&mut self, text: &str) {
        let _ = writeln!(self.html, "<pre>{}</pre>", escaped(text.trim_end()));
    }

    /// A picture.
    pub fn picture(&mut self, svg: &str) {
        self.html.push_str(svg);
    }

    /// The page, with texts to be unfolded.
    pub fn finish(mut self, files: &[(&'static str, String)]) -> String {
        if !files.is_empty() {
            self.heading("As it was run");
        }
        for (name, text) in files {
            let (name, text) = (escaped(name), escaped(text));
            let _ = writeln!(self.html, "<details><summary>{name}</summary>\n<pre>{text}</pre>\n</details>");
        }
        let _ = writeln!(self.html, "<footer>arraylab {}</footer>\n</body>\n</html>", env!("CARGO_PKG_VERSION"));
        self.html
    }
}
