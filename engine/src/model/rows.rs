//! Reading a tensor some rows at a time, for whoever packs its rows and keeps nothing else of it.

use candle_core::{CpuStorage, DType, Device, Result, Storage, bail};
use candle_nn::{Init, var_builder::SimpleBackend};

/// What a missing tensor would start from: no source of ours makes one up.
pub const NO_INIT: Init = Init::Const(0.0);

/// A source of tensors that also gives them by rows.
pub trait Rows: SimpleBackend {
    /// Calls `take` with all rows in order, some at a time: whole rows of `columns` floats.
    ///
    /// # Errors
    /// There is no such tensor, or it has another shape.
    fn rows(
        &self,
        name: &str,
        (rows, columns): (usize, usize),
        take: &mut dyn FnMut(&[f32]),
    ) -> Result<()> {
        let shape = (rows, columns).into();
        let tensor = self.get(shape, name, NO_INIT, DType::F32, &Device::Cpu)?;
        let (storage, layout) = tensor.storage_and_layout();
        match (&*storage, layout.contiguous_offsets()) {
            (Storage::Cpu(CpuStorage::F32(all)), Some((start, end))) => {
                take(all.get(start..end).unwrap_or_default());
                Ok(())
            }
            _ => bail!("{name} is {tensor:?}, not contiguous floats"),
        }
    }
}
