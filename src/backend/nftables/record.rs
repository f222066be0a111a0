//! A record of how our table was made, kept in the table itself, for programs without the flags. The kernel fixes tables' and
//! chains' user data at creation, and updates replace only rules. So the record is a rule's user data, in a chain that no rule
//! leads to. The rule's comment is valid in `nft -f`; the settings follow as data that `nft` ignores, within the kernel's 256
//! bytes. Comparisons ignore the record, so rules in place are not rewritten for it.

use super::bytecode::{EncodedChain, EncodedRule};
use super::expression::{EncodedVerdict, Expression};
use crate::sys::message::text;
use rules::desired::Made;

pub(super) const CHAIN: &str = "made_by";

/// An attribute of libnftnl's `udata.h`: type, length, NUL-terminated string.
pub(super) const NFTNL_UDATA_RULE_COMMENT: u8 = 0;
/// An attribute that libnftnl ignores, numbered like our routing protocol.
const SETTINGS: u8 = 137;
/// `NFT_USERDATA_MAXLEN` (`linux/netfilter/nf_tables.h`).
const MAX_USERDATA: usize = 256;
/// `NFTNL_UDATA_COMMENT_MAXLEN`: the longest comment of `nft`, including its NUL.
const MAX_COMMENT: usize = 128;
const HEAD: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRecord {
    pub made: Made,
    pub settings: Option<String>,
    pub settings_digest: String,
    pub rules_digest: String,
}

impl TableRecord {
    fn userdata(&self) -> Vec<u8> {
        let Made { version, command, at, .. } = &self.made;
        let comment = format!(
            "sidecar-init {} {} at {} rules {} settings {}",
            word(version),
            word(command),
            word(at),
            self.rules_digest,
            self.settings_digest
        );
        let comment: String = comment.chars().take(MAX_COMMENT - 1).collect();
        let mut bytes = item(NFTNL_UDATA_RULE_COMMENT, comment.as_bytes());
        let room = MAX_USERDATA - bytes.len();
        let settings = self.settings.iter().filter(|settings| HEAD + settings.len() < room);
        bytes.extend(settings.flat_map(|settings| item(SETTINGS, settings.as_bytes())));
        bytes
    }

    fn read(userdata: &[u8]) -> Option<Self> {
        let comment = find(userdata, NFTNL_UDATA_RULE_COMMENT)?;
        let words: Vec<&str> = text(comment).split(' ').collect();
        let ["sidecar-init", version, command, "at", at, "rules", rules_digest, "settings", settings_digest] =
            words[..]
        else {
            return None;
        };
        let settings = find(userdata, SETTINGS).map(|bytes| text(bytes).to_owned());
        let settings_text = settings.clone().unwrap_or_default();
        let made =
            Made { version: version.into(), command: command.into(), at: at.into(), settings: settings_text };
        let [settings_digest, rules_digest] = [settings_digest, rules_digest].map(str::to_owned);
        Some(Self { made, settings, settings_digest, rules_digest })
    }

    pub(super) fn chain(&self) -> EncodedChain {
        // No packet gets here. `nft -f` accepts only rules with a statement.
        let expressions = vec![Expression::Verdict(EncodedVerdict::Return)];
        let rule = EncodedRule { expressions, userdata: self.userdata() };
        EncodedChain { name: CHAIN.to_owned(), base: None, rules: vec![rule] }
    }

    /// Removes the record from the chains. A chain of that name with other content stays.
    pub(super) fn take(chains: &mut Vec<EncodedChain>) -> Option<Self> {
        let is_carrier =
            |chain: &EncodedChain| chain.name == CHAIN && chain.base.is_none() && chain.rules.len() == 1;
        let at = chains.iter().position(is_carrier)?;
        let record = Self::read(&chains[at].rules[0].userdata)?;
        (chains[at].rules[0].expressions == record.chain().rules[0].expressions).then(|| {
            chains.remove(at);
            record
        })
    }
}

fn word(text: &str) -> String {
    let word: String = text.chars().filter(char::is_ascii_graphic).filter(|c| *c != '"').collect();
    if word.is_empty() { "unknown".to_owned() } else { word }
}

pub(super) fn item(kind: u8, text: &[u8]) -> Vec<u8> {
    let length = u8::try_from(text.len() + 1).expect("user data has at most 256 bytes");
    [&[kind, length], text, &[0]].concat()
}

fn find(mut userdata: &[u8], kind_sought: u8) -> Option<&[u8]> {
    while let [kind, length, rest @ ..] = userdata {
        let (payload, after) = rest.split_at_checked(usize::from(*length))?;
        if *kind == kind_sought {
            return Some(payload);
        }
        userdata = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{super::bytecode::EncodedTable, *};

    fn made(settings: &str) -> Made {
        Made {
            version: "0.1.0".to_owned(),
            command: "istio-iptables".to_owned(),
            at: "2026-11-22T05:12:45Z".to_owned(),
            settings: settings.to_owned(),
        }
    }

    #[test]
    fn record_is_read_back_within_the_size_limit() {
        for length in [0, 1, 60, 100, 125, 126, 127, 128, 200, 255, 256, 5_000] {
            let settings = "x".repeat(length);
            let record = TableRecord::of(&made(&settings), &EncodedTable::default());
            let userdata = record.userdata();
            assert!(userdata.len() <= MAX_USERDATA, "{length}: {}", userdata.len());
            let comment = find(&userdata, NFTNL_UDATA_RULE_COMMENT).expect("a comment");
            assert!(comment.len() <= MAX_COMMENT, "nft -f accepts it: {}", comment.len());
            let read = TableRecord::read(&userdata).expect("a record");
            assert_eq!(read.settings_digest, record.settings_digest);
            assert_eq!(read.rules_digest, record.rules_digest);
            assert!(length > 100 || read.settings.is_some(), "{length} should fit");
            assert!(length < 200 || read.settings.is_none(), "{length} should not");
            let kept = if read.settings.is_some() { settings } else { String::new() };
            assert_eq!(read.made, made(&kept), "{length}");
            assert_eq!(read.userdata(), userdata);
        }
    }

    #[test]
    fn other_user_data_is_no_record() {
        for bytes in [&b""[..], &[0], &[0, 9], &[0, 3, b'a', b'b', 0], &[1, 0, 0, 200]] {
            assert_eq!(TableRecord::read(bytes), None, "{bytes:?}");
        }
    }
}
