//! Which engines: chapters, those that an agent's config names, servers that run already.

use clap::Args as ClapArgs;
use contracts::run::EngineRef;

use crate::exit::usage;
use crate::values;

/// What is started, or asked where it runs.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Arms")]
pub struct EngineArgs {
    /// Chapters, each an arm: 1, ch02, …
    #[arg(long, value_delimiter = ',', value_name = "N[,N…]", value_parser = values::chapter)]
    chapter: Vec<String>,
    /// Engines that the agent's config names; with --chapter, other builds of ours that run it
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME…]")]
    engine: Vec<String>,
    /// A server that runs already and is left running; repeat it for more
    #[arg(long, value_name = "URL")]
    url: Vec<String>,
    /// With --url: the model's name there [default: the one that it lists]
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
}

impl EngineArgs {
    /// The engines in the order of their arms; none where none is named.
    ///
    /// # Errors
    /// Usage errors that name the flag.
    pub fn read(self) -> anyhow::Result<Vec<EngineRef>> {
        if self.served_model_name.is_some() && self.url.is_empty() {
            return Err(usage(
                "--served-model-name: only with --url; give --model for engines that we start",
            ));
        }
        for (flag, given) in [
            ("--chapter", !self.chapter.is_empty()),
            ("--engine", !self.engine.is_empty()),
        ] {
            if given && !self.url.is_empty() {
                return Err(usage(format!(
                    "--url with {flag}: for a session of both make the server an arm of its own, --arm 'NAME: --url URL'"
                )));
            }
        }
        if self.url.is_empty() {
            return Ok(named(self.chapter, self.engine));
        }
        servers(self.url, self.served_model_name.as_deref())
    }
}

/// Whether it is a server that runs already.
pub fn is_url(engine: &EngineRef) -> bool {
    matches!(engine, EngineRef::Url { .. })
}

/// Each chapter; or each named engine, with each chapter if there are any.
fn named(chapters: Vec<String>, names: Vec<String>) -> Vec<EngineRef> {
    if names.is_empty() {
        return chapters
            .into_iter()
            .map(|id| EngineRef::Chapter { id })
            .collect();
    }
    let chapters: Vec<Option<String>> = if chapters.is_empty() {
        vec![None]
    } else {
        chapters.into_iter().map(Some).collect()
    };
    names
        .into_iter()
        .flat_map(|name| {
            chapters
                .iter()
                .map(move |chapter| EngineRef::Named {
                    name: name.clone(),
                    chapter: chapter.clone(),
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

fn servers(urls: Vec<String>, served_name: Option<&str>) -> anyhow::Result<Vec<EngineRef>> {
    urls.into_iter()
        .map(|url| {
            check_url(&url)?;
            Ok(EngineRef::Url {
                url: url.trim_end_matches('/').to_owned(),
                served_name: served_name.map(str::to_owned),
            })
        })
        .collect()
}

/// A URL is stored and shown: it must hold no secret.
fn check_url(url: &str) -> anyhow::Result<()> {
    let write = "write it as http://HOST:PORT";
    // What is not a URL may still hold a secret: it is not repeated.
    let parsed = reqwest::Url::parse(url).map_err(|why| usage(format!("--url: {why}; {write}")))?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(usage(
            "--url: a user or a password in it would be stored; use --header or --api-key-file",
        ));
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(usage(format!("--url: it has a `?` or a `#`; {write}")));
    }
    if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
        return Err(usage(format!("--url {url}: {write}")));
    }
    Ok(())
}
