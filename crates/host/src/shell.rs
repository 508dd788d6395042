//! Names as words of the commands that messages suggest: whoever copies one into a shell gives it the very name.
//!
//! The rule is that of POSIX: within single quotes all but these is itself. Names of harmless characters stay bare, as
//! they are easier to read. (A crate for this would be one function of three lines.)

/// A name as one word of a shell.
pub fn word(name: &str) -> String {
    let is_harmless = |letter: char| letter.is_ascii_alphanumeric() || "_-./:@%+=,".contains(letter);
    match !name.is_empty() && name.chars().all(is_harmless) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::word;

    #[test]
    fn a_shell_reads_the_name_that_was_meant() {
        for name in ["/dev/sdb", "", "a b", "it's", "$HOME `x` \"y\" \\", "nbd+unix:///?socket=a.sock&x", "*", "a\nb"] {
            let said = Command::new("sh").args(["-c", &format!("printf %s. {}", word(name))]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), format!("{name}."));
        }
        assert_eq!(word("/dev/disk/by-id/ata-1:2"), "/dev/disk/by-id/ata-1:2");
    }
}
