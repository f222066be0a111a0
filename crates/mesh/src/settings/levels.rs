//! Levels of log lines as Istio's components take them: `debug`, or by scopes, `default:info,ads:debug`.
//!
//! Which scopes there are is left to each program: arguments are shared by programs with other scopes.

use std::str::FromStr;

/// What an item of the list is expected to be.
pub const FORM: &str = "expected SCOPE:LEVEL with a level of none, fatal, error, warn, info, debug or trace";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IstioLogLevel {
    None,
    /// `fatal` too: nothing here is logged after an end.
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// One item of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeLevel {
    /// `None` for whatever no other item names.
    pub scope: Option<String>,
    pub level: IstioLogLevel,
}

impl FromStr for ScopeLevel {
    type Err = String;

    fn from_str(item: &str) -> Result<Self, String> {
        let (scope, name) = item.split_once(':').unwrap_or(("default", item));
        let level = match name {
            "none" => IstioLogLevel::None,
            "fatal" | "error" => IstioLogLevel::Error,
            "warn" => IstioLogLevel::Warn,
            "info" => IstioLogLevel::Info,
            "debug" => IstioLogLevel::Debug,
            "trace" => IstioLogLevel::Trace,
            _ => return Err(format!("names no log level; {FORM}")),
        };
        let scope = (!matches!(scope, "default" | "all")).then(|| scope.to_owned());
        Ok(Self { scope, level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_with_and_without_a_scope() {
        let read = |item: &str| item.parse::<ScopeLevel>().map(|read| (read.scope, read.level));
        for everything in ["debug", "default:debug", "all:debug"] {
            assert_eq!(read(everything), Ok((None, IstioLogLevel::Debug)), "{everything}");
        }
        for (word, level) in [
            ("none", IstioLogLevel::None),
            ("fatal", IstioLogLevel::Error),
            ("error", IstioLogLevel::Error),
            ("warn", IstioLogLevel::Warn),
            ("info", IstioLogLevel::Info),
            ("debug", IstioLogLevel::Debug),
            ("trace", IstioLogLevel::Trace),
        ] {
            assert_eq!(read(&format!("ads:{word}")), Ok((Some("ads".to_owned()), level)), "{word}");
        }
        for wrong in ["", "loud", "default:", "ads:Info", "ads:info:debug"] {
            assert!(read(wrong).is_err_and(|error| error.contains(FORM)), "{wrong:?}");
        }
    }
}
