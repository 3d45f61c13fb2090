//! Tests of [`super`].
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use contracts::run::Mode;

use crate::compare::tests::{compared_by, run};
use crate::compare::{Options, Vs};
use crate::record::RunWithSamples;

fn chain(runs: &[RunWithSamples]) -> Vec<super::Product> {
    let options = Options {
        vs: Vs::Previous,
        ..Options::default()
    };
    compared_by(&["ch01", "ch02", "ch04"], runs, &options).product
}

fn runs() -> Vec<RunWithSamples> {
    vec![
        run("1", "ch01", Mode::Offline, &[100.0; 6]),
        run("2", "ch02", Mode::Offline, &[80.0; 6]),
        run("3", "ch04", Mode::Offline, &[20.0; 6]),
    ]
}

#[test]
fn the_product_is_made_of_its_steps() {
    let products = chain(&runs());
    assert_eq!(products.len(), 1, "one primary metric offline");
    let product = &products[0];
    assert_eq!(product.metric, "wall_ms_p50");
    let parts: Vec<_> = product.parts.iter().map(|part| part.ratio).collect();
    assert_eq!(parts, [Some(0.8), Some(0.25)]);
    assert!((product.ratio.unwrap() - 0.2).abs() < 1e-12);
    assert_eq!(product.missing, None);
    assert_eq!(product.parts[1].base, "ch02");
}

#[test]
fn a_step_without_a_ratio_has_no_product_and_says_why() {
    let mut runs = runs();
    for sample in &mut runs[2].samples {
        sample.output_ids = Some(vec![9, 9, 9, 9]);
    }
    let product = &chain(&runs)[0];
    assert_eq!(product.ratio, None);
    assert_eq!(product.parts[0].ratio, Some(0.8));
    assert_eq!(
        product.missing.as_deref(),
        Some("ch02 → ch04 is not comparable")
    );
}

#[test]
fn one_step_and_steps_from_the_first_have_no_product() {
    let of = |words: &[&str], vs| {
        let options = Options {
            vs,
            ..Options::default()
        };
        compared_by(words, &runs(), &options)
    };
    assert!(of(&["ch01", "ch02"], Vs::Previous).product.is_empty());
    let first = of(&["ch01", "ch02", "ch04"], Vs::First);
    assert!(first.product.is_empty());
    let sides: Vec<_> = first
        .steps
        .iter()
        .map(|s| (&*s.base, &*s.candidate))
        .collect();
    assert_eq!(sides, [("ch01", "ch02"), ("ch01", "ch04")]);
}

#[test]
fn a_step_from_one_mode_to_the_other_goes_on_in_that() {
    let runs = [
        run("1", "ch01", Mode::Offline, &[100.0; 6]),
        run("2", "ch01", Mode::Online, &[120.0; 6]),
        run("3", "ch02", Mode::Online, &[60.0; 6]),
    ];
    let options = Options {
        vs: Vs::Previous,
        ..Options::default()
    };
    let sides = ["ch01:offline", "ch01:online", "ch02:online"];
    let product = &compared_by(&sides, &runs, &options).product[0];
    assert_eq!(product.missing, None);
    assert!((product.ratio.unwrap() - 0.6).abs() < 1e-12);
}
