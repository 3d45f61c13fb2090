//! A Llama `.gguf` file: as stored, by candle's quantised model, or dequantised into a plain one.
//!
//! candle's reader of quantised models ignores what it does not want (biases, scaled rotary
//! embeddings, experts in the new layout); here such files are refused by name, or by
//! [`super::candle_limits`] where our decoder can run them. The tokenizer inside the file is left to
//! [`crate::text`].

use std::{
    collections::HashMap,
    fs::File,
    io::BufReader,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Mutex,
};

use candle_core::{
    DType, Device, Shape, Tensor,
    quantized::gguf_file::{Content, TensorInfo, Value},
};
use candle_nn::{Init, var_builder::SimpleBackend};
use candle_transformers::models::quantized_llama;

use super::{
    candle_limits,
    config::Config,
    forward::Forward,
    gguf_metadata::Metadata,
    rope::RopeScaling,
    rows::Rows,
    tensors::{self, TensorSpec},
};
use crate::error::EngineError;

/// A number for each rotary frequency to be divided by: Llama 3's scaling (3.1 and later), computed
/// by the program that wrote the file.
pub(super) const ROPE_DIVISORS: &str = "rope_freqs.weight";

/// An open file: its metadata and the place of its tensors.
pub struct Gguf {
    path: PathBuf,
    model: String,
    content: Content,
    config: Config,
}

impl Gguf {
    /// Reads the head of a file and checks that it is a model that can be run.
    pub fn open(path: &Path, model: &str) -> Result<Self, EngineError> {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        let broken = |what: String| EngineError::model(model, format!("{name}: {what}"));
        let corrupt = |what: String| broken(format!("corrupt or truncated gguf file: {what}"));
        let file = File::open(path).map_err(|error| broken(error.to_string()))?;
        let size = file
            .metadata()
            .map_err(|error| broken(error.to_string()))?
            .len();
        // The library panics on an alignment of 0.
        let read = || Content::read(&mut BufReader::new(file));
        let content = catch_unwind(AssertUnwindSafe(read))
            .map_err(|_| corrupt("its head makes no sense".to_owned()))?
            .map_err(|error| corrupt(first_line(&error)))?;
        if let Some(tensor) = beyond_the_end(&content, size) {
            return Err(corrupt(format!("tensor {tensor} ends beyond its end")));
        }
        let config = Metadata {
            model,
            values: &content.metadata,
        }
        .config(&content)?;
        let mut gguf = Self {
            path: path.to_owned(),
            model: model.to_owned(),
            content,
            config,
        };
        gguf.check_tensors()?;
        gguf.read_rope_divisors()?;
        gguf.config
            .check_rope()
            .map_err(|message| EngineError::model(model, message))?;
        Ok(gguf)
    }

    /// The model's shape; its context is what the file says.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// All metadata, for the tokenizer.
    pub fn metadata(&self) -> &HashMap<String, Value> {
        &self.content.metadata
    }

    /// The type that most weights are stored in: `q4_1`.
    pub fn stored_type(&self) -> String {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for info in self.content.tensor_infos.values() {
            *counts
                .entry(format!("{:?}", info.ggml_dtype).to_lowercase())
                .or_default() += info.shape.elem_count();
        }
        counts
            .into_iter()
            .max_by_key(|(name, count)| (*count, name.clone()))
            .map(|(name, _)| name)
            .unwrap_or_default()
    }

    /// The context of [`Gguf::as_stored`]: the tables of candle's quantised model end at 4096 positions.
    pub fn context_as_stored(&self) -> usize {
        self.config.context.min(quantized_llama::MAX_SEQ_LEN)
    }

    /// candle's quantised model over the weights as they are.
    ///
    /// # Errors
    /// A damaged file, or a shape that candle's model would compute wrongly.
    pub fn as_stored(self, device: &Device) -> Result<Forward, EngineError> {
        candle_limits::check(&self.config, &self.model)?;
        let config = Config {
            context: self.context_as_stored(),
            ..self.config.clone()
        };
        let mut reader = self.reader()?;
        let weights = quantized_llama::ModelWeights::from_gguf(self.content, &mut reader, device)
            .map_err(|error| EngineError::model(&self.model, first_line(&error)))?;
        Ok(Forward::quantized(weights, &config, device))
    }

    /// The weights as plain tensors under Hugging Face's names.
    pub fn dequantised(self) -> Result<Dequantised, EngineError> {
        let reader = Mutex::new(self.reader()?);
        Ok(Dequantised {
            content: self.content,
            config: self.config,
            reader,
        })
    }

    fn reader(&self) -> Result<BufReader<File>, EngineError> {
        let file = File::open(&self.path)
            .map_err(|error| EngineError::model(&self.model, error.to_string()))?;
        Ok(BufReader::new(file))
    }

    /// Exactly the tensors of this shape: candle would fall back on, or ignore, what differs.
    fn check_tensors(&self) -> Result<(), EngineError> {
        let expected = tensors::expected(&self.config);
        let mut known = Vec::with_capacity(expected.len());
        for TensorSpec { name, shape } in &expected {
            let stored = stored_name(name);
            let Some(info) = self.content.tensor_infos.get(&stored) else {
                return Err(EngineError::model(
                    &self.model,
                    format!("tensor {stored} is missing from the file"),
                ));
            };
            if info.shape.dims() != shape {
                return Err(EngineError::model(
                    &self.model,
                    format!(
                        "tensor {stored} has shape {:?}, and the metadata says {shape:?}",
                        info.shape.dims()
                    ),
                ));
            }
            known.push(stored);
        }
        match self
            .content
            .tensor_infos
            .keys()
            .filter(|name| !known.contains(name) && *name != ROPE_DIVISORS)
            .min()
        {
            None => Ok(()),
            Some(name) => Err(EngineError::Unsupported {
                what: format!("model {}: tensor {name}", self.model),
                why: "a llama model has no such tensor here, and without it answers might be wrong"
                    .to_owned(),
            }),
        }
    }

    /// Takes the divisors of the rotary frequencies into the config, if the file has any.
    fn read_rope_divisors(&mut self) -> Result<(), EngineError> {
        let Some(info) = self.content.tensor_infos.get(ROPE_DIVISORS) else {
            return Ok(());
        };
        let broken = |what: String| {
            EngineError::model(&self.model, format!("tensor {ROPE_DIVISORS} {what}"))
        };
        if self.config.rope_scaling != RopeScaling::None {
            return Err(EngineError::Unsupported {
                what: format!("model {}: tensor {ROPE_DIVISORS}", self.model),
                why: format!(
                    "its metadata names a {} scaling too",
                    self.config.rope_scaling.name()
                ),
            });
        }
        let (dims, half) = (info.shape.dims(), self.config.head_dim / 2);
        if dims != [half] {
            return Err(broken(format!("has shape {dims:?}, not [{half}]")));
        }
        let divisors: Vec<f32> = self
            .content
            .tensor(&mut self.reader()?, ROPE_DIVISORS, &Device::Cpu)
            .and_then(|tensor| tensor.dequantize(&Device::Cpu)?.to_vec1())
            .map_err(|error| broken(first_line(&error)))?;
        if let Some(number) = divisors
            .iter()
            .find(|number| !(number.is_finite() && **number > 0.0))
        {
            return Err(broken(format!(
                "holds {number}, which nothing can be divided by"
            )));
        }
        self.config.rope_scaling = RopeScaling::Divided(divisors);
        Ok(())
    }
}

/// Tensors of a file, dequantised one by one as they are asked for.
pub struct Dequantised {
    content: Content,
    config: Config,
    reader: Mutex<BufReader<File>>,
}

impl Dequantised {
    fn load(&self, name: &str, device: &Device) -> candle_core::Result<Tensor> {
        let mut reader = self
            .reader
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let tensor = self
            .content
            .tensor(&mut *reader, &stored_name(name), device)?
            .dequantize(device)?;
        if name.ends_with("q_proj.weight") {
            unpermute(&tensor, self.config.heads)
        } else if name.ends_with("k_proj.weight") {
            unpermute(&tensor, self.config.kv_heads)
        } else {
            Ok(tensor)
        }
    }
}

impl Rows for Dequantised {}

impl SimpleBackend for Dequantised {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let tensor = self.get_unchecked(name, dtype, device)?;
        if *tensor.shape() == shape {
            Ok(tensor)
        } else {
            candle_core::bail!("{name} is {tensor:?}, not {shape:?}")
        }
    }

    fn get_unchecked(
        &self,
        name: &str,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        self.load(name, device)?.to_dtype(dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.content.tensor_infos.contains_key(&stored_name(name))
    }
}

/// llama.cpp stores the rows of q and k so that a rotary pair lies side by side; Hugging Face's
/// order has the halves of a head apart. `[heads, half, 2, in]` -> `[heads, 2, half, in]`.
fn unpermute(weight: &Tensor, heads: usize) -> candle_core::Result<Tensor> {
    let (rows, columns) = weight.dims2()?;
    weight
        .reshape((heads, rows / heads / 2, 2, columns))?
        .transpose(1, 2)?
        .contiguous()?
        .reshape((rows, columns))
}

/// llama.cpp's name of a tensor, from Hugging Face's.
fn stored_name(name: &str) -> String {
    match name {
        tensors::EMBEDDING => return "token_embd.weight".to_owned(),
        tensors::FINAL_NORM => return "output_norm.weight".to_owned(),
        tensors::HEAD => return "output.weight".to_owned(),
        _ => {}
    }
    let Some((layer, part)) = name
        .strip_prefix("model.layers.")
        .and_then(|rest| rest.split_once('.'))
    else {
        return name.to_owned();
    };
    let part = match part {
        "input_layernorm.weight" => "attn_norm.weight",
        "self_attn.q_proj.weight" => "attn_q.weight",
        "self_attn.k_proj.weight" => "attn_k.weight",
        "self_attn.v_proj.weight" => "attn_v.weight",
        "self_attn.o_proj.weight" => "attn_output.weight",
        "post_attention_layernorm.weight" => "ffn_norm.weight",
        "mlp.gate_proj.weight" => "ffn_gate.weight",
        "mlp.up_proj.weight" => "ffn_up.weight",
        "mlp.down_proj.weight" => "ffn_down.weight",
        other => other,
    };
    format!("blk.{layer}.{part}")
}

/// A tensor whose data the file does not hold: found before loading, where candle would panic.
fn beyond_the_end(content: &Content, size: u64) -> Option<&str> {
    let is_beyond = |info: &TensorInfo| {
        let dims = info.shape.dims().iter();
        let elements = dims.fold(1_u64, |count, size| count.saturating_mul(*size as u64));
        let blocks = elements / info.ggml_dtype.block_size() as u64;
        let bytes = blocks.saturating_mul(info.ggml_dtype.type_size() as u64);
        let start = content.tensor_data_offset.saturating_add(info.offset);
        start.saturating_add(bytes) > size
    };
    let mut beyond = content
        .tensor_infos
        .iter()
        .filter(|(_, info)| is_beyond(info));
    beyond.next().map(|(name, _)| name.as_str())
}

fn first_line(error: &candle_core::Error) -> String {
    error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}
