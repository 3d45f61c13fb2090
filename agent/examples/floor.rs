//! The least that a truthful client can do, as a yardstick for `benches/client.py`: open
//! connections, write, stamp each read, split the events, decode them, keep the instants. No
//! timeouts, no records, no check of anything that the metronome does not do.
//!
//! usage: floor HOST:PORT STREAMS REQUESTS TOKENS ROWS_FILE

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{BufRead, Write};
use std::rc::Rc;
use std::time::Instant;

use anyhow::Context;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of a read.
const READ_BYTES: usize = 16 << 10;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<Cow<'a, str>>,
}

/// One request, in ns since the start.
#[derive(Default)]
struct Row {
    id: u64,
    sent_ns: u64,
    first_ns: u64,
    last_ns: u64,
    done_ns: u64,
    gaps_ns: Vec<u64>,
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, streams, requests, tokens, file] = words.as_slice() else {
        anyhow::bail!("usage: floor HOST:PORT STREAMS REQUESTS TOKENS ROWS_FILE");
    };
    let (streams, requests) = (streams.parse()?, requests.parse()?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let local = tokio::task::LocalSet::new();
    let rows = local.block_on(&runtime, drive(address, streams, requests, tokens))?;
    let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
    for row in rows {
        writeln!(
            out,
            r#"{{"id":{},"start_ns":{},"sent_ns":{},"first_ns":{},"done_ns":{},"gaps_ns":{:?}}}"#,
            row.id, row.sent_ns, row.sent_ns, row.first_ns, row.done_ns, row.gaps_ns
        )?;
    }
    Ok(out.flush()?)
}

async fn drive(
    address: &str,
    streams: usize,
    requests: usize,
    tokens: &str,
) -> anyhow::Result<Vec<Row>> {
    let prompt = vec!["word"; 32].join(" ");
    let body = format!(
        r#"{{"model":"metronome","messages":[{{"role":"user","content":"{prompt}"}}],"max_tokens":{tokens},"stream":true,"stream_options":{{"include_usage":true}}}}"#
    );
    let request: Rc<[u8]> = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
    .into();
    let mut connections = Vec::new();
    for _ in 0..streams {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        connections.push(stream);
    }
    let (origin, left) = (Instant::now(), Rc::new(Cell::new(requests)));
    let slots: Vec<_> = connections
        .into_iter()
        .map(|stream| tokio::task::spawn_local(slot(stream, request.clone(), left.clone(), origin)))
        .collect();
    let mut rows = Vec::new();
    for slot in slots {
        rows.extend(slot.await??);
    }
    Ok(rows)
}

async fn slot(
    mut stream: TcpStream,
    request: Rc<[u8]>,
    left: Rc<Cell<usize>>,
    origin: Instant,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut bytes = Vec::with_capacity(READ_BYTES);
    while left.get() > 0 {
        left.set(left.get() - 1);
        let mut row = Row {
            sent_ns: now_ns(origin),
            ..Row::default()
        };
        stream.write_all(&request).await?;
        let mut head_read = false;
        loop {
            let read = stream.read_buf(&mut bytes).await?;
            let at_ns = now_ns(origin);
            anyhow::ensure!(read > 0, "the server closed");
            if !head_read {
                let Some(end) = find(&bytes, b"\r\n\r\n") else {
                    continue;
                };
                anyhow::ensure!(bytes.starts_with(b"HTTP/1.1 200"), "not 200");
                bytes.drain(..end + 4);
                head_read = true;
            }
            if take_chunks(&mut bytes, &mut row, at_ns)? {
                row.done_ns = at_ns;
                break;
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Takes whole chunks off; each holds whole events, as the metronome writes them. True at the end.
fn take_chunks(bytes: &mut Vec<u8>, row: &mut Row, at_ns: u64) -> anyhow::Result<bool> {
    let mut taken = 0;
    let ended = loop {
        let rest = bytes.get(taken..).unwrap_or_default();
        let size_line = line(rest);
        let Some(digits) = size_line.strip_suffix(b"\r\n") else {
            break false;
        };
        let size = usize::from_str_radix(std::str::from_utf8(digits)?, 16).context("a size")?;
        let Some(mut chunk) = rest.get(size_line.len()..size_line.len() + size + 2) else {
            break false;
        };
        taken += size_line.len() + size + 2;
        if size == 0 {
            break true;
        }
        while chunk != b"\r\n" {
            let text = line(chunk);
            chunk = chunk.get(text.len() + 1..).context("half an event")?;
            event(text.trim_ascii_end(), row, at_ns)?;
        }
    };
    bytes.drain(..taken);
    Ok(ended)
}

/// The first line, with its end.
fn line(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    let length = rest.skip_until(b'\n').unwrap_or_default();
    bytes.get(..length).unwrap_or_default()
}

fn event(event: &[u8], row: &mut Row, at_ns: u64) -> anyhow::Result<()> {
    let data = event.strip_prefix(b"data: ").context("not an event")?;
    if data == b"[DONE]" {
        return Ok(());
    }
    let event: Event<'_> = serde_json::from_str(std::str::from_utf8(data)?)?;
    let content = event.choices.first().and_then(|c| c.delta.content.as_ref());
    let Some(content) = content.filter(|content| !content.is_empty()) else {
        return Ok(());
    };
    if row.first_ns == 0 {
        row.first_ns = at_ns;
        row.id = content.parse()?;
    } else {
        row.gaps_ns.push(at_ns - row.last_ns);
    }
    row.last_ns = at_ns;
    Ok(())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn now_ns(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
