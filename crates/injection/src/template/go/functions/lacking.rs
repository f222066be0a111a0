//! Functions that templates cannot call: which of sprig's are left out on purpose, and why.

use super::{all, text};
use gtmpl_ng::{FuncError, Value};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The error of a call to a function that is not offered: why sprig's is left out, or that it is unknown. `None` for one that is.
pub(in super::super) fn lacking(name: &str) -> Option<String> {
    static KNOWN: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
        let own = gtmpl_ng::funcs::BUILTINS.iter().map(|(name, _)| *name);
        own.chain(all().into_iter().map(|(name, _)| name)).collect()
    });
    if KNOWN.contains(name) {
        return None;
    }
    let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let why = if starts(&["rand", "shuffle", "uuid"]) {
        "a pod's patch is the same each time, so nothing is left to chance"
    } else if starts(&[
        "date",
        "now",
        "ago",
        "htmlDate",
        "unixEpoch",
        "toDate",
        "mustToDate",
        "mustDate",
        "must_date",
    ]) {
        "a pod's patch is the same each time, so there is no clock"
    } else if starts(&[
        "gen",
        "bcrypt",
        "htpasswd",
        "encryptAES",
        "decryptAES",
        "derivePassword",
        "buildCustomCert",
    ]) {
        "there is no cryptography"
    } else if starts(&["expandenv", "getHostByName"]) {
        "templates know nothing of the machine"
    } else {
        return Some(format!("function {name} is unknown"));
    };
    Some(format!("function {name} is not offered: {why}"))
}

/// Fails with the text that it is given.
pub(in super::super) fn unusable(args: &[Value]) -> Result<Value, FuncError> {
    Err(FuncError::Generic(args.first().map(text).unwrap_or_default()))
}
