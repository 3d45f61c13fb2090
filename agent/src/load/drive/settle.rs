//! The thread that makes samples of answers: hashing, packing event times and counting tokens take
//! longer than reading does, and happen here. It hands each sample on to the spool's queue.

use std::io;
use std::thread;

use contracts::sample::Sample;
use tokio::sync::{mpsc, oneshot};

use crate::load::answer::TokenCounter;
use crate::load::client::Ended;
use crate::load::hidden::Hidden;

/// Answers that wait to be settled: the last ones of a thousand streams that end together. A full
/// queue holds back the slots whose answers do not fit, and so their next requests, which then
/// count as late.
const SETTLE_QUEUE_MAX: usize = 1_024;

/// A request that is over.
pub(super) struct Over {
    pub sample: Sample,
    /// What came of it; none if it was never handed to a client, and the sample says why.
    pub ended: Option<Ended>,
}

/// Starts the thread. It ends when the queue is closed and empty, or when `out` is closed, and then
/// says whether `out` has taken all.
pub(super) fn start(
    out: mpsc::Sender<Sample>,
    counter: Option<TokenCounter>,
    hidden: Hidden,
) -> io::Result<(mpsc::Sender<Over>, oneshot::Receiver<bool>)> {
    let (queue, mut waiting) = mpsc::channel(SETTLE_QUEUE_MAX);
    let (tell, all_taken) = oneshot::channel();
    thread::Builder::new()
        .name("settle".to_owned())
        .spawn(move || {
            let mut taken = true;
            while let Some(over) = waiting.blocking_recv() {
                let sample = settled(over, counter.as_ref(), &hidden);
                taken = out.blocking_send(sample).is_ok();
                if !taken {
                    break;
                }
            }
            // Nobody listens if the drive was dropped; there is nobody to tell then.
            let _ = tell.send(taken);
        })?;
    Ok((queue, all_taken))
}

fn settled(over: Over, counter: Option<&TokenCounter>, hidden: &Hidden) -> Sample {
    let Over { mut sample, ended } = over;
    if let Some(Ended { answer, end }) = ended {
        answer.settle(&mut sample, end, counter);
    }
    sample.error = sample.error.map(|error| hidden.mask(error));
    sample
}
