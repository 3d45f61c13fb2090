-- Online measurement: what more a request keeps, what a server of others does, the client's floor.

-- When a slot was free for it, where it had to wait for one after it was due.
alter table sample add column released_ns integer;
-- 1: a kept connection was closed before any byte came, and the request was sent again on a new one.
alter table sample add column reconnected integer not null default 0;
-- 1: the stream said that it was over, but its HTTP body was never ended.
alter table sample add column unterminated integer not null default 0;
-- Tokens that the prompt was made to have.
alter table sample add column planned_input_tokens integer;
-- How much of the engine's wall time passed in its queue.
alter table sample add column engine_queue_ms real;

-- What `controller doctor` found of a server.
create table server_report (
    -- ULID
    report_id        text    not null primary key,
    -- Base URL without `/v1`.
    url              text    not null,
    -- From where it was looked at.
    agent_name       text    not null,
    -- usage, tokenizer, events, …: how its tokens are counted.
    counting         text    not null,
    created_unix_ms  integer not null,
    -- The ServerReport.
    report_json      text    not null
) strict;
create index server_report_by_url on server_report (url, created_unix_ms);

-- The newest report of the run's server when it was made; none for engines of agents.
alter table run add column server_report_id text references server_report (report_id);

-- What `controller calibrate --client` found: the client's own error, a row for each number of streams.
create table client_floor (
    host_fingerprint   text    not null references host (host_fingerprint),
    measured_unix_ms   integer not null,
    stream_count       integer not null,
    agent_build        text    not null,
    -- Requests compared with the server's own log.
    request_count      integer not null,
    -- What the client measured less what the server wrote down.
    ttft_error_p50_ms  real    not null,
    ttft_error_p99_ms  real    not null,
    itl_error_p50_ms   real    not null,
    itl_error_p99_ms   real    not null,
    wall_error_p50_ms  real    not null,
    wall_error_p99_ms  real    not null,
    -- The FloorLevel.
    level_json         text    not null,
    primary key (host_fingerprint, measured_unix_ms, stream_count)
) strict;

-- As before, with what an open loop adds.
drop view run_request;
create view run_request as
select sample.run_id, run.session_id, run.engine, run.mode, run.model, run.arm_letter, run.block,
       run.agent_name, run.host_fingerprint, run.workload_key, sample.sample_index,
       sample.wall_ms, sample.ttft_ms, sample.tpot_ms, sample.timing_source, sample.engine_wall_ms,
       sample.engine_queue_ms,
       (sample.done_ns - sample.due_ns) / 1e6 as wall_from_due_ms,
       (sample.first_content_ns - sample.due_ns) / 1e6 as ttft_from_due_ms,
       (sample.sent_ns - sample.due_ns) / 1e6 as due_to_sent_ms,
       sample.input_tokens, sample.planned_input_tokens, sample.output_tokens,
       sample.requested_tokens, sample.token_source, sample.finish_reason
from sample
join run on run.run_id = sample.run_id
where sample.warmup = 0 and sample.error_class is null and sample.wall_ms is not null;
