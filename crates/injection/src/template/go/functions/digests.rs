//! Checksums, by which pods are created again when a configuration changes. Nothing secret depends on them.

use super::{FunctionResult, functions, text};
use data_encoding::HEXLOWER;
use gtmpl_ng::Value;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

functions! {
    "sha1sum" reads 1..=1 digest::<Sha1>;
    "sha256sum" reads 1..=1 digest::<Sha256>;
    "sha512sum" reads 1..=1 digest::<Sha512>;
    "adler32sum" reads 1..=1 |args| Ok(adler32(text(&args[0]).as_bytes()).to_string().into());
}

fn digest<D: Digest>(args: &[Value]) -> FunctionResult {
    Ok(HEXLOWER.encode(&D::digest(text(&args[0]))).into())
}

/// RFC 1950, section 8.2.
fn adler32(data: &[u8]) -> u32 {
    const PRIME: u32 = 65_521;
    let (one, two) = data.iter().fold((1, 0), |(one, two), byte| {
        let one = (one + u32::from(*byte)) % PRIME;
        (one, (two + one) % PRIME)
    });
    two << 16 | one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        let check = |function: fn(&[Value]) -> FunctionResult, expected: &str| {
            assert_eq!(function(&["abc".into()]), Ok(expected.into()));
        };
        check(digest::<Sha1>, "a9993e364706816aba3e25717850c26c9cd0d89d");
        check(digest::<Sha256>, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(
            digest::<Sha512>,
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        );
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }
}
