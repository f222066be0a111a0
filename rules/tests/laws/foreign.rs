//! Jumps to another program's chains: our rules refer to them, but neither create nor remove them.

use super::arbitrary::OWNER;
use rules::{
    Chain, Chains, Checked, ConnState, Family, Gid, Hook, ListedRule, Ownership, Protocol, RuleSet, State,
    Table, Target, Uid,
    check::{Fault, check},
    nft, parse,
    plan::plan,
    render::iptables::{change, restore},
    simulate::{Direction, Packet, Routing, Verdict, View, walk},
};

/// One user's DNS goes to Docker's resolver, other DNS to a proxy.
const RULES: &str = "* nat
-N ISTIO_A
-A OUTPUT -p udp --dport 53 -m owner --uid-owner 5 -m comment --comment \"sidecar-init\" -j DOCKER_OUTPUT
-A OUTPUT -p udp -j ISTIO_A
-A ISTIO_A -p udp -j REDIRECT --to-ports 15053
COMMIT
";

fn rules() -> RuleSet {
    parse::restore(RULES, Family::V4).expect("a preview")
}

fn checked() -> Checked {
    check(rules(), &OWNER).expect("lawful")
}

fn verdict(view: &View, uid: u32) -> Verdict {
    let uid = Uid::new(uid).expect("an id");
    let packet = Packet {
        direction: Direction::Outbound { interface: "lo".to_owned(), uid, gid: Gid::from(uid) },
        protocol: Protocol::Udp,
        source: "127.0.0.1:40000".parse().expect("valid"),
        destination: "127.0.0.11:53".parse().expect("valid"),
        mark: 0,
        connmark: 0,
        state: ConnState::New,
    };
    walk(view, &Routing::default(), &packet).verdict
}

fn faults(owner: &Ownership) -> Vec<Fault> {
    check(rules(), owner).err().into_iter().flatten().map(|violation| violation.fault).collect()
}

#[test]
fn chain_not_made_by_a_preview_is_foreign() {
    let chain = "DOCKER_OUTPUT".parse().expect("a name");
    assert_eq!(rules().statements[0].rule.target, Target::JumpForeign(chain));
    assert_eq!(rules().user_chains(Table::Nat).len(), 1);
    assert_eq!(restore(&checked()), RULES);
}

#[test]
fn owned_chain_is_not_foreign() {
    assert_eq!(faults(&OWNER), []);
    assert_eq!(faults(&Ownership { chains: Chains::Prefix("DOCKER_"), ..OWNER })[0], Fault::ChainNotForeign);
}

/// The kernel lists a foreign jump as an ordinary jump, which equals the desired state.
#[test]
fn foreign_chain_is_neither_made_nor_missed_nor_removed() {
    let desired = State::of(&rules());
    let theirs = ":DOCKER_OUTPUT - [0:0]\n-A DOCKER_OUTPUT -d 127.0.0.11/32 -p udp -j DNAT --to-destination 127.0.0.11:4053\n";
    let text = |rules: &str| format!("*nat\n:OUTPUT ACCEPT [0:0]\n{theirs}{rules}COMMIT\n");
    let state = |rules: &str| parse::save(&text(rules), Family::V4, &OWNER).expect("a listing");
    let steps = plan(&state(""), &desired, &OWNER, false);
    let script: String = steps.iter().map(change).collect();
    assert!(script.contains("-j DOCKER_OUTPUT\n") && !script.contains("DOCKER_OUTPUT -"), "{script}");
    let done = steps.iter().fold(state(""), |state, step| state.after(step));
    assert_eq!(plan(&done, &desired, &OWNER, false), []);
    let cleaned =
        plan(&done, &State::default(), &OWNER, false).iter().fold(done, |state, step| state.after(step));
    let kept = |state: &State| state.lines(Table::Nat, &"DOCKER_OUTPUT".parse().expect("a name")).to_vec();
    assert_eq!(kept(&cleaned).len(), 1);
    assert_eq!(cleaned.lines(Table::Nat, &Chain::Base(Hook::Output)), &[] as &[ListedRule]);
}

#[test]
fn foreign_chain_is_unknown_in_a_rule_set() {
    let ours = View::of_rules(&rules());
    assert_eq!(verdict(&ours, 5), Verdict::Unknown);
    assert_eq!(verdict(&ours, 6), Verdict::Redirect("15053".parse().expect("a port")));
}

#[test]
fn existing_foreign_chain_is_walked() {
    let live = |decides: &str| {
        let text = RULES
            .replace("-N ISTIO_A\n", &format!("-N ISTIO_A\n-N DOCKER_OUTPUT\n-A DOCKER_OUTPUT {decides}\n"));
        verdict(&View::of_listing(parse::listing(&text, Family::V4).expect("a listing")), 5)
    };
    assert_eq!(live("-j ACCEPT"), Verdict::Pass);
    assert_eq!(live("-p tcp -j ACCEPT"), Verdict::Redirect("15053".parse().expect("a port")));
}

/// The foreign owner's base chain comes later and decides itself.
#[test]
fn nf_tables_rules_pass_packets_to_the_foreign_chain() {
    let table = nft::table("t", &checked(), None).expect("rules");
    let mut view = View::empty(Family::V4);
    view.add_nftables(table.listed());
    assert_eq!(verdict(&view, 5), Verdict::Pass);
    assert_eq!(verdict(&view, 6), Verdict::Redirect("15053".parse().expect("a port")));
    let theirs = "*nat\n-A OUTPUT -p udp -j REDIRECT --to-ports 4053\nCOMMIT\n";
    view.add_listing(parse::listing(theirs, Family::V4).expect("a listing"), None);
    assert_eq!(verdict(&view, 5), Verdict::Redirect("4053".parse().expect("a port")));
}
