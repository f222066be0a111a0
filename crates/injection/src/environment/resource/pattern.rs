//! The pattern of an alias: a regular expression of RE2 with places for the environment.
//!
//! What Envoy could not compile is refused here, where it can be named: one such expression keeps it from taking any route
//! at all.

use crate::re2;

/// The most bytes of a compiled expression: more than any that Envoy takes by default.
const MAX_SIZE: usize = 10 << 20;

/// The expression, with places for the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AliasPattern(Vec<String>);

impl AliasPattern {
    /// Reads a text in which the placeholder stands for the environment.
    pub(super) fn read(text: &str, placeholder: &str) -> Result<Self, String> {
        let pattern = Self(text.split(placeholder).map(str::to_owned).collect());
        if pattern.0.len() < 2 {
            return Err(format!(
                "lacks the placeholder {placeholder:?}, so it would fit every environment; expected it in place of \
                 the environment, such as .*;env={placeholder};.*"
            ));
        }
        match re2::compile(&pattern.of("dev.red"), MAX_SIZE) {
            Ok(_) => Ok(pattern),
            Err(why) => Err(format!("is not a regular expression of RE2: {why}")),
        }
    }

    /// The expression that an environment fits. Its dots stand for dots.
    pub fn of(&self, environment: &str) -> String {
        self.0.join(&environment.replace('.', "\\."))
    }
}
