//! The name under which a server of others serves its model: asked at `/v1/models`.
//!
//! Nothing here is measured. When to ask, and what a server without an answer means for a run, is
//! [`super::ready`]'s.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use contracts::worker::Health;
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::load::Target;
use crate::process;

/// One question, answer included.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);
/// Pause between questions to a server that is loading.
const PAUSE: Duration = Duration::from_millis(500);
/// A list of models, at most: gateways serve hundreds.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Names that an error lists, at most.
const NAMES_SHOWN: usize = 12;

/// Asks one server, with the headers that its requests will have.
pub struct Asker<'a> {
    /// Without a slash at its end, and without `/v1`.
    base: String,
    headers: &'a BTreeMap<String, String>,
    client: Client,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Silence {
    /// Another question may be answered.
    NotYet(String),
    /// None will.
    Final(String),
}

#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
}

impl<'a> Asker<'a> {
    /// `url` with or without `/v1`.
    pub fn new(url: &str, headers: &'a BTreeMap<String, String>) -> Result<Self, String> {
        let target = Target::parse(url).map_err(|error| error.to_string())?;
        let client = process::http_client(ATTEMPT_LIMIT).map_err(|error| error.to_string())?;
        Ok(Self {
            base: target.base_url(),
            headers,
            client,
        })
    }

    /// The names of `/v1/models`; none if the server has no such list. A server that is loading is
    /// asked again, for at most `wait`.
    pub async fn models(&self, wait: Duration) -> Result<Option<Vec<String>>, String> {
        let mut last = "none was answered".to_owned();
        let ask = async {
            loop {
                match self.list().await {
                    Ok(names) => return Ok(names),
                    Err(Silence::Final(why)) => return Err(why),
                    Err(Silence::NotYet(why)) => last = why,
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        match tokio::time::timeout(wait, ask).await {
            Ok(answer) => answer,
            Err(_) => Err(format!(
                "{}/v1/models: not ready within {} s: {last}",
                self.base,
                wait.as_secs_f64()
            )),
        }
    }

    /// What the server says of itself, if it is one of ours.
    pub async fn health(&self) -> Option<Health> {
        let answer = self.get("/health").await.ok()?;
        match answer.status() {
            StatusCode::OK => json(answer).await,
            _ => None,
        }
    }

    async fn list(&self) -> Result<Option<Vec<String>>, Silence> {
        let url = format!("{}/v1/models", self.base);
        let answer = match self.get("/v1/models").await {
            Ok(answer) => answer,
            Err(error) => {
                let said = format!("{url}: {}", process::reason(&error, ATTEMPT_LIMIT));
                return Err(match error.is_timeout() {
                    true => Silence::NotYet(said),
                    false => Silence::Final(said),
                });
            }
        };
        let status = answer.status();
        let said = format!("{url} answers HTTP {status}");
        if status == StatusCode::OK {
            let list: Option<List> = json(answer).await;
            return Ok(list.map(|list| list.data.into_iter().map(|entry| entry.id).collect()));
        }
        if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
            let said = format!("{said}; it wants another API key or header");
            return Err(Silence::Final(said));
        }
        if status.is_redirection() {
            let to = answer.headers().get(reqwest::header::LOCATION);
            let to = to.and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
            let said = format!("{said}, a redirect to {to}; give the address of the server itself");
            return Err(Silence::Final(said));
        }
        if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
            || status == StatusCode::TOO_MANY_REQUESTS
        {
            return Err(Silence::NotYet(said));
        }
        Ok(None)
    }

    async fn get(&self, path: &str) -> reqwest::Result<Response> {
        let mut request = self.client.get(format!("{}{path}", self.base));
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        request.send().await
    }
}

/// A body of bounded length, if it is what is looked for.
async fn json<T: DeserializeOwned>(mut answer: Response) -> Option<T> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.ok()? {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&body).ok()
}

/// The name to ask for: the only one, or the one that means `model`, a path or a name. A server that
/// lists none is asked for `model`.
pub fn choose(names: &[String], model: &str) -> Result<String, String> {
    if names.is_empty() {
        return Ok(model.to_owned());
    }
    if let [only] = names {
        return Ok(only.clone());
    }
    if names.iter().any(|name| name == model) {
        return Ok(model.to_owned());
    }
    let meant: Vec<&String> = names.iter().filter(|name| means(name, model)).collect();
    if let [only] = meant.as_slice() {
        return Ok((*only).clone());
    }
    let mut shown: Vec<&str> = names.iter().map(String::as_str).take(NAMES_SHOWN).collect();
    if names.len() > NAMES_SHOWN {
        shown.push("…");
    }
    let found = if meant.is_empty() {
        "none"
    } else {
        "more than one"
    };
    Err(format!(
        "the server serves several models, and {found} of them is named like {model}: {}; say which with served_name",
        shown.join(", ")
    ))
}

/// Whether the name of a served model is that of `model`, folders and `.gguf` left aside.
pub fn means(name: &str, model: &str) -> bool {
    name == model || bare(name) == bare(model)
}

fn bare(name: &str) -> &str {
    let last = Path::new(name).file_name().and_then(|last| last.to_str());
    let last = last.unwrap_or(name);
    last.strip_suffix(".gguf").unwrap_or(last)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn chosen(names: &[&str], model: &str) -> Result<String, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        choose(&names, model)
    }

    #[test]
    fn the_only_model_or_the_one_that_is_meant() {
        assert_eq!(chosen(&[], "m").unwrap(), "m");
        assert_eq!(chosen(&["gpt"], "/models/a.gguf").unwrap(), "gpt");
        assert_eq!(chosen(&["b", "a"], "a").unwrap(), "a");
        assert_eq!(chosen(&["b", "a"], "/models/a.gguf").unwrap(), "a");
        assert_eq!(chosen(&["x/b", "x/a"], "y/a").unwrap(), "x/a");
        // The full name is stronger than its last part.
        assert_eq!(chosen(&["y/a", "x/a"], "x/a").unwrap(), "x/a");
        let error = chosen(&["b", "c"], "a").unwrap_err();
        assert!(
            error.contains("none of them") && error.contains("b, c"),
            "{error}"
        );
        let error = chosen(&["y/a", "x/a"], "a").unwrap_err();
        assert!(error.contains("more than one"), "{error}");
        let many: Vec<String> = (0..40).map(|n| n.to_string()).collect();
        let error = choose(&many, "a").unwrap_err();
        assert!(error.contains("11, …") && !error.contains("12"), "{error}");
    }

    #[test]
    fn all_forms_of_an_address_are_one() {
        let headers = BTreeMap::new();
        for url in [
            "http://h:1",
            "http://h:1/",
            "http://h:1/v1",
            "http://h:1/v1/",
        ] {
            assert_eq!(Asker::new(url, &headers).unwrap().base, "http://h:1");
        }
        let asker = Asker::new("https://h/llm/v1", &headers).unwrap();
        assert_eq!(asker.base, "https://h/llm");
    }
}
