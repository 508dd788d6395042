//! Sentences on a page, and what stands in one of HTML or SVG.

/// The width of a page, in characters.
const WIDTH: usize = 110;

/// Broken into lines of a page's width, later lines indented.
pub fn wrapped(text: &str) -> String {
    wrapped_to(text, WIDTH)
}

/// The same, of a width of the caller's.
pub fn wrapped_to(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        if line.chars().count() + word.chars().count() + 1 > width && !line.is_empty() {
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

/// With a capital and a full stop.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// As HTML and SVG want it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
