//! Student's t and the normal distribution: quantiles and tails, by statrs, with errors where
//! statrs would panic.

use statrs::distribution::{Continuous, ContinuousCDF, Normal, StudentsT};

use super::error::StatsError;

/// Steps of Newton's method; four or five are the rule.
const MAX_STEPS: usize = 50;

/// The `probability` quantile of Student's t with `df` degrees of freedom, which need not be whole.
/// Our own: statrs' is off by 9 % far out in the tail of one degree of freedom. Newton's method on
/// the log of the tail over the log of t, where the tail is nearly a straight line, from the normal
/// quantile on.
fn t_quantile(probability: f64, df: f64) -> Result<f64, StatsError> {
    let probability = inside(probability)?;
    let tail = probability.min(1.0 - probability);
    let sign = if probability < 0.5 { -1.0 } else { 1.0 };
    let student = student(df)?;
    let mut log_t = -z_quantile(tail)?;
    if log_t <= 0.0 {
        return Ok(0.0);
    }
    log_t = log_t.ln();
    for _ in 0..MAX_STEPS {
        let t = log_t.exp();
        let above = student.cdf(-t);
        let step = (above / tail).ln() * above / (t * student.pdf(t));
        log_t += step;
        if step.abs() < 1e-15 {
            break;
        }
    }
    let t = sign * log_t.exp();
    if t.is_finite() {
        Ok(t)
    } else {
        Err(StatsError::NotFinite)
    }
}

/// Student's t is within ± this with probability `confidence`.
pub(super) fn t_within(confidence: f64, df: f64) -> Result<f64, StatsError> {
    Ok(-t_quantile((1.0 - inside(confidence)?) / 2.0, df)?)
}

/// P(T > t). Small tails keep their digits: they are computed as tails, not as 1 − p.
pub(super) fn t_above(t: f64, df: f64) -> Result<f64, StatsError> {
    if t.is_nan() {
        return Err(StatsError::NotFinite);
    }
    Ok(student(df)?.cdf(-t))
}

/// The `probability` quantile of the standard normal distribution.
pub(super) fn z_quantile(probability: f64) -> Result<f64, StatsError> {
    let probability = inside(probability)?;
    Ok(Normal::standard().inverse_cdf(probability))
}

/// P(Z > z).
pub(super) fn z_above(z: f64) -> f64 {
    Normal::standard().cdf(-z)
}

fn student(df: f64) -> Result<StudentsT, StatsError> {
    if !df.is_finite() || df <= 0.0 {
        return Err(StatsError::NotFinite);
    }
    StudentsT::new(0.0, 1.0, df).map_err(|_| StatsError::NotFinite)
}

/// Neither 0 nor 1: there the quantile is infinite.
fn inside(probability: f64) -> Result<f64, StatsError> {
    if probability > 0.0 && probability < 1.0 {
        Ok(probability)
    } else {
        Err(StatsError::NotAProbability(probability))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // With one and two degrees of freedom they are closed forms.
        let two = 0.95 * (2.0_f64 / (1.0 - 0.95 * 0.95)).sqrt();
        for (probability, df, expected) in [
            (0.975, 1.0, (std::f64::consts::PI * 0.475).tan()),
            (0.975, 2.0, two),
            (0.975, 4.0, 2.776_445_105),
            (0.95, 9.0, 1.833_112_933),
            (0.995, 30.0, 2.749_995_654),
        ] {
            let got = t_quantile(probability, df).unwrap();
            assert!((got - expected).abs() < 1e-9, "{df}: {got}");
        }
        assert!((z_quantile(0.975).unwrap() - 1.959_963_984_540_054).abs() < 1e-9);
    }

    #[test]
    fn quantiles_and_tails_are_inverse_at_every_size() {
        for df in [1.0, 1.3, 2.0, 4.7, 19.0, 333.3, 1e5] {
            for tail in [0.4, 0.1, 0.025, 0.025 / 3.0, 1e-4, 1e-8] {
                let t = -t_quantile(tail, df).unwrap();
                let back = t_above(t, df).unwrap();
                let at = format!("df {df}, tail {tail}");
                assert!((back - tail).abs() < 1e-11 * tail, "{at}: {back}");
                // 1 − tail has lost digits of the tail.
                let high = t_quantile(1.0 - tail, df).unwrap();
                assert!((high - t).abs() < 1e-7 * t, "{at}: {high} and {t}");
            }
        }
    }

    #[test]
    fn what_is_no_probability_is_an_error_and_no_panic() {
        for bad in [0.0, 1.0, -0.1, 1.5, f64::NAN, f64::INFINITY] {
            assert!(matches!(
                t_quantile(bad, 3.0),
                Err(StatsError::NotAProbability(_))
            ));
            assert!(z_quantile(bad).is_err() && t_within(bad, 3.0).is_err());
        }
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(t_quantile(0.5, bad), Err(StatsError::NotFinite));
            assert_eq!(t_above(1.0, bad), Err(StatsError::NotFinite));
        }
        assert_eq!(t_above(f64::NAN, 3.0), Err(StatsError::NotFinite));
    }
}
