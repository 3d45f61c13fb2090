//! Columns of exports that are tables: name, type, and whether a value may lack. CSV and Parquet are
//! written from the same ones.

use std::io;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number: a count, a time in ns or ms.
    Int,
    /// A number.
    Real,
    /// Text.
    Text,
}

/// A column's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// With its unit at the end.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a row may lack it.
    pub optional: bool,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Not known, not measured.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Real(f64),
    /// Text.
    Text(String),
}

/// A table that is being written.
pub trait Rows {
    /// A row, a cell for each column in their order.
    ///
    /// # Errors
    /// What the sink says.
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()>;

    /// No row follows.
    ///
    /// # Errors
    /// What the sink says.
    fn end(self) -> io::Result<()>;
}

/// A column that every row has.
pub(super) const fn column(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        optional: false,
    }
}

/// A column that a row may lack.
pub(super) const fn optional(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        optional: true,
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

/// Nothing that is counted comes near 2^63 (292 years of ns).
impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<u16> for Cell {
    fn from(value: u16) -> Self {
        Self::Int(value.into())
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
