//! Tables for terminals and for files: columns aligned with blanks, a rule under the heading, nothing that a copy into
//! a mail would spoil.

use comfy_table::{CellAlignment, ContentArrangement, Row, presets};

use crate::text::escaped;

/// A table of text; the first column is aligned left, the others right, as numbers are compared by their last digit.
#[derive(Debug)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Columns of words, which are aligned left.
    words: Vec<usize>,
}

impl Table {
    /// An empty table under these headings.
    pub fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>) -> Table {
        Table { headings: headings.into_iter().map(Into::into).collect(), rows: Vec::new(), words: vec![0] }
    }

    /// Aligns a column of words left.
    pub fn left(mut self, column: usize) -> Table {
        assert!(column < self.headings.len(), "a column of this table");
        self.words.push(column);
        self
    }

    /// Adds a row. Panics if it has not one cell for each heading.
    pub fn row<C: Into<String>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.headings.len(), "a row has a cell for each heading");
        self.rows.push(cells);
    }

    /// True if it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The same as HTML.
    pub fn html(&self) -> String {
        let row = |cells: &[String], tag: &str| {
            let cells = cells.iter().enumerate().map(|(column, cell)| {
                let class = if self.words.contains(&column) { " class=\"words\"" } else { "" };
                format!("<{tag}{class}>{}</{tag}>", escaped(cell))
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let body: String = self.rows.iter().map(|cells| row(cells, "td")).collect();
        format!("<table>\n<thead>{}</thead>\n<tbody>\n{body}</tbody>\n</table>\n", row(&self.headings, "th"))
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.headings).add_rows(self.rows.iter().map(Row::from));
        for (index, column) in table.column_iter_mut().enumerate() {
            let words = self.words.contains(&index);
            column.set_padding((0, 2)).set_cell_alignment(if words {
                CellAlignment::Left
            } else {
                CellAlignment::Right
            });
        }
        let text = table.to_string();
        let width = text.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
        for (index, line) in text.lines().enumerate() {
            writeln!(f, "{}", line.trim_end())?;
            if index == 0 {
                writeln!(f, "{}", "-".repeat(width))?;
            }
        }
        Ok(())
    }
}
