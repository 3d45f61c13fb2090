//! From a request to an open model: shape, tokenizer, device and type are known and checked, and the
//! weights can be read tensor by tensor. Running them is left to who asked.

use std::path::Path;

use candle_core::{DType, Device};
use candle_nn::var_builder::SimpleBackend;
use contracts::run::ModelFacts;

use super::{
    ModelRequest, candle_limits, check_vocabulary,
    config::Config,
    device, directory_sha256,
    dummy::{self, DummyWeights},
    facts,
    gguf::Gguf,
    gguf_sha256, hub, identity, open_directory,
    source::Source,
    weights::{self, Weights},
};
use crate::{error::EngineError, text::Text};

/// Whose code runs a model, which decides what can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// candle's own models.
    Candle,
    /// Our decoder.
    Decoder,
}

/// A model whose weights are still in their files.
pub struct Opened {
    /// Its tokenizer and chat template.
    pub text: Text,
    /// What it is.
    pub facts: ModelFacts,
    /// Its shape.
    pub config: Config,
    /// All tensors of [`super::tensors::expected`], by those names.
    pub weights: Box<dyn SimpleBackend>,
    /// The type to hold them in.
    pub dtype: DType,
    /// Where to compute.
    pub device: Device,
}

/// Opens a model.
///
/// # Errors
/// A model that is missing, damaged, or that `runner` cannot run right; a device that cannot be used;
/// a `.gguf` file without a dtype, whose weights could only be read as they are stored.
pub fn open(request: &ModelRequest, runner: Runner) -> Result<Opened, EngineError> {
    let place = Place {
        request,
        runner,
        threads: device::set_threads(request.threads)?,
        device: device::open(request.device)?,
    };
    match Source::of(&request.name)? {
        Source::Dummy(name) => place.dummy(&name),
        Source::Directory(dir) => place.directory(&dir),
        Source::Hub(id) => place.directory(&hub::all_files(&hub::HubEnv::from_process()?, &id)?),
        Source::Gguf(path) => place.gguf(&path),
    }
}

/// What is asked for, and where.
struct Place<'a> {
    request: &'a ModelRequest,
    runner: Runner,
    threads: u32,
    device: Device,
}

impl Place<'_> {
    fn directory(self, dir: &Path) -> Result<Opened, EngineError> {
        let model = &self.request.name;
        let (config, config_sha256, text) = open_directory(dir, model)?;
        self.check(&config)?;
        let files = weights::files(dir, model)?;
        let weights = Weights::open(&files, &config, model)?;
        let sha256 = directory_sha256(config_sha256, &text, &files, model)?;
        let dtype = self.dtype(&config, weights.stored_dtype())?;
        let held = device::name(dtype).to_owned();
        Ok(self.opened(text, config, Box::new(weights), dtype, sha256, held))
    }

    fn gguf(self, path: &Path) -> Result<Opened, EngineError> {
        let model = &self.request.name;
        if self.request.dtype.is_none() {
            return Err(EngineError::Unsupported {
                what: format!("model {model} as stored"),
                why: "quantised arithmetic comes with a later chapter; add --dtype f32".to_owned(),
            });
        }
        let gguf = Gguf::open(path, model)?;
        let text = Text::from_gguf(model, gguf.metadata())?;
        let config = gguf.config().clone();
        check_vocabulary(&config, &text, model)?;
        self.check(&config)?;
        let sha256 = gguf_sha256(path, model)?;
        let dtype = self.dtype(&config, DType::F32)?;
        let held = format!("{} from {}", device::name(dtype), gguf.stored_type());
        let weights = Box::new(gguf.dequantised()?);
        Ok(self.opened(text, config, weights, dtype, sha256, held))
    }

    fn dummy(self, name: &str) -> Result<Opened, EngineError> {
        let config = dummy::config(name)?;
        let text = Text::made(config.vocab)?;
        let dtype = self.dtype(&config, DType::F32)?;
        // The weights follow from the name, the rules that make them, and the tokenizer's visible ids.
        let made = format!("{name} {}", dummy::GENERATION);
        let sha256 = identity::of_parts([
            ("dummy", identity::of_bytes(made.as_bytes())),
            ("tokenizer", text.sha256().to_owned()),
        ]);
        let weights = Box::new(DummyWeights::new(&config, &text));
        let held = device::name(dtype).to_owned();
        Ok(self.opened(text, config, weights, dtype, sha256, held))
    }

    /// Refuses what only the other runner could run.
    fn check(&self, config: &Config) -> Result<(), EngineError> {
        match self.runner {
            Runner::Candle => candle_limits::check(config, &self.request.name),
            Runner::Decoder => Ok(()),
        }
    }

    fn dtype(&self, config: &Config, stored: DType) -> Result<DType, EngineError> {
        let asked = self.request.dtype;
        match self.runner {
            Runner::Candle => candle_limits::dtype(asked, &self.device, config.family, stored),
            Runner::Decoder => Ok(device::dtype(asked, &self.device, stored)),
        }
    }

    /// `held`: how the facts name the weights' type.
    fn opened(
        self,
        text: Text,
        config: Config,
        weights: Box<dyn SimpleBackend>,
        dtype: DType,
        sha256: String,
        held: String,
    ) -> Opened {
        Opened {
            facts: facts(self.request, &config, &text, sha256, held, self.threads),
            text,
            config,
            weights,
            dtype,
            device: self.device,
        }
    }
}
