//! The SQL of `docs/metrics.md` on a database with a known run: what the page says can be computed
//! is computed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, QueryBuilder, Row, Sqlite};

const PAGE: &str = include_str!("../../docs/metrics.md");

/// A request with a role chunk at 1 ms, eight tokens from 100 to 170 ms, its finish at 171, its end
/// at 172; due 30 ms before it was sent. And one that failed at 200 ms, and one of warm-up.
const RUN: &str = "
insert into sample (run_id, warmup, sample_index, due_ns, start_ns, sent_ns, first_event_ns,
    first_content_ns, last_content_ns, finish_ns, done_ns, wall_ms, ttft_ms, tpot_ms,
    engine_wall_ms, output_tokens, first_event_tokens, requested_tokens, done_seen,
    reused_connection, body_bytes, error_class)
values
    ('01RUN', 0, 0, 970000000, 1000000000, 1000000000, 1001000000, 1100000000, 1170000000,
     1171000000, 1172000000, 172.0, 100.0, 10.0, 150.0, 8, 1, 8, 1, 0, 900, null),
    ('01RUN', 0, 1, 1000000000, 1000000000, 1000000000, null, null, null, null, 1200000000,
     200.0, null, null, null, null, null, 8, 0, 0, 20, 'http_status'),
    ('01RUN', 1, 0, 0, 0, 0, 1, 2, 900000000, 900000000, 900000000, 900.0, 0.1, 0.1, 900.0, 8, 1,
     8, 1, 0, 900, null);
insert into run (run_id, session_id, arm_letter, block, position, agent_name, agent_id,
    host_fingerprint, engine, mode, model, workload_key, created_unix_ms, state, spec_json,
    deadline_s, accepted_unix_ms, warnings_json, validity_json, lifecycle_json)
values ('01RUN', '01S', 'a', 0, 0, 'local', 'a1', 'f1', 'ch02', 'online', 'm', 'w1', 0, 'done',
    '{}', 0, 0, '[]', '{}', '{}');
";

/// An empty database with the run in it.
async fn database() -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(":memory:")
        .foreign_keys(false);
    let mut connection = options.connect().await.unwrap();
    for script in [
        include_str!("../../migrations/0001_init.sql"),
        include_str!("../../migrations/0002_online.sql"),
        RUN,
    ] {
        sqlx::raw_sql(script)
            .execute(&mut connection)
            .await
            .unwrap();
    }
    connection
}

/// Each statement of the page, ready to run.
fn statements() -> Vec<String> {
    let blocks = PAGE.split("```sql\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap_or_default());
    blocks
        .map(|sql| sql.replace(":run_id", "'01RUN'"))
        .collect()
}

#[tokio::test]
async fn the_pages_sql_gives_what_it_says() {
    let expected: [&[(&str, f64)]; 3] = [
        &[
            ("ttft_ms", 100.0),
            ("tpot_ms", 10.0),
            ("guidellm_tpot_ms", 170.0 / 8.0),
            ("guidellm_itl_ms", 10.0),
            ("aiperf_itl_ms", 10.0),
            ("vllm_ttft_ms", 1.0),
            ("vllm_tpot_ms", 170.0 / 7.0),
            ("sglang_tpot_ms", 72.0 / 7.0),
            ("llmperf_itl_ms", 172.0 / 8.0),
        ],
        &[
            ("req_per_s", 5.0),
            ("tok_per_s", 40.0),
            ("goodput_share", 0.5),
        ],
        &[
            ("due_to_sent_ms", 30.0),
            ("wall_ms", 172.0),
            ("wall_from_due_ms", 202.0),
            ("outside_engine_ms", 22.0),
        ],
    ];
    let statements = statements();
    assert_eq!(statements.len(), expected.len());
    let mut connection = database().await;
    for (sql, columns) in statements.into_iter().zip(expected) {
        let mut query = QueryBuilder::<Sqlite>::new(sql);
        let row = query.build().fetch_one(&mut connection).await.unwrap();
        assert_eq!(row.len(), columns.len());
        for (name, value) in columns {
            let got: f64 = row.try_get(name).unwrap();
            assert!((got - value).abs() < 1e-9, "{name}: {got} is not {value}");
        }
    }
}
