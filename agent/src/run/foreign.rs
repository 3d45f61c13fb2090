//! Engines of others: from an entry of `engines.toml` and a spec to the command that is started, or to
//! the address of a server that runs already. Whatever a spec asks that such an engine cannot be
//! told is refused by name: a run that was measured otherwise than it says would be worse than none.
//!
//! Starting is [`super::launch`]'s, waiting for it [`super::ready`]'s.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use contracts::run::{Arm, Device, Dtype, Mode};

use super::check::Refusal;
use crate::config::engines::command::{Placeholder, Values, Word};
use crate::config::engines::server::{Choices, ServerEntry};
use crate::load::Target;

/// The address that an engine of others is told to listen on: it is measured from this host alone.
pub const HOST: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
/// The option that `--dtype` is another way to say.
const DTYPE: &str = "dtype";

/// An engine of others, ready to be started: all but its port is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCommand {
    /// Name of its entry.
    pub name: String,
    /// The program that was found.
    pub program: PathBuf,
    /// As its entry describes it.
    pub entry: ServerEntry,
    /// Arguments that the spec has chosen; they follow the entry's.
    chosen: Vec<Word>,
    model: String,
    threads: u32,
    gpu: u32,
}

/// What a child is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// What follows the program.
    pub args: Vec<String>,
    /// Names and values of variables.
    pub env: Vec<(OsString, OsString)>,
}

impl ServerCommand {
    /// The command line for a server on `port`.
    pub fn filled(&self, port: u16) -> Filled {
        let host = HOST.to_string();
        let values = self.values(&host, port);
        let words = self.entry.args.iter().chain(&self.chosen);
        let env = self.entry.env.0.iter();
        Filled {
            args: words.map(|word| word.fill(&values)).collect(),
            env: env
                .map(|(name, word)| (name.into(), word.fill(&values).into()))
                .collect(),
        }
    }

    /// The model's name in requests, where the entry says it.
    pub fn served_name(&self, port: u16) -> Option<String> {
        let host = HOST.to_string();
        let name = self.entry.served_name.as_ref()?;
        Some(name.fill(&self.values(&host, port)))
    }

    fn values<'a>(&'a self, host: &'a str, port: u16) -> Values<'a> {
        Values {
            port,
            host,
            model: &self.model,
            threads: self.threads,
            gpu: self.gpu,
        }
    }
}

/// What `arm` asks of the engine `name`. `model` is what it will load, `cores` how many this host has.
pub fn server(
    name: &str,
    entry: &ServerEntry,
    arm: &Arm,
    model: &str,
    cores: u32,
) -> Result<ServerCommand, Refusal> {
    online_only(arm, &format!("engine {name}"))?;
    let chosen = chosen(name, entry, arm)?;
    if arm.threads.is_some() && !entry.uses(Placeholder::Threads) {
        let message = format!(
            "engine {name} does not say how it takes a number of threads; put {{threads}} into its command or env in engines.toml"
        );
        return Err(Refusal::new("arm.threads", message));
    }
    let gpu = gpu(name, entry, arm.device)?;
    let program = program(entry)
        .map_err(|message| Refusal::new("arm.engine.name", format!("engine {name}: {message}")))?;
    if let Some(cwd) = entry.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        let message = format!("engine {name}: its cwd {} is not a folder", cwd.display());
        return Err(Refusal::new("arm.engine.name", message));
    }
    Ok(ServerCommand {
        name: name.to_owned(),
        program,
        entry: entry.clone(),
        chosen,
        model: model.to_owned(),
        threads: arm.threads.unwrap_or(cores),
        gpu,
    })
}

/// Whether a server that runs already can be asked for what `arm` says. Nothing about it can be set.
pub fn url(url: &str, arm: &Arm) -> Result<(), Refusal> {
    Target::parse(url).map_err(|error| Refusal::new("arm.engine.url", error.to_string()))?;
    online_only(arm, "a server that runs already")?;
    let set = [
        ("arm.dtype", arm.dtype.is_some()),
        ("arm.threads", arm.threads.is_some()),
        ("arm.options", !arm.options.is_empty()),
    ];
    match set.into_iter().find(|(_, set)| *set) {
        Some((field, _)) => Err(Refusal::new(
            field,
            "a server that runs already cannot be told this; set it where the server is started",
        )),
        None => Ok(()),
    }
}

fn online_only(arm: &Arm, what: &str) -> Result<(), Refusal> {
    match arm.mode {
        Mode::Online => Ok(()),
        Mode::Offline => Err(Refusal::new(
            "arm.mode",
            format!("{what} can only be asked over HTTP; use --mode online"),
        )),
    }
}

/// The arguments of all choices, in order of the options' names.
fn chosen(name: &str, entry: &ServerEntry, arm: &Arm) -> Result<Vec<Word>, Refusal> {
    let mut choices: BTreeMap<&str, (&str, String)> = BTreeMap::new();
    for (option, choice) in &arm.options {
        choices.insert(option, (choice, format!("arm.options.{option}")));
    }
    if let Some(dtype) = arm.dtype {
        let field = format!("arm.{DTYPE}");
        if !entry.choices.contains_key(DTYPE) {
            let message = format!(
                "engine {name} does not say how it takes a type of weights; give it choices.{DTYPE} in engines.toml"
            );
            return Err(Refusal::new(field, message));
        }
        if choices.insert(DTYPE, (dtype_word(dtype), field)).is_some() {
            return Err(Refusal::new(
                format!("arm.options.{DTYPE}"),
                "the type of weights is given twice; leave one out",
            ));
        }
    }
    let mut words = Vec::new();
    for (option, (choice, field)) in choices {
        let Some(known) = entry.choices.get(option) else {
            let there = listed(entry.choices.keys());
            let message = format!("engine {name} has no option {option:?}; there are: {there}");
            return Err(Refusal::new(field, message));
        };
        let args = known
            .get(choice)
            .ok_or_else(|| no_choice(name, known, choice, field))?;
        words.extend(args.iter().cloned());
    }
    Ok(words)
}

fn no_choice(name: &str, known: &Choices, choice: &str, field: String) -> Refusal {
    let there = listed(known.keys());
    let message = format!("engine {name} does not offer {choice:?}; it offers: {there}");
    Refusal::new(field, message)
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// The index of the GPU, 0 where there is none to name. The device is also what is locked, so an
/// engine that computes elsewhere than the run says would disturb another's run.
fn gpu(name: &str, entry: &ServerEntry, device: Device) -> Result<u32, Refusal> {
    let takes_one = entry.uses(Placeholder::Gpu);
    let refuse = |message: &str| {
        Err(Refusal::new(
            "arm.device",
            format!("engine {name} {message}"),
        ))
    };
    match device {
        Device::Cpu if takes_one => refuse("computes on a GPU; name it with --device cuda:0"),
        Device::Cpu => Ok(0),
        Device::Cuda { .. } | Device::Metal { .. } if !takes_one => refuse(
            "does not say how it takes a GPU; put {gpu} into its command or env in engines.toml",
        ),
        Device::Cuda { index } | Device::Metal { index } => Ok(index),
    }
}

/// The file that the entry's first word names.
fn program(entry: &ServerEntry) -> Result<PathBuf, String> {
    let named = &entry.program;
    if named.is_absolute() {
        return match is_executable(named) {
            true => Ok(named.clone()),
            false => Err(format!("{} is not an executable file", named.display())),
        };
    }
    // The child's own PATH, if the entry sets one: that is where its shell would look.
    let own = entry.env.0.get("PATH").and_then(Word::plain);
    let path = match own {
        Some(path) => OsString::from(path),
        None => std::env::var_os("PATH").unwrap_or_default(),
    };
    let found = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(named))
        .find(|file| is_executable(file));
    found.ok_or_else(|| {
        format!(
            "the program {} is not in PATH on this host; install it, or give its path in engines.toml",
            named.display()
        )
    })
}

fn is_executable(file: &Path) -> bool {
    !file.as_os_str().as_bytes().contains(&0)
        && file
            .metadata()
            .is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

pub(super) fn dtype_word(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "f32",
        Dtype::F16 => "f16",
        Dtype::Bf16 => "bf16",
    }
}

#[cfg(test)]
mod tests;
