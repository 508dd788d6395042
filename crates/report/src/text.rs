//! Sentences on a page.

/// The width of a page, in characters.
const WIDTH: usize = 110;

/// Broken into lines of a page's width, later lines indented.
pub fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        if line.chars().count() + word.chars().count() + 1 > WIDTH && !line.is_empty() {
            lines.push(format!("  {word}"));
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}
