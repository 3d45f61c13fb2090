//! [`Columns`] as the blob of table `run_columns`.
//!
//! Layout 1, all numbers little-endian: the number of bytes that follow once unpacked (u64), then
//! one zstd frame of
//! - the head: requests, failed, warm-up, unread, lengths of gaps (u64 each), sum of the gaps in µs
//!   (u128), measured, first sent, last done (u64 each, 2⁶⁴ − 1 for none), length of
//!   the hash of a prompt's ids (u64, likewise) and its bytes;
//! - a column after the other, a value a request: flags (u16: what is there, and the two sources),
//!   index (u32), due since the one before (u64), done since due (u64), wall, TTFT, TPOT in ms
//!   (f64), output tokens (u32), hash of ids, of text (u64). What is not there is 0;
//! - the gaps: length in µs since the one before (u64), how many of it (u64).
//!
//! A blob of another layout is not read: columns are made again from the rows.

use std::num::NonZeroU64;

use contracts::sample::{TimingSource, TokenSource};

use super::{Columns, Request};
use crate::stats::gaps::GapCounts;
use crate::stats::window::Ends;

/// Number of the layout.
pub const LAYOUT: i64 = 1;

/// Of the packed sizes and speeds, the fastest: reading is what counts.
const ZSTD_LEVEL: i32 = 1;
/// Bytes once unpacked, at most: ten million requests.
const BYTES_MAX: u64 = 1 << 30;
/// Says that a number is not there.
const NONE: u64 = u64::MAX;

/// Bits of the flags.
mod flag {
    pub const DONE: u16 = 1;
    pub const TTFT: u16 = 1 << 1;
    pub const TPOT: u16 = 1 << 2;
    pub const TOKENS: u16 = 1 << 3;
    /// Two bits: none, client, engine.
    pub const TIMING_SHIFT: u16 = 8;
    /// Three bits: none, engine, usage, metrics, tokenizer, events.
    pub const TOKEN_SHIFT: u16 = 10;
}

/// The blob.
///
/// # Errors
/// What zstd says.
pub fn pack(columns: &Columns) -> std::io::Result<Vec<u8>> {
    let mut raw = Vec::new();
    head(columns, &mut raw);
    let requests = &columns.requests;
    put(&mut raw, requests, |r| flags(r).to_le_bytes());
    put(&mut raw, requests, |r| r.index.to_le_bytes());
    let mut before = 0;
    put(&mut raw, requests, |r| {
        let since = r.due_ns.wrapping_sub(before);
        before = r.due_ns;
        since.to_le_bytes()
    });
    put(&mut raw, requests, |r| {
        let since = r.done_ns.map(|done| done.wrapping_sub(r.due_ns));
        since.unwrap_or_default().to_le_bytes()
    });
    put(&mut raw, requests, |r| r.wall_ms.to_le_bytes());
    put(&mut raw, requests, |r| {
        r.ttft_ms.unwrap_or_default().to_le_bytes()
    });
    put(&mut raw, requests, |r| {
        r.tpot_ms.unwrap_or_default().to_le_bytes()
    });
    put(&mut raw, requests, |r| {
        r.output_tokens.unwrap_or_default().to_le_bytes()
    });
    put(&mut raw, requests, |r| hash(r.ids_hash).to_le_bytes());
    put(&mut raw, requests, |r| hash(r.text_hash).to_le_bytes());
    let mut before = 0;
    for (us, _) in columns.gaps.counts() {
        raw.extend((us - before).to_le_bytes());
        before = us;
    }
    for (_, n) in columns.gaps.counts() {
        raw.extend(n.to_le_bytes());
    }
    let mut blob = (raw.len() as u64).to_le_bytes().to_vec();
    blob.extend(zstd::bulk::compress(&raw, ZSTD_LEVEL)?);
    Ok(blob)
}

fn head(columns: &Columns, raw: &mut Vec<u8>) {
    for number in [
        columns.requests.len() as u64,
        columns.failed,
        columns.warmup,
        columns.unread,
        columns.gaps.counts().count() as u64,
    ] {
        raw.extend(number.to_le_bytes());
    }
    raw.extend(columns.gaps.sum_us().to_le_bytes());
    let hash = columns.input_ids_sha256.as_ref();
    for number in [
        columns.ends.measured,
        columns.ends.first_sent_ns.unwrap_or(NONE),
        columns.ends.last_done_ns.unwrap_or(NONE),
        hash.map_or(NONE, |hash| hash.len() as u64),
    ] {
        raw.extend(number.to_le_bytes());
    }
    raw.extend(hash.map(String::as_bytes).unwrap_or_default());
}

fn put<const N: usize>(
    raw: &mut Vec<u8>,
    requests: &[Request],
    of: impl FnMut(&Request) -> [u8; N],
) {
    raw.extend(requests.iter().flat_map(of));
}

fn hash(hash: Option<NonZeroU64>) -> u64 {
    hash.map_or(0, NonZeroU64::get)
}

fn flags(request: &Request) -> u16 {
    let timing = match request.timing_source {
        None => 0,
        Some(TimingSource::Client) => 1,
        Some(TimingSource::Engine) => 2,
    };
    let tokens = match request.token_source {
        None => 0,
        Some(TokenSource::Engine) => 1,
        Some(TokenSource::Usage) => 2,
        Some(TokenSource::Metrics) => 3,
        Some(TokenSource::Tokenizer) => 4,
        Some(TokenSource::Events) => 5,
    };
    let there = [
        (request.done_ns.is_some(), flag::DONE),
        (request.ttft_ms.is_some(), flag::TTFT),
        (request.tpot_ms.is_some(), flag::TPOT),
        (request.output_tokens.is_some(), flag::TOKENS),
    ];
    let there = there
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, bit)| bit)
        .sum::<u16>();
    there | timing << flag::TIMING_SHIFT | tokens << flag::TOKEN_SHIFT
}

/// The columns of a blob that [`pack`] made.
///
/// # Errors
/// Bytes that are not what the layout says.
pub fn unpack(blob: &[u8]) -> Result<Columns, String> {
    let (size, frame) = blob.split_first_chunk::<8>().ok_or("no length")?;
    let size = u64::from_le_bytes(*size);
    if size > BYTES_MAX {
        return Err(format!("{size} bytes are too many"));
    }
    let raw = zstd::bulk::decompress(frame, size as usize).map_err(|error| error.to_string())?;
    let mut raw = Reader(&raw);
    let count = raw.number()?;
    let mut columns = Columns {
        failed: raw.number()?,
        warmup: raw.number()?,
        unread: raw.number()?,
        ..Columns::default()
    };
    let gap_count = raw.number()?;
    let [sum_us] = raw.column::<16>(1)? else {
        return Err("no sum".to_owned());
    };
    let some = |number: u64| (number != NONE).then_some(number);
    columns.ends = Ends {
        measured: raw.number()?,
        first_sent_ns: some(raw.number()?),
        last_done_ns: some(raw.number()?),
    };
    if let Some(length) = some(raw.number()?) {
        let bytes = raw.column::<1>(length)?.as_flattened();
        let hash = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        columns.input_ids_sha256 = Some(hash.to_owned());
    }
    columns.requests = requests(&mut raw, count)?;
    let (lengths, counts) = (raw.column::<8>(gap_count)?, raw.column::<8>(gap_count)?);
    let mut us = 0u64;
    let gaps = lengths.iter().zip(counts).map(|(since, n)| {
        us = us.saturating_add(u64::from_le_bytes(*since));
        (us, u64::from_le_bytes(*n))
    });
    columns.gaps = GapCounts::of_counts(gaps, u128::from_le_bytes(*sum_us));
    match raw.0 {
        [] => Ok(columns),
        rest => Err(format!("{} bytes too many", rest.len())),
    }
}

fn requests(raw: &mut Reader<'_>, count: u64) -> Result<Vec<Request>, String> {
    let flags = raw.column(count)?;
    let mut requests = Vec::with_capacity(flags.len());
    for bits in flags {
        requests.push(flagged(u16::from_le_bytes(*bits))?);
    }
    raw.each(&mut requests, |r, bytes| {
        r.index = u32::from_le_bytes(bytes)
    })?;
    let mut due_ns = 0u64;
    raw.each(&mut requests, |r, bytes| {
        due_ns = due_ns.wrapping_add(u64::from_le_bytes(bytes));
        r.due_ns = due_ns;
    })?;
    raw.each(&mut requests, |r, bytes| {
        let since = u64::from_le_bytes(bytes);
        fill(&mut r.done_ns, r.due_ns.wrapping_add(since));
    })?;
    raw.each(&mut requests, |r, bytes| {
        r.wall_ms = f64::from_le_bytes(bytes)
    })?;
    raw.each(&mut requests, |r, bytes| {
        fill(&mut r.ttft_ms, f64::from_le_bytes(bytes))
    })?;
    raw.each(&mut requests, |r, bytes| {
        fill(&mut r.tpot_ms, f64::from_le_bytes(bytes))
    })?;
    raw.each(&mut requests, |r, bytes| {
        fill(&mut r.output_tokens, u32::from_le_bytes(bytes))
    })?;
    raw.each(&mut requests, |r, bytes| {
        r.ids_hash = NonZeroU64::new(u64::from_le_bytes(bytes))
    })?;
    raw.each(&mut requests, |r, bytes| {
        r.text_hash = NonZeroU64::new(u64::from_le_bytes(bytes))
    })?;
    Ok(requests)
}

/// A request of which is known what it has.
fn flagged(flags: u16) -> Result<Request, String> {
    let has = |bit: u16| flags & bit != 0;
    Ok(Request {
        index: 0,
        due_ns: 0,
        done_ns: has(flag::DONE).then_some(0),
        wall_ms: 0.0,
        ttft_ms: has(flag::TTFT).then_some(0.0),
        tpot_ms: has(flag::TPOT).then_some(0.0),
        timing_source: timing_source(flags >> flag::TIMING_SHIFT & 3)?,
        output_tokens: has(flag::TOKENS).then_some(0),
        token_source: token_source(flags >> flag::TOKEN_SHIFT & 7)?,
        ids_hash: None,
        text_hash: None,
    })
}

/// Gives a request's field its value, if the request has it.
fn fill<T>(field: &mut Option<T>, value: T) {
    if let Some(field) = field {
        *field = value;
    }
}

fn timing_source(code: u16) -> Result<Option<TimingSource>, String> {
    match code {
        0 => Ok(None),
        1 => Ok(Some(TimingSource::Client)),
        2 => Ok(Some(TimingSource::Engine)),
        _ => Err(format!("{code} is no timing source")),
    }
}

fn token_source(code: u16) -> Result<Option<TokenSource>, String> {
    match code {
        0 => Ok(None),
        1 => Ok(Some(TokenSource::Engine)),
        2 => Ok(Some(TokenSource::Usage)),
        3 => Ok(Some(TokenSource::Metrics)),
        4 => Ok(Some(TokenSource::Tokenizer)),
        5 => Ok(Some(TokenSource::Events)),
        _ => Err(format!("{code} is no token source")),
    }
}

/// What is still unread.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` values of N bytes.
    fn column<const N: usize>(&mut self, count: u64) -> Result<&'a [[u8; N]], String> {
        let cut = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(N))
            .and_then(|bytes| self.0.split_at_checked(bytes));
        let (column, rest) = cut.ok_or_else(|| format!("{count} values are not there"))?;
        self.0 = rest;
        Ok(column.as_chunks::<N>().0)
    }

    /// Hands the next column's values to the requests, each its own.
    fn each<const N: usize>(
        &mut self,
        requests: &mut [Request],
        mut set: impl FnMut(&mut Request, [u8; N]),
    ) -> Result<(), String> {
        let column = self.column::<N>(requests.len() as u64)?;
        for (request, bytes) in requests.iter_mut().zip(column) {
            set(request, *bytes);
        }
        Ok(())
    }

    fn number(&mut self) -> Result<u64, String> {
        match self.column::<8>(1)? {
            [bytes] => Ok(u64::from_le_bytes(*bytes)),
            _ => Err("no number".to_owned()),
        }
    }
}
