//! Levels of log lines as Istio's components take them: `debug`, or by scopes, `default:info,ads:debug`.

use std::str::FromStr;

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeLevel {
    /// `default` where the item names none.
    pub scope: String,
    pub level: IstioLogLevel,
}

/// The level of scopes that no item names, and the levels of named ones. `all` counts wherever it is; the first of several counts.
pub fn by_scope(items: Vec<ScopeLevel>) -> (Option<IstioLogLevel>, Vec<ScopeLevel>) {
    if let Some(all) = items.iter().find(|item| item.scope == "all") {
        return (Some(all.level), Vec::new());
    }
    let (default, named): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| item.scope == "default");
    (default.last().map(|item| item.level), named)
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
        Ok(Self { scope: scope.to_owned(), level })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_with_and_without_a_scope() {
        let read = |item: &str| item.parse::<ScopeLevel>().map(|read| (read.scope, read.level));
        for (item, scope) in [("debug", "default"), ("default:debug", "default"), ("all:debug", "all")] {
            assert_eq!(read(item), Ok((scope.to_owned(), IstioLogLevel::Debug)), "{item}");
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
            assert_eq!(read(&format!("ads:{word}")), Ok(("ads".to_owned(), level)), "{word}");
        }
        for wrong in ["", "loud", "default:", "ads:Info", "ads:info:debug"] {
            assert!(read(wrong).is_err_and(|error| error.contains(FORM)), "{wrong:?}");
        }
    }

    #[test]
    fn all_counts_for_every_scope_wherever_it_is() {
        for (list, everything, scopes) in [
            ("ads:debug", None, vec!["ads"]),
            ("info,ads:debug,default:warn,dns:none", Some(IstioLogLevel::Warn), vec!["ads", "dns"]),
            ("all:none,default:info", Some(IstioLogLevel::None), vec![]),
            ("ads:debug,default:info,all:none", Some(IstioLogLevel::None), vec![]),
            ("all:debug,ads:info,all:none", Some(IstioLogLevel::Debug), vec![]),
        ] {
            let items = list.split(',').map(|item| item.parse().expect("a level"));
            let (found, named) = by_scope(items.collect());
            let named: Vec<&str> = named.iter().map(|item| &*item.scope).collect();
            assert_eq!((found, named), (everything, scopes), "{list}");
        }
    }
}
