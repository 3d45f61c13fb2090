//! Settings and where each comes from: flag over environment over `config.toml` over default.
//!
//! One table, `KEYS`, names all that can be set outside the command line. What a value means is
//! read by `values`; what is done with it is left to the commands.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contracts::defaults;
use directories::BaseDirs;

use crate::exit::usage;

/// Folder below the user's data, state and configuration directories.
const FOLDER: &str = "chapterbench";
/// Prefix of each setting's environment variable.
const PREFIX: &str = "CHAPTERBENCH_";
/// A configuration file is a page, not a book.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Pause between two runs on a host: none, for interleaved arms meet the same heat.
const COOLDOWN: Duration = Duration::ZERO;

/// A setting's name, and its default; an empty default says "not set".
type Key = (&'static str, fn() -> String);

/// All settings. Each is `--name` where a command has the flag, `CHAPTERBENCH_NAME`, and `name` in
/// `config.toml`.
const KEYS: &[Key] = &[
    ("db", || in_user_dir(BaseDirs::data_dir, "bench.db")),
    ("local_state_dir", || in_user_dir(state_dir, "local")),
    // Of the built-in agent; not set: engines.toml beside config.toml, if it is there.
    ("engines", String::new),
    ("agent", String::new),
    ("mode", || "online".to_owned()),
    ("model", || defaults::MODEL.to_owned()),
    ("dtype", String::new),
    ("device", || "cpu".to_owned()),
    ("threads", String::new),
    ("endpoint", || "auto".to_owned()),
    ("tokenizer", String::new),
    ("prompt", || defaults::PROMPT.to_owned()),
    // Not set: by where the prompts come from.
    ("cache", String::new),
    ("max_tokens", || defaults::MAX_TOKENS.to_string()),
    ("seed", || defaults::SEED.to_string()),
    ("n_runs", || defaults::N_RUNS.to_string()),
    ("warmup", || defaults::WARMUP.to_string()),
    // Loads themselves are flags only: one that is set elsewhere would change what another means.
    ("arrival", || "poisson".to_owned()),
    ("goodput", String::new),
    ("allow_failures", || "0".to_owned()),
    ("repeat", || "1".to_owned()),
    ("order", || "abba".to_owned()),
    ("cooldown", || seconds(COOLDOWN)),
    ("timeout", || seconds(defaults::REQUEST_TIMEOUT)),
    ("stall_timeout", || seconds(defaults::STALL_TIMEOUT)),
    ("ready_timeout", || seconds(defaults::READY_TIMEOUT)),
    ("wait", || "0s".to_owned()),
    ("format", || "text".to_owned()),
];

fn seconds(duration: Duration) -> String {
    format!("{}s", duration.as_secs())
}

fn state_dir(dirs: &BaseDirs) -> &Path {
    dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir())
}

/// Empty where the user has no home: then the setting must be given.
fn in_user_dir(base: fn(&BaseDirs) -> &Path, name: &str) -> String {
    BaseDirs::new()
        .map(|dirs| {
            base(&dirs)
                .join(FOLDER)
                .join(name)
                .to_string_lossy()
                .into_owned()
        })
        .unwrap_or_default()
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An environment variable, by name.
    Environment(String),
    /// `config.toml`.
    File(PathBuf),
    /// Built in.
    Default,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => write!(f, "default"),
        }
    }
}

/// One setting as it stands without flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Name.
    pub key: &'static str,
    /// Value; empty says "not set".
    pub value: String,
    /// Where it comes from.
    pub source: Source,
}

/// All settings.
#[derive(Debug, Clone)]
pub struct Config {
    settings: Vec<Setting>,
    /// The configuration file, whether it is there or not.
    pub file: PathBuf,
}

impl Config {
    /// Reads the process's environment and the user's configuration file.
    ///
    /// # Errors
    /// A file or variable that cannot be read, an unknown key; each named. All are usage errors.
    pub fn load() -> anyhow::Result<Self> {
        let folder = match std::env::var_os("CHAPTERBENCH_CONFIG_DIR") {
            Some(folder) => PathBuf::from(folder),
            None => PathBuf::from(in_user_dir(BaseDirs::config_dir, "")),
        };
        let file = folder.join("config.toml");
        Self::layered(&|name| std::env::var_os(name), &file)
    }

    /// [`Config::load`] from a given environment and file.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn layered(
        environment: &dyn Fn(&str) -> Option<OsString>,
        file: &Path,
    ) -> anyhow::Result<Self> {
        let mut from_file = read_file(file)?;
        let mut settings = Vec::with_capacity(KEYS.len());
        for (key, default) in KEYS {
            let variable = format!("{PREFIX}{}", key.to_ascii_uppercase());
            let in_file = from_file.remove(*key);
            let (value, source) = match (environment(&variable), in_file) {
                (Some(value), _) => {
                    let value = value
                        .into_string()
                        .map_err(|_| usage(format!("{variable}: the value is not UTF-8")))?;
                    (value, Source::Environment(variable))
                }
                (None, Some(value)) => (value, Source::File(file.to_path_buf())),
                (None, None) => (default(), Source::Default),
            };
            settings.push(Setting { key, value, source });
        }
        if let Some(unknown) = from_file.keys().next() {
            let known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
            return Err(usage(format!(
                "{}: unknown key `{unknown}`; there are {}",
                file.display(),
                known.join(", ")
            )));
        }
        Ok(Self {
            settings,
            file: file.to_path_buf(),
        })
    }

    /// The settings in the order of the table.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The flag's value, else what is set for `key`, read by `parse`; none if nothing is set.
    ///
    /// # Errors
    /// A value that `parse` refuses, with where it came from.
    pub fn optional<T>(
        &self,
        key: &str,
        flag: Option<T>,
        parse: fn(&str) -> Result<T, String>,
    ) -> anyhow::Result<Option<T>> {
        if flag.is_some() {
            return Ok(flag);
        }
        let setting = self.setting(key)?;
        if setting.value.is_empty() {
            return Ok(None);
        }
        parse(&setting.value).map(Some).map_err(|why| {
            usage(format!(
                "{key} = `{}` ({}): {why}",
                setting.value, setting.source
            ))
        })
    }

    /// As [`Config::optional`], without the default: what the user chose, if anything.
    ///
    /// # Errors
    /// As [`Config::optional`].
    pub fn chosen<T>(
        &self,
        key: &str,
        flag: Option<T>,
        parse: fn(&str) -> Result<T, String>,
    ) -> anyhow::Result<Option<T>> {
        if flag.is_none() && self.setting(key)?.source == Source::Default {
            return Ok(None);
        }
        self.optional(key, flag, parse)
    }

    fn setting(&self, key: &str) -> anyhow::Result<&Setting> {
        self.settings
            .iter()
            .find(|setting| setting.key == key)
            .ok_or_else(|| anyhow::anyhow!("internal: no setting is called {key}"))
    }

    /// As [`Config::optional`], for what must have a value.
    ///
    /// # Errors
    /// Also that nothing is set.
    pub fn required<T>(
        &self,
        key: &str,
        flag: Option<T>,
        parse: fn(&str) -> Result<T, String>,
    ) -> anyhow::Result<T> {
        self.optional(key, flag, parse)?.ok_or_else(|| {
            let flag = key.replace('_', "-");
            usage(format!(
                "{key} is not set; give --{flag} or {PREFIX}{}",
                key.to_ascii_uppercase()
            ))
        })
    }
}

/// Keys and values of the file as words; empty if there is no file.
fn read_file(file: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let refuse = |why: String| usage(format!("{}: {why}", file.display()));
    match std::fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(refuse(error.to_string())),
        Ok(meta) if meta.len() > FILE_BYTES_MAX => return Err(refuse("too large".to_owned())),
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| {
            text.bytes()
                .take(span.start)
                .filter(|byte| *byte == b'\n')
                .count()
                + 1
        });
        refuse(format!("line {line}: {}", error.message()))
    })?;
    table
        .into_iter()
        .map(|(key, value)| {
            let word = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                _ => return Err(refuse(format!("`{key}` must be a single value"))),
            };
            Ok((key, word))
        })
        .collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::values;

    fn with(environment: &[(&str, &str)], file: &str) -> anyhow::Result<Config> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, file).unwrap();
        let get = |name: &str| {
            environment
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        };
        Config::layered(&get, &path)
    }

    #[test]
    fn flag_over_environment_over_file_over_default() {
        let config = with(&[("CHAPTERBENCH_N_RUNS", "7")], "n_runs = 5\nwarmup = 1\n").unwrap();
        let n = |flag| config.required("n_runs", flag, values::number).unwrap();
        assert_eq!(n(Some(9)), 9);
        assert_eq!(n(None), 7);
        assert_eq!(config.required("warmup", None, values::number).unwrap(), 1);
        assert_eq!(
            config.required("max_tokens", None, values::number).unwrap(),
            40
        );
        assert_eq!(config.optional("dtype", None, values::dtype).unwrap(), None);
        let chosen = |key| config.chosen(key, None, values::number).unwrap();
        assert_eq!((chosen("n_runs"), chosen("max_tokens")), (Some(7), None));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let message = |error: anyhow::Error| format!("{error:#}");
        let unknown = message(with(&[], "n_rums = 5").unwrap_err());
        assert!(
            unknown.contains("n_rums") && unknown.contains("n_runs"),
            "{unknown}"
        );
        let broken = message(with(&[], "\nn_runs = = 5").unwrap_err());
        assert!(broken.contains("line 2"), "{broken}");
        let table = message(with(&[], "[n_runs]\na = 1").unwrap_err());
        assert!(table.contains("n_runs"), "{table}");
        let config = with(&[("CHAPTERBENCH_N_RUNS", "many")], "").unwrap();
        let bad = message(config.required("n_runs", None, values::number).unwrap_err());
        assert!(
            bad.contains("CHAPTERBENCH_N_RUNS") && bad.contains("many"),
            "{bad}"
        );
    }
}
