//! The facts of one run as rows of name and value: what it is, what was asked, where it came from,
//! how its child lived. Whether it can be believed is [`super::validity`]'s.

use contracts::run::Mode;

use crate::record::RunRecord;
use crate::show::figures::limits;
use crate::show::words;
use crate::stats::window::Shape;

type Rows = Vec<(String, String)>;

/// What the run is.
pub fn identity(run: &RunRecord) -> Rows {
    let status = &run.status;
    let name = &status.spec.arm.name;
    let name = name.as_ref().map(|name| format!(" ({name})"));
    let added = match run.look {
        0 => String::new(),
        look => format!(", added by extension {look}"),
    };
    let mut rows = vec![
        row("id", run.run_id.clone()),
        row(
            "session",
            format!(
                "{}, arm {}{}, block {}{added}",
                run.session_id,
                run.arm_letter,
                name.unwrap_or_default(),
                run.block
            ),
        ),
        row("state", words::snake(&status.state)),
        row("made", words::time(run.created_unix_ms)),
        row("agent", format!("{} on {}", run.agent_name, run.hostname)),
    ];
    if let Some(failure) = &status.failure {
        let stage = words::snake(&failure.stage);
        rows.push(row("failure", format!("{stage}: {}", failure.message)));
    }
    if let Some(label) = &run.label {
        rows.push(row("label", label.clone()));
    }
    for (name, value) in &run.tags {
        rows.push(row("tag", format!("{name}={value}")));
    }
    rows
}

/// What was asked.
pub fn workload(run: &RunRecord) -> Rows {
    let spec = &run.status.spec;
    let facts = crate::compare::workload_facts(&spec.workload);
    let mut rows: Rows = facts
        .into_iter()
        .filter_map(|fact| Some(row(fact.field, fact.value?)))
        .collect();
    if let Some(slo) = &spec.slo {
        let open_loop = Shape::of(&run.status).open_loop;
        rows.push(row("goodput", limits(slo, open_loop)));
    }
    rows.push(row("key", run.workload_key.clone()));
    rows
}

/// What ran where.
pub fn provenance(run: &RunRecord) -> Rows {
    let Some(provenance) = &run.status.provenance else {
        return vec![row(
            "engine",
            "it failed before its engine answered".to_owned(),
        )];
    };
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "not known".to_owned());
    let mut rows = vec![
        row("engine build", known(&provenance.engine_build)),
        row("engine profile", known(&provenance.engine_profile)),
        row(
            "engine binary sha256",
            known(&provenance.engine_binary_sha256),
        ),
        row("agent build", provenance.agent_build.clone()),
        row("controller build", run.controller_build.clone()),
        row("host fingerprint", run.host_fingerprint.clone()),
        row("definition", provenance.definition.clone()),
    ];
    for (name, value) in [
        ("model's name in requests", &provenance.served_name),
        ("tokenizer here sha256", &provenance.tokenizer_sha256),
    ] {
        rows.extend(value.as_ref().map(|value| row(name, value.clone())));
    }
    if !provenance.command.is_empty() {
        rows.push(row("command", provenance.command.join(" ")));
    }
    if let Some(model) = &provenance.model {
        rows.extend([
            row(
                "model",
                format!(
                    "{} ({}, {:.1} million parameters, {})",
                    model.name,
                    model.family,
                    model.parameters as f64 / 1e6,
                    model.weights
                ),
            ),
            row("model sha256", model.sha256.clone()),
            row("tokenizer sha256", model.tokenizer_sha256.clone()),
            row(
                "context",
                words::count(u64::from(model.context_tokens), "token"),
            ),
            row("threads", model.threads.to_string()),
        ]);
    }
    rows
}

/// How the child's life went.
pub fn lifecycle(run: &RunRecord) -> Rows {
    let life = &run.status.lifecycle;
    let child = match run.status.spec.arm.mode {
        Mode::Offline => "worker",
        Mode::Online => "server",
    };
    let mut rows = vec![
        row("ready after", ms(life.ready_ms)),
        row("stopped in", ms(life.stop_ms)),
        row(
            "exit",
            life.exit.clone().unwrap_or_else(|| "not known".to_owned()),
        ),
        row(
            "memory, at most",
            life.rss_bytes_max
                .map_or("not measured".to_owned(), words::bytes),
        ),
    ];
    if life.killed {
        rows.push(row(
            "killed",
            format!("the {child} did not end after SIGTERM"),
        ));
    }
    if life.swept > 0 {
        rows.push(row(
            "swept",
            words::count(u64::from(life.swept), "descendant"),
        ));
    }
    rows
}

fn row(name: &str, value: String) -> (String, String) {
    (name.to_owned(), value)
}

fn ms(ms: Option<f64>) -> String {
    ms.map_or("not measured".to_owned(), |ms| format!("{ms:.0}ms"))
}
