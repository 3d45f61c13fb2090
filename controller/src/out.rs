//! Results on stdout. A reader that has gone away (`| head`) ends the printing, not the work.

use std::io::{ErrorKind, Write as _};

/// Writes text that ends its own lines.
///
/// # Errors
/// A full disk and the like; a closed pipe is the reader's choice.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::anyhow!("standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes a JSON document for programs, indented, with a line end.
///
/// # Errors
/// As [`print`]; a value that JSON cannot hold.
pub fn print_json<T: serde::Serialize>(value: &T) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    print(&format!("{text}\n"))
}
