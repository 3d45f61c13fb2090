//! How many random cases the tests of this crate try.

use proptest::test_runner::Config;

/// At most `usual` cases, fewer if `PROPTEST_CASES` says so; `interpreted` under Miri, which takes a
/// second for what takes a processor a millisecond, and has no files.
pub(crate) fn cases(usual: u32, interpreted: u32) -> Config {
    let config = Config::default();
    Config {
        cases: if cfg!(miri) {
            interpreted
        } else {
            config.cases.min(usual)
        },
        failure_persistence: None,
        ..config
    }
}
