//! Tests of the spool on a real folder.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use contracts::run::{EventKind, RunEvent, RunState, Stage};
use contracts::sample::Sample;
use sha2::{Digest, Sha256};

use super::writer::Writer;
use super::*;
use crate::run::record::Record;
use crate::run::testing::fake_status;

struct Fixture {
    _dir: tempfile::TempDir,
    spool: Spool,
    id: RunId,
    status: RunStatus,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let status = fake_status();
    let id = RunId::parse(&status.run_id).unwrap();
    Fixture {
        spool: Spool::new(dir.path().to_path_buf()),
        _dir: dir,
        id,
        status,
    }
}

fn sample(index: u32) -> Sample {
    Sample {
        index,
        ..Sample::default()
    }
}

fn state_of(event: &RunEvent) -> Option<RunState> {
    match event.what {
        EventKind::State { state } => Some(state),
        _ => None,
    }
}

#[test]
fn only_a_ulid_is_a_run_id() {
    let good = ulid::Ulid::generate().to_string();
    assert_eq!(RunId::parse(&good).unwrap().as_str(), good);
    for bad in [
        "",
        "..",
        "../../etc/passwd",
        "01ARZ3NDEKTSV4RRFFQ69G5FA",
        "01arz3ndektsv4rrffq69g5fav",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV/",
        "ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
    ] {
        assert_eq!(RunId::parse(bad), None, "{bad}");
    }
}

#[tokio::test]
async fn what_is_written_comes_back_page_by_page_with_its_hash() {
    let Fixture {
        _dir,
        spool,
        id,
        status,
        ..
    } = fixture();
    let folder = spool.create(&id, &status).unwrap();
    let record = Arc::new(Record::new(status));
    let writer = Writer::start(&folder, Arc::clone(&record)).unwrap();
    for index in 0..25 {
        assert!(writer.sample(sample(index)).await);
    }
    record.enter(Stage::Load);
    writer.events();
    let totals = writer.finish().await.unwrap();
    assert_eq!(totals.count, 25);

    let mut bytes = Vec::new();
    let mut from = 0;
    loop {
        let page = spool.samples(&id, from, 10).unwrap();
        if page.is_empty() {
            break;
        }
        from += page
            .split(|b| *b == b'\n')
            .filter(|line| !line.is_empty())
            .count() as u64;
        bytes.extend(page);
    }
    assert_eq!(from, 25);
    assert_eq!(hex::encode(Sha256::digest(&bytes)), totals.sha256);
    assert_eq!(folder.count_samples().unwrap(), totals);
    // Any page, also back and in the middle.
    let page = spool.samples(&id, 7, 1).unwrap();
    assert_eq!(serde_json::from_slice::<Sample>(&page).unwrap(), sample(7));
    assert_eq!(spool.samples(&id, 25, 10).unwrap(), b"");
}

#[tokio::test]
async fn an_interrupted_run_is_failed_in_the_stage_it_had_reached_and_keeps_whole_lines() {
    let Fixture {
        _dir,
        spool,
        id,
        status,
        ..
    } = fixture();
    let folder = spool.create(&id, &status).unwrap();
    let record = Arc::new(Record::new(status.clone()));
    let writer = Writer::start(&folder, Arc::clone(&record)).unwrap();
    record.enter(Stage::Load);
    record.enter(Stage::Warmup);
    record.enter(Stage::Measure);
    writer.sample(sample(0)).await;
    writer.finish().await.unwrap();
    let torn = "{\"index\":1,\"war";
    let mut bytes = fs::read(folder.samples_file()).unwrap();
    bytes.extend(torn.as_bytes());
    fs::write(folder.samples_file(), bytes).unwrap();

    let failed = spool.recover(Some((id.as_str(), Stage::Load)), 7).unwrap();
    assert_eq!(failed, std::slice::from_ref(&id));
    let ended = spool.status(&id).unwrap().unwrap();
    let failure = ended.failure.as_ref().unwrap();
    assert_eq!(ended.state, RunState::Failed);
    assert_eq!(
        (failure.stage, failure.message.as_str()),
        (Stage::Measure, "the agent ended during measuring")
    );
    assert_eq!(ended.samples.as_ref().unwrap().count, 1);
    assert_eq!(
        spool
            .samples(&id, 0, 10)
            .unwrap()
            .iter()
            .filter(|b| **b == b'\n')
            .count(),
        1
    );
    // The story has its end, told once, after what was told before.
    let events = spool.events(&id, &ended, 0).unwrap();
    let states: Vec<_> = events.iter().filter_map(state_of).collect();
    use RunState::{Failed, Measuring, Queued, Starting, Warming};
    assert_eq!(states, [Queued, Starting, Warming, Measuring, Failed]);
    assert_eq!(events.last().unwrap().seq, events.len() as u64);
    let last = events.len() as u64;
    assert_eq!(spool.events(&id, &ended, last - 1).unwrap().len(), 1);
    assert!(spool.events(&id, &ended, last).unwrap().is_empty());
    // A second start finds nothing to do.
    assert!(spool.recover(None, 8).unwrap().is_empty());
}

#[test]
fn an_event_that_is_torn_inside_a_character_is_dropped() {
    let Fixture {
        _dir,
        spool,
        id,
        status,
        ..
    } = fixture();
    let folder = spool.create(&id, &status).unwrap();
    let record = Record::new(status);
    record.log("caf\u{e9}");
    for event in record.events_after(0) {
        folder.append_event(&event).unwrap();
    }
    let bytes = fs::read(folder.events_file()).unwrap();
    let first_half = bytes.iter().position(|b| *b == 0xc3).unwrap();
    let torn = bytes.get(..=first_half).unwrap();
    assert!(std::str::from_utf8(torn).is_err());
    fs::write(folder.events_file(), torn).unwrap();

    assert_eq!(spool.recover(None, 7).unwrap(), std::slice::from_ref(&id));
    let ended = spool.status(&id).unwrap().unwrap();
    let events = spool.events(&id, &ended, 0).unwrap();
    let states: Vec<_> = events.iter().map(state_of).collect();
    assert_eq!(states, [Some(RunState::Queued), Some(RunState::Failed)]);
}

#[test]
fn a_run_that_ended_is_left_alone_and_one_never_accepted_goes() {
    let Fixture {
        _dir,
        spool,
        id,
        mut status,
        ..
    } = fixture();
    status.state = RunState::Done;
    spool.create(&id, &status).unwrap();
    let half = RunId::parse(&ulid::Ulid::generate().to_string()).unwrap();
    fs::create_dir(&spool.folder(&half).path).unwrap();
    assert!(spool.recover(None, 7).unwrap().is_empty());
    assert_eq!(spool.status(&id).unwrap().unwrap(), status);
    assert_eq!(spool.ids().unwrap(), std::slice::from_ref(&id));
    spool.remove(&id).unwrap();
    spool.remove(&id).unwrap();
    assert_eq!(spool.status(&id).unwrap(), None);
}
