//! The table itself: a row a command, in the order of `--help`.

use super::drop_ins::{ISTIO_IPTABLES, KUMA_INIT, LINKERD_INIT};
use super::{Command, Entry};
use mesh::Mesh;
use mesh::ambient::Ambient;
use mesh::settings::{Setting, Topic};

/// What every command takes.
pub(super) const ANY: &[Topic] = &[Topic::Logging, Topic::Compatibility];

/// What to capture.
const CAPTURE: &[Topic] = &[Topic::Capture, Topic::Manifest, Topic::Facts];

/// Whatever may stand in a manifest, so that its arguments can be pasted.
pub(super) const PASTED: &[Topic] = &[
    Topic::Capture,
    Topic::Manifest,
    Topic::Operation,
    Topic::Facts,
    Topic::Validation,
    Topic::Logging,
    Topic::Compatibility,
];

/// All commands, in the order of `--help`.
pub(in crate::cli) const COMMANDS: &[Entry] = &[
    Entry {
        command: Command::Apply,
        name: "apply",
        about: "Set the rules, repairing what is not as wanted",
        long_about: "Brings the network namespace to the state that the flags describe, whatever state it is in: \
                     empty, half done, changed by somebody, or set up with other flags. Either all of it takes \
                     effect or the old state stays. While one state replaces another, no connection that both \
                     capture gets past the proxy. Rules of other programs stay as they are; ours stand before \
                     them. Where another mesh captures, it is refused; --replace exchanges one for the other.\n\nRun it as \
                     often as you like: if everything is in place, nothing is written.\n\nExit \
                     codes: 0 in place, 1 failed, 2 bad input (nothing was touched), 3 in place, but rules of \
                     others come before ours.",
        topics: &[CAPTURE, &[Topic::Operation], ANY],
        also: &[],
        without: &[Setting::Reconcile, Setting::CleanupOnly],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::Check,
        name: "check",
        about: "Tell how the rules differ from those of the flags, or of the settings noted beside them",
        long_about: "Compares the rules, policy rules, routes and addresses that are there with those that apply \
                     would set with the same flags. Without capture flags and -f, the flags are those that are noted beside \
                     the rules, in our table of nf_tables; rules of iptables carry no note, and want the flags. Reads \
                     only.\n\nPrints what is wanted by what, then the difference chain by chain: a line \
                     with - is there, a line with + is wanted, and behind # stands why: missing, extra, moved, \
                     changed, or a foreign rule that stands before ours and may decide about packets. Where nothing \
                     differs, a line says that the rules are in place.\n\nExit \
                     codes: 0 equal, 1 could not be read, 2 bad input, 3 different, or rules of others come \
                     before ours, or another mesh captures here too.",
        topics: &[CAPTURE, ANY],
        also: &[
            Setting::NetworkNamespace,
            Setting::CniMode,
            Setting::ForceBinary,
            Setting::NativeNftables,
            Setting::Backend,
            Setting::Timeout,
            Setting::Format,
        ],
        without: &[],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::Clean,
        name: "clean",
        about: "Remove all that is ours",
        long_about: "Removes every rule, policy rule, route and address that this program, or one whose place it takes, \
                     has set for any mesh, in both variants of iptables and both families, and tells whose they \
                     were. With --mesh, those of that mesh alone. It needs no other flags to know what is ours. Of \
                     Istio's sidecar that is: chains named ISTIO_*, jumps to them, rules that carry the comment \
                     sidecar-init, routing of protocol 137, and what only istio-iptables makes. Rules of other \
                     programs stay.\n\nExit codes: 0 nothing of ours is left (or ever was there), 1 failed, or something \
                     is left that may be anybody's, 2 bad input.",
        topics: &[ANY],
        also: &[
            Setting::Mesh,
            Setting::NetworkNamespace,
            Setting::CniMode,
            Setting::LockWait,
            Setting::Timeout,
            Setting::Format,
        ],
        without: &[],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::Doctor,
        name: "doctor",
        about: "Tell what this namespace and kernel can do",
        long_about: "Looks at everything that capture relies on, and at what commonly goes wrong: the programs of \
                     iptables and their versions, what the kernel can match and do, capabilities, rules of other \
                     programs that see packets before ours, who listens where rules send traffic, processes that run \
                     as the proxy's user, and IPv6. Changes nothing.\n\nEach finding has a sign: ok, warn or fail, or \
                     \u{2714}, \u{25b2} and \u{2718} where the locale has them. Warnings and failures say what helps, and where \
                     it is explained.\n\nExit codes: 0 nothing failed, 1 something did, 2 bad input.",
        topics: &[CAPTURE, ANY],
        also: &[Setting::NetworkNamespace, Setting::Timeout, Setting::Format],
        without: &[Setting::Filename],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::Explain,
        name: "explain",
        about: "Tell whether a packet is captured, and why",
        long_about: "Walks a packet through the rules of the network namespace, and tells where it ends and which rule \
                     decided. Where capture flags or a manifest (-f) describe others, it is those (unless --live says \
                     otherwise), or those of a listing (--from-save); the first line says which. Variables describe none. \
                     Of a namespace, the kernel is asked which way the packet takes, by its destination, user and mark. \
                     Names are resolved where the question is asked.\n\nEvery rule that it meets is shown: + for those it fulfils, with the condition \
                     that failed for the others, and with the option that made the rule.\n\nWhere a rule of \
                     another program is not understood and could decide, the verdict is unknown. Changes nothing. \
                     All flags of istio-iptables are taken, so that a manifest's arguments can be pasted; those of another mesh \
                     with --mesh.\n\nExamples:\n  sidecar-init explain 8080\n  sidecar-init explain --network-namespace web --uid 1337 \
                     https://example.com/\n  sidecar-init explain -i '*' 10.0.0.5:443\n  kubectl get pod web -o yaml | sidecar-init explain -f - 8080\n\nExit codes: 0 answered, 1 \
                     the rules can't be read, 2 bad input, 3 the packet does not end as --expect says.",
        topics: &[&[Topic::Packet, Topic::Explain], PASTED],
        also: &[],
        without: &[Setting::Format],
        word: Some(Setting::Destination),
        mesh: None,
    },
    Entry {
        command: Command::Lint,
        name: "lint",
        about: "Find likely mistakes in flags, in a manifest, or in the settings noted beside the rules",
        long_about: "Looks at the capture flags, or at those of a manifest (-f), or without any at those that are noted beside \
                     the rules of the network namespace, and at the rules that they make, for what is valid but hardly meant: \
                     rules that nothing reaches, options without effect, items that lie in others, misspelt annotations, \
                     containers that run as the proxy's user. Each finding names the option and what helps. Notes about what \
                     the rules can't do better are shown with --notes. With --network-namespace, it looks there whether the \
                     pod has IPv6 that is not captured. Of rules without a note, it shows what status finds of them. Touches \
                     nothing.\n\nExit codes: 0 done, 1 with --deny if there is a warning, 2 bad input.",
        topics: &[&[Topic::Lint], PASTED],
        also: &[],
        without: &[],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::Render,
        name: "render",
        about: "Print the rules that the flags describe, as text, data or a picture",
        long_about: "Prints the rules that apply would set with the same flags: as text for iptables-restore, as \
                     commands, or as JSON. Or draws a picture of what becomes of the pod's traffic and by which option, \
                     in the terminal (picture) or as svg; or of hooks and chains, with the rules that lead from one to \
                     another (mermaid, dot, or svg with --of rules). Touches nothing.\n\nExit codes: 0 printed, 2 bad input.",
        topics: &[&[Topic::Render], PASTED],
        also: &[],
        without: &[Setting::Format],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::Status,
        name: "status",
        about: "Tell what is captured here, who listens, and what has come by",
        long_about: "Reads the rules of the network namespace, whatever mesh they are of and whoever set them (this \
                     program or that of the mesh, with iptables or nftables), and tells what they mean: what is captured and what is left alone, with \
                     the option that says so; who listens at the ports that packets are sent to; what each rule has \
                     counted; how the rules were made, and whether they were changed since. Behind that stands what \
                     to look at: IPv6 that passes by, rules of others that decide, rules without effect.\n\nIt needs \
                     no flags (--mesh leaves out what is of other meshes), reads only, and creates nothing. Rules of the table nat count the first packet of a \
                     connection.\n\nExamples:\n  sidecar-init status\n  sidecar-init status --watch --interval \
                     500ms\n  sidecar-init status --network-namespace /proc/1234/ns/net --format json\n\nExit codes: 0 \
                     told, 1 the rules can't be read, 2 bad input.",
        topics: &[&[Topic::Status], ANY],
        also: &[Setting::Mesh, Setting::NetworkNamespace, Setting::Timeout, Setting::Format],
        without: &[],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::Probe,
        name: "probe",
        about: "Try real connections, and tell whether they end as flags or rules say",
        long_about: "Makes connections in the network namespace and looks where each arrives: outbound ones, the \
                     proxy's own, those to the pod itself, DNS, one for each list of networks, ports or groups, by \
                     IPv4 and IPv6. What is expected of each is what the rules of the flags say of its first \
                     packet; the first line says what is expected by what. A listener of its own proves it by a token and by the original destination; where a \
                     proxy listens already, conntrack tells. The rules are not changed.\n\nNothing is done to other \
                     machines: calls go to the pod itself, to addresses for documentation, or into a network that a \
                     list names, and no packet gets further than the first router. Nothing is said to strangers. \
                     What only others can send, such as packets from outside, is not tried; check compares those \
                     rules.\n\nWithout capture flags and -f, what is expected is what the settings say that are noted beside the rules; \
                     where none are, what the rules say themselves, and that they capture anything. Calling as the proxy needs CAP_SETUID and CAP_SETGID; asking conntrack needs CAP_NET_ADMIN, \
                     listening for TPROXY that or CAP_NET_RAW. What can't be tried is told with the \
                     reason.\n\nExamples:\n  sidecar-init probe -i '*' -b '*' -d 15090\n  sidecar-init probe -f pod.yaml --network-namespace \
                     /run/netns/web\n\nExit codes: 0 all that was tried ended as expected, 1 nothing could be tried, 2 bad \
                     input, 126 something ended otherwise.",
        topics: &[CAPTURE, ANY],
        also: &[
            Setting::NetworkNamespace,
            Setting::CniMode,
            Setting::ForceBinary,
            Setting::NativeNftables,
            Setting::Backend,
            Setting::Timeout,
            Setting::Format,
            Setting::ProbePort,
            Setting::ProbeTimeout,
        ],
        without: &[],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::Trace,
        name: "trace",
        about: "Show packets as they meet rules, and what becomes of them",
        long_about: "Prints each packet as it meets rules: the time, protocol, addresses, interfaces, the user and group \
                     that sent it, then the rules whose conditions it fulfils, in order, with the option that made each, \
                     and its end: captured, not captured or dropped, and why.\n\nWhere rules report, which those do that \
                     were set with --iptables-trace-logging by whichever backend, it shows their reports: it \
                     listens to NFLOG group 1337 and adds nothing to the namespace. NAT rules see the first packet of a \
                     connection only.\n\nWhere no rule reports, and everywhere with --enable, any rules of nf_tables are \
                     shown, ours and those of others, and those of iptables (nft). A table for the trace, inet sidecar_init_trace, makes the kernel trace packets; \
                     it goes when the trace ends, in whatever way. Of TCP, packets that begin a connection are traced. \
                     The kernel does not trace the rules of iptables (legacy) so: set those with \
                     --iptables-trace-logging.\n\nIt ends with SIGINT or SIGTERM, after --count packets, or after the \
                     time --for. With --format json it prints one object a line for each packet.\n\nExit codes: 0 ended \
                     as asked, 1 can't listen, or no rule can report, 2 bad input.",
        topics: &[&[Topic::Trace], ANY],
        also: &[Setting::Mesh, Setting::NetworkNamespace, Setting::Timeout, Setting::Format],
        without: &[],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::Sandbox,
        name: "sandbox",
        about: "Show the rules at work in a pod of your own, or run a command in it",
        long_about: "Makes a pod for the moment: a network namespace that nobody else sees, joined by a cable to \
                     another one, the world, whose servers answer at every address. The rules are set in the pod, \
                     and a small proxy listens where they send connections to: it tells of each and passes it on. \
                     Works as root, and as anybody else where user namespaces are allowed.\n\nWithout a command, a \
                     tour shows in a minute what becomes of connections, and why. With a command behind --, that \
                     runs in the pod, as an application would; what the proxy tells goes to standard error.\n\nThe \
                     pod is 10.9.0.1 and fd09::1, the world 10.9.0.2 and fd09::2. The world answers HTTP at ports \
                     80, 3000, 8000, 8080, 9080 and others, sends back what is no HTTP, knows an address for every \
                     name, and calls the pod for whoever asks its HTTP proxy at port 3128. Flags say what is \
                     captured; what they leave open is as meshes set it: all ports but 15090, 15021 and 15020, all \
                     networks, both families.\n\nExamples:\n  sidecar-init sandbox\n  sidecar-init sandbox -x \
                     10.1.0.0/16 --redirect-dns\n  sidecar-init sandbox -- curl http://10.9.0.2\n  sidecar-init \
                     sandbox -f pod.yaml -- sh\n  sidecar-init sandbox --proxy none --run-as root -- \
                     ./start-my-proxy\n\nExit codes: those of the command, 127 where there is none of this name, 126 \
                     where it can't be started, 128 and the number of the signal that has ended it; without a \
                     command, 0 if every connection went as the rules say. 1 where no pod can be made, 2 bad input.",
        topics: &[&[Topic::Sandbox, Topic::Capture, Topic::Manifest], ANY],
        also: &[Setting::Backend, Setting::Timeout],
        without: &[],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::CniInstall,
        name: "cni install",
        about: "Put the plugin among a runtime's plugins, and into its network configuration",
        long_about: "Copies this program to BIN-DIR/sidecar-cni, with sidecar-node where that lies beside it, and \
                     puts the plugin's entry into the first file of CONF-DIR that a runtime would use, last in its list of plugins; every other byte of the file stays. \
                     A file with a single plugin becomes a list, X.conf X.conflist. Where there is none yet, it \
                     waits. Files are exchanged as a whole: at any moment each is the old one or the new one.\n\nThe \
                     entry is checked as the plugin will read it. Keys beyond those that have flags are given by \
                     --entry: '{\"defaults\":{\"proxy-uid\":2102}}'. They are listed by sidecar-init cni --help.\n\nWith --watch \
                     it stays, one on a node, and puts back what others overwrite. On SIGTERM all stays in place, as \
                     the plugin needs nobody beside it and a node without it would start pods uncaptured while a \
                     DaemonSet is replaced; --uninstall-on-exit takes it back.\n\nExit codes: 0 installed, or ended as \
                     asked, 1 failed, 2 bad input.",
        topics: &[&[Topic::Install], ANY],
        also: &[],
        without: &[Setting::KeepProgram],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::CniUninstall,
        name: "cni uninstall",
        about: "Take back what cni install has done",
        long_about: "Takes the plugin's entry out of every file of CONF-DIR, and removes sidecar-cni and \
                     sidecar-node from BIN-DIR. What \
                     others have not touched since says what it said before, to the byte; a list that was made of a \
                     single plugin becomes that file again. An install --watch on the node has to end first.\n\nSome \
                     runtimes remember the plugins of each container and call them when it goes (CRI-O does): there, \
                     use --keep-program until those are gone.\n\nExit codes: 0 nothing is left (or ever was there), 1 \
                     failed, 2 bad input.",
        topics: &[ANY],
        also: &[Setting::ConfDir, Setting::BinDir, Setting::KeepProgram],
        without: &[],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::CniRepair,
        name: "cni repair",
        about: "Set the rules of a container that runs without them, and verify",
        long_about: "Brings the network namespace of a container to the state that the flags describe, or its pod's \
                     manifest (-f), from the node, and compares it then with what is wanted. For pods that started before the plugin was there: their \
                     validation ends with 126 again and again until the rules are set.\n\nUsers and groups are given by \
                     number. DNS servers are those of the process (--pid), or have to be given (--dns-servers). Counted \
                     for the metrics of cni install --watch if the state directory is there.\n\ncni repair --watch is done by \
                     sidecar-node, beside this program or on PATH, which gets all words that follow: it repairs the pods of \
                     a node as they break. It has flags of its own, told by sidecar-node repair --help.\n\nExit codes: 0 in place, 1 \
                     failed, 2 bad input (nothing was touched), 3 in place, but rules of others come before ours, 126 \
                     validation failed.",
        topics: &[&[Topic::Repair], CAPTURE, &[Topic::Validation], ANY],
        also: &[
            Setting::StateDir,
            Setting::ForceBinary,
            Setting::NativeNftables,
            Setting::Backend,
            Setting::LockWait,
            Setting::Timeout,
            Setting::Format,
        ],
        without: &[Setting::SkipRuleApply],
        word: None,
        mesh: None,
    },
    Entry {
        command: Command::AmbientHost,
        name: "ambient-host",
        about: "On the host: let its own calls to pods of the ambient mesh come from an address that their rules know",
        long_about: "Makes a table of nf_tables on the host, inet sidecar_init_ambient_host, with the addresses of the pods that \
                     are captured (by apply --mesh ambient). Calls of the host's own processes to them by TCP, such as the \
                     probes of its kubelet, come from the probe address then, which the rules in the pods leave alone. What the \
                     host only forwards keeps its source, and stays captured.\n\nWithout a flag the table is made, or put right \
                     if somebody has changed it; its pods stay. --add and --remove may stand in one call. All of it takes effect, \
                     or nothing. What is there already, or gone already, is fine. A probe address that is given is kept until \
                     another is.\n\nIt works in the network namespace that it is called in: on a node, the host's; from elsewhere, \
                     name it with --network-namespace pid:1.\n\nExamples:\n  sidecar-init ambient-host --add 10.1.2.3,fd00::3\n  \
                     sidecar-init ambient-host --remove 10.1.2.3\n  sidecar-init ambient-host --clean\n\nExit codes: 0 done, 1 \
                     failed, 2 bad input (nothing was touched).",
        topics: &[&[Topic::AmbientHost], ANY],
        also: &[
            Ambient::ProbeAddress,
            Ambient::ProbeAddressV4,
            Ambient::ProbeAddressV6,
            Setting::NetworkNamespace,
            Setting::Format,
        ],
        without: &[],
        word: None,
        mesh: Some(Mesh::Ambient),
    },
    Entry {
        command: Command::Completions,
        name: "completions",
        about: "Print the completions of a shell",
        long_about: "Prints a script by which bash, zsh or fish completes commands, flags, values where there are only \
                     few, and files. It completes istio-iptables too, where the program has that name.\n\n\
                     Examples:\n  sidecar-init completions bash >/etc/bash_completion.d/sidecar-init\n  sidecar-init \
                     completions zsh >/usr/local/share/zsh/site-functions/_sidecar-init\n  sidecar-init completions fish \
                     >/etc/fish/completions/sidecar-init.fish\n\nExit codes: 0 printed, 1 failed, 2 bad input.",
        topics: &[ANY],
        also: &[Setting::Shell],
        without: &[],
        word: Some(Setting::Shell),
        mesh: None,
    },
    Entry {
        command: Command::Man,
        name: "man",
        about: "Write the manual, a page for each command",
        long_about: "Writes pages of the manual into a folder: sidecar-init.1 and one for each command, such as \
                     sidecar-init-apply.1. Other files there stay as they are.\n\nExamples:\n  sidecar-init man \
                     /usr/local/share/man/man1\n\nExit codes: 0 written, 1 failed, 2 bad input.",
        topics: &[ANY],
        also: &[Setting::ManDirectory],
        without: &[],
        word: Some(Setting::ManDirectory),
        mesh: None,
    },
    ISTIO_IPTABLES,
    LINKERD_INIT,
    KUMA_INIT,
];
