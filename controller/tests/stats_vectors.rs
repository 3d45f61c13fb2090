//! Statistics against values made with numpy, scipy and statsmodels: every one in the file.
//!
//! `CHAPTERBENCH_STATS_VECTORS` names another file of the same layout. A section or a field that
//! this test does not know fails it, and so does one that is missing: nothing is skipped silently.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use controller::stats::autocorrelation::lag1;
use controller::stats::hodges_lehmann::hodges_lehmann;
use controller::stats::holm::holm;
use controller::stats::log_ratio::LogRatio;
use controller::stats::mann_whitney::mann_whitney_p;
use controller::stats::permutation::{sign_flips, splits};
use controller::stats::quantile::{interval, quantile};
use serde_json::Value;

/// Relative tolerance of what is counted or computed in closed form.
const EXACT: f64 = 1e-9;
/// Relative tolerance of what rests on a distribution function.
const BY_DISTRIBUTION: f64 = 1e-6;
/// What a value that is 0 may be off by.
const ROUNDING: f64 = 1e-12;

const SECTIONS: [&str; 7] = [
    "oracle",
    "conventions",
    "quantile",
    "runs",
    "within_pair",
    "holm",
    "lag1",
];

fn vectors() -> Value {
    let path = std::env::var("CHAPTERBENCH_STATS_VECTORS").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/stats.json").to_owned()
    });
    let text = std::fs::read_to_string(&path).unwrap();
    let vectors = serde_json::from_str(&text).unwrap();
    has(&vectors, &SECTIONS, &[], "the file");
    vectors
}

/// The cases of a section, of which there must be some.
fn cases(section: &str) -> Vec<Value> {
    let cases = vectors()[section].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{section} has no case");
    cases
}

/// All of `fields`, any of `optional`, nothing else.
fn has(value: &Value, fields: &[&str], optional: &[&str], at: &str) {
    let object = value.as_object().unwrap();
    for field in fields {
        assert!(object.contains_key(*field), "{at}: `{field}` is missing");
    }
    for field in object.keys() {
        let known = fields.iter().chain(optional).any(|known| known == field);
        assert!(known, "{at}: `{field}` is not known to this test");
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn close(got: f64, want: &Value, tolerance: f64, at: &str) {
    let want = number(want);
    // Of 0 there is no share: what rounding leaves of values around 1.
    let allowed = if want == 0.0 {
        ROUNDING
    } else {
        tolerance * want.abs()
    };
    let near = (got - want).abs() <= allowed;
    assert!(near, "{at}: {got} is not {want}");
}

fn close_pair(got: (f64, f64), want: &Value, tolerance: f64, at: &str) {
    let [low, high] = want.as_array().unwrap().as_slice() else {
        panic!("{at}: an interval has two ends");
    };
    close(got.0, low, tolerance, at);
    close(got.1, high, tolerance, at);
}

/// p of equivalence for each margin.
fn close_tost(ratio: &LogRatio, want: &Value, at: &str) {
    let margins = want.as_object().unwrap();
    assert!(!margins.is_empty(), "{at}: no margin");
    for (margin, want) in margins {
        let got = ratio.equivalence_p(margin.parse().unwrap()).unwrap();
        close(
            got,
            want,
            BY_DISTRIBUTION,
            &format!("{at}, margin {margin}"),
        );
    }
}

/// Ratio, both intervals and p.
fn close_ratio(ratio: &LogRatio, want: &Value, at: &str) {
    close(ratio.ratio(), &want["ratio"], EXACT, at);
    for (name, confidence) in [("ci95", 0.95), ("ci90", 0.9)] {
        let got = ratio.interval(confidence).unwrap();
        close_pair(got, &want[name], BY_DISTRIBUTION, &format!("{at} {name}"));
    }
    close(ratio.p().unwrap(), &want["p"], BY_DISTRIBUTION, at);
}

#[test]
fn quantiles_and_their_intervals() {
    for case in cases("quantile") {
        has(&case, &["x", "q"], &[], "a quantile case");
        let x = numbers(&case["x"]);
        for (q, want) in case["q"].as_object().unwrap() {
            let at = format!("n = {}, q = {q}", x.len());
            has(want, &["value", "ci95"], &[], &at);
            let q: f64 = q.parse().unwrap();
            close(quantile(&x, q).unwrap(), &want["value"], EXACT, &at);
            match interval(&x, q) {
                Some(got) => close_pair(got, &want["ci95"], EXACT, &at),
                None => assert!(want["ci95"].is_null(), "{at}: there is an interval"),
            }
        }
    }
}

#[test]
fn ratios_of_runs() {
    let mut pairs = 0;
    for (index, case) in cases("runs").iter().enumerate() {
        let at = format!("runs {index}");
        let fields = ["base", "candidate", "welch", "tost", "permutation_p"];
        has(case, &fields, &["paired"], &at);
        let (base, candidate) = (numbers(&case["base"]), numbers(&case["candidate"]));

        let welch = LogRatio::welch(&base, &candidate).unwrap();
        let fields = ["ratio", "ci95", "ci90", "p", "df"];
        has(&case["welch"], &fields, &[], &at);
        close_ratio(&welch, &case["welch"], &format!("{at}, welch"));
        close(welch.log.df, &case["welch"]["df"], EXACT, &at);
        close_tost(&welch, &case["tost"], &format!("{at}, tost"));
        let p = splits(&base, &candidate).unwrap();
        close(p, &case["permutation_p"], EXACT, &format!("{at}, splits"));

        // A case without it is one of sides that share no block, however many runs they have.
        let Some(want) = case.get("paired") else {
            continue;
        };
        pairs += 1;
        let at = format!("{at}, paired");
        let fields = ["ratio", "ci95", "ci90", "p", "tost", "sign_flip_p"];
        has(want, &fields, &[], &at);
        let paired = LogRatio::paired(&base, &candidate).unwrap();
        close_ratio(&paired, want, &at);
        close_tost(&paired, &want["tost"], &at);
        let p = sign_flips(&base, &candidate).unwrap();
        close(p, &want["sign_flip_p"], EXACT, &at);
    }
    assert!(pairs > 0, "no case has pairs");
}

#[test]
fn requests_within_one_pair_of_runs() {
    for (index, case) in cases("within_pair").iter().enumerate() {
        let at = format!("within_pair {index}");
        let fields = ["base", "candidate", "mann_whitney_p", "hodges_lehmann"];
        has(case, &fields, &[], &at);
        let (base, candidate) = (numbers(&case["base"]), numbers(&case["candidate"]));
        let p = mann_whitney_p(&base, &candidate).unwrap();
        close(p, &case["mann_whitney_p"], EXACT, &at);
        let want = &case["hodges_lehmann"];
        has(want, &["ratio", "ci95"], &[], &at);
        let got = hodges_lehmann(&base, &candidate, 0.95).unwrap();
        assert!(got.exact, "{at}: the interval is an approximation");
        close(got.ratio, &want["ratio"], EXACT, &at);
        close_pair(got.interval, &want["ci95"], EXACT, &at);
    }
}

#[test]
fn families_of_p_values() {
    for (index, case) in cases("holm").iter().enumerate() {
        let at = format!("holm {index}");
        has(case, &["p", "adjusted"], &[], &at);
        let got = holm(&numbers(&case["p"])).unwrap();
        let want = case["adjusted"].as_array().unwrap();
        assert_eq!(got.len(), want.len(), "{at}");
        for (got, want) in got.iter().zip(want) {
            close(*got, want, EXACT, &at);
        }
    }
}

#[test]
fn autocorrelation_at_lag_one() {
    for (index, case) in cases("lag1").iter().enumerate() {
        let at = format!("lag1 {index}");
        has(case, &["x", "value"], &[], &at);
        let got = lag1(&numbers(&case["x"])).unwrap();
        close(got, &case["value"], EXACT, &at);
    }
}
