//! One thread that appends a run's samples and events, so that no disk stalls the measuring.
//!
//! Samples come through a bounded queue. Events are read from the run's record, which is their
//! source in memory: whatever is new there goes to disk with the next message.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use contracts::run::SampleTotals;
use contracts::sample::Sample;
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

use super::{RunFolder, SAMPLES_BYTES_MAX};
use crate::run::record::Record;

/// Messages that may wait for the disk: at one message a request, seconds of a stalled disk.
const QUEUE_MAX: usize = 1_024;

enum Message {
    Sample(Box<Sample>),
    Events,
}

/// Handle to the thread; dropping it ends the thread after what was sent.
pub struct Writer {
    queue: mpsc::Sender<Message>,
    ended: oneshot::Receiver<io::Result<SampleTotals>>,
}

impl Writer {
    /// Makes the files and starts the thread.
    pub fn start(folder: &RunFolder, record: Arc<Record>) -> io::Result<Self> {
        let mut files = Files::create(folder, record)?;
        let (queue, mut messages) = mpsc::channel(QUEUE_MAX);
        let (tell, ended) = oneshot::channel();
        std::thread::Builder::new()
            .name("spool".to_owned())
            .spawn(move || {
                let end = files.write_all(&mut messages);
                // Nobody listens if the run was given up; there is nobody to tell then.
                let _ = tell.send(end);
            })?;
        Ok(Self { queue, ended })
    }

    /// Hands a sample over. False: the thread has ended with an error, which [`finish`](Self::finish) gives.
    pub async fn sample(&self, sample: Sample) -> bool {
        self.queue
            .send(Message::Sample(Box::new(sample)))
            .await
            .is_ok()
    }

    /// Says that the record has new events. A full queue needs no more telling.
    pub fn events(&self) {
        let _ = self.queue.try_send(Message::Events);
    }

    /// All that was sent is on disk; what it came to.
    pub async fn finish(self) -> io::Result<SampleTotals> {
        drop(self.queue);
        self.ended
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the spool's thread ended early")))
    }
}

struct Files {
    samples: BufWriter<File>,
    events: BufWriter<File>,
    record: Arc<Record>,
    events_written: u64,
    samples_bytes: u64,
    count: u64,
    hash: Sha256,
}

impl Files {
    fn create(folder: &RunFolder, record: Arc<Record>) -> io::Result<Self> {
        Ok(Self {
            samples: BufWriter::new(File::create(folder.samples_file())?),
            events: BufWriter::new(File::create(folder.events_file())?),
            record,
            events_written: 0,
            samples_bytes: 0,
            count: 0,
            hash: Sha256::new(),
        })
    }

    fn write_all(&mut self, messages: &mut mpsc::Receiver<Message>) -> io::Result<SampleTotals> {
        while let Some(message) = messages.blocking_recv() {
            if let Message::Sample(sample) = message {
                self.sample(&sample)?;
            }
            self.new_events()?;
        }
        self.new_events()?;
        self.samples.get_ref().sync_all()?;
        self.events.get_ref().sync_all()?;
        Ok(SampleTotals {
            count: self.count,
            sha256: hex::encode(self.hash.clone().finalize()),
        })
    }

    /// Each line is handed to the kernel as a whole: a killed agent loses at most the line in hand.
    fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        let mut line = serde_json::to_vec(sample)?;
        line.push(b'\n');
        self.samples_bytes += line.len() as u64;
        if self.samples_bytes > SAMPLES_BYTES_MAX {
            return Err(io::Error::other(format!(
                "samples exceed the limit of {} MiB",
                SAMPLES_BYTES_MAX >> 20
            )));
        }
        self.samples.write_all(&line)?;
        self.samples.flush()?;
        self.hash.update(&line);
        self.count += 1;
        Ok(())
    }

    fn new_events(&mut self) -> io::Result<()> {
        for event in self.record.events_after(self.events_written) {
            serde_json::to_writer(&mut self.events, &event)?;
            self.events.write_all(b"\n")?;
            self.events_written = event.seq;
        }
        self.events.flush()
    }
}
