//! Words about verdicts: margins, alpha, and what ends a comparison with another exit code.

/// `5%`, `2.5%`, `0.05`: how far apart two sides may be and count as practically equal.
///
/// # Errors
/// What may be written, or how large it may be.
pub fn margin(word: &str) -> Result<f64, String> {
    let share = share_or_percent(word)?;
    if share > 0.0 && share < 1.0 {
        Ok(share)
    } else {
        Err("it must be more than 0 and less than 100%".to_owned())
    }
}

/// `0.05`, `5%`: the chance of a false alarm.
///
/// # Errors
/// What may be written, or how large it may be.
pub fn alpha(word: &str) -> Result<f64, String> {
    let share = share_or_percent(word)?;
    if (0.0001..=0.2).contains(&share) {
        Ok(share)
    } else {
        Err("it must be from 0.0001 to 0.2".to_owned())
    }
}

/// `slower` (any SLOWER: 0), `slower:3%`, `slower:0.03`: by more than which share.
///
/// # Errors
/// What may be written.
pub fn fail_on(word: &str) -> Result<f64, String> {
    let limit = match word.split_once(':') {
        None if word == "slower" => return Ok(0.0),
        Some(("slower", limit)) => limit,
        _ => return Err("use slower or slower:X%".to_owned()),
    };
    let share = share_or_percent(limit)?;
    if (0.0..10.0).contains(&share) {
        Ok(share)
    } else {
        Err("slower:X% takes 0% to less than 1000%".to_owned())
    }
}

fn share_or_percent(word: &str) -> Result<f64, String> {
    let number = |text: &str| {
        let value: f64 = text
            .trim()
            .parse()
            .map_err(|_| format!("`{word}` is no number; write 5% or 0.05"))?;
        match value.is_finite() {
            true => Ok(value),
            false => Err(format!("`{word}` is no number; write 5% or 0.05")),
        }
    };
    match word.strip_suffix('%') {
        Some(percent) => Ok(number(percent)? / 100.0),
        None => number(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_written_in_percent_or_plain() {
        assert_eq!(margin("5%"), Ok(0.05));
        assert_eq!(margin("0.05"), Ok(0.05));
        assert_eq!(margin("2.5 %"), Ok(0.025));
        // Whoever writes 5 means 5 %, and must say so.
        for bad in ["0", "5", "100%", "-1%", "nan", "inf", "five", "", "%"] {
            assert!(margin(bad).is_err(), "{bad}");
        }
        assert_eq!(alpha("0.01"), Ok(0.01));
        for bad in ["0", "0.5", "1", "nan"] {
            assert!(alpha(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_fails_is_slower_with_or_without_a_limit() {
        assert_eq!(fail_on("slower"), Ok(0.0));
        assert_eq!(fail_on("slower:3%"), Ok(0.03));
        assert_eq!(fail_on("slower:0%"), Ok(0.0));
        for bad in [
            "faster",
            "slower:",
            "slower:x",
            "slower:-1%",
            "slower5%",
            "",
        ] {
            assert!(fail_on(bad).is_err(), "{bad}");
        }
    }
}
