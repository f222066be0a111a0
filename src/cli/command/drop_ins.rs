//! The commands that stand in the place of other programs, and speak in their words.

use super::table::{ANY, PASTED};
use super::{Command, Entry};
use mesh::Mesh;
use mesh::kuma::Kuma;
use mesh::settings::{Setting, Topic};

pub(super) const ISTIO_IPTABLES: Entry = Entry {
    command: Command::IstioIptables,
    name: "istio-iptables",
    about: "Set the rules, taking the flags and variables of istio-iptables",
    long_about: "Sets the rules that send a pod's traffic through its proxy, taking the flags and variables of \
                 istio-iptables.\n\nThe command line wins over the environment, which wins over defaults. \
                 Lists are separated by commas. Ports may be ranges: 8000-9000. Rules of ours that are not \
                 as wanted are an error unless --reconcile is given.\n\nExit codes: 0 done, 1 failed, 2 bad \
                 input (nothing was touched), 3 done, but rules of others come before ours, 126 validation \
                 failed.",
    topics: &[PASTED],
    also: &[],
    without: &[Setting::Format, Setting::AllowHostNamespace, Setting::Mesh, Setting::Replace],
    word: None,
    mesh: Some(Mesh::Istio),
};

pub(super) const LINKERD_INIT: Entry = Entry {
    command: Command::LinkerdInit,
    name: "linkerd-init",
    about: "Set the rules of linkerd, taking the flags of its proxy-init",
    long_about: "Sets the rules that send a pod's traffic through linkerd's proxy, taking the flags of proxy-init, in \
                 whose place it stands where the program is called proxy-init or linkerd2-proxy-init. Of the \
                 environment one variable is read, NATIVE_NFTABLES, by which an image says that it holds no iptables.\n\nItems of lists are separated by commas, or the flag is given again. \
                 Either all rules take effect or the old state stays, and a second call changes nothing that is as \
                 wanted.\n\nExit codes: 0 done, 1 failed or bad input (nothing was touched).",
    topics: &[&[Topic::Capture, Topic::DropIn], ANY],
    also: &[Setting::NativeNftables, Setting::Timeout],
    without: &[Setting::Mesh],
    word: None,
    mesh: Some(Mesh::Linkerd),
};

pub(super) const KUMA_INIT: Entry = Entry {
    command: Command::KumaInit,
    name: "kuma-init",
    about: "Set or remove the rules, taking the words of kumactl (install transparent-proxy)",
    long_about: "Sets the rules that send a machine's or a pod's traffic through Kuma's proxy, or removes them, taking \
                 the words, files and variables of kumactl: kuma-init install transparent-proxy, and kuma-init \
                 uninstall transparent-proxy. The command line wins over the environment, which wins over files, \
                 which win over defaults.\n\nEither all of it takes effect or the old state stays. Rules that are \
                 in place are not written again, and rules that give way to others do so without a gap.\n\nExit \
                 codes: 0 done, 1 failed, or bad input (nothing was touched).",
    topics: &[&[Topic::Capture, Topic::Facts, Topic::DropIn], ANY],
    also: &[Setting::NetworkNamespace, Setting::Backend, Setting::NativeNftables, Setting::Timeout],
    without: &[Setting::Mesh],
    word: Some(Kuma::Verb),
    mesh: Some(Mesh::Kuma),
};
