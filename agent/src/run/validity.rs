//! Whether a measurement can be believed: each figure against its limit. Pure.
//!
//! Small runs are not condemned by chance: the 99th percentile of the dispatch lag is judged from
//! [`LAG_REQUESTS_MIN`] requests on, below that its median is; requests in flight are judged from
//! [`IN_FLIGHT_SLOTS_MIN`] slots on, since the moment between two requests is a larger share of few
//! slots; the load thread's share of a core needs a window; of an achieved rate's window one wall is
//! left out, since a server that keeps up ends so much later than it is asked; drift must exceed
//! what its medians' errors explain.

use contracts::defaults::{
    ACHIEVED_SHARE_MIN, CLIENT_BUSY_SHARE_MAX, DISPATCH_LAG_P99_MS_MAX, DRIFT_SHARE_MAX,
    ERROR_SHARE_MAX, FOREIGN_CPU_WARN_SHARE, IN_FLIGHT_SHARE_MIN, INPUT_MISMATCH_SHARE_MAX,
    SHORT_SHARE_MAX, TOKEN_MISMATCH_SHARE_MAX, TRUNCATED_SHARE_MAX,
};
use contracts::run::{Doubt, Soundness, Validity};

use crate::load::Basis;

/// Requests from which on a 99th percentile of the lag says more than its largest value.
const LAG_REQUESTS_MIN: u32 = 20;
/// Slots from which on requests in flight are judged.
const IN_FLIGHT_SLOTS_MIN: u32 = 8;
/// Window below which the load thread's share of a core is that of its start.
const BUSY_WINDOW_MS_MIN: f64 = 200.0;
/// Window, in the longest of the first requests' wall times, below which an achieved rate is that of
/// the last request's wait and not of the server.
const ACHIEVED_WALLS_MIN: f64 = 2.0;

/// Judges `validity` by the limits: sets its verdict and its doubts. `asked_per_s` is the rate that
/// was asked for, of which a schedule by chance offers a little more or less.
pub(super) fn judge(validity: &mut Validity, basis: &Basis, asked_per_s: Option<f64>) {
    let mut doubts = Vec::new();
    client(validity, basis, &mut doubts);
    server(validity, basis, asked_per_s, &mut doubts);
    answers(validity, &mut doubts);
    if let Some(share) = validity.foreign_cpu_during
        && share > FOREIGN_CPU_WARN_SHARE
    {
        let message = format!("others used {} of the CPU while measuring", percent(share));
        doubts.push(degraded("foreign_cpu_warn_share", message));
    }
    validity.verdict = doubts
        .iter()
        .map(|doubt| doubt.verdict)
        .max()
        .unwrap_or_default();
    validity.doubts = doubts;
}

/// The code of the warning that a doubt also is. Two of them are older than the limits' names.
pub(super) fn warning_code(doubt: &Doubt) -> &str {
    match doubt.limit.as_str() {
        "foreign_cpu_warn_share" => "foreign_cpu",
        "token_mismatch_share_max" => "token_count_mismatch",
        limit => limit,
    }
}

fn client(validity: &Validity, basis: &Basis, doubts: &mut Vec<Doubt>) {
    let (word, lag_ms) = if basis.sent >= LAG_REQUESTS_MIN {
        ("p99", validity.dispatch_lag_p99_ms)
    } else {
        ("p50", validity.dispatch_lag_p50_ms)
    };
    if let Some(lag_ms) = lag_ms.filter(|ms| *ms > DISPATCH_LAG_P99_MS_MAX) {
        let message = format!(
            "the client sent requests {} ms after they could go ({word}; limit {DISPATCH_LAG_P99_MS_MAX} ms)",
            figure(lag_ms)
        );
        doubts.push(client_bound("dispatch_lag_p99_ms_max", message));
    }
    if let Some(share) = validity.client_busy_share
        && share > CLIENT_BUSY_SHARE_MAX
        && basis.window_ms >= BUSY_WINDOW_MS_MIN
    {
        let message = format!(
            "the load generator used {} of its core (limit {})",
            percent(share),
            percent(CLIENT_BUSY_SHARE_MAX)
        );
        doubts.push(client_bound("client_busy_share_max", message));
    }
    if let (Some(asked), Some(mean)) = (validity.in_flight_asked, validity.in_flight_mean)
        && asked >= IN_FLIGHT_SLOTS_MIN
        && mean < f64::from(asked) * IN_FLIGHT_SHARE_MIN
    {
        let message = format!(
            "{} of {asked} requests were in flight on average (limit {})",
            figure(mean),
            percent(IN_FLIGHT_SHARE_MIN)
        );
        doubts.push(client_bound("in_flight_share_min", message));
    }
}

fn server(validity: &Validity, basis: &Basis, asked_per_s: Option<f64>, doubts: &mut Vec<Doubt>) {
    if let (Some(offered), Some(achieved), Some(wall_ms)) = (
        validity.offered_per_s,
        validity.achieved_per_s,
        basis.early_wall_ms,
    ) && basis.window_ms >= ACHIEVED_WALLS_MIN * wall_ms
    {
        // The window ends one wall after the last request was due, however fast the server is. That
        // of the first ones is meant: where requests queue, the last ones' have grown.
        let settled = achieved * basis.window_ms / (basis.window_ms - wall_ms);
        if settled < offered * ACHIEVED_SHARE_MIN {
            let message = format!(
                "offered {}, achieved {}/s",
                rate(asked_per_s.unwrap_or(offered), offered),
                figure(achieved)
            );
            doubts.push(degraded("achieved_share_min", message));
        }
    }
    if let Some(drift) = validity.drift_share
        && drift.abs() > DRIFT_SHARE_MAX.max(basis.drift_noise_share)
    {
        let message = format!(
            "the last third of the requests took {} {} than the first (limit {})",
            percent(drift.abs()),
            if drift > 0.0 { "longer" } else { "less" },
            percent(DRIFT_SHARE_MAX)
        );
        doubts.push(degraded("drift_share_max", message));
    }
}

fn answers(validity: &Validity, doubts: &mut Vec<Doubt>) {
    let rows = [
        (
            "error_share_max",
            validity.error_share,
            ERROR_SHARE_MAX,
            "of the requests failed",
        ),
        (
            "truncated_share_max",
            validity.truncated_share,
            TRUNCATED_SHARE_MAX,
            "of the answers broke off",
        ),
        (
            "short_share_max",
            validity.short_share,
            SHORT_SHARE_MAX,
            "of the answers are shorter than asked, in spite of ignore_eos",
        ),
        (
            "input_mismatch_share_max",
            validity.input_mismatch_share,
            INPUT_MISMATCH_SHARE_MAX,
            "of the prompts are of another length, by the server's count, than they were made",
        ),
        (
            "token_mismatch_share_max",
            validity.token_mismatch_share,
            TOKEN_MISMATCH_SHARE_MAX,
            "of the answers have another number of tokens by the server's count than by the tokenizer's",
        ),
    ];
    for (limit, share, most, words) in rows {
        if let Some(share) = share.filter(|share| *share > most) {
            let message = format!("{} {words} (limit {})", percent(share), percent(most));
            doubts.push(degraded(limit, message));
        }
    }
}

/// `20/s`, or `20/s (22/s as drawn)` where the schedule came out otherwise.
fn rate(asked: f64, offered: f64) -> String {
    let (asked, offered) = (figure(asked), figure(offered));
    if asked == offered {
        format!("{asked}/s")
    } else {
        format!("{asked}/s ({offered}/s as drawn)")
    }
}

fn degraded(limit: &str, message: String) -> Doubt {
    Doubt {
        limit: limit.to_owned(),
        verdict: Soundness::Degraded,
        message,
    }
}

fn client_bound(limit: &str, message: String) -> Doubt {
    Doubt {
        verdict: Soundness::ClientBound,
        ..degraded(limit, message)
    }
}

/// A number as people say it: whole from 10 on, else with one digit behind the point.
fn figure(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded >= 10.0 || rounded.fract() == 0.0 {
        format!("{rounded:.0}")
    } else {
        format!("{rounded:.1}")
    }
}

/// `8 %`, `0.4 %`, `97.5 %`.
fn percent(share: f64) -> String {
    let percent = (share * 1_000.0).round() / 10.0;
    if percent.fract() == 0.0 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests;
