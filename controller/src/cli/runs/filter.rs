//! Flags that choose runs, alike in `runs list`, `export`, `delete` and `prune`.

use std::time::Duration;

use clap::Args as ClapArgs;
use contracts::run::{Mode, RunState};

use crate::store::RunFilter;
use crate::{selector, values};

/// Where the flags stand in the help.
const HEADING: &str = "Which runs";

/// All that is given must hold; of several words for one flag, any.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct FilterArgs {
    /// Of these chapters
    #[arg(long, value_delimiter = ',', value_name = "N[,N…]", value_parser = chapter, help_heading = HEADING)]
    chapter: Vec<String>,
    /// Of these engines
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME…]", help_heading = HEADING)]
    engine: Vec<String>,
    /// offline or online
    #[arg(long, value_parser = mode, help_heading = HEADING)]
    mode: Option<Mode>,
    /// On this host: its name, or the start of its fingerprint
    #[arg(long, help_heading = HEADING)]
    host: Option<String>,
    /// On the agent of this name
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    agent: Option<String>,
    /// With this model, as it was asked for
    #[arg(long, help_heading = HEADING)]
    model: Option<String>,
    /// With this label
    #[arg(long, help_heading = HEADING)]
    label: Option<String>,
    /// With this tag; repeat it for more, all must hold
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair, help_heading = HEADING)]
    tag: Vec<(String, String)>,
    /// In these states: done, failed, cancelled, …
    #[arg(long, value_delimiter = ',', value_name = "STATE[,STATE…]", value_parser = state, help_heading = HEADING)]
    state: Vec<RunState>,
    /// Made in this time (2h, 7d), or since a date (2026-11-01, UTC)
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = HEADING)]
    since: Option<i64>,
    /// Of this session, by any prefix of its id
    #[arg(long, value_name = "ID", help_heading = HEADING)]
    session: Option<String>,
}

impl From<FilterArgs> for RunFilter {
    fn from(args: FilterArgs) -> Self {
        Self {
            chapters: args.chapter,
            engines: args.engine,
            mode: args.mode,
            host: args.host,
            agent: args.agent,
            model: args.model,
            label: args.label,
            tags: args.tag,
            states: args.state,
            since_unix_ms: args.since,
            session: args.session,
            ..Self::default()
        }
    }
}

fn chapter(word: &str) -> Result<String, String> {
    selector::chapter_id(word).ok_or_else(|| "give a chapter such as 1 or ch01".to_owned())
}

fn mode(word: &str) -> Result<Mode, String> {
    match word {
        "offline" => Ok(Mode::Offline),
        "online" => Ok(Mode::Online),
        _ => Err("use offline or online".to_owned()),
    }
}

fn state(word: &str) -> Result<RunState, String> {
    serde_json::from_value(word.into()).map_err(|_| {
        "use queued, starting, warming, measuring, stopping, done, failed or cancelled".to_owned()
    })
}

/// A moment in ms since 1970: so long ago, or a date.
///
/// # Errors
/// How it is written.
pub fn moment(word: &str) -> Result<i64, String> {
    moment_at(word, crate::now_unix_ms())
}

fn moment_at(word: &str, now_unix_ms: i64) -> Result<i64, String> {
    let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    if let Ok(ago) = humantime::parse_duration(word) {
        return Ok(now_unix_ms.saturating_sub(millis(ago)));
    }
    let date = format!("{word} 00:00:00");
    let time =
        humantime::parse_rfc3339_weak(word).or_else(|_| humantime::parse_rfc3339_weak(&date));
    let since = time
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let wrong = "give a span such as 2h or 7d, or a date such as 2026-11-01 (UTC)";
    since.map(millis).ok_or_else(|| wrong.to_owned())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_span_or_a_date() {
        const DAY: i64 = 86_400_000;
        let at = |word: &str| moment_at(word, 100 * DAY);
        assert_eq!(at("7d").unwrap(), 93 * DAY);
        assert_eq!(at("2h").unwrap(), 100 * DAY - 2 * 3_600_000);
        assert_eq!(at("1970-01-11").unwrap(), 10 * DAY);
        assert_eq!(at("1970-01-11T00:00:01Z").unwrap(), 10 * DAY + 1000);
        assert_eq!(at("1970-01-11 00:00:01").unwrap(), 10 * DAY + 1000);
        for word in [
            "",
            "7",
            "soon",
            "2026-13-01",
            "2026-11",
            "-1d",
            "1969-01-01",
        ] {
            let error = at(word).unwrap_err();
            assert!(error.contains("2026-11-01"), "{word}: {error}");
        }
    }

    #[test]
    fn words_that_do_not_exist_are_refused() {
        assert_eq!(chapter("1").unwrap(), "ch01");
        assert!(chapter("first").is_err() && mode("both").is_err());
        assert_eq!(state("done").unwrap(), RunState::Done);
        assert!(state("gone").unwrap_err().contains("cancelled"));
    }
}
