//! Whether the value of an annotation is written as Istio wants it.
//!
//! What is refused here beyond what flags refuse, Istio refuses when the pod is made (`pkg/kube/inject/validate.go`):
//! a preview must not promise rules for a pod that never comes to be.

use crate::Problems;
use crate::settings::mapping::AnnotationForm;
use rules::{Cidr, Port, PortRange};

/// What is wrong: the item, and the complaint.
type FormFault<'a> = (&'a str, String);

impl AnnotationForm {
    /// What is wrong with a value beyond what every reader of the setting reports: the items, and the complaint about each.
    /// Of many, the first.
    pub fn faults(self, value: &str) -> Vec<FormFault<'_>> {
        let fault: fn(&str) -> Option<FormFault<'_>> = match self {
            Self::Mode => return Vec::new(),
            Self::PortsOrAll | Self::NetworksOrAll if value == "*" => return Vec::new(),
            // Istio trims lists of ports as a whole, and each item of those of interfaces; networks it takes as they are.
            Self::Ports | Self::PortsOrAll | Self::Interfaces if value.trim().is_empty() => {
                return Vec::new();
            }
            Self::Networks | Self::NetworksOrAll if value.is_empty() => return Vec::new(),
            Self::Ports | Self::PortsOrAll => port,
            Self::Networks | Self::NetworksOrAll => network,
            Self::Interfaces => interface,
        };
        value.split(',').filter_map(fault).take(Problems::MAX_ITEMS).collect()
    }
}

/// The ranges in a list of ports of a mesh that takes none. Of many, the first.
pub(super) fn ranges<'a>(value: &'a str, mesh: &str) -> Vec<FormFault<'a>> {
    let is_range = |item: &&str| item.parse::<Port>().is_err() && item.parse::<PortRange>().is_ok();
    let found = value.split(',').map(str::trim).filter(is_range).take(Problems::MAX_ITEMS);
    found.map(|item| (item, range(mesh))).collect()
}

/// The complaint about a range of ports where a mesh takes none.
fn range(mesh: &str) -> String {
    format!(
        "is not a port; {mesh} refuses ranges in its annotations: write them in the one that starts with sidecar-init/"
    )
}

fn port(item: &str) -> Option<FormFault<'_>> {
    let item = item.trim();
    // Rust also takes a plus sign before a number.
    let is_port = !item.starts_with('+') && item.parse::<u16>().is_ok();
    let text = match item {
        _ if is_port => return None,
        "" => "is an empty item of a list of ports; leave the comma out",
        _ if item.parse::<PortRange>().is_ok() => return Some((item, range("Istio"))),
        _ => "is not a port; expected a number from 0 to 65535",
    };
    Some((item, text.to_owned()))
}

fn network(item: &str) -> Option<FormFault<'_>> {
    let text = match item.parse::<Cidr>() {
        Ok(_) => return None,
        Err(_) if item.is_empty() => "is an empty item of a list of networks; leave the comma out".to_owned(),
        Err(_) if item.contains(char::is_whitespace) => {
            "has a space, which Istio refuses; expected networks such as 10.0.0.0/8,192.168.0.0/16".to_owned()
        }
        Err(error) => format!("{error}; expected a network such as 10.0.0.0/8"),
    };
    Some((item, text))
}

fn interface(item: &str) -> Option<FormFault<'_>> {
    let item = item.trim();
    let start = item.starts_with(|c: char| c.is_ascii_alphabetic());
    let rest = item.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let fits = item.len() <= 15;
    let text = match item {
        "" => "is an empty item of a list of interfaces; leave the comma out",
        _ => {
            "is not an interface name to Istio; expected a letter and up to 14 letters, digits, _ . or - behind it"
        }
    };
    (!(start && rest && fits)).then(|| (item, text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_millions_of_faults_the_first_are_reported() {
        let commas = ",".repeat(2_000_000);
        for form in [AnnotationForm::Ports, AnnotationForm::NetworksOrAll, AnnotationForm::Interfaces] {
            assert_eq!(form.faults(&commas).len(), Problems::MAX_ITEMS, "{form:?}");
        }
    }

    #[test]
    fn what_istio_refuses_is_refused() {
        let check = |form: AnnotationForm, value: &str, bad: &[&str]| {
            let found: Vec<&str> = form.faults(value).into_iter().map(|(item, _)| item).collect();
            assert_eq!(found, bad, "{form:?} {value:?}");
        };
        check(AnnotationForm::Ports, "", &[]);
        check(AnnotationForm::Ports, "80, 443,0,65535", &[]);
        check(AnnotationForm::Ports, "80,,x,65536,+1,8000-9000", &["", "x", "65536", "+1", "8000-9000"]);
        check(AnnotationForm::Ports, "*", &["*"]);
        check(AnnotationForm::PortsOrAll, "*", &[]);
        check(AnnotationForm::Ports, " ", &[]);
        check(AnnotationForm::Networks, " ", &[" "]);
        check(AnnotationForm::PortsOrAll, "80,*", &["*"]);
        check(AnnotationForm::Networks, "10.1.2.3/8,fd00::/8", &[]);
        check(AnnotationForm::Networks, "1.1.1.1", &["1.1.1.1"]);
        check(AnnotationForm::Networks, "1.0.0.0/8, 2.0.0.0/8", &[" 2.0.0.0/8"]);
        check(AnnotationForm::NetworksOrAll, "*", &[]);
        check(AnnotationForm::Networks, "*", &["*"]);
        check(AnnotationForm::Interfaces, "eth0, net1,a.b_c-d", &[]);
        check(
            AnnotationForm::Interfaces,
            "0eth,br+,abcdefghijklmnop,",
            &["0eth", "br+", "abcdefghijklmnop", ""],
        );
    }
}
