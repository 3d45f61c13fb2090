//! Results on stdout. A reader that has gone away (`| head`) ends the printing, not the work.

use std::borrow::Cow;
use std::io::{ErrorKind, Write as _};

/// Writes text that ends its own lines. Names and labels may come from files of others: what would
/// steer a terminal is shown as a mark.
///
/// # Errors
/// A full disk and the like; a closed pipe is the reader's choice.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(harmless(text).as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::anyhow!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// The text without control characters, but for line ends and tabs.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(steers) {
        Cow::Owned(text.replace(steers, "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// Writes a JSON document for programs, indented, with a line end.
///
/// # Errors
/// As [`print()`]; a value that JSON cannot hold.
pub fn print_json<T: serde::Serialize>(value: &T) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    print(&format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert!(matches!(harmless("a é\n\tb"), Cow::Borrowed(_)));
        assert_eq!(
            harmless("\u{1b}[31mred\r\u{7}\0\n"),
            "\u{fffd}[31mred\u{fffd}\u{fffd}\u{fffd}\n"
        );
    }
}
