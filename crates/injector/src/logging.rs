//! Logging flags.

use clap::Args;
use cluster::logging::{self, LogLevelHandle};
use mesh::settings::levels::{ScopeLevel, by_scope};
use tracing::level_filters::LevelFilter;

/// Log level and format, with the init container's flag names.
#[derive(Args, Clone, Debug)]
pub(crate) struct LoggingFlags {
    /// Write log lines as JSON
    #[arg(long = "log_as_json", alias = "log-as-json")]
    json: bool,
    /// Log level: none, fatal, error, warn, info, debug or trace; only the scopes default and all apply
    #[arg(
        long = "log_output_level",
        alias = "log-output-level",
        value_name = "LEVELS",
        default_value = "default:info",
        value_parser = level,
        overrides_with = "level"
    )]
    level: LevelFilter,
}

/// Parses levels by scope, like Istio's programs. This program has one scope, the default.
fn level(text: &str) -> Result<LevelFilter, String> {
    let (mut items, mut problems) = (Vec::new(), Vec::new());
    for item in text.split(',') {
        match item.parse::<ScopeLevel>() {
            Ok(level) => items.push(level),
            Err(problem) => problems.push(format!("{item:?} {problem}")),
        }
    }
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    let (everything, _) = by_scope(items);
    Ok(everything.unwrap_or("info").parse().expect("a level of tracing"))
}

pub(crate) fn start(flags: &LoggingFlags) -> LogLevelHandle {
    logging::start(flags.json, flags.level, &[env!("CARGO_CRATE_NAME")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        logging: LoggingFlags,
    }

    #[test]
    fn levels_are_those_of_istios_programs() {
        let level = |words: &[&str]| {
            let words = ["program"].iter().chain(words);
            Program::try_parse_from(words)
                .map(|program| program.logging.level)
                .map_err(|error| error.to_string())
        };
        for (words, expected) in [
            (&[][..], LevelFilter::INFO),
            (&["--log_output_level", "default:debug,ads:none"], LevelFilter::DEBUG),
            (&["--log-output-level=ads:debug"], LevelFilter::INFO),
            (&["--log_output_level=default:info,all:none"], LevelFilter::OFF),
            (&["--log_output_level=info", "--log_output_level=fatal"], LevelFilter::ERROR),
        ] {
            assert_eq!(level(words), Ok(expected), "{words:?}");
        }
        let shown = level(&["--log_output_level=default:loud,info,ads:"]).expect_err("no levels");
        for text in ["\"default:loud\" names no log level", "\"ads:\"", "expected SCOPE:LEVEL"] {
            assert!(shown.contains(text), "{shown}");
        }
    }
}
