//! Certificates and keys as text (RFC 7468).

use base64::{Engine, engine::general_purpose::STANDARD};

/// Characters of a line (RFC 7468, 2).
const LINE: usize = 64;

pub(super) const CERTIFICATE: &str = "CERTIFICATE";
/// PKCS #8, without a password.
pub(super) const KEY: &str = "PRIVATE KEY";

/// One block.
pub(super) fn block(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let encoded = STANDARD.encode(der);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{CertificateDer, pem::PemObject};

    #[test]
    fn what_is_written_is_read_back() {
        for length in [0, 1, 47, 48, 49, 200] {
            let der: Vec<u8> = (0..length).collect();
            let text = block(CERTIFICATE, &der);
            assert!(text.lines().all(|line| line.len() <= LINE), "{text}");
            let read = CertificateDer::from_pem_slice(text.as_bytes()).expect("a block");
            assert_eq!(read.as_ref(), der);
        }
    }
}
