//! The DNS servers of resolv.conf, read as libc reads them (`res_init.c` of glibc, `resolvconf.c` of musl): other
//! lines, and what is not an address, are skipped.

use std::net::IpAddr;

/// The servers, in the order of the file. libc uses only the first three; other resolvers may use more.
pub fn name_servers(text: &[u8]) -> Vec<IpAddr> {
    text.split(|&byte| byte == b'\n').filter_map(server).collect()
}

fn server(line: &[u8]) -> Option<IpAddr> {
    let rest = line.strip_prefix(b"nameserver")?;
    let (b' ' | b'\t', rest) = rest.split_first()? else { return None };
    let address = std::str::from_utf8(rest).ok()?.split_ascii_whitespace().next()?;
    // `fe80::1%eth0`: the zone is the interface's, and rules have none.
    address.split('%').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::name_servers;

    #[test]
    fn what_is_not_understood_hides_no_server() {
        let check = |text: &[u8], expected: &[&str]| {
            let found: Vec<String> = name_servers(text).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(text));
        };
        check(b"nameserver 10.0.0.10\n", &["10.0.0.10"]);
        check(b"options insecure1\noptions ndots\ndomain\nnameserver 10.0.0.10", &["10.0.0.10"]);
        check(b"nameserver 10.0.0\nnameserver \nnameserver 10.0.0.10\n", &["10.0.0.10"]);
        check(b"search caf\xe9.example\nnameserver 10.0.0.10\n", &["10.0.0.10"]);
        check(b"nameserver\t10.0.0.10 # the cluster's\r\nnameserver fd00::a\r\n", &["10.0.0.10", "fd00::a"]);
        check(b"nameserver fe80::1%eth0\n", &["fe80::1"]);
        check(b"#nameserver 10.0.0.1\n; nameserver 10.0.0.2\nnameservers 10.0.0.3\n", &[]);
        check(b" nameserver 10.0.0.10\n", &[]);
        check(b"", &[]);
    }
}
