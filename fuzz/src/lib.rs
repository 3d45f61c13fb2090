//! The load generator's reading half, from the agent's own files: all that turns bytes of a server
//! into a sample, and nothing that needs a socket.
//!
//! The files are compiled here, and the agent is no dependency, because it would bring the engine
//! and candle with it, built anew under the sanitizer: a quarter of an hour before the first input.

#![allow(dead_code, reason = "targets use a part of each file")]

/// The agent's `load`, as far as it is pure.
pub mod load {
    #[path = "../../../agent/src/load/answer.rs"]
    pub mod answer;
    #[path = "../../../agent/src/load/clock.rs"]
    mod clock;
    #[path = "../../../agent/src/load/event_times.rs"]
    pub mod event_times;
    #[path = "../../../agent/src/load/sse.rs"]
    pub mod sse;
    #[path = "../../../agent/src/load/wire.rs"]
    mod wire;

    /// Its `client`, without the connection.
    pub mod client {
        #[path = "../../../../agent/src/load/client/body.rs"]
        mod body;
        #[path = "../../../../agent/src/load/client/framing.rs"]
        mod framing;
        #[path = "../../../../agent/src/load/client/head.rs"]
        mod head;
        #[path = "../../../../agent/src/load/client/reception.rs"]
        mod reception;
        #[path = "../../../../agent/src/load/client/replay.rs"]
        pub mod replay;
        #[path = "../../../../agent/src/load/client/unzip.rs"]
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
