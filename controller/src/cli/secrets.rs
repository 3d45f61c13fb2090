//! Headers and API keys for a measured server, from flags and files. Their values go to the agent
//! and nowhere else: no error, no debug print and no row of the database repeats one.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use contracts::api::Secrets;
use contracts::defaults::EXTRAS_MAX;

use crate::exit::usage;

/// A key is one line; the longest tokens in use (signed ones) have a few thousand characters.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;
/// Headers that decide how a request is sent and read; they are the client's own.
const OWN_HEADERS: [&str; 9] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "transfer-encoding",
];
/// Where an API key goes.
const AUTHORIZATION: &str = "authorization";

/// Flags that carry secrets.
#[derive(Clone, Default, ClapArgs)]
#[command(next_help_heading = "Secrets")]
pub struct SecretArgs {
    /// A header of every request to the server; its value is never stored
    // Read after clap is done: clap's errors repeat what they refuse.
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// File whose first line is the server's API key, sent as `Authorization: Bearer KEY`
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
}

impl fmt::Debug for SecretArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretArgs")
            .field("headers", &self.header.len())
            .field("api_key_file", &self.api_key_file)
            .finish()
    }
}

impl SecretArgs {
    /// Reads what the flags say.
    ///
    /// # Errors
    /// Usage errors that name the flag or the file, never a value.
    pub fn read(&self) -> anyhow::Result<Secrets> {
        let mut secrets = Secrets::default();
        for (place, header) in (1..).zip(&self.header) {
            let (name, value) = header.split_once(':').ok_or_else(|| {
                usage(format!(
                    "--header (number {place}): write it as 'NAME: VALUE'"
                ))
            })?;
            let name = name.trim_start().to_ascii_lowercase();
            check_name(&name, place)?;
            let value = value.trim();
            check_value(value).map_err(|why| usage(format!("--header {name}: {why}")))?;
            insert(&mut secrets, name, value.to_owned())?;
        }
        if let Some(file) = &self.api_key_file {
            let refuse = |why: String| usage(format!("--api-key-file {}: {why}", file.display()));
            let text = first_bytes(file).map_err(|error| refuse(error.to_string()))?;
            if text.len() as u64 > KEY_FILE_BYTES_MAX {
                return Err(refuse(format!("longer than {KEY_FILE_BYTES_MAX} bytes")));
            }
            let key = text.lines().next().unwrap_or_default().trim();
            check_value(key).map_err(|why| refuse(why.to_owned()))?;
            insert(
                &mut secrets,
                AUTHORIZATION.to_owned(),
                format!("Bearer {key}"),
            )?;
        }
        if secrets.headers.len() > EXTRAS_MAX {
            return Err(usage(format!("--header: at most {EXTRAS_MAX} of them")));
        }
        Ok(secrets)
    }
}

/// One byte more than a key file may have, at most: a device or a pipe has no length to look at.
fn first_bytes(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?
        .take(KEY_FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    Ok(text)
}

fn insert(secrets: &mut Secrets, name: String, value: String) -> anyhow::Result<()> {
    if secrets.headers.contains_key(&name) {
        let both = if name == AUTHORIZATION {
            "; give --header or --api-key-file, not both"
        } else {
            ""
        };
        return Err(usage(format!("--header {name}: it is given twice{both}")));
    }
    secrets.headers.insert(name, value);
    Ok(())
}

/// A header's name is a token (RFC 9110, section 5.6.2).
fn check_name(name: &str, place: u32) -> anyhow::Result<()> {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        // What stands before a colon may be half of a secret.
        return Err(usage(format!(
            "--header (number {place}): what is before the colon is no header name"
        )));
    }
    if OWN_HEADERS.contains(&name) {
        return Err(usage(format!(
            "--header {name}: the client sets this one itself"
        )));
    }
    Ok(())
}

/// Printable, so that no value can smuggle in a line of its own.
fn check_value(value: &str) -> Result<(), &'static str> {
    if value.is_empty() {
        return Err("it is empty");
    }
    if !value
        .bytes()
        .all(|byte| matches!(byte, b'\t' | 0x20..=0x7e))
    {
        return Err("it has characters that no header may have");
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn args(headers: &[&str]) -> SecretArgs {
        SecretArgs {
            header: headers.iter().map(|&header| header.to_owned()).collect(),
            api_key_file: None,
        }
    }

    #[test]
    fn headers_and_the_key_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "sk-hidden \nsecond line\n").unwrap();
        let secrets = SecretArgs {
            api_key_file: Some(file),
            ..args(&["X-Team:  blue: two ", "X-B:b"])
        };
        let headers = secrets.read().unwrap().headers;
        assert_eq!(headers["x-team"], "blue: two");
        assert_eq!(headers["x-b"], "b");
        assert_eq!(headers["authorization"], "Bearer sk-hidden");
        assert!(!format!("{secrets:?}").contains("blue"));
    }

    #[test]
    fn what_is_refused_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "\n").unwrap();
        let key_in = |file: PathBuf| SecretArgs {
            api_key_file: Some(file),
            ..args(&[])
        };
        for (wrong, word) in [
            (args(&["hunter2"]), "number 1"),
            (args(&["a:b", "hunter2 : x"]), "number 2"),
            (args(&["a: hunter2\u{7f}"]), "--header a"),
            (args(&["a: hunter2\r\nb: c"]), "--header a"),
            (args(&["a:"]), "empty"),
            (args(&["a: hunter2", "A: hunter2"]), "twice"),
            (args(&["Host: hunter2"]), "host"),
            (key_in(empty), "--api-key-file"),
            (key_in("/dev/zero".into()), "longer than"),
        ] {
            let error = wrong.read().unwrap_err();
            let words = format!("{error:#}");
            assert!(words.contains(word), "{words}");
            assert!(!words.contains("hunter2"), "{words}");
            assert_eq!(crate::exit::of(&error), crate::exit::Exit::Usage);
        }
    }
}
