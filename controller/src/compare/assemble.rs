//! One cell of a comparison, from the pair of sides that was chosen to the words.

use contracts::run::Soundness;

use crate::compare::cell::{self, Row, Terms};
use crate::compare::document::{Cell, CellKind, Overall, Side};
use crate::compare::judge::{Floor, Rules, Verdict};
use crate::compare::lint::{self, Reason};
use crate::compare::overhead::overhead;
use crate::compare::pairing::{Group, Pair};
use crate::compare::{Input, Inputs, Known, Measured, Options, outputs, workload_words};
use crate::record::RunRecord;
use crate::show::validity;

/// Judges one pair.
pub(super) fn cell(
    across_modes: bool,
    pair: &Pair,
    inputs: &Inputs,
    known: &Known<'_>,
    options: &Options,
) -> Cell {
    let base = load(&pair.base, inputs);
    let candidate = load(&pair.candidate, inputs);
    let (base_run, candidate_run) = (&pair.base.newest, &pair.candidate.newest);
    let differences = lint::differences(
        &with_input(base_run, inputs),
        &with_input(candidate_run, inputs),
    );
    let outputs = outputs::judge(&base, &candidate);

    let mut reasons = pair.reasons.clone();
    reasons.extend(lint::reasons(
        base_run,
        candidate_run,
        across_modes,
        &differences,
    ));
    for (name, runs) in [("base", &base), ("candidate", &candidate)] {
        reasons.extend(runs.iter().flat_map(|run| lint::faults(name, run)));
        reasons.extend(
            runs.iter()
                .flat_map(|run| lint::client_bound(name, run.run)),
        );
    }
    if outputs.parted > 0 && lint::must_agree(base_run, candidate_run, known.same_tokens) {
        reasons.push(Reason::outputs_differ(&outputs, base_run, candidate_run));
    }

    let mut notes = pair.notes.clone();
    for (name, runs) in [("base", &base), ("candidate", &candidate)] {
        notes.extend(runs.iter().flat_map(|run| doubts(name, run.run)));
    }

    let kind = kind(base_run, candidate_run);
    let comparable = reasons.is_empty();
    let withheld = if comparable {
        pair.withheld.clone()
    } else {
        Vec::new()
    };
    let floor = |metric: &str| wider(known, base_run, candidate_run, metric);
    let why = withheld.join("; ");
    let terms = Terms {
        comparable,
        withheld: (!why.is_empty()).then_some(&why),
        design: pair.design,
        rules: Rules {
            alpha: options.alpha,
            margin: options.margin,
            looks: 1,
        },
        floor: &floor,
    };
    let mut rows = cell::rows(&base, &candidate, &terms);
    let wanted = |row: &Row| options.metrics.is_empty() || options.metrics.contains(&row.metric);
    rows.retain(wanted);
    let mut primary = rows.iter().filter(|row| row.primary);
    let noise_floor = primary.find_map(|row| floor(&row.metric));
    let layer = comparable && kind == CellKind::NetworkLayer;
    let overall = overall(&rows);
    Cell {
        kind,
        workload_key: base_run.workload_key.clone(),
        workload: workload_words(&base_run.status.spec.workload),
        hostname: base_run.hostname.clone(),
        host_fingerprint: base_run.host_fingerprint.clone(),
        base: side(&pair.base, &base),
        candidate: side(&pair.candidate, &candidate),
        design: pair.design,
        order: None,
        rules: terms.rules,
        excluded: pair.excluded.clone(),
        noise_floor,
        differences,
        rows,
        overhead: layer.then(|| overhead(&base, &candidate)),
        outputs,
        overall,
        word: word(&reasons, &withheld, &overall, base.len(), candidate.len()),
        withheld,
        reasons,
        notes,
    }
}

/// The wider floor of the two sides: a verdict must hold against both.
fn wider(
    known: &Known<'_>,
    base: &RunRecord,
    candidate: &RunRecord,
    metric: &str,
) -> Option<Floor> {
    let floors = [base, candidate].map(|run| (known.floor)(run, metric));
    let floors = floors.into_iter().flatten();
    floors.max_by(|a, b| a.log_sd.total_cmp(&b.log_sd))
}

fn overall(rows: &[Row]) -> Overall {
    let mut overall = Overall::default();
    for row in rows.iter().filter(|row| row.primary) {
        overall.primary += 1;
        let count = match row.judgement.as_ref().map(|judgement| &judgement.verdict) {
            Some(Verdict::Faster { .. }) => &mut overall.faster,
            Some(Verdict::Slower { .. }) => &mut overall.slower,
            Some(Verdict::Equivalent) => &mut overall.equivalent,
            Some(Verdict::NoDifferenceShown { .. }) => &mut overall.undecided,
            Some(Verdict::None { .. }) | None => &mut overall.none,
        };
        *count += 1;
    }
    overall
}

/// A run's doubts go wherever its figures go.
fn doubts(side: &str, run: &RunRecord) -> Vec<String> {
    let mut doubts = Vec::new();
    if run.status.validity.verdict == Soundness::Degraded {
        let verdict = validity::verdict(&run.status.validity);
        doubts.push(format!("the {side}'s run {} is {verdict}", run.run_id));
    }
    let warnings = validity::other_warnings(&run.status);
    doubts.extend(warnings.map(|w| format!("the {side}'s run {}: {}", run.run_id, w.message)));
    doubts
}

pub(super) fn load<'a>(group: &'a Group, inputs: &'a Inputs) -> Vec<Measured<'a>> {
    group.runs().map(|run| with_input(run, inputs)).collect()
}

fn with_input<'a>(run: &'a RunRecord, inputs: &'a Inputs) -> Measured<'a> {
    static NOTHING: Input = Input::EMPTY;
    let input = inputs.get(&run.run_id).unwrap_or(&NOTHING);
    Measured { run, input }
}

/// The same engine in two modes is the layer between them, anything else is two engines.
fn kind(base: &RunRecord, candidate: &RunRecord) -> CellKind {
    let (base, candidate) = (&base.status.spec.arm, &candidate.status.spec.arm);
    if base.engine == candidate.engine && base.mode != candidate.mode {
        CellKind::NetworkLayer
    } else {
        CellKind::Engines
    }
}

fn side(group: &Group, runs: &[Measured<'_>]) -> Side {
    let newest = &group.newest;
    let provenance = newest.status.provenance.as_ref();
    let count = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let succeeded = runs.iter().map(|run| run.input.succeeded).sum();
    let failed = runs.iter().map(|run| run.input.failed).sum();
    Side {
        engine: newest.engine.clone(),
        mode: newest.status.spec.arm.mode,
        agent: newest.agent_name.clone(),
        build: provenance.and_then(|p| p.engine_build.clone()),
        session_id: newest.session_id.clone(),
        arm: newest.arm_letter.clone(),
        run_ids: group.runs().map(|run| run.run_id.clone()).collect(),
        requests: count(succeeded),
        failed_requests: count(failed),
        created_unix_ms: newest.created_unix_ms,
        file: newest.file.clone(),
    }
}

/// The cell in a few words: why it is not comparable, why it has no verdict, or how often which
/// word occurs.
fn word(
    reasons: &[Reason],
    withheld: &[String],
    overall: &Overall,
    base_runs: usize,
    candidate_runs: usize,
) -> String {
    if !reasons.is_empty() {
        let reasons: Vec<&str> = reasons.iter().map(|r| r.message.as_str()).collect();
        return format!("NOT COMPARABLE: {}", reasons.join("; "));
    }
    if !withheld.is_empty() {
        return format!("no verdict: {}", withheld.join("; "));
    }
    if overall.none < overall.primary {
        let counts = [
            ("FASTER on", overall.faster),
            ("SLOWER on", overall.slower),
            ("EQUIVALENT on", overall.equivalent),
            ("undecided on", overall.undecided),
            ("no verdict on", overall.none),
        ];
        let counts = counts.iter().filter(|(_, n)| *n > 0);
        let counts: Vec<String> = counts.map(|(word, n)| format!("{word} {n}")).collect();
        return format!("{} of {} primary", counts.join(", "), overall.primary);
    }
    match (base_runs, candidate_runs) {
        (1, 1) => "no verdict: one run a side".to_owned(),
        (b, c) if b == c => format!("no verdict: {b} runs a side"),
        (b, c) => format!("no verdict: {b} and {c} runs a side"),
    }
}
