//! Whether a spec can be meant at all: bounds and shapes, no look at the machine.
//!
//! What depends on this host (chapters, engines, models) is [`super::resolve`]'s.

mod sampling;
mod work;

use std::collections::BTreeSet;

use contracts::api::Secrets;
use contracts::defaults;
use contracts::run::{Arm, EngineRef, Limits, Load, Mode, RunSpec};

use crate::load::sendable;

/// Options of one arm, at most: a chapter has a handful.
const OPTIONS_MAX: usize = 32;
/// Bytes of an option's value, of a chapter's id, of an engine's or an arm's name.
const NAME_BYTES_MAX: usize = 256;
/// Bytes of a model's name, of a path, of a URL, of a salt.
const PATH_BYTES_MAX: usize = 4_096;
/// Wait for a server to get ready, at most: large models load for minutes, not hours.
const READY_TIMEOUT_MS_MAX: u64 = 3_600_000;
/// SIGTERM to SIGKILL, at most: a cancelled run keeps the host busy that long.
const STOP_GRACE_MS_MAX: u64 = 600_000;
/// One request, one silence, one wait for a device, at most.
const WAIT_MS_MAX: u64 = 24 * 3_600_000;
/// A run's deadline, at most.
const DEADLINE_S_MAX: u64 = 7 * 24 * 3_600;

/// A field that makes a run impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Refusal {
    /// Path of the field (`workload.sampling.max_tokens`).
    pub field: String,
    /// What is wrong and what to do.
    pub message: String,
}

impl Refusal {
    /// A refusal of `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            message: message.into(),
        }
    }
}

/// The first field that is out of bounds, if any.
pub fn spec(spec: &RunSpec) -> Result<(), Refusal> {
    arm(&spec.arm)?;
    work::workload(&spec.workload)?;
    counted_in_slots(spec)?;
    slo(spec)?;
    bytes("salt", &spec.salt)?;
    sampling::sampling(&spec.workload.sampling)?;
    limits(&spec.limits)
}

/// Whether a run may take this long.
pub fn deadline(deadline_s: u64) -> Result<(), Refusal> {
    bounded("deadline_s", deadline_s, 1, DEADLINE_S_MAX)
}

/// Whether the headers that an online run will send are those that its record will name, and can be
/// sent.
pub fn secrets(spec: &RunSpec, secrets: &Secrets) -> Result<(), Refusal> {
    if spec.arm.mode == Mode::Offline {
        return Ok(());
    }
    let named: BTreeSet<&String> = spec.arm.header_names.iter().collect();
    let given: BTreeSet<&String> = secrets.headers.keys().collect();
    if let Some(name) = named.symmetric_difference(&given).next() {
        let message = format!("{name:?} is not in both of secrets and arm.header_names");
        return Err(Refusal::new("secrets", message));
    }
    sendable(&secrets.headers).map_err(|error| Refusal::new("secrets", error.to_string()))?;
    Ok(())
}

fn arm(arm: &Arm) -> Result<(), Refusal> {
    if let Some(called) = &arm.name
        && (called.len() > NAME_BYTES_MAX || called.chars().any(char::is_control))
    {
        return Err(Refusal::new("arm.name", "too long, or not on one line"));
    }
    match &arm.engine {
        EngineRef::Chapter { id } => name("arm.engine.id", id)?,
        EngineRef::Named {
            name: engine,
            chapter,
        } => {
            name("arm.engine.name", engine)?;
            if let Some(chapter) = chapter {
                name("arm.engine.chapter", chapter)?;
            }
        }
        EngineRef::Url { url, served_name } => {
            bytes("arm.engine.url", url)?;
            if let Some(served_name) = served_name {
                bytes("arm.engine.served_name", served_name)?;
            }
        }
    }
    for (field, len) in [
        ("arm.header_names", arm.header_names.len()),
        ("arm.extra", arm.extra.len()),
    ] {
        bounded(field, len as u64, 0, defaults::EXTRAS_MAX as u64)?;
    }
    if let Some(threads) = arm.threads {
        bounded(
            "arm.threads",
            threads.into(),
            1,
            defaults::THREADS_MAX.into(),
        )?;
    }
    if arm.options.len() > OPTIONS_MAX {
        return Err(Refusal::new(
            "arm.options",
            format!("at most {OPTIONS_MAX}"),
        ));
    }
    for (key, value) in &arm.options {
        name("arm.options", key)?;
        // The option becomes `--option key=value`: one argument, with nothing to break it.
        if value.len() > NAME_BYTES_MAX || value.contains('\0') {
            return Err(Refusal::new(
                format!("arm.options.{key}"),
                "too long, or has a NUL",
            ));
        }
    }
    Ok(())
}

fn limits(limits: &Limits) -> Result<(), Refusal> {
    bounded(
        "limits.ready_timeout_ms",
        limits.ready_timeout_ms,
        1,
        READY_TIMEOUT_MS_MAX,
    )?;
    bounded(
        "limits.stop_grace_ms",
        limits.stop_grace_ms,
        0,
        STOP_GRACE_MS_MAX,
    )?;
    bounded(
        "limits.request_timeout_ms",
        limits.request_timeout_ms,
        1,
        WAIT_MS_MAX,
    )?;
    bounded(
        "limits.stall_timeout_ms",
        limits.stall_timeout_ms,
        1,
        WAIT_MS_MAX,
    )?;
    bounded(
        "limits.device_wait_ms",
        limits.device_wait_ms,
        0,
        WAIT_MS_MAX,
    )
}

/// An offline worker has slots, but no clock of arrivals and no window.
fn counted_in_slots(spec: &RunSpec) -> Result<(), Refusal> {
    let workload = &spec.workload;
    let field = match workload.load {
        _ if spec.arm.mode == Mode::Online => return Ok(()),
        Load::Closed { .. } if workload.duration_ms.is_none() => return Ok(()),
        Load::Closed { .. } => "workload.duration_ms",
        _ => "workload.load",
    };
    let message = "offline runs have slots and as many requests as are asked; measure online";
    Err(Refusal::new(field, message))
}

fn slo(spec: &RunSpec) -> Result<(), Refusal> {
    let Some(slo) = &spec.slo else { return Ok(()) };
    let limits = [
        ("slo.ttft_ms", slo.ttft_ms),
        ("slo.tpot_ms", slo.tpot_ms),
        ("slo.wall_ms", slo.wall_ms),
    ];
    for (field, limit) in limits {
        if limit.is_some_and(|ms| !(ms.is_finite() && ms > 0.0)) {
            return Err(Refusal::new(field, "must be above 0"));
        }
    }
    Ok(())
}

/// A text that stands in a command line, a request or a name of a file.
fn bytes(field: &str, text: &str) -> Result<(), Refusal> {
    if text.len() > PATH_BYTES_MAX || text.contains('\0') {
        return Err(Refusal::new(field, "too long, or has a NUL"));
    }
    Ok(())
}

fn bounded(field: &str, value: u64, min: u64, max: u64) -> Result<(), Refusal> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(Refusal::new(
        field,
        format!("{value} is not from {min} to {max}"),
    ))
}

fn name(field: &str, name: &str) -> Result<(), Refusal> {
    let ok = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(ok) {
        return Ok(());
    }
    Err(Refusal::new(
        field,
        format!("{name:?}: a name has letters, digits, '-', '_' and '.' only"),
    ))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use contracts::run::{AllowFailures, Arrival, PromptSource};

    use super::*;
    use crate::run::testing::fake_spec;

    #[test]
    fn the_usual_spec_is_fine() {
        spec(&fake_spec()).unwrap();
        deadline(60).unwrap();
    }

    #[test]
    fn a_shared_prefix_has_a_bound() {
        use contracts::run::{Length, SharedPrefix};
        let refused = |tokens, share| {
            let mut spoiled = fake_spec();
            spoiled.workload.prompts = PromptSource::Synthetic {
                input: Length::Fixed { tokens: 64 },
                output: None,
                prefix: Some(SharedPrefix { tokens, share }),
            };
            spec(&spoiled).err().map(|refusal| refusal.field)
        };
        assert_eq!(refused(32, 0.5), None);
        for (tokens, share, field) in [
            (u32::MAX, 0.5, "workload.prompts.prefix.tokens"),
            (32, 1.5, "workload.prompts.prefix.share"),
        ] {
            assert_eq!(refused(tokens, share).as_deref(), Some(field));
        }
    }

    #[test]
    fn headers_are_the_named_ones_and_can_be_sent() {
        let mut spec = fake_spec();
        spec.arm.mode = Mode::Online;
        let given = |name: &str, value: &str| Secrets {
            headers: [(name.to_owned(), value.to_owned())].into(),
        };
        secrets(&spec, &Secrets::default()).unwrap();
        let undeclared = secrets(&spec, &given("x-team", "a")).unwrap_err();
        assert_eq!(undeclared.field, "secrets");
        spec.arm.header_names = vec!["x-team".to_owned()];
        secrets(&spec, &given("x-team", "a")).unwrap();
        assert!(secrets(&spec, &Secrets::default()).is_err());
        let refused = secrets(&spec, &given("x-team", "a\r\nx: hidden")).unwrap_err();
        assert!(!refused.to_string().contains("hidden"), "{refused}");
        // What goes over no wire needs no headers.
        spec.arm.mode = Mode::Offline;
        secrets(&spec, &given("x-key", "a")).unwrap();
    }

    #[test]
    fn each_refusal_names_its_field() {
        type Spoil = fn(&mut RunSpec);
        let cases: [(&str, Spoil); 14] = [
            ("workload.n_runs", |s| s.workload.n_runs = 0),
            ("workload.warmup", |s| s.workload.warmup = u32::MAX),
            ("workload.model", |s| s.workload.model.clear()),
            ("workload.prompts.texts", |s| {
                s.workload.prompts = PromptSource::Texts { texts: vec![] }
            }),
            ("workload.load.concurrency", |s| {
                s.workload.load = Load::Closed { concurrency: 0 }
            }),
            ("workload.load", |s| {
                s.workload.load = Load::Open {
                    rate_per_s: 1e-300,
                    arrival: Arrival::Poisson,
                    max_in_flight: None,
                }
            }),
            ("workload.duration_ms", |s| {
                s.workload.duration_ms = Some(1_000);
                s.workload.load = Load::Burst {
                    max_in_flight: None,
                }
            }),
            ("workload.sampling.max_tokens", |s| {
                s.workload.sampling.max_tokens = 0
            }),
            ("workload.allow_failures.percent", |s| {
                s.workload.allow_failures = AllowFailures::Percent { percent: f64::NAN };
            }),
            ("limits.ready_timeout_ms", |s| s.limits.ready_timeout_ms = 0),
            ("limits.stop_grace_ms", |s| {
                s.limits.stop_grace_ms = u64::MAX
            }),
            ("arm.threads", |s| s.arm.threads = Some(0)),
            ("arm.engine.id", |s| {
                s.arm.engine = EngineRef::Chapter {
                    id: "../ch01".to_owned(),
                }
            }),
            ("arm.options.ttft_ms", |s| {
                drop(s.arm.options.insert("ttft_ms".to_owned(), "\0".to_owned()))
            }),
        ];
        for (field, spoil) in cases {
            let mut spoiled = fake_spec();
            spoil(&mut spoiled);
            assert_eq!(spec(&spoiled).unwrap_err().field, field);
        }
        assert_eq!(deadline(0).unwrap_err().field, "deadline_s");
    }
}
