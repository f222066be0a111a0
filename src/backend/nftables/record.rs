//! A record of how our table was made, kept in the table itself, for readers that know none of the flags.
//! The kernel keeps user data of tables and chains from when those are made, and changes exchange rules alone. So the record
//! is the user data of a rule, in a chain that nothing leads to. Its comment is short enough that `nft -f` takes it back; the
//! settings follow as data that `nft` passes over, as far as the kernel's 256 bytes reach. The record is not compared: rules
//! in place are not written again for it.

use super::bytecode::{EncodedChain, EncodedRule};
use super::expression::{EncodedVerdict, Expression};
use crate::sys::message::text;
use rules::desired::Made;

pub(super) const CHAIN: &str = "made_by";

/// Of libnftnl's `udata.h`: type, length, text with NUL.
pub(super) const NFTNL_UDATA_RULE_COMMENT: u8 = 0;
/// A type that libnftnl does not know and passes over: the number of our routing protocol.
const SETTINGS: u8 = 137;
/// `NFT_USERDATA_MAXLEN` (`linux/netfilter/nf_tables.h`).
const MAX_USERDATA: usize = 256;
/// `NFTNL_UDATA_COMMENT_MAXLEN`: what `nft` takes for a comment, its NUL included.
const MAX_COMMENT: usize = 128;
/// Bytes before each item: type and length.
const HEAD: usize = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRecord {
    pub made: Made,
    /// `None` where there was no room for them.
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
        // Nothing comes here. A rule that says something is one that `nft -f` takes back.
        let expressions = vec![Expression::Verdict(EncodedVerdict::Return)];
        let rule = EncodedRule { expressions, userdata: self.userdata() };
        EncodedChain { name: CHAIN.to_owned(), base: None, rules: vec![rule] }
    }

    /// Takes the record out of what was read. A chain of that name that holds anything else stays what it is.
    pub(super) fn take(chains: &mut Vec<EncodedChain>) -> Option<Self> {
        let is_carrier =
            |chain: &EncodedChain| chain.name == CHAIN && chain.base.is_none() && chain.rules.len() == 1;
        let at = chains.iter().position(is_carrier)?;
        let record = Self::read(&chains[at].rules[0].userdata)?;
        // Another program's rule there is drift.
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
    fn a_record_comes_back_as_far_as_there_is_room() {
        for length in [0, 1, 60, 100, 125, 126, 127, 128, 200, 255, 256, 5_000] {
            let settings = "x".repeat(length);
            let record = TableRecord::of(&made(&settings), &EncodedTable::default());
            let userdata = record.userdata();
            assert!(userdata.len() <= MAX_USERDATA, "{length}: {}", userdata.len());
            let comment = find(&userdata, NFTNL_UDATA_RULE_COMMENT).expect("a comment");
            assert!(comment.len() <= MAX_COMMENT, "nft -f takes it: {}", comment.len());
            let read = TableRecord::read(&userdata).expect("a record");
            assert_eq!(read.settings_digest, record.settings_digest);
            assert_eq!(read.rules_digest, record.rules_digest);
            assert!(length > 100 || read.settings.is_some(), "{length} find room");
            assert!(length < 200 || read.settings.is_none(), "{length} find none");
            let kept = if read.settings.is_some() { settings } else { String::new() };
            assert_eq!(read.made, made(&kept), "{length}");
            // What was read is written again as it was.
            assert_eq!(read.userdata(), userdata);
        }
    }

    #[test]
    fn what_is_no_record_is_none() {
        for bytes in [&b""[..], &[0], &[0, 9], &[0, 3, b'a', b'b', 0], &[1, 0, 0, 200]] {
            assert_eq!(TableRecord::read(bytes), None, "{bytes:?}");
        }
    }
}
