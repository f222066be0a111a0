//! Words that others put into rules, scripts and manifests, checked once.

/// The longest name and value of a label.
const LONGEST: usize = 63;

/// Whether it is the value of a label that says something: up to 63 letters, digits, `-`, `_` and `.`, with a letter or
/// digit at both ends.
pub(super) fn is_label_value(text: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= LONGEST
        && is_end(text.bytes().next())
        && is_end(text.bytes().last())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Whether it is the key of a label: a name like a value's, and before a slash perhaps a DNS name.
pub(super) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_domain(prefix) && is_label_value(name),
        None => is_label_value(text),
    }
}

/// Whether it is a name of DNS in lower case, as objects of Kubernetes have them (RFC 1123).
pub(super) fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        is_label_value(label)
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// What the key of a label looks like, for problems.
pub(super) const LABEL_KEY: &str = "expected the key of a label, such as virtual-env or example.com/env";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_forms() {
        let long = "x".repeat(64);
        for (text, value, key, domain) in [
            ("virtual-env", true, true, true),
            ("a.b/c_d", false, true, false),
            ("A_b", true, true, false),
            ("-a", false, false, false),
            ("", false, false, false),
            ("a b", false, false, false),
            ("a/b/c", false, false, false),
            ("a\"", false, false, false),
            ("a\\", false, false, false),
            ("a\n", false, false, false),
            (":authority", false, false, false),
            (&long, false, false, false),
        ] {
            let found = (is_label_value(text), is_label_key(text), is_domain(text));
            assert_eq!(found, (value, key, domain), "{text:?}");
        }
    }
}
