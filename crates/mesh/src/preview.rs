//! Rules of a configuration as text, for a dry run and every other front end that shows rules.

use crate::policy::CapturePolicy;
use rules::render::{iptables, nft};
use rules::{Checked, Family};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preview {
    Restore,
    Commands,
    Nft,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Rules by family, each after a line that names the program.
    pub text: String,
    pub warning: Option<&'static str>,
}

pub fn print(capture: &dyn CapturePolicy, form: Preview) -> Printed {
    let rules = || capture.families().map(|family| capture.rules(family)).collect::<Vec<_>>();
    let (text, exceeds) = match form {
        Preview::Restore => {
            let rules = rules();
            (rules.iter().map(restore).collect(), rules.iter().any(iptables::exceeds))
        }
        Preview::Commands => (rules().iter().map(iptables::commands).collect(), false),
        Preview::Nft => {
            let script = capture.desired().nft_table().as_ref().map(nft::script).unwrap_or_default();
            (format!("# nft -f\n{script}"), false)
        }
    };
    let warning = exceeds.then_some(
        "ISTIO_OUTBOUND_OWNER_GROUPS makes a rule with more words than iptables-restore accepts; apply sets \
         it in a shorter form",
    );
    Printed { text, warning }
}

fn restore(rules: &Checked) -> String {
    let header = match rules.rules().family {
        Family::V4 => "# iptables-restore\n",
        Family::V6 => "# ip6tables-restore\n",
    };
    format!("{header}{}", iptables::restore(rules))
}
