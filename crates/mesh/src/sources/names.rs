//! Users and groups: numbers as they are, names looked up once, here, so that no rule ever holds a name.

use super::{Host, SettingReader, Source};
use rules::{Gid, Uid};
use std::{io, str::FromStr};

pub(crate) struct Names<'a> {
    pub(crate) host: &'a dyn Host,
    /// On a node, the user database is not the pod's.
    pub(crate) numbers_only: bool,
}

impl Names<'_> {
    pub(crate) fn user(&self, reader: &mut SettingReader<'_>, source: &Source, item: &str) -> Option<Uid> {
        self.number(reader, source, item, "user", |name| self.host.user(name))
    }

    pub(crate) fn group(&self, reader: &mut SettingReader<'_>, source: &Source, item: &str) -> Option<Gid> {
        self.number(reader, source, item, "group", |name| self.host.group(name))
    }

    fn number<T: FromStr>(
        &self,
        reader: &mut SettingReader<'_>,
        source: &Source,
        item: &str,
        noun: &str,
        look_up: impl Fn(&str) -> io::Result<Option<T>>,
    ) -> Option<T> {
        if let Ok(number) = item.parse() {
            return Some(number);
        }
        let form = format!("expected a number from 0 to 4294967294, or the name of a {noun}");
        let complaint = if self.numbers_only {
            format!(
                "is not a {noun} number; names of the node may differ from those of the pod: give the number"
            )
        } else {
            match look_up(item) {
                Ok(Some(number)) => return Some(number),
                Ok(None) => format!("is not a known {noun}; {form}"),
                Err(error) => format!("can't be looked up: {error}; {form}"),
            }
        };
        reader.problem(source, item, complaint);
        None
    }
}
