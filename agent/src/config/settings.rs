//! Joins what was said: flag over environment over file over default. Reads files, opens no socket.
//!
//! The token never stands on a command line, where every user of the machine could read it: it
//! comes from a file or from the environment.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use contracts::defaults;
use serde::Deserialize;

use super::{ConfigError, EngineEntry, ModelRoots, TlsFiles, engines};

/// Shortest token that is taken: 16 characters of a random alphabet are beyond guessing over a network.
pub const TOKEN_CHARS_MIN: usize = 16;

/// What the command line said; none is "not said".
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--listen`
    pub listen: Option<String>,
    /// `--token-file`
    pub token_file: Option<PathBuf>,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
    /// `--model-root`, each time
    pub model_roots: Vec<PathBuf>,
    /// `--engines`
    pub engines: Option<PathBuf>,
    /// `--tls-cert`
    pub tls_cert: Option<PathBuf>,
    /// `--tls-key`
    pub tls_key: Option<PathBuf>,
}

/// `agent.toml`: the same names as the flags, with underscores.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    listen: Option<String>,
    token_file: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    model_roots: Option<Vec<PathBuf>>,
    engines: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
}

/// What came of it. The token is in here, so there is no `Debug`.
pub struct Settings {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What callers must show.
    pub token: Option<String>,
    /// Folder of the agent's state.
    pub state_dir: PathBuf,
    /// Where models may lie.
    pub model_roots: ModelRoots,
    /// Engines that specs may name.
    pub engines: Vec<EngineEntry>,
    /// TLS, if asked for.
    pub tls: Option<TlsFiles>,
    /// Doubts worth a line on stderr.
    pub warnings: Vec<String>,
}

/// Folders of the user, where nothing else is said.
#[derive(Debug, Clone, Default)]
pub struct UserDirs {
    /// `~/.config/chapterbench`
    pub config: Option<PathBuf>,
    /// `~/.local/state/chapterbench`
    pub state: Option<PathBuf>,
}

impl UserDirs {
    /// As the platform has them.
    pub fn of_this_user() -> Self {
        let dirs = directories::ProjectDirs::from("", "", "chapterbench");
        Self {
            config: dirs.as_ref().map(|d| d.config_dir().to_path_buf()),
            state: dirs
                .as_ref()
                .map(|d| d.state_dir().unwrap_or(d.data_local_dir()).to_path_buf()),
        }
    }
}

/// Joins all sources. `env` looks up an environment variable.
///
/// # Errors
/// A file that cannot be read or has an unknown key, an address that does not parse, a token that
/// is too short, or an address beyond loopback without a token.
pub fn resolve(
    flags: Flags,
    env: impl Fn(&str) -> Option<OsString>,
    dirs: &UserDirs,
) -> Result<Settings, ConfigError> {
    let env_path = |name: &str| env(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut warnings = Vec::new();
    let (file, folder) = read_file(
        flags
            .config
            .or_else(|| env_path("CHAPTERBENCH_AGENT_CONFIG")),
        dirs,
    )?;
    let from_file = |path: Option<PathBuf>| path.map(|p| folder.join(p));

    let listen_env = env_path("CHAPTERBENCH_LISTEN").map(|v| v.to_string_lossy().into_owned());
    let listen = flags
        .listen
        .or(listen_env)
        .or(file.listen)
        .unwrap_or_else(|| defaults::AGENT_LISTEN.to_owned());
    let listen = address(&listen)?;

    let token = token(
        flags.token_file,
        &env,
        from_file(file.token_file),
        &mut warnings,
    )?;
    require_token(listen, token.as_deref())?;

    let state_dir = flags
        .state_dir
        .or_else(|| env_path("CHAPTERBENCH_STATE_DIR"))
        .or_else(|| from_file(file.state_dir))
        .or_else(|| dirs.state.as_ref().map(|state| state.join("agent")))
        .ok_or_else(|| {
            ConfigError::Setting("--state-dir: no home folder to put it in; name one".to_owned())
        })?;

    let roots_env =
        env("CHAPTERBENCH_MODEL_ROOT").map(|v| std::env::split_paths(&v).collect::<Vec<_>>());
    let roots_file = file
        .model_roots
        .map(|roots| roots.iter().map(|root| folder.join(root)).collect());
    let roots = Some(flags.model_roots)
        .filter(|roots| !roots.is_empty())
        .or(roots_env)
        .or(roots_file);

    let engines_file = flags
        .engines
        .or_else(|| env_path("CHAPTERBENCH_ENGINES"))
        .or_else(|| from_file(file.engines))
        .or_else(|| {
            let usual = dirs.config.as_ref()?.join("engines.toml");
            usual.is_file().then_some(usual)
        });
    let tls = tls(
        flags
            .tls_cert
            .or_else(|| env_path("CHAPTERBENCH_TLS_CERT"))
            .or_else(|| from_file(file.tls_cert)),
        flags
            .tls_key
            .or_else(|| env_path("CHAPTERBENCH_TLS_KEY"))
            .or_else(|| from_file(file.tls_key)),
    )?;
    Ok(Settings {
        listen,
        token,
        state_dir,
        model_roots: ModelRoots::Under(model_roots(roots.unwrap_or_default())?),
        engines: engines_file.map_or_else(|| Ok(Vec::new()), |path| engines::read(&path))?,
        tls,
        warnings,
    })
}

/// No listening beyond loopback without a token: whoever reaches the port can start processes.
pub fn require_token(listen: SocketAddr, token: Option<&str>) -> Result<(), ConfigError> {
    if token.is_some() || listen.ip().is_loopback() {
        return Ok(());
    }
    Err(ConfigError::Setting(format!(
        "--listen {listen}: listening beyond this machine needs a token; \
         put one into a file and name it with --token-file, or set CHAPTERBENCH_TOKEN"
    )))
}

/// One line of a TOML error: where and what, without the drawing.
pub(super) fn toml_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', " ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

fn read_file(named: Option<PathBuf>, dirs: &UserDirs) -> Result<(File, PathBuf), ConfigError> {
    let usual = || {
        dirs.config
            .as_ref()
            .map(|dir| dir.join("agent.toml"))
            .filter(|path| path.is_file())
    };
    let Some(path) = named.or_else(usual) else {
        return Ok((File::default(), PathBuf::new()));
    };
    let text = std::fs::read_to_string(&path).map_err(|error| ConfigError::Read {
        path: path.clone(),
        error,
    })?;
    let file = toml::from_str(&text).map_err(|error| ConfigError::File {
        path: path.clone(),
        message: toml_line(&text, &error),
    })?;
    Ok((
        file,
        path.parent().map(Path::to_path_buf).unwrap_or_default(),
    ))
}

fn address(text: &str) -> Result<SocketAddr, ConfigError> {
    let fail = |why: String| {
        ConfigError::Setting(format!(
            "--listen {text}: {why}; write HOST:PORT, as 127.0.0.1:7070"
        ))
    };
    let mut all = text
        .to_socket_addrs()
        .map_err(|error| fail(error.to_string()))?;
    all.next().ok_or_else(|| fail("no such address".to_owned()))
}

fn token(
    flag: Option<PathBuf>,
    env: &impl Fn(&str) -> Option<OsString>,
    file: Option<PathBuf>,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, ConfigError> {
    let (token, source) = match (flag, env("CHAPTERBENCH_TOKEN")) {
        (None, Some(value)) => {
            let value = value.into_string();
            let token = value
                .map_err(|_| ConfigError::Setting("CHAPTERBENCH_TOKEN: not UTF-8".to_owned()))?;
            (token, "CHAPTERBENCH_TOKEN".to_owned())
        }
        (flag, _) => {
            let env_file = env("CHAPTERBENCH_TOKEN_FILE").map(PathBuf::from);
            let Some(path) = flag.or(env_file).or(file) else {
                return Ok(None);
            };
            if others_can_read(&path) {
                let path = path.display();
                warnings.push(format!(
                    "{path}: others on this machine can read the token; chmod 600 {path}"
                ));
            }
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|error| ConfigError::Read {
                path: path.clone(),
                error,
            })?;
            (text, path.display().to_string())
        }
    };
    let token = token.trim().to_owned();
    if token.chars().count() < TOKEN_CHARS_MIN {
        return Err(ConfigError::Setting(format!(
            "{source}: a token has at least {TOKEN_CHARS_MIN} characters"
        )));
    }
    if !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(ConfigError::Setting(format!(
            "{source}: a token has visible ASCII characters only"
        )));
    }
    Ok(Some(token))
}

fn others_can_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0)
}

fn model_roots(roots: Vec<PathBuf>) -> Result<Vec<PathBuf>, ConfigError> {
    let real = |root: PathBuf| {
        let fail =
            |why: String| ConfigError::Setting(format!("--model-root {}: {why}", root.display()));
        let real = root
            .canonicalize()
            .map_err(|error| fail(error.to_string()))?;
        if real.is_dir() {
            Ok(real)
        } else {
            Err(fail("not a folder".to_owned()))
        }
    };
    roots.into_iter().map(real).collect()
}

fn tls(cert: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<TlsFiles>, ConfigError> {
    match (cert, key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
        _ => Err(ConfigError::Setting(
            "TLS needs both --tls-cert and --tls-key".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests;
