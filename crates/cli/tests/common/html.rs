//! What every page keeps to.
#![allow(dead_code)] // each test file uses its part

/// Elements without an end.
const VOID: [&str; 1] = ["meta"];

/// Every element of a page is closed, in order. Panics where one is not.
pub fn is_well_formed(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = html.strip_prefix("<!doctype html>").expect("a page says what it is");
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("a tag without an end: <{tag}"));
        let name = tag.split([' ', '\n']).next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "</{name}>"),
            None if tag.ends_with('/') || VOID.contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed");
}

/// Nothing is fetched, and nothing runs.
pub fn stands_alone(html: &str) {
    let html = html.replace("http://www.w3.org/2000/svg", "");
    for foreign in ["http:", "https:", "src=", "<script", "<link", "@import", "url("] {
        assert!(!html.contains(foreign), "{foreign}");
    }
}

/// It is dark where the screen is, can be read on a telephone, and each chart is in it twice: wide, and narrow.
pub fn suits_every_screen(html: &str, charts: usize) {
    for part in ["@media screen and (prefers-color-scheme:dark)", "@media screen and (max-width:640px)", "@media print"]
    {
        assert!(html.contains(part), "{part}");
    }
    for width in ["wide", "narrow"] {
        assert_eq!(html.matches(&format!("class=\"chart {width}\"")).count(), charts, "{width}");
    }
    assert!(html.len() < 1 << 20, "{} bytes", html.len());
}

/// The verdicts stand before all tables and pictures. Gives them, as they are read.
pub fn verdicts(html: &str) -> Vec<String> {
    let first = |what: &str| html.find(what).unwrap_or(html.len());
    assert!(first("<p class=\"limit\">") < first("<table>").min(first("<svg")), "the verdict first");
    let said = html.split("<p class=\"limit\">").skip(1).filter_map(|rest| rest.split("</p>").next());
    said.map(|text| text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
        .collect()
}
