//! How an engine is set up and asked: what all arms of a command line have, and what one of them
//! has of its own over that.

use std::collections::BTreeMap;

use clap::Args as ClapArgs;
use contracts::defaults;
use contracts::run::{Arm, Device, Dtype, EngineRef, Mode};
use serde_json::Value;

use super::super::between;
use super::engines::is_url;
use super::needs_online;
use crate::config::Config;
use crate::exit::usage;
use crate::values::{self, Modes};

/// How an engine is set up.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Arms")]
pub struct SetupArgs {
    /// offline (no HTTP), online or both [default: online]
    #[arg(long, value_parser = values::modes)]
    mode: Option<Modes>,
    /// Type of the weights: f32, f16, bf16 [default: f32 on a CPU, as stored otherwise]
    #[arg(long, value_parser = values::dtype)]
    dtype: Option<Dtype>,
    /// cpu, cuda:N or metal:N [default: cpu]
    #[arg(long, value_parser = values::device)]
    device: Option<Device>,
    /// Threads of the engine [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// An option of this chapter, or a choice that the engine's entry in the agent's config offers
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    option: Vec<(String, String)>,
}

/// How a server is asked.
#[derive(Debug, Clone, ClapArgs)]
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
const RESERVED: [(&str, &str); 16] = [
    ("model", "--model and --served-model-name"),
    ("messages", "--prompt, --prompts and the like"),
    ("prompt", "--prompt, --prompts and the like"),
    ("stream", "--no-stream"),
    ("max_tokens", "--max-tokens"),
    ("temperature", "--temperature"),
    ("top_k", "--top-k"),
    ("top_p", "--top-p"),
    ("min_p", "--min-p"),
    ("repetition_penalty", "--repetition-penalty"),
    ("presence_penalty", "--presence-penalty"),
    ("frequency_penalty", "--frequency-penalty"),
    ("stop", "--stop"),
    ("seed", "--seed"),
    ("ignore_eos", "--ignore-eos"),
    ("n", "nothing: a request has one answer"),
];

impl SetupArgs {
    /// What has no meaning for a server that runs already.
    ///
    /// # Errors
    /// The first flag that is given all the same.
    pub fn fit_url(&self) -> anyhow::Result<()> {
        if !matches!(self.mode, None | Some(Modes::One(Mode::Online))) {
            return Err(usage(
                "--url with --mode: a server that runs already is online; leave --mode out",
            ));
        }
        for (flag, given) in [
            ("--dtype", self.dtype.is_some()),
            ("--device", self.device.is_some()),
            ("--threads", self.threads.is_some()),
            ("--option", !self.option.is_empty()),
        ] {
            if given {
                return Err(usage(format!(
                    "--url with {flag}: a server that runs already is set up already; leave {flag} out"
                )));
            }
        }
        Ok(())
    }
}

impl HttpArgs {
    /// Whether any of it is there to act on something; `online` says whether anything goes over
    /// HTTP.
    ///
    /// # Errors
    /// The flag that has nothing to act on.
    pub fn fit(&self, online: bool) -> anyhow::Result<()> {
        for (flag, given) in [
            ("--extra", !self.extra.is_empty()),
            ("--no-keepalive", self.no_keepalive),
        ] {
            if given && !online {
                return Err(needs_online(flag));
            }
        }
        Ok(())
    }
}

/// Everything about an arm but its engine.
#[derive(Debug, Clone)]
pub struct Setup {
    modes: Vec<Mode>,
    dtype: Option<Dtype>,
    device: Device,
    threads: Option<u32>,
    options: BTreeMap<String, String>,
    stream: bool,
    no_keepalive: bool,
    extra: BTreeMap<String, Value>,
}

impl Setup {
    /// What the command line and the settings say for all arms.
    ///
    /// # Errors
    /// Usage errors that name the flag or the setting.
    pub fn common(config: &Config, args: &SetupArgs, http: &HttpArgs) -> anyhow::Result<Self> {
        let set = Self {
            modes: config.required("mode", args.mode, values::modes)?.list(),
            dtype: config.optional("dtype", args.dtype, values::dtype)?,
            device: config.required("device", args.device, values::device)?,
            threads: config.optional("threads", args.threads, values::number)?,
            options: BTreeMap::new(),
            stream: true,
            no_keepalive: false,
            extra: BTreeMap::new(),
        };
        set.over(args, http)
    }

    /// The same with what is given over it.
    ///
    /// # Errors
    /// Usage errors that name the flag.
    pub fn over(mut self, args: &SetupArgs, http: &HttpArgs) -> anyhow::Result<Self> {
        if let Some(modes) = args.mode {
            self.modes = modes.list();
        }
        self.dtype = args.dtype.or(self.dtype);
        self.device = args.device.unwrap_or(self.device);
        self.threads = args.threads.or(self.threads);
        if let Some(threads) = self.threads {
            between("--threads", threads, 1, defaults::THREADS_MAX)?;
        }
        self.options.extend(once("--option", &args.option)?);
        self.stream &= !http.no_stream;
        self.no_keepalive |= http.no_keepalive;
        for (name, _) in &http.extra {
            if let Some((_, flag)) = RESERVED.iter().find(|(reserved, _)| reserved == name) {
                return Err(usage(format!("--extra {name}: that is set by {flag}")));
            }
        }
        self.extra.extend(once("--extra", &http.extra)?);
        if self.extra.len() > defaults::EXTRAS_MAX {
            let most = defaults::EXTRAS_MAX;
            return Err(usage(format!("--extra: at most {most} of them")));
        }
        Ok(self)
    }

    /// Whether its engines are asked over HTTP, in one of their modes at least.
    pub fn online(&self) -> bool {
        self.modes.contains(&Mode::Online)
    }

    /// An engine set up so, in each mode. A server that runs already is online, and no flag sets it
    /// up.
    pub fn arms(&self, name: Option<&str>, engine: &EngineRef) -> Vec<Arm> {
        if is_url(engine) {
            let asked = Self {
                dtype: None,
                device: Device::Cpu,
                threads: None,
                options: BTreeMap::new(),
                ..self.clone()
            };
            return vec![asked.arm(name, engine, Mode::Online)];
        }
        let arm = |mode: &Mode| self.arm(name, engine, *mode);
        self.modes.iter().map(arm).collect()
    }

    fn arm(&self, name: Option<&str>, engine: &EngineRef, mode: Mode) -> Arm {
        let online = mode == Mode::Online;
        let extra = if online {
            &self.extra
        } else {
            &BTreeMap::new()
        };
        Arm {
            name: name.map(str::to_owned),
            engine: engine.clone(),
            mode,
            dtype: self.dtype,
            device: self.device,
            threads: self.threads,
            stream: self.stream || !online,
            options: self.options.clone(),
            header_names: Vec::new(),
            extra: extra.clone(),
            no_keepalive: self.no_keepalive && online,
        }
    }
}

/// Of one that is given twice only one would count, and nobody would see which.
fn once<V: Clone>(flag: &str, given: &[(String, V)]) -> anyhow::Result<BTreeMap<String, V>> {
    let mut all = BTreeMap::new();
    for (name, value) in given {
        if all.insert(name.clone(), value.clone()).is_some() {
            return Err(usage(format!("{flag} {name}: it is given twice")));
        }
    }
    Ok(all)
}
