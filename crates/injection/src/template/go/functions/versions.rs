//! Versions and constraints, by the rules of Masterminds' semver, which Helm's users know.

use super::{FunctionResult, functions, map_of, text};
use gtmpl_ng::Value;
use std::cmp::Ordering;

functions! {
    "semver" reads 1..=1, |args| {
        let text = text(&args[0]);
        SemanticVersion::read(&text).map(|version| version.fields(&text)).ok_or_else(|| not_a_version(&text))
    };
    "semverCompare" reads 2..=2, compare;
}

fn not_a_version(text: &str) -> String {
    format!("takes a version such as 1.2.3, not {text:?}")
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct SemanticVersion {
    numbers: [u64; 3],
    pre: String,
    metadata: String,
}

impl SemanticVersion {
    /// `v` before and numbers after the first may be missing.
    fn read(text: &str) -> Option<Self> {
        wild(text).filter(|(_, given, known)| given == known).map(|(version, ..)| version)
    }

    /// As templates see it.
    fn fields(&self, original: &str) -> Value {
        let [major, minor, patch] = self.numbers;
        let pre = if self.pre.is_empty() { String::new() } else { format!("-{}", self.pre) };
        let metadata = if self.metadata.is_empty() { String::new() } else { format!("+{}", self.metadata) };
        map_of([
            ("Major", major.into()),
            ("Minor", minor.into()),
            ("Patch", patch.into()),
            ("Prerelease", self.pre.as_str().into()),
            ("Metadata", self.metadata.as_str().into()),
            ("Original", original.into()),
            ("String", format!("{major}.{minor}.{patch}{pre}{metadata}").into()),
        ])
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |version: &Self| (version.numbers, version.pre.is_empty());
        rank(self).cmp(&rank(other)).then_with(|| parts(&self.pre).cmp(parts(&other.pre)))
    }
}

/// The parts of a pre-release: numbers, which come before words, and words.
fn parts(pre: &str) -> impl Iterator<Item = Result<u64, &str>> {
    pre.split('.').map(|part| part.parse::<u64>().map_err(|_| part))
}

/// A version of which numbers may be `x`, `X` or `*`, or missing; how many are given, and how many before the first such one.
fn wild(text: &str) -> Option<(SemanticVersion, usize, usize)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, metadata) = text.split_once('+').map_or((text, None), |(text, of)| (text, Some(of)));
    let (numbers, pre) = text.split_once('-').map_or((text, None), |(text, of)| (text, Some(of)));
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let are_words = |words: Option<&str>| words.is_none_or(|words| words.split('.').all(is_word));
    let is_numeral = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let leads = |word: &str| is_numeral(word) && word.len() > 1 && word.starts_with('0');
    if !are_words(pre) || !are_words(metadata) || pre.is_some_and(|pre| pre.split('.').any(leads)) {
        return None;
    }
    let mut version = SemanticVersion {
        pre: pre.unwrap_or_default().to_owned(),
        metadata: metadata.unwrap_or_default().to_owned(),
        ..SemanticVersion::default()
    };
    let mut known = None;
    for (at, number) in numbers.split('.').enumerate() {
        let place = version.numbers.get_mut(at)?;
        match number {
            "x" | "X" | "*" => known = known.or(Some(at)),
            _ if known.is_some() && is_numeral(number) && !number.is_empty() => {}
            _ if is_numeral(number) => *place = number.parse().ok()?,
            _ => return None,
        }
    }
    let given = numbers.split('.').count();
    Some((version, given, known.unwrap_or(given)))
}

/// Whether a version meets constraints: alternatives divided by `||`, each a list of conditions that all have to hold.
fn compare(args: &[Value]) -> FunctionResult {
    let (expression, given) = (text(&args[0]), text(&args[1]));
    let version = SemanticVersion::read(&given).ok_or_else(|| not_a_version(&given))?;
    let mut fulfilled = false;
    for alternative in expression.split("||") {
        let constraints = constraints(alternative)
            .ok_or_else(|| format!("takes a constraint such as \">= 1.2, < 2\", not {expression:?}"))?;
        fulfilled |= constraints.iter().all(|constraint| constraint.holds(&version));
    }
    Ok(fulfilled.into())
}

/// Longer ones first, as shorter ones begin them.
const OPERATORS: [&str; 11] = ["!=", ">=", "=>", "<=", "=<", "~>", "=", ">", "<", "~", "^"];

struct Constraint {
    operator: &'static str,
    version: SemanticVersion,
    /// How many of the numbers are known.
    known: usize,
}

/// Parted by a comma or by spaces; `1.2 - 1.4` is a range with both ends, which have no operators.
fn constraints(text: &str) -> Option<Vec<Constraint>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    let mut ends_range = false;
    loop {
        let operator = OPERATORS.into_iter().find(|operator| rest.starts_with(operator)).unwrap_or_default();
        let behind = rest[operator.len()..].trim_start();
        let end = behind.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(behind.len());
        let (version, behind) = behind.split_at(end);
        let (version, _, known) = wild(version)?;
        let behind = behind.trim_start();
        let begins_range = !ends_range && behind.starts_with("- ");
        let operator = match (begins_range, ends_range) {
            (false, false) => operator,
            _ if !operator.is_empty() => return None,
            (true, _) => ">=",
            (false, true) => "<=",
        };
        found.push(Constraint { operator, version, known });
        if behind.is_empty() {
            return Some(found);
        }
        rest = behind.strip_prefix(if begins_range { '-' } else { ',' }).unwrap_or(behind).trim_start();
        ends_range = begins_range;
    }
}

impl Constraint {
    fn holds(&self, version: &SemanticVersion) -> bool {
        let Self { operator, version: target, known } = self;
        // A constraint without a pre-release admits none, except `!=` with a complete version.
        if !version.pre.is_empty() && target.pre.is_empty() && (*operator != "!=" || *known < 3) {
            return false;
        }
        let order = version.cmp(target);
        // With numbers left open: as far as they are known. Where none is, the target is 0.0.0.
        let is_open = (1..3).contains(known);
        let open = version.numbers[..*known].cmp(&target.numbers[..*known]);
        match *operator {
            "!=" if is_open => open.is_ne(),
            "!=" => order.is_ne(),
            ">" if is_open => open.is_gt(),
            ">" => order.is_gt(),
            "<" => order.is_lt(),
            ">=" | "=>" => order.is_ge(),
            "<=" | "=<" if is_open => open.is_le(),
            "<=" | "=<" if *known == 0 => version.numbers[..2] == [0, 0],
            "<=" | "=<" => order.is_le(),
            "^" => order.is_ge() && self.is_compatible(version),
            "" | "=" if *known == 3 => order.is_eq(),
            // ~1.2.3 takes other patches, and so does ~1.2; ~0.0.0 takes everything.
            _ => {
                order.is_ge()
                    && (*target.numbers.as_slice() == [0; 3] && *known == 3 || {
                        let kept = (*known).min(2);
                        version.numbers[..kept] == target.numbers[..kept]
                    })
            }
        }
    }

    /// The same up to the first number that is not 0. Where all are left open, none of them is.
    fn is_compatible(&self, version: &SemanticVersion) -> bool {
        let first = self.version.numbers.iter().position(|number| *number > 0).unwrap_or(3);
        let kept = (first + 1).min(if self.known == 0 { 3 } else { self.known });
        version.numbers[..kept] == self.version.numbers[..kept]
    }
}
