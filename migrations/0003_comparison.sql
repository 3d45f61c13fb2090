-- Comparison as evidence: sessions that may be extended, what noise there is, and a run's columns.
-- This file is never edited once released: the next change is 0004.

-- How often the session may be extended, as it was said at its first run; 0: not at all.
alter table session add column max_extend integer not null default 0;
-- How often it has been extended.
alter table session add column extended_count integer not null default 0;
-- Passes over the arms that were planned in all, by its extensions too; fewer are a session that was
-- stopped or goes on. 0 of one that is older than extensions.
alter table session add column planned_count integer not null default 0;
-- Seed of the order of the arms; 0: as they were named.
alter table session add column order_seed integer not null default 0;

-- 0: planned when the session began; 1, 2, …: added when it was extended.
alter table run add column look integer not null default 0;
create index run_by_engine on run (engine, mode, created_unix_ms);

-- Where the runs are that a noise floor was computed from.
alter table noise_floor add column session_id text;

-- The columns of a run's measured requests, packed: what `compare` and `history` read instead of its
-- rows. Made from the rows when they are stored, and made again from them where it is missing; the
-- rows stay the truth.
create table run_columns (
    run_id   text    not null primary key references run (run_id) on delete cascade,
    -- Layout of the blob; another number than the program's own means that it is made again.
    layout   integer not null,
    columns  blob    not null
) strict;

-- As before, with what a session's extension adds.
drop view run_summary;
create view run_summary as
select run.run_id, run.session_id, run.arm_letter, run.block, run.position, run.look, run.engine,
       run.mode, run.model, run.agent_name, host.hostname, run.state, run.failure_stage,
       run.failure_message, session.label, bench_stats.n_runs, bench_stats.req_per_s,
       bench_stats.tok_per_s, bench_stats.wall_ms, nullif(bench_stats.ttft_ms, 0.0) as ttft_ms,
       nullif(bench_stats.tpot_ms, 0.0) as tpot_ms, bench_stats.output_tokens,
       json_extract(run.provenance_json, '$.engine_build') as engine_build,
       json_extract(run.validity_json, '$.foreign_cpu_during') as foreign_cpu_share,
       datetime(run.created_unix_ms / 1000, 'unixepoch') as created_utc
from run
join session on session.session_id = run.session_id
join host on host.host_fingerprint = run.host_fingerprint
left join bench_stats on bench_stats.run_id = run.run_id;
