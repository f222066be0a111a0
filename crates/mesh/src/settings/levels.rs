//! Log levels in the syntax of Istio's components: `debug`, or by scopes, `default:info,ads:debug`.

use std::str::FromStr;

pub const FORM: &str = "expected SCOPE:LEVEL where LEVEL is none, fatal, error, warn, info, debug or trace";

/// Istio's levels, with their `tracing` equivalents; `tracing` has no `fatal`.
const LEVELS: [(&str, &str); 7] = [
    ("none", "off"),
    ("fatal", "error"),
    ("error", "error"),
    ("warn", "warn"),
    ("info", "info"),
    ("debug", "debug"),
    ("trace", "trace"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeLevel {
    pub scope: String,
    pub level: &'static str,
}

/// Returns the default level and the named scopes' levels. An `all` overrides other levels; the first `all` wins.
pub fn by_scope(items: Vec<ScopeLevel>) -> (Option<&'static str>, Vec<ScopeLevel>) {
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
        let known = LEVELS.into_iter().find(|(known, _)| *known == name);
        let (_, level) = known.ok_or_else(|| format!("names no log level; {FORM}"))?;
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
            assert_eq!(read(item), Ok((scope.to_owned(), "debug")), "{item}");
        }
        for (word, level) in [("none", "off"), ("fatal", "error"), ("error", "error"), ("trace", "trace")] {
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
            ("info,ads:debug,default:warn,dns:none", Some("warn"), vec!["ads", "dns"]),
            ("all:none,default:info", Some("off"), vec![]),
            ("ads:debug,default:info,all:none", Some("off"), vec![]),
            ("all:debug,ads:info,all:none", Some("debug"), vec![]),
        ] {
            let items = list.split(',').map(|item| item.parse().expect("a level"));
            let (found, named) = by_scope(items.collect());
            let named: Vec<&str> = named.iter().map(|item| &*item.scope).collect();
            assert_eq!((found, named), (everything, scopes), "{list}");
        }
    }
}
