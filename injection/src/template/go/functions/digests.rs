//! Checksums (FIPS 180-4, RFC 1950), which pods carry so that they are made anew when a configuration changes. Nothing secret
//! depends on them.

use super::{functions, text};
use std::fmt::{LowerHex, Write};

functions! {
    "sha1sum" reads 1..=1 |args| Ok(sha1(text(&args[0]).as_bytes()).into());
    "sha256sum" reads 1..=1 |args| Ok(sha256(text(&args[0]).as_bytes()).into());
    "sha512sum" reads 1..=1 |args| Ok(sha512(text(&args[0]).as_bytes()).into());
    "adler32sum" reads 1..=1 |args| Ok(adler32(text(&args[0]).as_bytes()).to_string().into());
}

/// The first 64 bits behind the point of the cube roots of the first 80 primes. SHA-256 takes the first 32 of 64 of them.
const CUBE_ROOTS: [u64; 80] = [
    0x428a_2f98_d728_ae22,
    0x7137_4491_23ef_65cd,
    0xb5c0_fbcf_ec4d_3b2f,
    0xe9b5_dba5_8189_dbbc,
    0x3956_c25b_f348_b538,
    0x59f1_11f1_b605_d019,
    0x923f_82a4_af19_4f9b,
    0xab1c_5ed5_da6d_8118,
    0xd807_aa98_a303_0242,
    0x1283_5b01_4570_6fbe,
    0x2431_85be_4ee4_b28c,
    0x550c_7dc3_d5ff_b4e2,
    0x72be_5d74_f27b_896f,
    0x80de_b1fe_3b16_96b1,
    0x9bdc_06a7_25c7_1235,
    0xc19b_f174_cf69_2694,
    0xe49b_69c1_9ef1_4ad2,
    0xefbe_4786_384f_25e3,
    0x0fc1_9dc6_8b8c_d5b5,
    0x240c_a1cc_77ac_9c65,
    0x2de9_2c6f_592b_0275,
    0x4a74_84aa_6ea6_e483,
    0x5cb0_a9dc_bd41_fbd4,
    0x76f9_88da_8311_53b5,
    0x983e_5152_ee66_dfab,
    0xa831_c66d_2db4_3210,
    0xb003_27c8_98fb_213f,
    0xbf59_7fc7_beef_0ee4,
    0xc6e0_0bf3_3da8_8fc2,
    0xd5a7_9147_930a_a725,
    0x06ca_6351_e003_826f,
    0x1429_2967_0a0e_6e70,
    0x27b7_0a85_46d2_2ffc,
    0x2e1b_2138_5c26_c926,
    0x4d2c_6dfc_5ac4_2aed,
    0x5338_0d13_9d95_b3df,
    0x650a_7354_8baf_63de,
    0x766a_0abb_3c77_b2a8,
    0x81c2_c92e_47ed_aee6,
    0x9272_2c85_1482_353b,
    0xa2bf_e8a1_4cf1_0364,
    0xa81a_664b_bc42_3001,
    0xc24b_8b70_d0f8_9791,
    0xc76c_51a3_0654_be30,
    0xd192_e819_d6ef_5218,
    0xd699_0624_5565_a910,
    0xf40e_3585_5771_202a,
    0x106a_a070_32bb_d1b8,
    0x19a4_c116_b8d2_d0c8,
    0x1e37_6c08_5141_ab53,
    0x2748_774c_df8e_eb99,
    0x34b0_bcb5_e19b_48a8,
    0x391c_0cb3_c5c9_5a63,
    0x4ed8_aa4a_e341_8acb,
    0x5b9c_ca4f_7763_e373,
    0x682e_6ff3_d6b2_b8a3,
    0x748f_82ee_5def_b2fc,
    0x78a5_636f_4317_2f60,
    0x84c8_7814_a1f0_ab72,
    0x8cc7_0208_1a64_39ec,
    0x90be_fffa_2363_1e28,
    0xa450_6ceb_de82_bde9,
    0xbef9_a3f7_b2c6_7915,
    0xc671_78f2_e372_532b,
    0xca27_3ece_ea26_619c,
    0xd186_b8c7_21c0_c207,
    0xeada_7dd6_cde0_eb1e,
    0xf57d_4f7f_ee6e_d178,
    0x06f0_67aa_7217_6fba,
    0x0a63_7dc5_a2c8_98a6,
    0x113f_9804_bef9_0dae,
    0x1b71_0b35_131c_471b,
    0x28db_77f5_2304_7d84,
    0x32ca_ab7b_40c7_2493,
    0x3c9e_be0a_15c9_bebc,
    0x431d_67c4_9c10_0d4c,
    0x4cc5_d4be_cb3e_42b6,
    0x597f_299c_fc65_7e2a,
    0x5fcb_6fab_3ad6_faec,
    0x6c44_198c_4a47_5817,
];
/// The same of the square roots of the first eight.
const SQUARE_ROOTS: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// A text with its end marked and its length behind, in whole blocks of `block` bytes.
fn padded(data: &[u8], block: usize) -> Vec<u8> {
    let mut out = data.to_vec();
    out.push(0x80);
    let length = block / 8;
    while !(out.len() + length).is_multiple_of(block) {
        out.push(0);
    }
    let bits = (data.len() as u128) * 8;
    out.extend_from_slice(&bits.to_be_bytes()[16 - length..]);
    out
}

fn hex(words: &[impl LowerHex], digits: usize) -> String {
    words.iter().fold(String::new(), |mut out, word| {
        write!(out, "{word:0digits$x}").expect("text takes all");
        out
    })
}

fn sha1(data: &[u8]) -> String {
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded(data, 64).chunks_exact(64) {
        let mut words: Vec<u32> = block
            .chunks_exact(4)
            .map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
            .collect();
        for at in 16..80 {
            words.push((words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1));
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.into_iter().enumerate() {
            let (mixed, constant) = match at {
                0..20 => ((b & c) | (!b & d), 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let next = a
                .rotate_left(5)
                .wrapping_add(mixed)
                .wrapping_add(e)
                .wrapping_add(constant)
                .wrapping_add(word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(part);
        }
    }
    hex(&state, 8)
}

/// A function of the SHA-2 family: its words, bytes of a block, rounds, and by how much it rotates and shifts.
macro_rules! sha2 {
    ($name:ident, $word:ty, $shift:literal, $block:literal, $rounds:literal, $sums:expr, $schedule:expr) => {
        fn $name(data: &[u8]) -> String {
            const BYTES: usize = size_of::<$word>();
            let top = |root: u64| <$word>::try_from(root >> $shift).unwrap_or(0);
            let (sums, schedule): ([[u32; 3]; 2], [[u32; 3]; 2]) = ($sums, $schedule);
            let mut state = SQUARE_ROOTS.map(top);
            for block in padded(data, $block).chunks_exact($block) {
                let mut words: Vec<$word> = block
                    .chunks_exact(BYTES)
                    .map(|word| word.iter().fold(0, |sum, byte| sum << 8 | <$word>::from(*byte)))
                    .collect();
                let small = |word: $word, [one, two, shift]: [u32; 3]| {
                    word.rotate_right(one) ^ word.rotate_right(two) ^ (word >> shift)
                };
                let large = |word: $word, [one, two, three]: [u32; 3]| {
                    word.rotate_right(one) ^ word.rotate_right(two) ^ word.rotate_right(three)
                };
                for at in 16..$rounds {
                    let (early, late) =
                        (small(words[at - 15], schedule[0]), small(words[at - 2], schedule[1]));
                    words.push(
                        words[at - 16].wrapping_add(early).wrapping_add(words[at - 7]).wrapping_add(late),
                    );
                }
                let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
                for (word, root) in words.into_iter().zip(CUBE_ROOTS) {
                    let chosen = (e & f) ^ (!e & g);
                    let most = (a & b) ^ (a & c) ^ (b & c);
                    let one = h
                        .wrapping_add(large(e, sums[1]))
                        .wrapping_add(chosen)
                        .wrapping_add(top(root))
                        .wrapping_add(word);
                    let two = large(a, sums[0]).wrapping_add(most);
                    (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(one), c, b, a, one.wrapping_add(two));
                }
                for (sum, part) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
                    *sum = sum.wrapping_add(part);
                }
            }
            hex(&state, BYTES * 2)
        }
    };
}
sha2!(sha256, u32, 32, 64, 64, [[2, 13, 22], [6, 11, 25]], [[7, 18, 3], [17, 19, 10]]);
sha2!(sha512, u64, 0, 128, 80, [[28, 34, 39], [14, 18, 41]], [[1, 8, 7], [19, 61, 6]]);

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

    /// Lengths at which the padding needs a block more, and the standard's own examples.
    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(sha1(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(
            sha512(b"abc"),
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        );
        let two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(sha256(two_blocks), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        assert_eq!(sha1(two_blocks), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }
}
