//! The rules of a configuration as text: what a dry run prints, and every other front end that shows rules.

use crate::istio::{self, CaptureConfig};
use rules::render::{iptables, nft};
use rules::{Checked, Family};

/// How a preview is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preview {
    /// Text for `iptables-restore`.
    Restore,
    /// Commands for a shell.
    Commands,
    /// A script for `nft -f`.
    Nft,
}

/// The rules of all families that are captured, each family behind a line that names the program it is for.
pub fn text(capture: &CaptureConfig, form: Preview) -> String {
    match form {
        Preview::Restore => rules(capture).iter().map(restore).collect(),
        Preview::Commands => rules(capture).iter().map(iptables::commands).collect(),
        Preview::Nft => {
            let table = istio::desired(capture).nft_table();
            format!("# nft -f\n{}", table.as_ref().map(nft::script).unwrap_or_default())
        }
    }
}

/// What is odd about a preview, though its rules can be set.
pub fn warning(capture: &CaptureConfig, form: Preview) -> Option<&'static str> {
    let exceeds = form == Preview::Restore && rules(capture).iter().any(iptables::exceeds);
    exceeds.then_some(
        "ISTIO_OUTBOUND_OWNER_GROUPS makes a rule of more words than iptables-restore takes; apply sets it, in fewer \
         words, but these lines can't be piped there",
    )
}

fn rules(capture: &CaptureConfig) -> Vec<Checked> {
    capture.families().map(|family| istio::rules(capture, family)).collect()
}

fn restore(rules: &Checked) -> String {
    let header = match rules.rules().family {
        Family::V4 => "# iptables-restore\n",
        Family::V6 => "# ip6tables-restore\n",
    };
    format!("{header}{}", iptables::restore(rules))
}
