//! The host of a pod that a manifest describes and that does not run here.

use super::{Host, Raw, STAND_IN};
use crate::istio::defaults::{PROXY_ID, PROXY_USER};
use crate::settings::Setting;
use rules::{Gid, Uid};
use std::{io, net::IpAddr};

#[derive(Clone, Copy, Debug)]
pub enum RemoteHost {
    /// For questions about the pod's traffic: what is not given of it is assumed.
    Assumed { dual_stack: bool },
    /// For checks of what the pod gives: it may get any addresses and servers, and its image knows groups by
    /// names that are unknown before it starts.
    Open,
}

impl RemoteHost {
    pub fn host(raw: &Raw) -> Box<dyn Host> {
        Box::new(Self::Assumed { dual_stack: raw.is_on(Setting::DualStack) })
    }
}

impl Host for RemoteHost {
    fn user(&self, name: &str) -> io::Result<Option<Uid>> {
        Ok(match self {
            Self::Open if name == PROXY_USER => Uid::new(PROXY_ID),
            Self::Open | Self::Assumed { .. } => None,
        })
    }

    fn group(&self, name: &str) -> io::Result<Option<Gid>> {
        /// `nogroup`, in the place of any.
        const SOME: u32 = 65534;
        Ok(match self {
            Self::Open if name == PROXY_USER => Gid::new(PROXY_ID),
            Self::Open if is_name(name) => Gid::new(SOME),
            Self::Open | Self::Assumed { .. } => None,
        })
    }

    fn knows_addresses(&self) -> bool {
        false
    }

    fn addresses(&self) -> io::Result<Vec<IpAddr>> {
        let ipv6 = IpAddr::V6(STAND_IN.1);
        Ok(match self {
            Self::Assumed { dual_stack } => {
                let ipv6 = dual_stack.then_some(ipv6);
                [IpAddr::V4(STAND_IN.0)].into_iter().chain(ipv6).collect()
            }
            // IPv4 is captured in any case.
            Self::Open => vec![ipv6],
        })
    }

    fn name_servers(&self) -> io::Result<Vec<IpAddr>> {
        match self {
            Self::Assumed { .. } => Err(io::Error::other("it is the pod's, which does not run here")),
            Self::Open => Ok(vec![IpAddr::V6(STAND_IN.1)]),
        }
    }
}

/// True for the form of a group's name, and not of a number.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-$".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{Given, Source};

    #[test]
    fn a_pod_that_is_not_there_may_know_any_group() {
        let check = |name: &str, open: Option<u32>| {
            let number = |host: RemoteHost| host.group(name).expect("no error").map(Gid::number);
            assert_eq!(number(RemoteHost::Open), open, "{name:?}");
            assert_eq!(number(RemoteHost::Assumed { dual_stack: true }), None, "{name:?}");
        };
        check("istio-proxy", Some(PROXY_ID));
        check("root", Some(65534));
        for bad in ["", "-1", "4294967296", "a b", "a:b", "1a"] {
            check(bad, None);
        }
    }

    #[test]
    fn of_a_pod_that_is_not_there_addresses_are_placeholders() {
        let (v4, v6): (IpAddr, IpAddr) = (STAND_IN.0.into(), STAND_IN.1.into());
        let assumed = |value: &str| {
            let given = Given { value: value.to_owned(), source: Source::Flag("dual-stack") };
            RemoteHost::host(&Raw::of([(Setting::DualStack, given)]))
        };
        assert_eq!(assumed("true").addresses().expect("no error"), [v4, v6]);
        assert_eq!(assumed("false").addresses().expect("no error"), [v4]);
        assert_eq!(RemoteHost::Open.addresses().expect("no error"), [v6]);
        assert!(!assumed("true").knows_addresses() && !RemoteHost::Open.knows_addresses());
        let error = assumed("true").name_servers().expect_err("unknown");
        assert_eq!(error.to_string(), "it is the pod's, which does not run here");
        assert_eq!(RemoteHost::Open.name_servers().expect("no error"), [v6]);
        let user = |host: &dyn Host, name| host.user(name).expect("no error").map(Uid::number);
        assert_eq!(user(&RemoteHost::Open, "istio-proxy"), Some(PROXY_ID));
        assert_eq!(user(&RemoteHost::Open, "root"), None);
        assert_eq!(user(&*assumed("true"), "istio-proxy"), None);
    }
}
