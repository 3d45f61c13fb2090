//! A number of tokens as users write it. Pure.

use contracts::run::Length;

/// `32`, `normal:32,4` (mean, standard deviation) or `uniform:8,64` (both ends included).
///
/// # Errors
/// What is expected.
pub fn length(word: &str) -> Result<Length, String> {
    let shapes = || "give N, normal:MEAN,SD or uniform:LOW,HIGH".to_owned();
    let Some((kind, numbers)) = word.split_once(':') else {
        let tokens = tokens(word).ok_or_else(shapes)?;
        return Ok(Length::Fixed { tokens });
    };
    let (first, second) = numbers.split_once(',').ok_or_else(shapes)?;
    match kind {
        "normal" => {
            let number = |word: &str| word.trim().parse().ok().filter(|n: &f64| n.is_finite());
            let (Some(mean_tokens), Some(sd_tokens)) = (number(first), number(second)) else {
                return Err(shapes());
            };
            if mean_tokens < 1.0 || sd_tokens < 0.0 {
                return Err("normal: the mean is 1 or more, the deviation 0 or more".to_owned());
            }
            Ok(Length::Normal {
                mean_tokens,
                sd_tokens,
            })
        }
        "uniform" => {
            let (Some(low_tokens), Some(high_tokens)) = (tokens(first), tokens(second)) else {
                return Err(shapes());
            };
            if low_tokens > high_tokens {
                return Err("uniform: the low end is above the high end".to_owned());
            }
            Ok(Length::Uniform {
                low_tokens,
                high_tokens,
            })
        }
        _ => Err(shapes()),
    }
}

fn tokens(word: &str) -> Option<u32> {
    word.trim().parse().ok().filter(|&tokens| tokens > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_shapes_are_known() {
        assert_eq!(length("32"), Ok(Length::Fixed { tokens: 32 }));
        let normal = Length::Normal {
            mean_tokens: 32.5,
            sd_tokens: 4.0,
        };
        assert_eq!(length("normal:32.5,4"), Ok(normal));
        let uniform = Length::Uniform {
            low_tokens: 8,
            high_tokens: 64,
        };
        assert_eq!(length("uniform:8, 64"), Ok(uniform));
        for bad in [
            "",
            "0",
            "-1",
            "1.5",
            "normal:3",
            "normal:0,1",
            "normal:nan,1",
            "normal:5,-1",
            "uniform:9,8",
            "uniform:0,8",
            "zipf:1,2",
            "normal:inf,1",
        ] {
            assert!(length(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_word_panics(word in ".*") {
            let _ = length(&word);
        }
    }
}
