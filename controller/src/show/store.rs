//! What was done with the database as a whole: imported, taken out, checked, copied.

use serde::Serialize;

use crate::show::{Format, document, words};
use crate::store::{Checked, Deleted, Merged};

/// A file that was imported.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImportView {
    /// The file.
    pub file: String,
    /// What came of it.
    #[serde(flatten)]
    pub merged: Merged,
}

/// A line a file. JSON: `{"schema": 1, "imported": [{"file", "runs", "samples", "sessions", "there",
/// "under_way"}]}`.
pub fn imported(files: &[ImportView], format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return document("imported", files);
    }
    let line = |view: &ImportView| {
        let merged = &view.merged;
        let mut parts = vec![format!(
            "{}: imported {} ({}) of {}",
            view.file,
            words::count(merged.runs, "run"),
            words::count(merged.samples, "request"),
            words::count(merged.sessions, "new session"),
        )];
        if merged.there > 0 {
            parts.push(format!("{} here already", merged.there));
        }
        if merged.under_way > 0 {
            parts.push(format!("{} still under way there", merged.under_way));
        }
        parts.join(", ") + "\n"
    };
    Ok(files.iter().map(line).collect())
}

/// Runs that were taken out, and the room that came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeleteView {
    /// Their ids, oldest first.
    pub run_ids: Vec<String>,
    /// What went.
    #[serde(flatten)]
    pub deleted: Deleted,
    /// Bytes by which the file is smaller; none unless it was written anew.
    pub returned_bytes: Option<u64>,
    /// Bytes in the file that hold nothing now.
    pub free_bytes: u64,
}

/// A line for what went and one for the room. JSON: `{"schema": 1, "deleted": {…}}`.
pub fn deleted(view: &DeleteView, format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return document("deleted", view);
    }
    let went = format!(
        "deleted {} ({}) and {}\n",
        words::count(view.deleted.runs, "run"),
        words::count(view.deleted.samples, "request"),
        words::count(view.deleted.sessions, "empty session"),
    );
    let room = match view.returned_bytes {
        Some(bytes) => format!("the file is {bytes} bytes smaller\n"),
        None => format!(
            "{} bytes of the file are free for later runs; --vacuum gives them back to the disk\n",
            view.free_bytes
        ),
    };
    Ok(went + &room)
}

/// A line a problem, or that there is none. JSON: `{"schema": 1, "check": {"runs", "samples",
/// "problems"}}`.
pub fn checked(path: &str, checked: &Checked, format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return document("check", checked);
    }
    let runs = words::count(checked.runs, "run");
    let samples = words::count(checked.samples, "request");
    let found = match checked.problems.len() as u64 {
        0 => "whole".to_owned(),
        n => words::count(n, "problem"),
    };
    let mut text = format!("{path}: {runs}, {samples}: {found}\n");
    for problem in &checked.problems {
        text += &format!("  {problem}\n");
    }
    Ok(text)
}

/// A copy of the database.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackupView {
    /// The copy.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Runs in it.
    pub runs: u64,
    /// Their requests.
    pub samples: u64,
}

/// A line. JSON: `{"schema": 1, "backup": {"file", "bytes", "runs", "samples"}}`.
pub fn backed_up(view: &BackupView, format: Format) -> serde_json::Result<String> {
    if format == Format::Json {
        return document("backup", view);
    }
    Ok(format!(
        "{}: {}, {}, {} bytes, read again and whole\n",
        view.file,
        words::count(view.runs, "run"),
        words::count(view.samples, "request"),
        view.bytes
    ))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_an_import() {
        let mut view = ImportView {
            file: "lab.json".to_owned(),
            merged: Merged {
                runs: 12,
                samples: 240,
                sessions: 1,
                ..Merged::default()
            },
        };
        let text = |view: &ImportView| imported(std::slice::from_ref(view), Format::Text).unwrap();
        insta::assert_snapshot!(text(&view), @"lab.json: imported 12 runs (240 requests) of 1 new session");
        view.merged.there = 3;
        view.merged.under_way = 1;
        insta::assert_snapshot!(text(&view), @"lab.json: imported 12 runs (240 requests) of 1 new session, 3 here already, 1 still under way there");
        let json = imported(&[view], Format::Json).unwrap();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(document["imported"][0]["there"], 3);
    }

    #[test]
    fn problems_are_counted_and_listed() {
        let mut found = Checked {
            runs: 2,
            samples: 1,
            problems: Vec::new(),
        };
        let text = |found: &Checked| checked("bench.db", found, Format::Text).unwrap();
        insta::assert_snapshot!(text(&found), @"bench.db: 2 runs, 1 request: whole");
        found
            .problems
            .push("run 01A: 19 of its 20 requests are stored".to_owned());
        insta::assert_snapshot!(text(&found), @r"
        bench.db: 2 runs, 1 request: 1 problem
          run 01A: 19 of its 20 requests are stored
        ");
    }

    #[test]
    fn what_went_and_the_room_that_came_of_it() {
        let mut view = DeleteView {
            run_ids: vec!["01A".to_owned()],
            deleted: Deleted {
                runs: 1,
                samples: 20,
                sessions: 0,
            },
            returned_bytes: None,
            free_bytes: 8192,
        };
        insta::assert_snapshot!(deleted(&view, Format::Text).unwrap(), @r"
        deleted 1 run (20 requests) and 0 empty sessions
        8192 bytes of the file are free for later runs; --vacuum gives them back to the disk
        ");
        view.returned_bytes = Some(8192);
        insta::assert_snapshot!(deleted(&view, Format::Text).unwrap(), @r"
        deleted 1 run (20 requests) and 0 empty sessions
        the file is 8192 bytes smaller
        ");
    }
}
