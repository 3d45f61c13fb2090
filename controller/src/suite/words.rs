//! The keys of one table as the words of a command line.

use std::path::Path;

use toml::de::DeValue;

use super::{Key, Kind};

/// Flags that a table stands for, in the order of its keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words(Vec<Given>);

/// One flag with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The key that it comes from.
    pub key: String,
    /// Where the key stands, from 1.
    pub line: usize,
    /// `--n-runs=20`, `--ignore-eos`.
    pub word: String,
}

impl Words {
    /// Adds what a key's value stands for.
    pub(super) fn add(
        &mut self,
        key: &Key,
        line: usize,
        value: &DeValue<'_>,
        folder: &Path,
    ) -> Result<(), String> {
        let mut add = |word: String| {
            self.0.push(Given {
                key: key.name.clone(),
                line,
                word,
            });
        };
        match (key.kind, value) {
            (Kind::Switch, DeValue::Boolean(on)) => {
                if *on {
                    add(key.flag());
                }
            }
            (Kind::Switch, other) => {
                return Err(format!("give true or false, not {}", kind_of(other)));
            }
            (Kind::Pairs, DeValue::Table(table)) => {
                for (name, value) in table {
                    let name: &str = name.get_ref();
                    let value = scalar(value.get_ref()).ok_or_else(|| {
                        let kind = kind_of(value.get_ref());
                        format!("{name} is {kind}; give a text, a number, true or false")
                    })?;
                    add(format!("{}={name}={value}", key.flag()));
                }
            }
            (Kind::Pairs, other) => {
                return Err(format!("give a table, not {}", kind_of(other)));
            }
            (_, DeValue::Array(values)) if key.list => {
                if values.is_empty() {
                    return Err("the list is empty".to_owned());
                }
                for value in values.iter() {
                    let value = one(key, value.get_ref(), folder)?;
                    add(format!("{}={value}", key.flag()));
                }
            }
            (_, value) => {
                let value = one(key, value, folder)?;
                add(format!("{}={value}", key.flag()));
            }
        }
        Ok(())
    }

    /// Each flag, with where it comes from.
    pub fn given(&self) -> &[Given] {
        &self.0
    }

    /// The flags.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|given| given.word.as_str())
    }
}

/// A single value of a key that takes such.
fn one(key: &Key, value: &DeValue<'_>, folder: &Path) -> Result<String, String> {
    let wanted = match (key.kind, value) {
        (Kind::Whole | Kind::Word | Kind::Number, DeValue::Integer(_))
        | (Kind::Number | Kind::Word, DeValue::Float(_))
        | (Kind::Text | Kind::Word, DeValue::String(_)) => {
            return scalar(value).ok_or_else(|| "the number is too large".to_owned());
        }
        (Kind::Path, DeValue::String(path)) => return Ok(beside(path, folder)),
        (Kind::PathOrName, DeValue::String(name)) => {
            let path = folder.join(name.as_ref());
            return Ok(match path.exists() {
                true => path.to_string_lossy().into_owned(),
                false => name.to_string(),
            });
        }
        (Kind::Whole, _) => "a whole number",
        (Kind::Number, _) => "a number",
        (Kind::Word, _) => "a text or a number",
        (Kind::Path, _) => "a path",
        (Kind::Text | Kind::PathOrName | Kind::Switch | Kind::Pairs, _) => "a text",
    };
    Err(format!("give {wanted}, not {}", kind_of(value)))
}

/// `sharegpt:a.json` → `sharegpt:FOLDER/a.json`. A path that is absolute stays.
fn beside(path: &str, folder: &Path) -> String {
    let (kind, path) = match path.split_once(':') {
        Some((kind, path)) => (format!("{kind}:"), path),
        None => (String::new(), path),
    };
    format!("{kind}{}", folder.join(path).to_string_lossy())
}

/// A value as a flag would have it; none of a list, a table, a date, or a number beyond 64 bits.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(on) => Some(on.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// What a value is, for people.
pub(super) fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
