//! What is judged: chapters, engines, servers, and how each is set up and asked.

use std::collections::BTreeMap;

use clap::Args as ClapArgs;
use contracts::defaults;
use contracts::run::{Device, Dtype, EngineRef, Mode};
use serde_json::Value;

use super::between;
use crate::config::Config;
use crate::exit::usage;
use crate::plan::{Order, REPEAT_MAX};
use crate::values::{self, Modes};

/// What is judged.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Arms")]
pub struct ArmArgs {
    /// Chapters, each an arm: 1, ch02, …
    #[arg(long, value_delimiter = ',', value_name = "N[,N…]", value_parser = values::chapter,
          required_unless_present_any = ["engine", "url"])]
    chapter: Vec<String>,
    /// Engines that the agent's config names; with --chapter, other builds of ours that run it
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME…]")]
    engine: Vec<String>,
    /// A server that runs already and is left running; repeat it for more
    #[arg(long, value_name = "URL", conflicts_with_all = ["chapter", "engine"])]
    url: Vec<String>,
    /// With --url: the model's name there [default: the one that it lists]
    // Not `requires`: clap waives that where --chapter stands in for --url.
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
    /// offline (no HTTP), online or both [default: online]
    #[arg(long, value_parser = values::modes)]
    mode: Option<Modes>,
    /// Type of the weights: f32, f16, bf16 [default: f32 on a CPU, as stored otherwise]
    #[arg(long, value_parser = values::dtype, conflicts_with = "url")]
    dtype: Option<Dtype>,
    /// cpu, cuda:N or metal:N [default: cpu]
    #[arg(long, value_parser = values::device, conflicts_with = "url")]
    device: Option<Device>,
    /// Threads of the engine [default: all cores]
    #[arg(long, value_name = "N", conflicts_with = "url")]
    threads: Option<u32>,
    /// An option of this chapter, or a choice that the engine's entry in the agent's config offers
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair, conflicts_with = "url")]
    option: Vec<(String, String)>,
    /// Passes over the arms [default: 1]
    #[arg(long, value_name = "N")]
    repeat: Option<u32>,
    /// abba (A B, B A, …) or blocked (A A, B B) [default: abba]
    #[arg(long, value_parser = values::order)]
    order: Option<Order>,
}

/// How a server is asked.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "HTTP")]
pub struct HttpArgs {
    /// Don't ask for a stream
    #[arg(long)]
    no_stream: bool,
    /// Open a connection for each request; connecting then counts in the wall time
    #[arg(long)]
    no_keepalive: bool,
    /// A field of every request's body; the value is JSON where it is JSON, else a text
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::extra)]
    extra: Vec<(String, Value)>,
}

/// Fields that are a part of the work, or that measuring rests on, and how each is set.
const RESERVED: [(&str, &str); 11] = [
    ("model", "--model and --served-model-name"),
    ("messages", "--prompt, --prompts and the like"),
    ("prompt", "--prompt, --prompts and the like"),
    ("stream", "--no-stream"),
    ("max_tokens", "--max-tokens"),
    ("temperature", "--temperature"),
    ("top_k", "--top-k"),
    ("top_p", "--top-p"),
    ("seed", "--seed"),
    ("ignore_eos", "--ignore-eos"),
    ("n", "nothing: a request has one answer"),
];

/// The arms, before they are multiplied out.
pub struct Arms {
    pub engines: Vec<EngineRef>,
    pub modes: Vec<Mode>,
    pub dtype: Option<Dtype>,
    pub device: Device,
    pub threads: Option<u32>,
    pub options: BTreeMap<String, String>,
    pub repeat: u32,
    pub order: Order,
    /// What to call the model of a server where no `--model` says it.
    pub served_name: Option<String>,
}

impl Arms {
    /// Whether a server is measured that runs already.
    pub fn is_url(&self) -> bool {
        let is_url = |engine: &EngineRef| matches!(engine, EngineRef::Url { .. });
        self.engines.iter().any(is_url)
    }

    /// Whether anything goes over HTTP.
    pub fn online(&self) -> bool {
        self.modes.contains(&Mode::Online)
    }
}

/// Joins flags and settings.
///
/// # Errors
/// Usage errors that name the flag.
pub fn arms(config: &Config, args: ArmArgs) -> anyhow::Result<Arms> {
    let repeat = between(
        "--repeat",
        config.required("repeat", args.repeat, values::number)?,
        1,
        REPEAT_MAX,
    )?;
    if args.served_model_name.is_some() && args.url.is_empty() {
        return Err(usage(
            "--served-model-name: only with --url; give --model for engines that we start",
        ));
    }
    let modes = match (args.url.is_empty(), args.mode) {
        (true, mode) => config.required("mode", mode, values::modes)?.list(),
        (false, None | Some(Modes::One(Mode::Online))) => vec![Mode::Online],
        (false, Some(_)) => {
            return Err(usage(
                "--url with --mode: a server that runs already is online; leave --mode out",
            ));
        }
    };
    let threads = config.optional("threads", args.threads, values::number)?;
    let engines = if args.url.is_empty() {
        named(args.chapter, args.engine)
    } else {
        servers(args.url, args.served_model_name.as_deref())?
    };
    Ok(Arms {
        engines,
        modes,
        dtype: config.optional("dtype", args.dtype, values::dtype)?,
        device: config.required("device", args.device, values::device)?,
        threads: threads
            .map(|n| between("--threads", n, 1, defaults::THREADS_MAX))
            .transpose()?,
        options: options(args.option)?,
        repeat,
        order: config.required("order", args.order, values::order)?,
        served_name: args.served_model_name,
    })
}

/// Of one option given twice only one would count, and nobody would see which.
fn options(given: Vec<(String, String)>) -> anyhow::Result<BTreeMap<String, String>> {
    let mut options = BTreeMap::new();
    for (name, value) in given {
        if options.insert(name.clone(), value).is_some() {
            return Err(usage(format!("--option {name}: it is given twice")));
        }
    }
    Ok(options)
}

/// How a server is asked: whether for a stream, on how many connections, with what more.
pub struct Http {
    pub stream: bool,
    pub no_keepalive: bool,
    pub extra: BTreeMap<String, Value>,
}

/// Reads the flags; `online` says whether anything goes over HTTP.
///
/// # Errors
/// A field that is not for `--extra`; a flag that has nothing to act on.
pub fn http(args: HttpArgs, online: bool) -> anyhow::Result<Http> {
    let mut extra = BTreeMap::new();
    for (name, value) in args.extra {
        if let Some((_, flag)) = RESERVED.iter().find(|(reserved, _)| *reserved == name) {
            return Err(usage(format!("--extra {name}: that is set by {flag}")));
        }
        if extra.insert(name.clone(), value).is_some() {
            return Err(usage(format!("--extra {name}: it is given twice")));
        }
    }
    if extra.len() > defaults::EXTRAS_MAX {
        return Err(usage(format!(
            "--extra: at most {} of them",
            defaults::EXTRAS_MAX
        )));
    }
    for (flag, given) in [
        ("--extra", !extra.is_empty()),
        ("--no-keepalive", args.no_keepalive),
    ] {
        if given && !online {
            return Err(needs_online(flag));
        }
    }
    Ok(Http {
        stream: !args.no_stream,
        no_keepalive: args.no_keepalive,
        extra,
    })
}

/// A flag that only means something over HTTP or under load.
pub fn needs_online(flag: &str) -> anyhow::Error {
    usage(format!(
        "{flag} with --mode offline: `generate` takes one request at a time and has no HTTP; give --mode online or both"
    ))
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
