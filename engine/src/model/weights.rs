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
use half::{bf16, f16};
use memmap2::{Mmap, UncheckedAdvice};
use safetensors::{Dtype as FileDtype, SafeTensors};
use serde_json::Value;

use super::{
    config::Config,
    rows::Rows,
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

/// How much of a tensor is read at a time: little next to any model, much next to a call to the system.
const ROWS_BYTES: usize = 4 << 20;

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

    /// Where a tensor lies: its map, its place there, its bytes.
    fn find(&self, name: &str) -> candle_core::Result<(&Mmap, &Place, &[u8])> {
        let found = self.places.get(name).and_then(|place| {
            let map = self.maps.get(place.map)?;
            Some((map, place, map.get(place.start..place.end)?))
        });
        found.ok_or_else(|| not_found(name))
    }

    fn load(&self, name: &str, device: &Device) -> candle_core::Result<Tensor> {
        let (map, place, bytes) = self.find(name)?;
        let tensor = Tensor::from_raw_buffer(bytes, place.dtype, &place.shape, device)?;
        drop_pages(map, place.start, bytes.len());
        Ok(tensor)
    }
}

impl Rows for Weights {
    /// Straight from the map, so that neither the tensor nor its pages are ever in memory as a whole.
    fn rows(
        &self,
        name: &str,
        (rows, columns): (usize, usize),
        take: &mut dyn FnMut(&[f32]),
    ) -> candle_core::Result<()> {
        let (map, place, bytes) = self.find(name)?;
        if place.shape != [rows, columns] {
            candle_core::bail!("{name} is {:?}, not {:?}", place.shape, [rows, columns])
        }
        let row_bytes = columns * place.dtype.size_in_bytes();
        let some_rows = (ROWS_BYTES / row_bytes.max(1)).max(1);
        let mut floats = Vec::with_capacity(some_rows * columns);
        let mut start = place.start;
        for bytes in bytes.chunks((some_rows * row_bytes).max(1)) {
            floats.clear();
            match place.dtype {
                DType::F16 => floats.extend(values(bytes, |it| f16::from_le_bytes(it).to_f32())),
                DType::BF16 => floats.extend(values(bytes, |it| bf16::from_le_bytes(it).to_f32())),
                _ => floats.extend(values(bytes, f32::from_le_bytes)),
            }
            take(&floats);
            drop_pages(map, start, bytes.len());
            start += bytes.len();
        }
        Ok(())
    }
}

/// Little-endian values of `N` bytes each.
fn values<const N: usize>(bytes: &[u8], read: fn([u8; N]) -> f32) -> impl Iterator<Item = f32> {
    bytes.as_chunks().0.iter().map(move |bytes| read(*bytes))
}

/// Lets go of pages of a file that have been copied: a model would else be in memory twice while it
/// loads. A failure costs memory and nothing else.
fn drop_pages(map: &Mmap, start: usize, len: usize) {
    // SAFETY: the map is of a file, read-only, and this advice only drops pages of it, not the
    // contents: who reads them again, in this thread or another, finds the file's bytes as before.
    let dropped = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, len) };
    if let Err(error) = dropped {
        tracing::debug!("pages of a mapped file stay in memory: {error}");
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
        self.places.contains_key(name)
    }
}
