//! Weights from safetensors files: memory-mapped, checked against the model's shape before
//! anything is loaded, converted to the type asked for tensor by tensor.
//!
//! Which tensors there must be is left to [`super::tensors`].

use std::{
    collections::{BTreeSet, HashMap},
    fs::File,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::{Init, var_builder::SimpleBackend};
use memmap2::Mmap;
use safetensors::{Dtype as FileDtype, SafeTensors};
use serde_json::Value;

use super::{
    config::Config,
    tensors::{self, HEAD, TensorSpec},
};
use crate::error::EngineError;

/// The single file of a small model.
pub const SINGLE: &str = "model.safetensors";
/// The list of a sharded model's files.
pub const INDEX: &str = "model.safetensors.index.json";
/// Files of one model, at most: beyond this an index is damaged.
const SHARDS_MAX: usize = 4096;
/// An index is names only; a larger file is damaged.
const INDEX_BYTES_MAX: u64 = 64 << 20;

/// The files of the weights in a model's directory: the single one, or those that the index names.
pub fn files(dir: &Path, model: &str) -> Result<Vec<PathBuf>, EngineError> {
    let single = dir.join(SINGLE);
    if single.is_file() {
        return Ok(vec![single]);
    }
    let index = dir.join(INDEX);
    if !index.is_file() {
        return Err(EngineError::model(
            model,
            format!("{} has neither {SINGLE} nor {INDEX}", dir.display()),
        ));
    }
    let shards = shards(&index, model)?;
    match shards.iter().find(|name| !dir.join(name).is_file()) {
        Some(missing) => Err(EngineError::model(
            model,
            format!("{INDEX} names {missing}, which is missing"),
        )),
        None => Ok(shards.iter().map(|name| dir.join(name)).collect()),
    }
}

/// The file names in an index, sorted.
pub fn shards(index: &Path, model: &str) -> Result<Vec<String>, EngineError> {
    let broken = |what: String| EngineError::model(model, format!("{INDEX}: {what}"));
    let size = std::fs::metadata(index)
        .map_err(|error| broken(error.to_string()))?
        .len();
    if size > INDEX_BYTES_MAX {
        return Err(broken(format!(
            "{size} bytes are more than an index can have"
        )));
    }
    let bytes = std::fs::read(index).map_err(|error| broken(error.to_string()))?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| broken(format!("not JSON: {error}")))?;
    let map = value.get("weight_map").and_then(Value::as_object);
    let map =
        map.ok_or_else(|| broken("field weight_map is missing or not an object".to_owned()))?;
    let mut names = BTreeSet::new();
    for (tensor, file) in map {
        // A plain file name: an index must not reach outside its directory.
        let name = file.as_str().filter(|name| {
            name.ends_with(".safetensors") && !name.contains(['/', '\\']) && !name.starts_with('.')
        });
        names.insert(
            name.ok_or_else(|| {
                broken(format!("{tensor} is in {file}, not in a safetensors file"))
            })?
            .to_owned(),
        );
    }
    if names.is_empty() || names.len() > SHARDS_MAX {
        return Err(broken(format!("names {} files", names.len())));
    }
    Ok(names.into_iter().collect())
}

/// Mapped files and where each tensor lies in them.
pub struct Weights {
    maps: Vec<Mmap>,
    places: HashMap<String, Place>,
}

struct Place {
    map: usize,
    start: usize,
    end: usize,
    dtype: DType,
    shape: Vec<usize>,
}

impl Weights {
    /// Maps the files and checks that they hold exactly the tensors of this shape.
    pub fn open(files: &[PathBuf], config: &Config, model: &str) -> Result<Self, EngineError> {
        let mut weights = Self {
            maps: Vec::new(),
            places: HashMap::new(),
        };
        for file in files {
            weights.add(file, model)?;
        }
        weights.check(config, model)?;
        if config.tied {
            // candle's Qwen2 would take a repeated head, whatever the config says.
            weights.places.remove(HEAD);
        }
        Ok(weights)
    }

    /// The type that most bytes are stored in, for "as stored".
    pub fn stored_dtype(&self) -> DType {
        let mut bytes: HashMap<DType, usize> = HashMap::new();
        for place in self.places.values() {
            *bytes.entry(place.dtype).or_default() += place.end - place.start;
        }
        bytes
            .into_iter()
            .max_by_key(|(dtype, bytes)| (*bytes, *dtype as usize))
            .map_or(DType::F32, |(dtype, _)| dtype)
    }

    fn add(&mut self, path: &Path, model: &str) -> Result<(), EngineError> {
        let name = path
            .file_name()
            .unwrap_or(path.as_os_str())
            .to_string_lossy()
            .into_owned();
        let broken = |what: String| EngineError::model(model, format!("{name}: {what}"));
        let file = File::open(path).map_err(|error| broken(error.to_string()))?;
        // SAFETY: the map is read-only and private. A program that truncates the file while it is
        // mapped could make reads fault; weights are not written while a model is loaded.
        let map = unsafe { Mmap::map(&file) }.map_err(|error| broken(error.to_string()))?;
        let (header, metadata) = SafeTensors::read_metadata(&map)
            .map_err(|error| broken(format!("corrupt or truncated safetensors file: {error}")))?;
        // Eight bytes of length, the header, then the data that offsets count from.
        let data = header + 8;
        for (tensor, info) in metadata.tensors() {
            let dtype = match info.dtype {
                FileDtype::F32 => DType::F32,
                FileDtype::F16 => DType::F16,
                FileDtype::BF16 => DType::BF16,
                other => {
                    return Err(EngineError::Unsupported {
                        what: format!("model {model}: {name} has tensor {tensor} of type {other}"),
                        why: "F32, F16 and BF16 can be run".to_owned(),
                    });
                }
            };
            let (start, end) = (data + info.data_offsets.0, data + info.data_offsets.1);
            let place = Place {
                map: self.maps.len(),
                start,
                end,
                dtype,
                shape: info.shape.clone(),
            };
            if self.places.insert(tensor.clone(), place).is_some() {
                return Err(broken(format!("tensor {tensor} is in another file too")));
            }
        }
        self.maps.push(map);
        Ok(())
    }

    fn check(&self, config: &Config, model: &str) -> Result<(), EngineError> {
        let expected = tensors::expected(config);
        for TensorSpec { name, shape } in &expected {
            let Some(place) = self.places.get(name) else {
                return Err(EngineError::model(
                    model,
                    format!("tensor {name} is missing from the weights"),
                ));
            };
            if place.shape != *shape {
                return Err(EngineError::model(
                    model,
                    format!(
                        "tensor {name} has shape {:?}, and config.json says {shape:?}",
                        place.shape
                    ),
                ));
            }
        }
        let names: BTreeSet<&str> = expected.iter().map(|tensor| tensor.name.as_str()).collect();
        // Old files carry tables that are computed anew, and a tied model's file may repeat the embedding.
        let surplus = self
            .places
            .keys()
            .filter(|name| !names.contains(name.as_str()));
        match surplus.filter(|name| !name.ends_with("rotary_emb.inv_freq") && *name != HEAD).min() {
            Some(name) => Err(EngineError::Unsupported {
                what: format!("model {model}: tensor {name}"),
                why: "a model of this config.json has no such tensor, and without it answers might be wrong".to_owned(),
            }),
            None => Ok(()),
        }
    }

    fn load(&self, name: &str, device: &Device) -> candle_core::Result<Tensor> {
        let place = self.places.get(name).ok_or_else(|| not_found(name))?;
        let bytes = self
            .maps
            .get(place.map)
            .and_then(|map| map.get(place.start..place.end));
        Tensor::from_raw_buffer(
            bytes.ok_or_else(|| not_found(name))?,
            place.dtype,
            &place.shape,
            device,
        )
    }
}

fn not_found(name: &str) -> candle_core::Error {
    candle_core::Error::CannotFindTensor {
        path: name.to_owned(),
    }
}

impl SimpleBackend for Weights {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        let tensor = self.load(name, device)?.to_dtype(dtype)?;
        if *tensor.shape() == shape {
            Ok(tensor)
        } else {
            candle_core::bail!("{name} is {tensor}, not {shape:?}")
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
        self.places.contains_key(name)
    }
}
