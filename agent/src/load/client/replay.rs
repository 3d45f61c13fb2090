//! An answer from bytes at rest, through all that an answer from a socket goes through: for tests
//! and fuzzing. Nothing of a run uses it.

use contracts::sample::Sample;

use super::reception::Reception;
use crate::load::answer::Answer;

/// Reads `bytes` as a server's answer to a request that asked for a stream, in pieces that end at
/// `cuts`, each read a millisecond after the one before, and the connection's end behind all. Gives
/// the sample of it, whatever it came to.
pub fn read_answer(bytes: &[u8], cuts: &[usize]) -> Sample {
    let mut sample = Sample {
        sent_ns: Some(0),
        ..Sample::default()
    };
    let mut reception = Reception::new(true, Answer::new(false, false));
    let end = receive_all(&mut reception, bytes, cuts, &mut sample);
    reception.into_answer().settle(&mut sample, end, None);
    sample
}

fn receive_all(
    reception: &mut Reception,
    bytes: &[u8],
    cuts: &[usize],
    sample: &mut Sample,
) -> Result<(), contracts::sample::SampleError> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| *cut.min(&bytes.len())).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    ends.dedup();
    // A read of nothing is the end of a connection.
    ends.retain(|end| *end > 0);
    let mut start = 0;
    let mut at_ns = 0;
    for end in ends {
        at_ns += 1_000_000;
        let unread = bytes.get(start..end).unwrap_or_default();
        start += reception.receive(unread, at_ns, sample)?;
        if reception.is_ended() {
            return reception.verdict();
        }
    }
    let last_read_ns = Some(at_ns).filter(|_| !bytes.is_empty());
    reception.eof(at_ns + 1_000_000, last_read_ns, sample)
}

#[cfg(test)]
mod tests;
