-- The store: hosts, agents, sessions, runs and their raw samples.
--
-- Raw samples are the truth; every percentile and verdict is computed from them when asked.
-- Units stand in the names of columns. `_unix_ms` is a clock time, for people only; durations are
-- measured on monotonic clocks. `_json` holds the wire's own document, word for word.
-- This file is never edited once released: the next change is 0002.

-- A machine that ran something, by what stays the same of it.
create table host (
    -- SHA-256 (hex) over the stable facts.
    host_fingerprint  text    not null primary key,
    -- For people: not a part of the fingerprint.
    hostname          text    not null,
    -- `linux x86_64`
    platform          text    not null,
    kernel            text    not null,
    cpu_model         text    not null,
    -- Logical cores that the agent may use.
    core_count        integer not null,
    memory_bytes      integer not null,
    -- JSON array of {index, name, uuid, memory_bytes, driver}.
    gpus_json         text    not null,
    first_seen_unix_ms integer not null
) strict;

-- The controller's list of agents. The built-in one (`local`) is not in it.
create table agent (
    -- How `--agent` calls it.
    agent_name     text    not null primary key,
    -- `http://host:7070` or `https://…`
    url            text    not null,
    -- Where its token is read from at each use; the token itself is never stored.
    token_file     text,
    -- PEM file of the authority that signed its certificate, where that is not a public one.
    ca_file        text,
    added_unix_ms  integer not null
) strict;

-- One `controller run`: its runs were planned together and share a host per agent.
create table session (
    -- ULID
    session_id       text    not null primary key,
    -- `abba` or `blocked`
    run_order        text    not null,
    -- Passes over the arms.
    repeat_count     integer not null,
    -- --label
    label            text,
    -- --tag k=v, a JSON object of strings.
    tags_json        text    not null,
    -- Build of the controller.
    controller_build text    not null,
    created_unix_ms  integer not null
) strict;

-- One engine lifetime under one spec: the unit of replication.
create table run (
    -- ULID, made by the controller: the key that makes storing idempotent.
    run_id            text    not null primary key,
    session_id        text    not null references session (session_id) on delete cascade,
    -- `a`, `b`, …: which arm of the session.
    arm_letter        text    not null,
    -- Which pass over the arms, from 0.
    block             integer not null,
    -- Place in the session's order, from 0.
    position          integer not null,
    -- Name in the controller's list at that time, or `local`; no reference, agents come and go.
    agent_name        text    not null,
    -- The agent's own stable id.
    agent_id          text    not null,
    host_fingerprint  text    not null references host (host_fingerprint),
    -- `ch01`, or the name of an engine.
    engine            text    not null,
    -- `offline` or `online`
    mode              text    not null,
    -- The model as it was asked for.
    model             text    not null,
    -- SHA-256 (hex) of what work was asked: equal keys are comparable work.
    workload_key      text    not null,
    -- When the controller made it.
    created_unix_ms   integer not null,
    -- queued, starting, warming, measuring, stopping, done, failed, cancelled
    state             text    not null,
    -- The RunSpec as it was sent.
    spec_json         text    not null,
    -- After this the agent ends the run as failed.
    deadline_s        integer not null,
    -- When the agent took it; 0 until it has.
    accepted_unix_ms  integer not null,
    -- When it ended, in whatever way.
    ended_unix_ms     integer,
    -- preflight, spawn, load, warmup, measure, stop
    failure_stage     text,
    -- One line for people.
    failure_message   text,
    -- JSON array of the child's last lines.
    failure_log_json  text,
    -- JSON array of {code, message}: doubts about the measurement.
    warnings_json     text    not null,
    -- Id of the metric definitions that it was measured by.
    definition_id     text,
    -- Builds, hashes, what the engine loaded.
    provenance_json   text,
    -- Foreign CPU, failed requests and the like.
    validity_json     text    not null,
    -- How start and stop went.
    lifecycle_json    text    not null,
    -- Sample lines that the agent had, warm-up included.
    sample_count      integer,
    -- SHA-256 (hex) of those lines, checked before they were stored.
    sample_sha256     text
) strict;
create index run_by_session on run (session_id, position);
create index run_by_time on run (created_unix_ms, run_id);

-- What a run came to; no row where no measured request succeeded.
create table bench_stats (
    run_id        text    not null primary key references run (run_id) on delete cascade,
    -- Completed requests per second.
    req_per_s     real    not null,
    -- Output tokens per second.
    tok_per_s     real    not null,
    -- Mean of wall_times_ms.
    wall_ms       real    not null,
    -- Mean output tokens of a request.
    output_tokens real    not null,
    -- Measured requests that succeeded.
    n_runs        integer not null,
    -- Means over the requests that have them; 0.0 says "not measured".
    ttft_ms       real    not null,
    tpot_ms       real    not null,
    -- JSON array of each measured request's wall time, in order.
    wall_times_ms text    not null
) strict;

-- One request's raw record. Instants are ns on the run's one monotonic clock.
create table sample (
    run_id               text    not null references run (run_id) on delete cascade,
    -- 1: warm-up, never in an average.
    warmup               integer not null,
    -- From 0 within its phase.
    sample_index         integer not null,
    -- When it should have started.
    due_ns               integer not null,
    -- When it was handed to the client.
    start_ns             integer not null,
    -- When its connection was open, if it had to be opened.
    connected_ns         integer,
    -- First write on an open connection; offline, the call of `generate`.
    sent_ns              integer,
    -- The response's head was complete.
    headers_ns           integer,
    first_event_ns       integer,
    -- First and last event with content.
    first_content_ns     integer,
    last_content_ns      integer,
    -- The event with the finish reason.
    finish_ns            integer,
    -- The read that ended the body; offline, the return of `generate`.
    done_ns              integer,
    -- Name of the blob's encoding.
    event_times_encoding text,
    -- All content events' instants: zstd of little-endian u32 µs deltas, the first since sent.
    event_times          blob,
    -- done − sent
    wall_ms              real,
    ttft_ms              real,
    tpot_ms              real,
    -- `client` or `engine`: whose clock ttft_ms and tpot_ms are on.
    timing_source        text,
    -- The engine's own wall time.
    engine_wall_ms       real,
    -- Tokens of the prompt, as the engine counts.
    input_tokens         integer,
    -- The count that figures use.
    output_tokens        integer,
    -- engine, usage, metrics, tokenizer, events: where output_tokens comes from.
    token_source         text,
    -- usage.completion_tokens
    usage_tokens         integer,
    -- Our tokenizer's count of the text.
    local_tokens         integer,
    -- The ceiling; never a count.
    requested_tokens     integer not null,
    first_event_tokens   integer,
    -- `stop` or `length`
    finish_reason        text,
    -- 1: the stream ended with [DONE].
    done_seen            integer not null,
    -- 1: the connection had been used before.
    reused_connection    integer not null,
    -- Body received.
    body_bytes           integer not null,
    http_status          integer,
    -- SHA-256 (hex) of output_text.
    output_sha256        text,
    output_text          text,
    -- JSON array of the tokens made, where the engine tells them.
    output_ids_json      text,
    -- SHA-256 (hex) of the prompt's ids as little-endian u32.
    input_ids_sha256     text,
    -- Leading greedy steps without a near tie.
    firm_steps           integer,
    -- Set if the request failed: it enters no average.
    error_class          text,
    error_message        text,
    primary key (run_id, warmup, sample_index)
) strict;

-- A run's story in order.
create table run_event (
    run_id     text    not null references run (run_id) on delete cascade,
    -- 1, 2, …
    seq        integer not null,
    -- Since the agent took the run, on its monotonic clock.
    at_ms      integer not null,
    -- state, progress, warning, log
    kind       text    not null,
    -- The event's document.
    event_json text    not null,
    primary key (run_id, seq)
) strict;

-- Spread of one metric among equal runs on one host: what a difference must exceed.
create table noise_floor (
    host_fingerprint text    not null references host (host_fingerprint),
    engine           text    not null,
    mode             text    not null,
    workload_key     text    not null,
    -- `wall_ms`, `tok_per_s`, …
    metric           text    not null,
    -- Equal runs it was computed from.
    run_count        integer not null,
    -- Standard deviation of the natural log of the per-run values.
    log_sd           real    not null,
    measured_unix_ms integer not null,
    primary key (host_fingerprint, engine, mode, workload_key, metric)
) strict;

-- Percentile-ready: one row per measured request that succeeded.
create view run_request as
select sample.run_id, run.session_id, run.engine, run.mode, run.model, run.arm_letter, run.block,
       run.agent_name, run.host_fingerprint, run.workload_key, sample.sample_index,
       sample.wall_ms, sample.ttft_ms, sample.tpot_ms, sample.timing_source, sample.engine_wall_ms,
       (sample.done_ns - sample.due_ns) / 1e6 as wall_from_due_ms,
       sample.input_tokens, sample.output_tokens, sample.token_source, sample.finish_reason
from sample
join run on run.run_id = sample.run_id
where sample.warmup = 0 and sample.error_class is null and sample.wall_ms is not null;

-- One row per run with what people look at first.
create view run_summary as
select run.run_id, run.session_id, run.arm_letter, run.block, run.position, run.engine, run.mode,
       run.model, run.agent_name, host.hostname, run.state, run.failure_stage, run.failure_message,
       session.label, bench_stats.n_runs, bench_stats.req_per_s, bench_stats.tok_per_s,
       bench_stats.wall_ms, nullif(bench_stats.ttft_ms, 0.0) as ttft_ms,
       nullif(bench_stats.tpot_ms, 0.0) as tpot_ms, bench_stats.output_tokens,
       json_extract(run.provenance_json, '$.engine_build') as engine_build,
       json_extract(run.validity_json, '$.foreign_cpu_during') as foreign_cpu_share,
       datetime(run.created_unix_ms / 1000, 'unixepoch') as created_utc
from run
join session on session.session_id = run.session_id
join host on host.host_fingerprint = run.host_fingerprint
left join bench_stats on bench_stats.run_id = run.run_id;
