//! A chapter's own options: numbers by name, each with a default and a smallest value.

use std::collections::BTreeMap;

use crate::error::EngineError;

/// The options given, checked against those that exist.
pub(super) struct Options {
    given: BTreeMap<String, String>,
}

impl Options {
    /// Refuses what is not among `known`, and lists those.
    pub(super) fn among(
        given: BTreeMap<String, String>,
        known: &[&str],
    ) -> Result<Self, EngineError> {
        match given.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(EngineError::bad_input(
                "option",
                format!("{name:?}: this chapter has {}", known.join(", ")),
            )),
            None => Ok(Self { given }),
        }
    }

    /// A number of at least `least`; none if it was not given.
    pub(super) fn number(&self, name: &str, least: usize) -> Result<Option<usize>, EngineError> {
        let Some(value) = self.given.get(name) else {
            return Ok(None);
        };
        match value.parse() {
            Ok(number) if number >= least => Ok(Some(number)),
            _ => Err(EngineError::bad_input(
                "option",
                format!("{name} is {value:?} and must be a number of at least {least}"),
            )),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn options(given: &[(&str, &str)]) -> Result<Options, EngineError> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Options::among(given.iter().map(own).collect(), &["rows", "tokens"])
    }

    #[test]
    fn what_is_not_given_is_left_to_the_chapter() {
        let options = options(&[("rows", "3")]).unwrap();
        assert_eq!(options.number("rows", 1).unwrap(), Some(3));
        assert_eq!(options.number("tokens", 1).unwrap(), None);
    }

    #[test]
    fn unknown_names_and_bad_numbers_are_one_clear_line() {
        let line = |result: Result<_, EngineError>| match result {
            Err(error) => error.to_string(),
            Ok(_) => unreachable!("it was taken"),
        };
        assert_eq!(
            line(options(&[("speed", "9")]).map(|_| ())),
            "option: \"speed\": this chapter has rows, tokens"
        );
        for bad in ["0", "-1", "many", "", "1.5", "99999999999999999999999"] {
            let given = options(&[("rows", bad)]).unwrap();
            assert_eq!(
                line(given.number("rows", 1).map(|_| ())),
                format!("option: rows is {bad:?} and must be a number of at least 1")
            );
        }
    }
}
