//! The users and groups of the proxy and of the application, as their settings name them.

use super::config::OwnerGroups;
use super::defaults::{PROXY_ID, PROXY_USER};
use crate::settings::Setting;
use crate::sources::{Names, SettingReader, Source, Wildcard};
use rules::{Gid, Uid};

impl Names<'_> {
    pub(super) fn proxy_users(&self, reader: &mut SettingReader<'_>) -> Vec<Uid> {
        let before = reader.problem_count();
        let uids = reader.list(Setting::ProxyUid, |reader, source, item| self.user(reader, source, item));
        if uids.is_empty() && reader.problem_count() == before {
            vec![self.default_user(reader)]
        } else {
            uids
        }
    }

    pub(super) fn proxy_groups(&self, reader: &mut SettingReader<'_>, users: &[Uid]) -> Vec<Gid> {
        let gids = reader.list(Setting::ProxyGid, |reader, source, item| self.group(reader, source, item));
        if gids.is_empty() { users.iter().copied().map(Gid::from).collect() } else { gids }
    }

    fn default_user(&self, reader: &SettingReader<'_>) -> Uid {
        let given = reader.raw.get(Setting::EnvoyUser).map(|given| given.value.as_str());
        let name = given.filter(|name| !name.is_empty()).unwrap_or(PROXY_USER);
        let known = if self.numbers_only { None } else { self.host.user(name).ok().flatten() };
        known.unwrap_or(Uid::new(PROXY_ID).expect("the default is valid"))
    }

    pub(super) fn owner_groups(&self, reader: &mut SettingReader<'_>) -> OwnerGroups {
        /// Upstream's `maxOwnerGroupsInclude`: the kernel has no limit, but each is a match in one rule.
        const MAX: usize = 64;
        let read =
            |reader: &mut SettingReader<'_>, source: &Source, item: &str| self.group(reader, source, item);
        let excluded = reader.list(Setting::OwnerGroupsExclude, read);
        if reader.raw.get(Setting::OwnerGroups).is_none() {
            return OwnerGroups::AllBut(excluded);
        }
        match reader.wildcard(Setting::OwnerGroups, read) {
            Wildcard::All => OwnerGroups::AllBut(excluded),
            Wildcard::Items(included) => {
                if included.len() > MAX {
                    let (_, source) = reader.items(Setting::OwnerGroups);
                    let text = format!("names {} groups; at most {MAX} can be included", included.len());
                    reader.whole(&source, text);
                }
                OwnerGroups::Only(included)
            }
        }
    }
}
