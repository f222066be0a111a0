//! The functions of templates: those of Istio, and those of sprig that need no machine, no clock and no chance.
//!
//! | kind | functions |
//! |---|---|
//! | Istio's | annotation applicationPorts appendMultusNetwork contains directory env excludeInboundPort excludeInterfaces formatDuration fromJSON includeInboundPorts indent isset kubevirtInterfaces mergeMaps omit omitNil otelResourceAttributes protoToJSON strdict structToJSON toJSON toJsonMap toLower toYaml valueOrDefault |
//! | texts | abbrev abbrevboth camelcase cat hasPrefix hasSuffix hello initials join kebabcase lower nindent nospace plural quote repeat replace snakecase split splitList splitn squote substr swapcase title toString toStrings trim trimAll trimPrefix trimSuffix trimall trunc untitle upper wrap wrapWith |
//! | regular expressions | mustRegexFind mustRegexFindAll mustRegexMatch mustRegexReplaceAll mustRegexReplaceAllLiteral mustRegexSplit regexFind regexFindAll regexMatch regexQuoteMeta regexReplaceAll regexReplaceAllLiteral regexSplit |
//! | lists | append chunk compact concat first has initial last list prepend push rest reverse seq slice sortAlpha tuple uniq until untilStep without mustAppend mustChunk mustCompact mustFirst mustHas mustInitial mustLast mustPrepend mustPush mustRest mustReverse mustSlice mustUniq mustWithout |
//! | maps | deepCopy dict dig get hasKey keys merge mergeOverwrite mustDeepCopy mustMerge mustMergeOverwrite pick pluck set unset values |
//! | numbers | add add1 add1f addf atoi biggest ceil div divf float64 floor int int64 max maxf min minf mod mul mulf round sub subf toDecimal |
//! | choices, kinds | all any coalesce deepEqual default empty fail kindIs kindOf ternary typeIs typeIsLike typeOf |
//! | codings | b32dec b32enc b64dec b64enc fromJson fromYaml mustFromJson mustToJson mustToPrettyJson mustToRawJson toJson toPrettyJson toRawJson |
//! | checksums | adler32sum sha1sum sha256sum sha512sum |
//! | paths, URLs | base clean dir ext isAbs osBase osClean osDir osExt osIsAbs urlJoin urlParse |
//! | versions, time | duration durationRound semver semverCompare |
//! | Go's own | and call eq ge gt html index js le len lt ne not or print printf println urlquery |
//!
//! Where both have a function, it is Istio's. What of sprig is left out is named by [`lacking`], with why.

mod addresses;
mod call;
mod cases;
mod choices;
mod codings;
mod digests;
pub(super) mod durations;
mod istio;
mod lacking;
mod lists;
mod maps;
mod numbers;
mod regular;
mod texts;
mod values;
mod versions;

pub(super) use call::{MAX_OUTPUT, refused, remarks, with};
pub(super) use codings::json;
pub(super) use lacking::{lacking, unusable};

use call::{FunctionResult, functions, most, passes, reads, spend};
use gtmpl_ng::Func;
use values::{Fields, field, fields, is_empty, is_nothing, list, list_of, printed, text, whole};

/// Functions that do what another one does.
const ALIASES: [(&str, &str); 36] = [
    ("biggest", "max"),
    ("mustAppend", "append"),
    ("mustChunk", "chunk"),
    ("mustCompact", "compact"),
    ("mustDeepCopy", "deepCopy"),
    ("mustFirst", "first"),
    ("mustHas", "has"),
    ("mustInitial", "initial"),
    ("mustLast", "last"),
    ("mustMerge", "merge"),
    ("mustMergeOverwrite", "mergeOverwrite"),
    ("mustPrepend", "prepend"),
    ("mustPush", "append"),
    ("mustRegexFind", "regexFind"),
    ("mustRegexFindAll", "regexFindAll"),
    ("mustRegexReplaceAll", "regexReplaceAll"),
    ("mustRegexReplaceAllLiteral", "regexReplaceAllLiteral"),
    ("mustRegexSplit", "regexSplit"),
    ("mustRest", "rest"),
    ("mustReverse", "reverse"),
    ("mustSlice", "slice"),
    ("mustToJson", "toJson"),
    ("mustToPrettyJson", "toPrettyJson"),
    ("mustToRawJson", "toRawJson"),
    ("mustUniq", "uniq"),
    ("mustWithout", "without"),
    ("osBase", "base"),
    ("osClean", "clean"),
    ("osDir", "dir"),
    ("osExt", "ext"),
    ("osIsAbs", "isAbs"),
    ("push", "append"),
    ("structToJSON", "toJSON"),
    ("trimall", "trimAll"),
    ("toLower", "lower"),
    ("tuple", "list"),
];

/// All of them, by name.
pub(super) fn all() -> Vec<(&'static str, Func)> {
    let kinds = [
        addresses::ALL,
        cases::ALL,
        choices::ALL,
        codings::ALL,
        digests::ALL,
        durations::ALL,
        istio::ALL,
        lists::ALL,
        maps::ALL,
        numbers::ALL,
        regular::ALL,
        texts::ALL,
        versions::ALL,
    ];
    let mut all: Vec<(&str, Func)> = kinds.into_iter().flatten().copied().collect();
    let named = |name: &str| all.iter().find(|(known, _)| *known == name).map(|(_, function)| *function);
    let aliases: Vec<_> =
        ALIASES.iter().filter_map(|(alias, name)| named(name).map(|function| (*alias, function))).collect();
    all.extend(aliases);
    all
}
