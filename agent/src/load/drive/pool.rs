//! The connections of a run: opened ahead where their number is known, else as they are needed,
//! and kept.

use std::sync::Arc;

use contracts::defaults::CONCURRENCY_MAX;
use contracts::sample::{ErrorClass, SampleError};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use nix::sys::resource::{Resource, getrlimit};
use tokio_util::sync::CancellationToken;

use crate::load::answer::failure;
use crate::load::client::{Client, Shared};
use crate::load::files::ensure_open_files;

/// Connections opened at once: half of what Linux servers let wait to be accepted by default, so
/// that none is dropped and tried again a second later.
const CONNECTS_AT_ONCE: usize = 64;

/// Open files that are left for all else, where connections take as many as they can.
const OTHER_FILES: u64 = 512;

/// Opens `n` connections; `keepalive` off, each request opens its own and only the clients are made.
pub(super) async fn open_ahead(
    shared: &Arc<Shared>,
    n: u32,
    keepalive: bool,
    stop: &CancellationToken,
) -> Result<Vec<Client>, SampleError> {
    if let Err(message) = ensure_open_files(n.into()) {
        return Err(failure(ErrorClass::Connect, message));
    }
    let opening = stream::iter(0..n)
        .map(|_| async {
            let mut client = Client::new(Arc::clone(shared));
            if keepalive {
                client.connect().await?;
            }
            Ok(client)
        })
        .buffer_unordered(CONNECTS_AT_ONCE)
        .try_collect();
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(failure(ErrorClass::Aborted, "cancelled while connecting")),
        opened = opening => opened,
    }
}

/// Clients of an open loop that are at work or wait for it.
pub(super) struct Pool {
    shared: Arc<Shared>,
    /// The last one that became free is the next to go: the others may rest, and their servers too.
    idle: Vec<Idle>,
    /// Idle or at work.
    clients: u32,
    cap: u32,
}

struct Idle {
    client: Client,
    free_ns: u64,
}

impl Pool {
    /// A pool of at most `clients.len()`, all of them idle.
    pub fn full(shared: Arc<Shared>, clients: Vec<Client>) -> Self {
        let cap = u32::try_from(clients.len()).unwrap_or(u32::MAX);
        let idle = clients.into_iter();
        let idle = idle.map(|client| Idle { client, free_ns: 0 });
        Self {
            shared,
            idle: idle.collect(),
            clients: cap,
            cap,
        }
    }

    /// A pool that grows up to `wanted`, or to what open files allow.
    pub fn growing(shared: Arc<Shared>, wanted: u32) -> Self {
        let wanted = wanted.min(CONCURRENCY_MAX);
        let room = if ensure_open_files(wanted.into()).is_ok() {
            wanted
        } else {
            wanted.min(open_files_room())
        };
        Self {
            shared,
            idle: Vec::new(),
            clients: 0,
            cap: room.max(1),
        }
    }

    /// A client for a request that was due at `due_ns`, and when it became free, if that was later:
    /// since then the request could go. None if all are at work.
    pub fn get(&mut self, due_ns: u64) -> Option<(Client, Option<u64>)> {
        if self.clients < self.cap {
            let client = match self.idle.pop() {
                Some(idle) => idle.client,
                None => {
                    self.clients += 1;
                    Client::new(Arc::clone(&self.shared))
                }
            };
            return Some((client, None));
        }
        // The one that has been free the longest says since when a request could go.
        let first_free_ns = self.idle.first()?.free_ns;
        let idle = self.idle.pop()?;
        let released_ns = (first_free_ns > due_ns).then_some(first_free_ns);
        Some((idle.client, released_ns))
    }

    /// A client is free again.
    pub fn put(&mut self, client: Client, free_ns: u64) {
        self.idle.push(Idle { client, free_ns });
    }

    /// Whether all clients that there may be are at work.
    pub fn is_busy(&self) -> bool {
        self.idle.is_empty() && self.clients == self.cap
    }

    /// Requests that go at once, at most.
    pub fn cap(&self) -> u32 {
        self.cap
    }
}

/// Connections that the limit of open files allows at most, once it is raised as far as it goes.
fn open_files_room() -> u32 {
    let hard = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_, hard)| hard);
    let room = hard.saturating_sub(OTHER_FILES);
    // What can be had is had: the error would say the same as the waiting that follows.
    let _ = ensure_open_files(room);
    u32::try_from(room).unwrap_or(u32::MAX)
}
