//! Rows to words: every view in text, Markdown and JSON.
//!
//! Each view has one `render(…, Format)`. JSON carries `"schema": 1` and all that the text has. Pure:
//! the caller prints.

pub mod agents;
pub mod chapters;
pub mod compare;
pub mod config;
pub mod curve;
mod detail;
pub mod doctor;
pub mod figures;
pub mod floor;
pub mod history;
mod host;
pub mod run;
pub mod runs;
pub mod session;
mod steadiness;
pub mod store;
pub mod sweep;
pub mod table;
pub mod validity;
pub(crate) mod words;

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::{Map, Value};

/// In which form a view is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a terminal.
    #[default]
    Text,
    /// For programs.
    Json,
    /// For a pull request.
    Markdown,
}

/// A JSON document: `"schema"`, then the body under its name; with a line end.
fn document<T: Serialize + ?Sized>(name: &str, body: &T) -> serde_json::Result<String> {
    let mut document = Map::new();
    document.insert("schema".to_owned(), Value::from(contracts::SCHEMA));
    document.insert(name.to_owned(), serde_json::to_value(body)?);
    pretty(&document)
}

/// Pretty JSON with a line end.
fn pretty<T: Serialize>(body: &T) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(body)? + "\n")
}

/// Which columns of a grid hold numbers and stand to the right: `r`; the others `l`.
type Columns<'a> = &'a str;

/// A grid in text, two blanks in, or a Markdown table; with a line end.
fn grid(format: Format, columns: Columns<'_>, header: &[&str], rows: Vec<Vec<String>>) -> String {
    let markdown = format == Format::Markdown;
    let mut table = Table::new();
    table.load_style(if markdown {
        presets::ASCII_MARKDOWN
    } else {
        presets::NOTHING
    });
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|cell| one_line(cell, markdown)));
    }
    for (column, alignment) in table.column_iter_mut().zip(columns.chars()) {
        if alignment == 'r' {
            column.set_cell_alignment(CellAlignment::Right);
        }
        // One blank on the left is the border's place in text.
        if !markdown {
            column.set_padding((0, 2));
        }
    }
    let indent = if markdown { "" } else { "  " };
    let lines = table
        .lines()
        .map(|line| format!("{indent}{}\n", line.trim_end()));
    lines.collect()
}

/// A cell may break neither its line nor, in Markdown, its column.
fn one_line(cell: &str, markdown: bool) -> String {
    let cell = cell.replace(['\n', '\r', '\t'], " ");
    if markdown {
        cell.replace('|', "\\|")
    } else {
        cell
    }
}
