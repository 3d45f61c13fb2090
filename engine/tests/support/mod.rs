//! What the engine's tests share: the vectors of transformers' answers, copies of small models
//! with a change, and short ways to load.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(dead_code, reason = "each test program uses a part")]

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use contracts::{
    generate::{FinishReason, SamplingParams},
    run::Device,
};
use engine::{
    chapters::{self, Engine, Setup},
    error::EngineError,
    model::{self, Loaded, ModelRequest},
};
use safetensors::{Dtype, SafeTensors, View};
use serde_json::Value;

/// Largest difference of a logit, as the vectors' own `tolerance` says.
pub const TOLERANCE: f32 = 2e-3;

/// One prompt and what transformers makes of it.
#[derive(serde::Deserialize)]
pub struct Case {
    pub prompt: String,
    pub input_ids: Vec<u32>,
    pub greedy_ids: Vec<u32>,
    pub greedy_text: String,
    pub finish_reason: FinishReason,
    pub logits_after_prompt: Vec<f32>,
    pub logits_at_end: Vec<f32>,
}

#[derive(serde::Deserialize)]
pub struct Expected {
    pub max_new_tokens: u32,
    pub cases: Vec<Case>,
}

/// The models with known answers, one folder each: ours, or those of the folder that
/// `CHAPTERBENCH_ENGINE_VECTORS` names.
pub fn vectors() -> Vec<(PathBuf, Expected)> {
    let root = std::env::var_os("CHAPTERBENCH_ENGINE_VECTORS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors"),
        PathBuf::from,
    );
    let mut dirs: Vec<PathBuf> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    dirs.retain(|dir| dir.join("expected.json").is_file());
    dirs.sort();
    assert!(!dirs.is_empty(), "{} holds no vectors", root.display());
    let read = |dir: &PathBuf| {
        serde_json::from_slice(&fs::read(dir.join("expected.json")).unwrap()).unwrap()
    };
    dirs.into_iter()
        .map(|dir| (dir.clone(), read(&dir)))
        .collect()
}

/// Vectors that candle's own models can't run.
const BEYOND_CANDLE: [&str; 5] = [
    "tiny-llama-bias",
    "tiny-llama-head-dim",
    "tiny-llama-linear",
    "tiny-qwen2-yarn",
    "tiny-qwen3-yarn",
];

/// Whether candle's own models can run a vector's model.
pub fn is_candles(dir: &Path) -> bool {
    let name = dir.file_name().unwrap().to_str().unwrap();
    !BEYOND_CANDLE.contains(&name)
}

/// One of our own copies.
pub fn vector(name: &str) -> (PathBuf, Expected) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(name);
    let expected = serde_json::from_slice(&fs::read(dir.join("expected.json")).unwrap()).unwrap();
    (dir, expected)
}

pub fn request(name: impl AsRef<Path>) -> ModelRequest {
    let name = name.as_ref().to_str().unwrap().to_owned();
    ModelRequest {
        name,
        dtype: None,
        device: Device::Cpu,
        threads: None,
    }
}

pub fn load(name: impl AsRef<Path>) -> Loaded {
    model::load(&request(name)).unwrap()
}

pub fn load_error(name: impl AsRef<Path>) -> String {
    match model::load(&request(&name)) {
        Ok(_) => unreachable!("{} loads", name.as_ref().display()),
        Err(error) => one_line(&error),
    }
}

/// An error's text, which must be one line.
pub fn one_line(error: &EngineError) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n') && !text.is_empty(), "{text:?}");
    text
}

pub fn build(chapter: &str, model: impl AsRef<Path>) -> Box<dyn Engine> {
    try_build(chapter, model, &[]).unwrap()
}

/// With options of the chapter's own.
pub fn build_with(
    chapter: &str,
    model: impl AsRef<Path>,
    options: &[(&str, usize)],
) -> Box<dyn Engine> {
    try_build(chapter, model, options).unwrap()
}

pub fn try_build(
    chapter: &str,
    model: impl AsRef<Path>,
    options: &[(&str, usize)],
) -> Result<Box<dyn Engine>, EngineError> {
    let own = |(name, value): &(&str, usize)| ((*name).to_owned(), value.to_string());
    let setup = Setup {
        model: request(model),
        options: options.iter().map(own).collect(),
    };
    (chapters::find(chapter).unwrap().build)(setup)
}

pub fn greedy(max_tokens: u32) -> SamplingParams {
    SamplingParams {
        max_tokens,
        ..SamplingParams::default()
    }
}

/// Logits after the first prompt of a model.
pub fn first_logits(model: impl AsRef<Path>) -> Vec<f32> {
    let mut loaded = load(model);
    loaded
        .forward
        .forward(&vector("tiny-llama").1.cases[0].input_ids, 0)
        .unwrap()
}

pub fn largest_difference(left: &[f32], right: &[f32]) -> f32 {
    assert_eq!(left.len(), right.len());
    left.iter()
        .zip(right)
        .map(|(left, right)| (left - right).abs())
        .fold(0.0, f32::max)
}

/// A copy of a vector's model that a test may change.
pub struct Copy {
    dir: tempfile::TempDir,
}

impl Copy {
    pub fn of(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            fs::copy(vector(name).0.join(file), dir.path().join(file)).unwrap();
        }
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Changes the config.
    pub fn config(self, edit: impl FnOnce(&mut serde_json::Map<String, Value>)) -> Self {
        let mut config: Value =
            serde_json::from_slice(&fs::read(self.file("config.json")).unwrap()).unwrap();
        edit(config.as_object_mut().unwrap());
        fs::write(self.file("config.json"), config.to_string()).unwrap();
        self
    }

    /// Writes the weights anew: all tensors pass through `edit`.
    pub fn weights(self, edit: impl FnOnce(&mut BTreeMap<String, Raw>)) -> Self {
        let mut tensors = read_weights(&self.file("model.safetensors"));
        edit(&mut tensors);
        write_weights(&self.file("model.safetensors"), tensors);
        self
    }
}

/// A tensor as bytes.
#[derive(Clone)]
pub struct Raw {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Raw {
    pub fn floats(&self) -> Vec<f32> {
        assert_eq!(self.dtype, Dtype::F32);
        self.bytes
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
            .collect()
    }

    pub fn with(&self, dtype: Dtype, bytes: Vec<u8>) -> Self {
        Self {
            dtype,
            shape: self.shape.clone(),
            bytes,
        }
    }
}

impl View for Raw {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

pub fn read_weights(path: &Path) -> BTreeMap<String, Raw> {
    let bytes = fs::read(path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap().tensors();
    let raw = |view: &safetensors::tensor::TensorView<'_>| Raw {
        dtype: view.dtype(),
        shape: view.shape().to_vec(),
        bytes: view.data().to_vec(),
    };
    tensors
        .iter()
        .map(|(name, view)| (name.clone(), raw(view)))
        .collect()
}

pub fn write_weights(path: &Path, tensors: BTreeMap<String, Raw>) {
    fs::write(path, safetensors::serialize(tensors, None).unwrap()).unwrap();
}
