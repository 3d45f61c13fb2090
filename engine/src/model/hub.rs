//! Models by hub id (`org/name`), through `hf-hub` and its cache.
//!
//! The usual variables count: `HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT`, `HF_TOKEN`,
//! `HF_HUB_OFFLINE`, `HF_HUB_DOWNLOAD_TIMEOUT`. What is complete in the cache is taken from there without a word to the hub;
//! only the files that an engine reads are fetched, the small ones before the weights.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::Duration,
};

use hf_hub::{
    Cache, Repo, RepoType,
    api::{
        Progress,
        sync::{Api, ApiBuilder, ApiError, ApiRepo},
    },
};

use super::weights::{self, INDEX, SINGLE};
use crate::error::EngineError;

/// Small files that a model may lack.
const OPTIONAL: &[&str] = &[
    "generation_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "tokenizer_config.json",
];
/// Small files that it must have; the config is last, so that its presence says that all were fetched.
const REQUIRED: &[&str] = &["tokenizer.json", "config.json"];
/// Attempts of one download after the first.
const RETRIES: usize = 2;
/// How long the hub may be silent. More than the 10 s of the hub's own client, because looking up
/// the name, connecting and two redirects go by without a sign of life that we could see.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What the environment says about the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubEnv {
    /// Directory with `models--org--name` in it.
    pub cache: PathBuf,
    /// Where to fetch from; none is the public hub.
    pub endpoint: Option<String>,
    /// Sent to the endpoint.
    pub token: Option<String>,
    /// Look in the cache only.
    pub offline: bool,
    /// How long the hub may be silent within a download.
    pub silence_max: Duration,
}

impl HubEnv {
    /// Reads the variables through `get`, so that a test can give its own.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Self, EngineError> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let home = get("HF_HOME").map(PathBuf::from).or_else(|| {
            let cache = get("XDG_CACHE_HOME").map(PathBuf::from);
            cache
                .or_else(|| get("HOME").map(|home| Path::new(&home).join(".cache")))
                .map(|dir| dir.join("huggingface"))
        });
        let cache = get("HF_HUB_CACHE")
            .map(PathBuf::from)
            .or_else(|| home.as_ref().map(|home| home.join("hub")));
        let cache = cache.ok_or_else(|| {
            EngineError::bad_input(
                "model",
                "a hub id needs a cache directory: set HF_HOME, or HOME",
            )
        })?;
        let token = get("HF_TOKEN").or_else(|| {
            let text = std::fs::read_to_string(home?.join("token")).ok()?;
            Some(text.trim().to_owned()).filter(|token| !token.is_empty())
        });
        let offline = get("HF_HUB_OFFLINE").is_some_and(|value| {
            matches!(
                value.to_ascii_uppercase().as_str(),
                "1" | "ON" | "YES" | "TRUE"
            )
        });
        let endpoint = get("HF_ENDPOINT").map(|url| url.trim_end_matches('/').to_owned());
        let silence_max = get("HF_HUB_DOWNLOAD_TIMEOUT")
            .and_then(|text| text.parse().ok())
            .filter(|seconds| *seconds > 0)
            .map_or(SILENCE_MAX, Duration::from_secs);
        Ok(Self {
            cache,
            endpoint,
            token,
            offline,
            silence_max,
        })
    }

    /// Reads the process's own variables.
    pub fn from_process() -> Result<Self, EngineError> {
        Self::from_variables(|name| std::env::var(name).ok())
    }
}

/// Whether a name has the form `org/name`.
pub fn is_id(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && part
                .chars()
                .all(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_'))
    };
    name.split_once('/')
        .is_some_and(|(owner, repo)| is_part(owner) && is_part(repo))
}

/// The directory with the small files of a model: config, tokenizer, template.
pub fn small_files(env: &HubEnv, id: &str) -> Result<PathBuf, EngineError> {
    let hub = Hub { env, id };
    if !REQUIRED.iter().all(|name| hub.cached(name).is_some()) {
        let api = hub.connect(REQUIRED)?;
        for name in OPTIONAL {
            hub.fetch_if_there(&api, name)?;
        }
        for name in REQUIRED {
            hub.fetch(&api, name)?;
        }
    }
    hub.directory()
}

/// The directory with all files of a model, weights included.
pub fn all_files(env: &HubEnv, id: &str) -> Result<PathBuf, EngineError> {
    let dir = fetch_all(env, id)?;
    // The hub may have moved on since the small files were cached: then everything is taken at its
    // newer commit.
    if small_files(env, id)? == dir {
        Ok(dir)
    } else {
        fetch_all(env, id)
    }
}

fn fetch_all(env: &HubEnv, id: &str) -> Result<PathBuf, EngineError> {
    let dir = small_files(env, id)?;
    let hub = Hub { env, id };
    if hub.cached(SINGLE).is_some() {
        return Ok(dir);
    }
    if hub.cached(INDEX).is_none() {
        let api = hub.connect(&[SINGLE])?;
        if hub.fetch_if_there(&api, SINGLE)?.is_some() {
            return Ok(dir);
        }
        hub.fetch(&api, INDEX)?;
    }
    let shards = weights::shards(&hub.cached(INDEX).unwrap_or_else(|| dir.join(INDEX)), id)?;
    let missing: Vec<&str> = shards
        .iter()
        .map(String::as_str)
        .filter(|name| hub.cached(name).is_none())
        .collect();
    if !missing.is_empty() {
        let api = hub.connect(&missing)?;
        for name in missing {
            hub.fetch(&api, name)?;
        }
    }
    Ok(dir)
}

struct Hub<'a> {
    env: &'a HubEnv,
    id: &'a str,
}

impl Hub<'_> {
    fn repo(&self) -> Repo {
        Repo::new(self.id.to_owned(), RepoType::Model)
    }

    fn cached(&self, name: &str) -> Option<PathBuf> {
        Cache::new(self.env.cache.clone())
            .repo(self.repo())
            .get(name)
    }

    fn directory(&self) -> Result<PathBuf, EngineError> {
        let config = self.cached("config.json");
        let dir = config.as_deref().and_then(Path::parent).map(Path::to_owned);
        dir.ok_or_else(|| {
            EngineError::model(
                self.id,
                "config.json is not in the cache after it was fetched",
            )
        })
    }

    /// A client of the hub, to fetch `wanted`; offline, an error that names the first one missing.
    fn connect(&self, wanted: &[&str]) -> Result<Api, EngineError> {
        if self.env.offline {
            let missing = wanted
                .iter()
                .find(|name| self.cached(name).is_none())
                .copied()
                .unwrap_or("config.json");
            let cache = self.env.cache.display();
            return Err(EngineError::model(
                self.id,
                format!(
                    "{missing} is not in the cache {cache}, and HF_HUB_OFFLINE forbids to fetch it"
                ),
            ));
        }
        let builder = ApiBuilder::from_cache(Cache::new(self.env.cache.clone()))
            .with_token(self.env.token.clone())
            .with_retries(RETRIES);
        let builder = match &self.env.endpoint {
            Some(endpoint) => builder.with_endpoint(endpoint.clone()),
            None => builder,
        };
        builder
            .build()
            .map_err(|error| self.failed("the hub's client", &error))
    }

    fn fetch(&self, api: &Api, name: &str) -> Result<PathBuf, EngineError> {
        match self.fetch_if_there(api, name)? {
            Some(path) => Ok(path),
            None => Err(EngineError::model(
                self.id,
                format!(
                    "{} is not there: no such model on the hub, or one without {name}",
                    api.repo(self.repo()).url(name)
                ),
            )),
        }
    }

    /// None if the hub says 404.
    fn fetch_if_there(&self, api: &Api, name: &str) -> Result<Option<PathBuf>, EngineError> {
        if let Some(path) = self.cached(name) {
            return Ok(Some(path));
        }
        tracing::info!("model {}: {name}", self.id);
        let repo = api.repo(self.repo());
        let url = repo.url(name);
        let silent = |what: String| EngineError::model(self.id, format!("{url}: {what}"));
        let outcome = download(repo, name, self.env.silence_max).map_err(silent)?;
        match outcome {
            Ok(path) => Ok(Some(path)),
            Err(ApiError::RequestError(error))
                if matches!(*error, ureq::Error::StatusCode(404)) =>
            {
                Ok(None)
            }
            Err(error) => Err(self.failed(&url, &error)),
        }
    }

    fn failed(&self, what: &str, error: &ApiError) -> EngineError {
        let text = error.to_string();
        let hint = match error {
            ApiError::RequestError(error)
                if matches!(**error, ureq::Error::StatusCode(401 | 403)) =>
            {
                " (a gated or private model needs HF_TOKEN)"
            }
            _ => "",
        };
        EngineError::model(
            self.id,
            format!("{what}: {}{hint}", text.lines().next().unwrap_or_default()),
        )
    }
}

/// What a download's thread says.
enum Sign {
    /// Bytes came.
    Alive,
    Ended(Result<PathBuf, ApiError>),
}

/// Passes a download's signs of life on.
struct Pulse(SyncSender<Sign>);

impl Progress for Pulse {
    fn init(&mut self, _: usize, _: &str) {
        self.update(0);
    }

    fn update(&mut self, _: usize) {
        // A full channel holds a sign already.
        let _ = self.0.try_send(Sign::Alive);
    }

    fn finish(&mut self) {}
}

/// Downloads in a thread of its own under a watch: hf-hub sets no timeouts, and a hub that takes
/// the connection and never answers would hold us for ever. A thread given up ends with the
/// process, or when the hub closes.
fn download(
    repo: ApiRepo,
    name: &str,
    silence_max: Duration,
) -> Result<Result<PathBuf, ApiError>, String> {
    let (signs, watched) = sync_channel(1);
    let name = name.to_owned();
    thread::Builder::new()
        .name("hub".to_owned())
        .spawn(move || {
            let outcome = repo.download_with_progress(&name, Pulse(signs.clone()));
            let _ = signs.send(Sign::Ended(outcome));
        })
        .map_err(|error| format!("no thread to fetch it: {error}"))?;
    loop {
        match watched.recv_timeout(silence_max) {
            Ok(Sign::Alive) => {}
            Ok(Sign::Ended(outcome)) => return Ok(outcome),
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("the hub was silent for {silence_max:?}"));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err("the hub's answer makes no sense".to_owned());
            }
        }
    }
}
