//! Parquet: a row group for some thousand rows, zstd, each column under its name. A column that a
//! row may lack is optional; whole numbers are INT64, numbers DOUBLE, text UTF-8.

use std::io::{self, Write};
use std::mem::take;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use super::columns::{Cell, Column, Kind, Rows};

/// Rows of one group: enough for a reader to skip by, few enough to hold.
const GROUP_ROWS: usize = 50_000;
/// Text of one group, in bytes, before it is written with fewer rows.
const GROUP_BYTES: usize = 32 << 20;

/// A table that is being written. Rows are held until their group is full.
pub struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<(Column, Buffer)>,
    rows: usize,
    bytes: usize,
}

/// A column's values since the last group, and for each row whether it has one (1) or not (0).
#[derive(Default)]
struct Buffer {
    bools: Vec<bool>,
    ints: Vec<i64>,
    reals: Vec<f64>,
    texts: Vec<ByteArray>,
    levels: Vec<i16>,
}

impl<W: Write + Send> Parquet<W> {
    /// Writes the file's head.
    ///
    /// # Errors
    /// What the sink says.
    pub fn new(out: W, name: &str, columns: &[Column]) -> io::Result<Self> {
        let level = ZstdLevel::try_new(3).map_err(io::Error::other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(format!("chapterbench {}", crate::build()))
            .build();
        let schema = schema(name, columns).map_err(io::Error::other)?;
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        Ok(Self {
            writer: writer.map_err(io::Error::other)?,
            columns: columns.iter().map(|c| (*c, Buffer::default())).collect(),
            rows: 0,
            bytes: 0,
        })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for (column, buffer) in &mut self.columns {
            if let Some(mut writer) = group.next_column()? {
                take(buffer).write(*column, &mut writer)?;
                writer.close()?;
            }
        }
        group.close()?;
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }
}

impl<W: Write + Send> Rows for Parquet<W> {
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()> {
        for ((column, buffer), cell) in self.columns.iter_mut().zip(cells) {
            if let Cell::Text(text) = &cell {
                self.bytes += text.len();
            }
            buffer.push(*column, cell)?;
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES {
            self.write_group().map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn end(mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group().map_err(io::Error::other)?;
        }
        let mut out = self.writer.into_inner().map_err(io::Error::other)?;
        out.flush()
    }
}

impl Buffer {
    fn push(&mut self, column: Column, cell: Cell) -> io::Result<()> {
        self.levels.push(i16::from(cell != Cell::Null));
        match (column.kind, cell) {
            (_, Cell::Null) if column.optional => {}
            (Kind::Bool, Cell::Bool(value)) => self.bools.push(value),
            (Kind::Int, Cell::Int(value)) => self.ints.push(value),
            (Kind::Real, Cell::Real(value)) => self.reals.push(value),
            (Kind::Text, Cell::Text(text)) => self.texts.push(text.into_bytes().into()),
            (kind, cell) => {
                let why = format!("internal: column {} ({kind:?}) got {cell:?}", column.name);
                return Err(io::Error::other(why));
            }
        }
        Ok(())
    }

    fn write(
        self,
        column: Column,
        writer: &mut SerializedColumnWriter<'_>,
    ) -> Result<usize, ParquetError> {
        let levels = column.optional.then_some(self.levels.as_slice());
        match column.kind {
            Kind::Bool => writer
                .typed::<BoolType>()
                .write_batch(&self.bools, levels, None),
            Kind::Int => writer
                .typed::<Int64Type>()
                .write_batch(&self.ints, levels, None),
            Kind::Real => writer
                .typed::<DoubleType>()
                .write_batch(&self.reals, levels, None),
            Kind::Text => writer
                .typed::<ByteArrayType>()
                .write_batch(&self.texts, levels, None),
        }
    }
}

fn schema(name: &str, columns: &[Column]) -> Result<Type, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Kind::Bool => (Physical::BOOLEAN, None),
            Kind::Int => (Physical::INT64, None),
            Kind::Real => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = match column.optional {
            true => Repetition::OPTIONAL,
            false => Repetition::REQUIRED,
        };
        Type::primitive_type_builder(column.name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder(name).with_fields(fields).build()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::fs::File;

    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    use super::*;
    use crate::export::columns::{column, optional};

    fn columns() -> [Column; 4] {
        [
            column("id", Kind::Int),
            optional("wall_ms", Kind::Real),
            optional("text", Kind::Text),
            column("warmup", Kind::Bool),
        ]
    }

    fn written(rows: usize, text: &str) -> File {
        let out = tempfile::tempfile().unwrap();
        let mut table = Parquet::new(out.try_clone().unwrap(), "t", &columns()).unwrap();
        for i in 0..rows {
            let odd = i % 2 == 1;
            table
                .row(vec![
                    Cell::Int(i as i64),
                    odd.then_some(0.1 + 0.2).into(),
                    odd.then(|| text.to_owned()).into(),
                    odd.into(),
                ])
                .unwrap();
        }
        table.end().unwrap();
        out
    }

    #[test]
    fn what_is_written_is_read_again() {
        let reader = SerializedFileReader::new(written(4, "blau \u{1F600}\n\0")).unwrap();
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                row.unwrap()
                    .into_columns()
                    .into_iter()
                    .map(|c| c.1)
                    .collect()
            })
            .collect();
        let odd = [
            Field::Double(0.1 + 0.2),
            Field::Str("blau \u{1F600}\n\0".to_owned()),
            Field::Bool(true),
        ];
        let even = [Field::Null, Field::Null, Field::Bool(false)];
        for (i, row) in (0..).zip(&rows) {
            assert_eq!(row[0], Field::Long(i));
            assert_eq!(
                row[1..],
                if i % 2 == 1 {
                    odd.clone()
                } else {
                    even.clone()
                }
            );
        }
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn groups_are_bounded_by_rows_and_by_text() {
        let groups = |file: File| {
            let reader = SerializedFileReader::new(file).unwrap();
            let rows = reader.metadata().row_groups().iter();
            rows.map(|group| group.num_rows()).collect::<Vec<_>>()
        };
        assert_eq!(groups(written(GROUP_ROWS + 1, "")), [GROUP_ROWS as i64, 1]);
        let large = "x".repeat(GROUP_BYTES);
        assert_eq!(groups(written(3, &large)), [2, 1]);
        assert_eq!(groups(written(0, "")), [0_i64; 0]);
    }

    #[test]
    fn a_cell_of_another_type_is_an_error_and_no_file() {
        let mut table = Parquet::new(Vec::new(), "t", &columns()).unwrap();
        let row = vec![Cell::Null, Cell::Null, Cell::Null, Cell::Bool(true)];
        let error = table.row(row).unwrap_err().to_string();
        assert!(error.contains("column id (Int) got Null"), "{error}");
    }
}
