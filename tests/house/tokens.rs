//! Code as tokens, without test code.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::str::FromStr;

pub(crate) fn read(path: &str, text: &str) -> TokenStream {
    TokenStream::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == c)
}

/// Tokens of this level without `#[cfg(test)]` items and without attributes, which are passed to `attribute`.
pub(crate) fn without_tests(tokens: TokenStream, mut attribute: impl FnMut(TokenStream)) -> Vec<TokenTree> {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if !is_punct(&token, '#') {
            kept.push(token);
            continue;
        }
        let _ = tokens.next_if(|next| is_punct(next, '!'));
        // `#` before any other token belongs to a macro's pattern.
        let Some(TokenTree::Group(group)) = tokens.next_if(|next| matches!(next, TokenTree::Group(_))) else {
            continue;
        };
        if group.stream().to_string().split_whitespace().collect::<String>() == "cfg(test)" {
            let is_end = |next: &TokenTree| match next {
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                other => is_punct(other, ';'),
            };
            let _ = tokens.by_ref().find(is_end);
        } else {
            attribute(group.stream());
        }
    }
    kept
}
