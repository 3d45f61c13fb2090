//! One cell of a comparison, from the pair of sides that was chosen to the words.

use contracts::run::Load;

use crate::compare::cell::{self, Row, Terms};
use crate::compare::document::{Cell, CellKind, NoiseFloor, Overall, Side};
use crate::compare::doubts;
use crate::compare::inside;
use crate::compare::judge::{Floor, Rules, Verdict};
use crate::compare::lint::{self, Allowed, Difference, Reason};
use crate::compare::noise;
use crate::compare::overhead::overhead;
use crate::compare::pairing::{Group, Pair};
use crate::compare::provenance::provenance;
use crate::compare::{Input, Inputs, Known, Measured, Options, outputs, workload_words};
use crate::record::RunRecord;
use crate::show::compare::verdict;
use crate::show::words;

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
    let allowed = Allowed {
        modes: across_modes,
        hosts: options.allow_different_hosts,
        arms: !options.strict,
    };
    reasons.extend(lint::reasons(
        base_run,
        candidate_run,
        allowed,
        &differences,
    ));
    let rerun = lint::rerun(base_run, candidate_run, "");
    for (name, runs) in [("base", &base), ("candidate", &candidate)] {
        reasons.extend(lint::faults(name, runs, &rerun));
    }
    if outputs.parted > 0 && lint::must_agree(base_run, candidate_run, known.same_tokens) {
        let reason = Reason::outputs_differ(&outputs, base_run, candidate_run, &rerun);
        reasons.push(reason);
    }

    let mut notes = pair.notes.clone();
    for (name, runs) in [("base", &base), ("candidate", &candidate)] {
        notes.extend(doubts::doubts(name, runs));
        notes.extend(inside::warnings(name, runs));
        notes.extend(outputs::unsteady(name, runs));
    }

    let kind = kind(base_run, candidate_run, &differences);
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
            looks: pair.looks,
        },
        floor: &floor,
    };
    let rows = cell::rows(&base, &candidate, &terms);
    let primary = rows.iter().filter(|row| row.primary);
    notes.extend(
        primary
            .clone()
            .find_map(|row| half_a_floor(known, pair, &row.metric)),
    );
    let noise_floors = primary.filter_map(|row| {
        Some(NoiseFloor {
            metric: row.metric.clone(),
            label: row.label.clone(),
            floor: floor(&row.metric)?,
        })
    });
    // Of several at a time a request waits for others, which is no cost of the layer.
    let one_at_a_time = base_run.status.spec.workload.load == Load::Closed { concurrency: 1 };
    let layer = comparable && one_at_a_time && kind == CellKind::NetworkLayer;
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
        order: pair.order(),
        rules: terms.rules,
        excluded: pair.excluded.clone(),
        noise_floors: noise_floors.collect(),
        differences,
        overhead: layer.then(|| overhead(&base, &candidate, pair.design, &terms.rules)),
        outputs,
        provenance: provenance(&pair.base, &pair.candidate, terms.rules),
        word: verdict::overall(&reasons, &withheld, &rows, terms.rules.margin),
        overall,
        rows,
        hidden: Vec::new(),
        withheld,
        reasons,
        notes,
    }
}

/// The wider floor of the two sides: a verdict must hold against both. One that only one side has is
/// taken for both, but not across modes, and none across hosts.
fn wider(
    known: &Known<'_>,
    base: &RunRecord,
    candidate: &RunRecord,
    metric: &str,
) -> Option<Floor> {
    if base.host_fingerprint != candidate.host_fingerprint {
        return None;
    }
    let floors = [base, candidate].map(|run| (known.floor)(run, metric));
    let modes = [base, candidate].map(|run| run.status.spec.arm.mode);
    if modes[0] != modes[1] && floors.iter().any(Option::is_none) {
        return None;
    }
    // By what two runs must differ, which a floor of few runs asks more of.
    let width = |floor: &Floor| noise::least_difference(floor.log_sd, floor.run_count);
    let width = |floor: &Floor| width(floor).unwrap_or(f64::INFINITY);
    let floors = floors.into_iter().flatten();
    floors.max_by(|a, b| width(a).total_cmp(&width(b)))
}

/// Where one run a side is judged by the floor of one engine, that the other's is not known.
fn half_a_floor(known: &Known<'_>, pair: &Pair, metric: &str) -> Option<String> {
    let (base, candidate) = (&pair.base.newest, &pair.candidate.newest);
    let single = pair.base.older.is_empty() && pair.candidate.older.is_empty();
    let [of_base, of_candidate] = [base, candidate].map(|run| (known.floor)(run, metric).is_some());
    let (base_mode, candidate_mode) = (base.status.spec.arm.mode, candidate.status.spec.arm.mode);
    let one_place =
        base.host_fingerprint == candidate.host_fingerprint && base_mode == candidate_mode;
    if !single || !one_place || of_base == of_candidate {
        return None;
    }
    let without = if of_base { candidate } else { base };
    Some(format!(
        "how much equal runs of {} {} differ is not known, so that the other side's noise floor stands for both: `controller calibrate` measures it",
        without.engine,
        words::snake(&without.status.spec.arm.mode)
    ))
}

fn overall(rows: &[Row]) -> Overall {
    let mut overall = Overall::default();
    for row in rows.iter().filter(|row| row.primary) {
        overall.primary += 1;
        let count = match &row.verdict {
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

pub(super) fn load<'a>(group: &'a Group, inputs: &'a Inputs) -> Vec<Measured<'a>> {
    group.runs().map(|run| with_input(run, inputs)).collect()
}

fn with_input<'a>(run: &'a RunRecord, inputs: &'a Inputs) -> Measured<'a> {
    static NOTHING: Input = Input::EMPTY;
    let input = inputs.get(&run.run_id).unwrap_or(&NOTHING);
    Measured { run, input }
}

/// Where these differ, what stands between two modes is not the server layer alone.
const OF_THE_ENGINE: [&str; 7] = [
    "dtype",
    "weights",
    "device",
    "threads",
    "options",
    "engine build",
    "engine binary",
];

/// The same engine in two modes is the layer between them, anything else is two engines.
fn kind(base: &RunRecord, candidate: &RunRecord, differences: &[Difference]) -> CellKind {
    let (base, candidate) = (&base.status.spec.arm, &candidate.status.spec.arm);
    let alike = !differences
        .iter()
        .any(|d| d.both_known() && OF_THE_ENGINE.contains(&d.field));
    if alike && base.engine == candidate.engine && base.mode != candidate.mode {
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
        name: newest.status.spec.arm.name.clone(),
        run_ids: group.runs().map(|run| run.run_id.clone()).collect(),
        requests: count(succeeded),
        failed_requests: count(failed),
        created_unix_ms: newest.created_unix_ms,
        file: newest.file.clone(),
    }
}
