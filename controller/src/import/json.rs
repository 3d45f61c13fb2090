//! Reading a JSON export (see [`crate::export::Json`]) into an empty database, request by request:
//! the file may be larger than memory.
//!
//! A thread parses and a bounded channel carries what it found to the one writer.

use std::cell::RefCell;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use contracts::run::RunEvent;
use contracts::sample::Sample;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::ImportError;
use crate::record::RunRecord;
use crate::show::words::excerpt;
use crate::store::{HostDocument, Store, StoreError};

/// Records between the thread that parses and the one that writes: enough to keep both busy.
const QUEUE: usize = 256;
/// Ours have 26; a list of runs has a column for them.
const ID_BYTES_MAX: usize = 64;

/// What the parser finds, in the file's order. A run is followed by its samples and its end.
enum Item {
    Hosts(Vec<HostDocument>),
    Run(Box<RunRecord>),
    Sample(Box<Sample>),
    End(Vec<RunEvent>),
    /// The file cannot be read on.
    Failed(String),
}

/// Reads the file into the store.
///
/// # Errors
/// [`ImportError::BadExport`] with line and column or the run; what the store says.
pub async fn load(path: &Path, store: &Store) -> Result<(), ImportError> {
    let file = File::open(path).map_err(|why| ImportError::Unreadable {
        path: path.to_path_buf(),
        why,
    })?;
    let (sender, receiver) = sync_channel(QUEUE);
    let parser = std::thread::spawn(move || parse(file, &sender));
    let stored = store_all(store, &receiver).await;
    // Where storing failed, the parser learns it from the channel's end.
    drop(receiver);
    let parsed = parser.join();
    let bad = |why: String| ImportError::BadExport {
        path: path.to_path_buf(),
        why,
    };
    match stored {
        Err(StoreError::BadSample { run_id, why }) => Err(bad(format!("run {run_id}: {why}"))),
        // What the tables refuse, such as a request that is there twice: the fault is the file's.
        Err(StoreError::Other { message, .. }) => Err(bad(message)),
        Err(error) => Err(error.into()),
        Ok(Some(why)) => Err(bad(why)),
        Ok(None) if parsed.is_err() => Err(bad("its reader ended early".to_owned())),
        Ok(None) => Ok(()),
    }
}

/// Stores what comes; gives what is wrong with the file, if anything is.
async fn store_all(store: &Store, items: &Receiver<Item>) -> Result<Option<String>, StoreError> {
    while let Ok(item) = items.recv() {
        match item {
            Item::Hosts(hosts) => store.put_hosts(&hosts).await?,
            Item::Run(run) => store_run(store, &run, items).await?,
            Item::Failed(why) => return Ok(Some(why)),
            // The parser sends these within a run only.
            Item::Sample(_) | Item::End(_) => {}
        }
    }
    Ok(None)
}

async fn store_run(
    store: &Store,
    run: &RunRecord,
    items: &Receiver<Item>,
) -> Result<(), StoreError> {
    let events = RefCell::new(Vec::new());
    let samples = std::iter::from_fn(|| match items.recv() {
        Ok(Item::Sample(sample)) => Some(Ok(*sample)),
        Ok(Item::End(story)) => {
            *events.borrow_mut() = story;
            None
        }
        Ok(Item::Failed(why)) => Some(Err(why)),
        Ok(Item::Run(_) | Item::Hosts(_)) | Err(_) => Some(Err("it has no end".to_owned())),
    });
    // Asked again after its end, it would take what belongs to the next run.
    let samples = samples.fuse();
    store.add_whole_run(run, samples, || events.take()).await
}

fn parse(file: File, items: &SyncSender<Item>) {
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(file));
    let parsed = Document { items }
        .deserialize(&mut json)
        .and_then(|()| json.end());
    if let Err(error) = parsed {
        // Nobody listens any more where it was the writer who ended this.
        items.send(Item::Failed(error.to_string())).ok();
    }
}

/// Hands an item over; an error where the writer has gone.
fn send<E: serde::de::Error>(items: &SyncSender<Item>, item: Item) -> Result<(), E> {
    items
        .send(item)
        .map_err(|_| E::custom("nobody takes what is read"))
}

/// `{"schema": 1, "hosts": […], "runs": […]}`; what else there is belongs to later versions.
struct Document<'a> {
    items: &'a SyncSender<Item>,
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON export of runs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut schema, mut runs) = (None, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "schema" => schema = Some(map.next_value::<u32>()?),
                "hosts" => send(self.items, Item::Hosts(map.next_value()?))?,
                "runs" => {
                    map.next_value_seed(Runs { items: self.items })?;
                    runs = true;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            if let Some(found) = schema.filter(|found| *found != contracts::SCHEMA) {
                return Err(A::Error::custom(format!(
                    "its schema is {found}, this build reads {}; use the controller that wrote it",
                    contracts::SCHEMA
                )));
            }
        }
        if schema.is_none() {
            return Err(A::Error::missing_field("schema"));
        }
        if !runs {
            return Err(A::Error::missing_field("runs"));
        }
        Ok(())
    }
}

/// The list of runs.
struct Runs<'a> {
    items: &'a SyncSender<Item>,
}

impl<'de> DeserializeSeed<'de> for Runs<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Runs<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of runs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut runs: A) -> Result<(), A::Error> {
        while runs.next_element_seed(Run { items: self.items })?.is_some() {}
        Ok(())
    }
}

/// `{"run": …, "events": […], "samples": […]}`; exports before 0.2 have no events.
struct Run<'a> {
    items: &'a SyncSender<Item>,
}

impl<'de> DeserializeSeed<'de> for Run<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Run<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a run with its samples")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut named, mut sampled) = (false, false);
        let mut events = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "run" if !named => {
                    let run: RunRecord = map.next_value()?;
                    check(&run).map_err(A::Error::custom)?;
                    send(self.items, Item::Run(Box::new(run)))?;
                    named = true;
                }
                "samples" if named && !sampled => {
                    map.next_value_seed(Samples { items: self.items })?;
                    sampled = true;
                }
                "samples" => return Err(A::Error::custom("`samples` without a `run` before it")),
                "events" => events = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if !named {
            return Err(A::Error::missing_field("run"));
        }
        if !sampled {
            return Err(A::Error::missing_field("samples"));
        }
        send(self.items, Item::End(events))
    }
}

/// A run's requests.
struct Samples<'a> {
    items: &'a SyncSender<Item>,
}

impl<'de> DeserializeSeed<'de> for Samples<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Samples<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of samples")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut samples: A) -> Result<(), A::Error> {
        while let Some(sample) = samples.next_element()? {
            send(self.items, Item::Sample(Box::new(sample)))?;
        }
        Ok(())
    }
}

/// What the store takes for granted of ids.
fn check(run: &RunRecord) -> Result<(), String> {
    for id in [&run.run_id, &run.session_id] {
        if id.is_empty()
            || id.len() > ID_BYTES_MAX
            || !id.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return Err(format!("`{}` is not an id", excerpt(id, ID_BYTES_MAX)));
        }
    }
    if run.status.run_id != run.run_id {
        return Err(format!(
            "run {} has the status of run {}",
            run.run_id, run.status.run_id
        ));
    }
    Ok(())
}
