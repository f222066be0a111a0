//! Lists as annotations and values hold them: ports, networks, interfaces; checked by the policy.

use mesh::settings::mapping::AnnotationForm;
use std::net::IpAddr;

/// The most items of a list in an annotation, such as ports: far more than an application listens at, and few enough
/// for each to become a rule. The API server limits annotations (to 256 KiB) only after it has called webhooks.
const MAX_ITEMS: usize = 16_384;

pub(crate) fn excess(text: &str) -> Option<String> {
    let items = text.split(',').count();
    (items > MAX_ITEMS).then(|| format!("holds {items} items; expected at most {MAX_ITEMS}"))
}

/// Items at fault, each with its problem.
pub(crate) type Faults = Vec<(String, String)>;

/// A comma-separated list, or `*`, in its usual spelling. Networks keep their host bits, which the rules interpret.
pub(crate) fn listed(text: &str, form: AnnotationForm) -> Result<String, Faults> {
    let faults = form.faults(text);
    if !faults.is_empty() {
        return Err(faults.into_iter().map(|(item, text)| (item.to_owned(), text)).collect());
    }
    let spelled = |item: &str| match form {
        AnnotationForm::Ports | AnnotationForm::PortsOrAll => Some(item.parse::<u16>().ok()?.to_string()),
        AnnotationForm::Networks | AnnotationForm::NetworksOrAll => {
            let (address, length) = item.split_once('/')?;
            Some(format!("{}/{}", address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?))
        }
        AnnotationForm::Interfaces | AnnotationForm::Mode => Some(item.to_owned()),
    };
    Ok(match text.trim() {
        text @ ("" | "*") => text.to_owned(),
        // The form has taken each of them, so that none is lost.
        text => text.split(',').filter_map(|item| spelled(item.trim())).collect::<Vec<_>>().join(","),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_millions_of_faults_the_first_are_returned() {
        let commas = ",".repeat(2_000_000);
        let faults = listed(&commas, AnnotationForm::PortsOrAll).expect_err("empty items");
        assert_eq!(faults.len(), mesh::Problems::MAX_ITEMS);
    }
}
