//! Versions of the iptables programs.

use std::{fmt, str::FromStr};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u16, pub u16, pub u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a version; expected one such as 1.8.9")]
pub struct VersionError;

impl FromStr for Version {
    type Err = VersionError;

    /// Parses `1.8.9` or `v1.8.9`, possibly followed by `(legacy)` or `(nf_tables)`; a missing third part is 0.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let number = text.split(' ').next().unwrap_or_default();
        let mut parts = number.strip_prefix('v').unwrap_or(number).split('.').map(str::parse);
        let mut part = || parts.next().transpose().map_err(|_| VersionError);
        match (part()?, part()?, part()?, part()?) {
            (Some(major), Some(minor), patch, None) => Ok(Self(major, minor, patch.unwrap_or(0))),
            _ => Err(VersionError),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_programs_print_them() {
        assert_eq!("v1.8.9 (nf_tables)".parse(), Ok(Version(1, 8, 9)));
        assert_eq!("1.6".parse(), Ok(Version(1, 6, 0)));
        for text in ["", "1", "1.x", "1.2.3.4", "legacy"] {
            assert_eq!(text.parse::<Version>(), Err(VersionError), "{text:?}");
        }
    }
}
