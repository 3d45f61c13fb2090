//! The functions that chat templates call beyond Jinja's own, as transformers has them.

use std::io;

use minijinja::{Environment, Error, ErrorKind, Value, value::Kwargs};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// The source of the error of `raise_exception`, so that its words can be told as they are.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

pub(super) fn register(environment: &mut Environment<'_>) {
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", strftime_now);
    environment.add_filter("tojson", to_json);
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(message)))
}

/// `strftime` of a day that never changes: Friday, 26 July 2024, midnight, which is the date that
/// Llama 3's template names when it is given no clock. A template that writes today's date would
/// else give every day other token ids, and runs of different days could not be compared.
fn strftime_now(format: &str) -> Result<String, Error> {
    let mut out = String::new();
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let directive = rest.next();
        out.push_str(match directive {
            Some('Y') => "2024",
            Some('y') => "24",
            Some('m') => "07",
            Some('B') => "July",
            Some('b' | 'h') => "Jul",
            Some('d' | 'e') => "26",
            Some('j') => "208",
            Some('A') => "Friday",
            Some('a') => "Fri",
            Some('F') => "2024-07-26",
            Some('D' | 'x') => "07/26/24",
            Some('H' | 'M' | 'S') => "00",
            Some('I') => "12",
            Some('p') => "AM",
            Some('T' | 'X') => "00:00:00",
            Some('%') => "%",
            other => {
                let name = other.map(String::from).unwrap_or_default();
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("strftime_now does not know %{name}"),
                ));
            }
        });
    }
    Ok(out)
}

/// Python's `json.dumps(value, ensure_ascii=False, indent=…)`: nothing is escaped for HTML.
fn to_json(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    if kwargs.get::<Option<bool>>("ensure_ascii")? == Some(true) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "tojson(ensure_ascii=true) is not known",
        ));
    }
    kwargs.assert_all_used()?;
    let mut out = Vec::new();
    let written = match indent {
        Some(width) => {
            let indent = vec![b' '; width];
            value.serialize(&mut Serializer::with_formatter(
                &mut out,
                PrettyFormatter::with_indent(&indent),
            ))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, PythonFormatter)),
    };
    let failed = |what: String| Error::new(ErrorKind::BadSerialization, what);
    written.map_err(|error| failed(error.to_string()))?;
    String::from_utf8(out).map_err(|error| failed(error.to_string()))
}

/// One line with a blank after each comma and colon.
struct PythonFormatter;

impl Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
