//! Shared by the modules: configurations from texts, and witnesses that share no code with the crate.

use injection::Configuration;
use injection::configuration::{ConfigurationText, Texts};
use mesh::Problems;

pub(crate) mod kubectl;
pub(crate) mod random;
pub(crate) mod rfc6902;

/// The configuration of these texts; an empty one counts as not given.
pub(crate) fn read(config: &str, values: &str, mesh: &str) -> Result<Configuration, Problems> {
    let text = |name, text| (!str::is_empty(text)).then_some(ConfigurationText { name, text });
    let texts =
        Texts { config: text("config", config), values: text("values", values), mesh: text("mesh", mesh) };
    Configuration::read(&texts)
}
