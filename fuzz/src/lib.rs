//! The load generator's reading half, from the agent's own files: all that turns bytes of a server
//! into a sample, and nothing that needs a socket.
//!
//! The files are compiled here, and the agent is no dependency, because it would bring the engine
//! and candle with it, built anew under the sanitizer: a quarter of an hour before the first input.

#![allow(dead_code, reason = "targets use a part of each file")]

/// The agent's `load`, as far as it is pure.
#[path = "../../agent/src/load"]
pub mod load {
    pub mod answer;
    mod clock;
    pub mod event_times;
    pub mod sse;
    mod wire;

    /// Its `client`, without the connection.
    pub mod client {
        mod body;
        mod framing;
        mod head;
        mod reception;
        pub mod replay;
        mod unzip;
    }
}

/// An input's first bytes as places to cut the rest at, and the rest. The first byte says how many.
pub fn cuts(input: &[u8]) -> (Vec<usize>, &[u8]) {
    let Some((count, rest)) = input.split_first() else {
        return (Vec::new(), input);
    };
    let count = usize::from(*count).min(rest.len());
    let (steps, rest) = rest.split_at(count);
    let mut at = 0;
    let cuts = steps.iter().map(|step| {
        at += usize::from(*step);
        at
    });
    (cuts.collect(), rest)
}
