//! Texts of any bytes.
//!
//! A job file is bytes: comments in Latin-1, file names in whatever the file system takes. Options are read as text, so
//! a byte that is not UTF-8 stands as a character of a private range while it is text, and is that byte again in a path
//! (the way of Python's `surrogateescape`; Rust's `char` has no surrogates, so the last private plane takes their
//! place).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The character of byte 0, near the end of plane 16, whose characters have no meaning of their own.
const FIRST: u32 = 0x10_ff00 - 0x100;

/// The text of a file. A byte order mark at the beginning is left out.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).utf8_chunks() {
        text.push_str(chunk.valid());
        let escaped = |byte: &u8| char::from_u32(FIRST + u32::from(*byte)).expect("the private plane has characters");
        text.extend(chunk.invalid().iter().map(escaped));
    }
    text
}

/// True if some byte of the text was not UTF-8.
pub fn is_escaped(text: &str) -> bool {
    text.chars().any(|c| byte(c).is_some())
}

/// The path that a piece of such a text names.
pub fn path(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn byte(c: char) -> Option<u8> {
    u32::from(c).checked_sub(FIRST).and_then(|byte| u8::try_from(byte).ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn any_bytes_come_back_as_they_were() {
        let bytes: Vec<u8> = (1..=255).chain("aé€😀".bytes()).collect();
        let text = text(&bytes);
        assert!(is_escaped(&text) && !is_escaped("aé€😀"));
        assert_eq!(path(&text).as_os_str().as_bytes(), bytes);
    }

    #[test]
    fn a_byte_order_mark_is_left_out() {
        assert_eq!(text(b"\xef\xbb\xbf[j]"), "[j]");
    }
}
