//! Which keys the tables of a suite take: the names of flags, and how their values are written.

/// The keys of each table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// Outside of any table.
    pub session: Vec<Key>,
    /// `[[arm]]`, beside its name.
    pub arm: Vec<Key>,
    /// `[[workload]]`, beside its name.
    pub workload: Vec<Key>,
    /// `[[gate]]`, beside its arms and its workload.
    pub gate: Vec<Key>,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The flag's name with underscores: `n_runs`.
    pub name: String,
    /// How its value is written.
    pub kind: Kind,
    /// Whether an array of such values may stand in its place.
    pub list: bool,
}

impl Key {
    /// The flag: `--n-runs`.
    pub fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }
}

/// How a value is written in TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` stands for the flag, `false` for its absence.
    Switch,
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// A text.
    Text,
    /// A text, or a number where that is all of it: `"90s"`, `90`.
    Word,
    /// A file or folder, relative to the suite's; a word and a colon may stand before it.
    Path,
    /// What may be a path, where such a file exists beside the suite, and is else a name of its own.
    PathOrName,
    /// A table of texts and numbers: a `KEY=VALUE` each.
    Pairs,
}
