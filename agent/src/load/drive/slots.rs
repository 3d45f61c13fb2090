//! The closed loop: slots that each make one request after the other. A slot that becomes free
//! takes the next request of the run, so that the warm-up hands over to the measurement while all
//! other slots are at work.

use std::rc::Rc;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::floor::{Floor, Turn};
use super::pool;
use crate::load::client::{Client, Shared};

/// Makes all requests with `concurrency` slots.
pub(super) async fn all(floor: &Rc<Floor>, shared: &Arc<Shared>, concurrency: u32) {
    let keepalive = floor.job.keepalive;
    let opened = pool::open_ahead(shared, concurrency, keepalive, &floor.stop).await;
    let clients = match opened {
        Ok(clients) => clients,
        Err(error) => return floor.fail(floor.stage(), error.message),
    };
    floor.ready().await;
    let free_ns = floor.clock.now_ns();
    let mut slots = JoinSet::new();
    for client in clients {
        slots.spawn_local(slot(Rc::clone(floor), client, free_ns));
    }
    while let Some(ended) = slots.join_next().await {
        if let Err(error) = ended {
            floor.fail(floor.stage(), format!("internal error of a slot: {error}"));
        }
    }
}

/// In a closed loop a request is due when its slot is free.
async fn slot(floor: Rc<Floor>, mut client: Client, mut free_ns: u64) {
    let mut first_of_slot = true;
    while let Some(group) = floor.take().await {
        let turn = Turn {
            group,
            due_ns: free_ns,
            released_ns: None,
            first_of_slot,
        };
        free_ns = floor.serve(&mut client, turn).await;
        first_of_slot = false;
    }
    floor.slot_idle();
}
