//! The syntax of Kubernetes' labels, of DNS names and of HTTP header names, which go into labels, routes, scripts and
//! manifests.

/// The longest name and value of a label.
const MAX_LENGTH: usize = 63;

pub(super) const LABEL_VALUE: &str =
    "expected up to 63 letters, digits, -, _ and ., with a letter or a digit at both ends";

/// A value that is not empty: up to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
pub(super) fn is_label_value(text: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= MAX_LENGTH
        && is_end(text.bytes().next())
        && is_end(text.bytes().last())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// A name like a value's, and before a slash perhaps a DNS name.
pub(super) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_domain(prefix) && is_label_value(name),
        None => is_label_value(text),
    }
}

/// A DNS name in lower case, as objects of Kubernetes have it (RFC 1123).
pub(super) fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        is_label_value(label)
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A token of HTTP, as names of headers are (RFC 9110, section 5.6.2). No quote, no backslash and no line break is part of one,
/// so it can stand in a script's string.
pub(super) fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

pub(super) const LABEL_KEY: &str = "expected the key of a label, such as virtual-env or example.com/env";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_forms() {
        let long = "x".repeat(64);
        for (text, value, key, domain, token) in [
            ("virtual-env", true, true, true, true),
            ("a.b/c_d", false, true, false, false),
            ("A_b", true, true, false, true),
            ("-a", false, false, false, true),
            ("", false, false, false, false),
            ("a b", false, false, false, false),
            ("a/b/c", false, false, false, false),
            ("a\"", false, false, false, false),
            ("a\\", false, false, false, false),
            ("a\n", false, false, false, false),
            (":authority", false, false, false, false),
            (&long, false, false, false, true),
        ] {
            let found = (is_label_value(text), is_label_key(text), is_domain(text), is_token(text));
            assert_eq!(found, (value, key, domain, token), "{text:?}");
        }
    }
}
