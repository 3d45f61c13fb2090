//! `kind = "server"`: an engine of others that the agent may start, as `engines.toml` describes it.
//!
//! ```toml
//! [engine.vllm]
//! kind = "server"
//! command = ["vllm", "serve", "{model}", "--host", "{host}", "--port", "{port}"]
//! env = { CUDA_VISIBLE_DEVICES = "{gpu}" }   # values are never stored or shown
//! cwd = "/srv/vllm"                          # else where the agent runs
//! health = "/health"                         # the default; 200 there is "ready"
//! ready_timeout = "15m"                      # used where it is longer than the run's own
//! grace = "30s"                              # likewise, between SIGTERM and SIGKILL
//! served_name = "{model}"                    # else asked at /v1/models
//! [engine.vllm.choices.dtype]                # `--option dtype=half`; `dtype` also by `--dtype`
//! half = ["--dtype", "float16"]
//! ```
//! Whether the program is there is asked when a run starts, not here: one file may serve hosts that
//! lack some of its engines. Starting it is `crate::run`'s business.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::command::{Placeholder, Word};

/// Where servers of others say that they are ready, unless an entry says otherwise.
const HEALTH: &str = "/health";
/// A wait that an entry may ask for, at most: that of a spec.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// Words of a command, at most: more is a mistake.
const WORDS_MAX: usize = 1000;

/// Extra arguments by the word that chooses them.
pub type Choices = BTreeMap<String, Vec<Word>>;

/// An engine of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// A name to be found in PATH, or a path: absolute, or from the file's folder.
    pub program: PathBuf,
    /// What follows the program.
    pub args: Vec<Word>,
    /// Set over the agent's own environment.
    pub env: Env,
    /// Where it runs; else where the agent does.
    pub cwd: Option<PathBuf>,
    /// Path of the page that answers 200 when it is ready.
    pub health: String,
    /// Start to ready, at least.
    pub ready_timeout: Duration,
    /// SIGTERM to SIGKILL, at least.
    pub grace: Duration,
    /// The model's name in requests; none asks the server.
    pub served_name: Option<Word>,
    /// By the option's name.
    pub choices: BTreeMap<String, Choices>,
}

/// Variables of a child. Shown by name only: a value may be a key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Env(pub BTreeMap<String, Word>);

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(rename = "kind")]
    _kind: String,
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    health: Option<String>,
    ready_timeout: Option<String>,
    grace: Option<String>,
    served_name: Option<String>,
    #[serde(default)]
    choices: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

impl ServerEntry {
    /// Reads an entry; its relative paths are taken from `folder`. Errors name the key below the
    /// entry's own.
    pub fn parse(table: toml::Table, folder: &Path) -> Result<Self, String> {
        let raw: Raw = toml::Value::Table(table)
            .try_into()
            .map_err(|error| format!(": {}", error.to_string().trim().replace('\n', " ")))?;
        let (program, args) = command(&raw.command, folder)?;
        let choices = choices(raw.choices)?;
        let env = env(raw.env)?;
        if !args
            .iter()
            .chain(env.0.values())
            .any(|word| word.has(Placeholder::Port))
        {
            return Err(
                ".command: neither it nor env has {port}, so the server cannot be told where to listen"
                    .to_owned(),
            );
        }
        let health = raw.health.unwrap_or_else(|| HEALTH.to_owned());
        if !health.starts_with('/') || health.contains(char::is_whitespace) {
            return Err(format!(
                ".health: {health:?} is not a path such as {HEALTH:?}"
            ));
        }
        let served_name = raw.served_name.map(|name| word(".served_name", &name));
        Ok(Self {
            program,
            args,
            env,
            cwd: raw.cwd.map(|cwd| folder.join(cwd)),
            health,
            ready_timeout: wait(".ready_timeout", raw.ready_timeout.as_deref())?,
            grace: wait(".grace", raw.grace.as_deref())?,
            served_name: served_name.transpose()?,
            choices,
        })
    }

    /// Whether its command, variables or choices ask for this.
    pub fn uses(&self, wanted: Placeholder) -> bool {
        let chosen = self.choices.values().flat_map(BTreeMap::values).flatten();
        let mut words = self.args.iter().chain(self.env.0.values()).chain(chosen);
        words.any(|word| word.has(wanted))
    }
}

fn command(words: &[String], folder: &Path) -> Result<(PathBuf, Vec<Word>), String> {
    let Some((program, args)) = words.split_first().filter(|(first, _)| !first.is_empty()) else {
        return Err(".command: is empty; give the program and its arguments as a list".to_owned());
    };
    if words.len() > WORDS_MAX {
        return Err(format!(".command: more than {WORDS_MAX} words"));
    }
    let program = word(".command", program)?;
    let Some(program) = program.plain() else {
        return Err(".command: the program, its first word, must have no placeholder".to_owned());
    };
    let program = match program.contains('/') {
        true => folder.join(program),
        false => PathBuf::from(program),
    };
    let args = args.iter().map(|text| word(".command", text));
    Ok((program, args.collect::<Result<_, _>>()?))
}

fn env(variables: BTreeMap<String, String>) -> Result<Env, String> {
    let mut env = Env::default();
    for (name, value) in variables {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!(".env: {name:?} is no name of a variable"));
        }
        let value = word(&format!(".env.{name}"), &value)?;
        env.0.insert(name, value);
    }
    Ok(env)
}

fn choices(
    tables: BTreeMap<String, BTreeMap<String, Vec<String>>>,
) -> Result<BTreeMap<String, Choices>, String> {
    let mut choices = BTreeMap::new();
    for (option, table) in tables {
        let key = format!(".choices.{option}");
        if table.is_empty() {
            return Err(format!("{key}: offers nothing to choose"));
        }
        let mut known = Choices::new();
        for (choice, args) in table {
            let key = format!("{key}.{choice}");
            let args = args.iter().map(|text| word(&key, text));
            known.insert(choice, args.collect::<Result<_, _>>()?);
        }
        choices.insert(option, known);
    }
    Ok(choices)
}

fn word(key: &str, text: &str) -> Result<Word, String> {
    Word::parse(text).map_err(|error| format!("{key}: {error}"))
}

/// `500ms`, `90s`, `15m`, `1h`; none is no wait of its own.
fn wait(key: &str, text: Option<&str>) -> Result<Duration, String> {
    let Some(text) = text else {
        return Ok(Duration::ZERO);
    };
    let refuse = || {
        let most = WAIT_MAX.as_secs();
        Err(format!(
            "{key}: {text:?} is no time of at most {most}s such as \"500ms\", \"90s\", \"15m\""
        ))
    };
    let at = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return refuse(),
    };
    let ms = number
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(unit_ms));
    match ms.map(Duration::from_millis) {
        Some(wait) if wait <= WAIT_MAX => Ok(wait),
        _ => refuse(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ServerEntry, String> {
        let text = format!("kind = 'server'\n{text}");
        ServerEntry::parse(toml::from_str(&text).unwrap(), Path::new("/etc/bench"))
    }

    #[test]
    fn an_entry_with_everything() {
        let entry = parse(
            r#"
            command = ["bin/serve", "{model}", "--port", "{port}"]
            env = { TOKEN = "secret", WHERE = "{host}" }
            cwd = "work"
            health = "/ready"
            ready_timeout = "15m"
            grace = "500ms"
            served_name = "{model}"
            [choices.dtype]
            half = ["--dtype", "float16"]
            auto = []
            "#,
        )
        .unwrap();
        assert_eq!(entry.program, Path::new("/etc/bench/bin/serve"));
        assert_eq!(entry.cwd.as_deref(), Some(Path::new("/etc/bench/work")));
        assert_eq!(entry.ready_timeout, Duration::from_secs(900));
        assert_eq!(entry.grace, Duration::from_millis(500));
        assert_eq!(entry.args.len(), 3);
        assert_eq!(entry.choices["dtype"]["half"].len(), 2);
        assert!(entry.uses(Placeholder::Host) && !entry.uses(Placeholder::Threads));
        let shown = format!("{entry:?}");
        assert!(
            shown.contains("TOKEN") && !shown.contains("secret"),
            "{shown}"
        );
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let entry = parse("command = ['serve', '{port}']").unwrap();
        assert_eq!(entry.program, Path::new("serve"), "for PATH");
        assert_eq!(entry.health, "/health");
        assert_eq!((entry.ready_timeout, entry.grace), Default::default());
        assert!(entry.cwd.is_none() && entry.served_name.is_none() && entry.choices.is_empty());
        // Ollama is told by a variable.
        parse("command = ['ollama', 'serve']\nenv = { OLLAMA_HOST = '{host}:{port}' }").unwrap();
    }

    #[test]
    fn every_error_names_its_key() {
        let good = "command = ['serve', '{port}']\n";
        for (text, key) in [
            ("", "missing field `command`"),
            ("command = 'serve {port}'", "command"),
            ("command = []", ".command: is empty"),
            ("command = ['']", ".command: is empty"),
            ("command = ['{model}', '{port}']", ".command: the program"),
            ("command = ['serve']", "{port}"),
            (
                "command = ['serve', '{prot}']",
                ".command: {prot} is no placeholder",
            ),
            (&format!("{good}args = []"), "unknown field `args`"),
            (&format!("{good}env = {{ 'A=B' = 'x' }}"), ".env: \"A=B\""),
            (
                &format!("{good}env = {{ A = '{{x}}' }}"),
                ".env.A: {x} is no",
            ),
            (&format!("{good}health = 'health'"), ".health"),
            (
                &format!("{good}ready_timeout = '15'"),
                ".ready_timeout: \"15\"",
            ),
            (&format!("{good}ready_timeout = '2h'"), "at most 3600s"),
            (&format!("{good}grace = 'ms'"), ".grace"),
            (&format!("{good}served_name = '{{'"), ".served_name"),
            (
                &format!("{good}[choices.dtype]"),
                ".choices.dtype: offers nothing",
            ),
            (
                &format!("{good}[choices.d]\na = ['{{y}}']"),
                ".choices.d.a: {y}",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(key), "{text:?} gave {error:?}");
            assert!(!error.contains('\n'), "{error:?}");
        }
    }
}
