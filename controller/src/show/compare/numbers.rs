//! The text of every number of a comparison: one function for each kind, whatever the format.

use crate::compare::cell::{Figure, Unit};
use crate::compare::judge::{Effect, Rules};

/// An interval narrower than this is written with one decimal more.
const NARROW: f64 = 0.002;

/// `1834.0 ± 1.1%`, `41.25`, or why there is none.
pub(super) fn figure(figure: &Figure, unit: Unit) -> String {
    match (figure.value, figure.spread) {
        (Some(value), Some(spread)) => format!("{} ± {}", plain(value, unit), percent(spread)),
        (Some(value), None) => plain(value, unit),
        (None, _) => figure.missing.clone().unwrap_or_default(),
    }
}

fn plain(value: f64, unit: Unit) -> String {
    match unit {
        Unit::ReqPerS | Unit::Ms => format!("{value:.2}"),
        Unit::TokPerS | Unit::Tokens => format!("{value:.1}"),
    }
}

/// `1.097`.
pub(super) fn ratio(ratio: f64) -> String {
    format!("{ratio:.3}")
}

/// `1.097` and `[1.081, 1.112]`, both as exact as the interval is narrow.
pub(super) fn effect(ratio: f64, effect: &Effect) -> (String, String) {
    let (low, high) = effect.interval;
    let decimals = if high - low < NARROW { 4 } else { 3 };
    (
        format!("{ratio:.decimals$}"),
        format!("[{low:.decimals$}, {high:.decimals$}]"),
    )
}

/// `[1.081, 1.112]`.
pub(super) fn interval((low, high): (f64, f64)) -> String {
    format!("[{low:.3}, {high:.3}]")
}

/// `9.7%` of a share; two digits of one that would round to 0.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() >= 0.05 || percent == 0.0 {
        return format!("{percent:.1}%");
    }
    let digits = (-percent.abs().log10()).floor().clamp(1.0, 8.0) as usize + 2;
    let text = format!("{percent:.digits$}");
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `−1.2%`, `+3.4%` of a share.
pub(super) fn change(share: f64) -> String {
    let plain = percent(share.abs());
    match share {
        _ if share < 0.0 => format!("−{plain}"),
        _ if share > 0.0 => format!("+{plain}"),
        _ => plain,
    }
}

/// `±5%`, `±2.5%`.
pub(super) fn margin(margin: f64) -> String {
    format!("±{}%", short(margin * 100.0))
}

/// `95% CI`: what is left of each look's alpha.
pub(super) fn level(rules: &Rules) -> String {
    let alpha = rules.alpha / f64::from(rules.looks.max(1));
    format!("{}% CI", short(100.0 - 100.0 * alpha))
}

/// At most two decimals, without zeros at the end.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `+0.625ms`, and without a sign where it rounds to 0.
pub(super) fn signed_ms(ms: f64) -> String {
    let plain = format!("{:.3}", ms.abs());
    let zero = plain.bytes().all(|b| matches!(b, b'0' | b'.'));
    match (zero, ms < 0.0) {
        (true, _) => format!("{plain}ms"),
        (false, true) => format!("−{plain}ms"),
        (false, false) => format!("+{plain}ms"),
    }
}

/// `0.0312`, `<0.0001` of a p.
pub(super) fn p(p: f64) -> String {
    if p < 0.0001 {
        "<0.0001".to_owned()
    } else {
        format!("{p:.4}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_keep_two_digits_and_zero_has_no_sign() {
        assert_eq!(percent(0.0971), "9.7%");
        assert_eq!(percent(0.0005), "0.1%");
        assert_eq!(percent(0.000_412), "0.041%");
        assert_eq!(percent(0.000_001_26), "0.00013%");
        assert_eq!(percent(0.0), "0.0%");
        assert_eq!(change(-0.012), "−1.2%");
        assert_eq!(change(0.034), "+3.4%");
        assert_eq!(change(0.0), "0.0%");
        assert_eq!(signed_ms(-0.0004), "0.000ms");
        assert_eq!(signed_ms(-0.0006), "−0.001ms");
        assert_eq!(signed_ms(1.5), "+1.500ms");
    }

    #[test]
    fn margins_and_levels_are_as_short_as_they_can_be() {
        assert_eq!(margin(0.05), "±5%");
        assert_eq!(margin(0.025), "±2.5%");
        let rules = |looks| Rules {
            alpha: 0.05,
            margin: 0.05,
            looks,
        };
        assert_eq!(level(&rules(1)), "95% CI");
        assert_eq!(level(&rules(3)), "98.33% CI");
        assert_eq!(p(0.031_25), "0.0312");
        assert_eq!(p(0.000_01), "<0.0001");
    }
}
