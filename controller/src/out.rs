//! Results on stdout. A reader that has gone away (`| head`) ends the printing, not the work.

use std::io::Write as _;

/// Writes text that ends its own lines.
pub fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // A closed pipe is the reader's choice, and a full disk has no better place to complain to.
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
}

/// Writes a JSON document for programs, indented, with a line end.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn print_json<T: serde::Serialize>(value: &T) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    print(&format!("{text}\n"));
    Ok(())
}
