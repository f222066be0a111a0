//! The table of commands, in the order of `--help`.

use super::{Command, CommandEntry};
use mesh::settings::{Setting, Topic};
use mesh::{Mesh, ambient::Ambient, kuma::Kuma};

const CAPTURE: &[Topic] = &[Topic::Capture, Topic::Manifest, Topic::Facts];

const COMPARING: &[Setting] = &[
    Setting::FromSave,
    Setting::NetworkNamespace,
    Setting::CniMode,
    Setting::ForceBinary,
    Setting::NativeNftables,
    Setting::Backend,
    Setting::Timeout,
    Setting::Format,
];

const NONE: CommandEntry = CommandEntry {
    command: Command::Apply,
    name: "",
    about: "",
    long_about: "",
    examples: &[],
    exits: &[],
    topics: &[],
    also: &[],
    without: &[],
    word: None,
    repeats: false,
    trailing: None,
    mesh: None,
    changes: false,
    pasted: false,
};

pub(in crate::cli) const COMMANDS: &[CommandEntry] = &[
    CommandEntry {
        command: Command::Apply,
        name: "apply",
        about: "Apply the rules, fixing any drift",
        long_about: "Brings the network namespace to the state described by the flags. Either the whole change takes effect or \
                     the old state is kept, and meanwhile no connection that both states capture bypasses the proxy. Other \
                     programs' rules are kept, after ours. Fails if another mesh captures; --replace replaces that \
                     mesh.\n\nIdempotent: if everything is in place, nothing is written.",
        examples: &[
            "sidecar-init apply -i '*' -b '*' -d 15090,15021,15020",
            "sidecar-init apply -f pod.yaml --network-namespace web",
            "sidecar-init apply -i 10.0.0.0/8 --dry-run",
        ],
        exits: &[
            ("0", "the rules are in place"),
            ("1", "failed"),
            ("2", "invalid input; nothing was changed"),
            ("3", "in place, but rules of other programs come first"),
        ],
        topics: &[CAPTURE, &[Topic::Operation]],
        without: &[Setting::Reconcile, Setting::CleanupOnly],
        changes: true,
        ..NONE
    },
    CommandEntry {
        command: Command::Clean,
        name: "clean",
        about: "Remove the rules",
        long_about: "Removes the rules of this program and the programs it replaces, of all meshes (with --mesh, of that one), \
                     in both iptables variants and both families. Rules are recognized by their names and comments, so no \
                     other flag is needed. Other programs' rules are kept.",
        examples: &[
            "sidecar-init clean",
            "sidecar-init clean --mesh linkerd --network-namespace web",
            "sidecar-init clean --dry-run",
        ],
        exits: &[
            ("0", "none of our rules are left"),
            ("1", "failed, or rules of unknown origin are left"),
            ("2", "invalid input; nothing was changed"),
        ],
        also: &[&[
            Setting::Mesh,
            Setting::DryRun,
            Setting::NetworkNamespace,
            Setting::CniMode,
            Setting::LockWait,
            Setting::Timeout,
            Setting::Format,
        ]],
        changes: true,
        ..NONE
    },
    CommandEntry {
        command: Command::Explain,
        name: "explain",
        about: "Show whether a packet is captured and why, or all traffic",
        long_about: "Shows the verdict for each packet and the rule that decides; without a destination, for all traffic. The \
                     rules come from capture flags, a manifest (-f) or a listing (--from-save), else, and always with --live, \
                     from the network namespace; the first line names the source. Environment variables are ignored.\n\nShows \
                     the rules that the packet matches, each with the option that made it; --verbose adds the other rules on \
                     its path, with the failed condition. In a namespace, the kernel's routes are used. Names are resolved on \
                     this machine. If another program's rule is not understood and may decide, the verdict is \
                     unknown.\n\nAccepts all flags of istio-iptables; with --mesh, another mesh's flags.",
        examples: &[
            "sidecar-init explain",
            "sidecar-init explain 8080",
            "sidecar-init explain --network-namespace web --uid 1337 https://example.com/",
            "sidecar-init explain -i '*' 10.0.0.5:443 10.0.0.5:53",
            "kubectl get pod web -o yaml | sidecar-init explain -f - 8080",
        ],
        exits: &[
            ("0", "printed"),
            ("1", "the rules could not be read"),
            ("2", "invalid input"),
            ("3", "a packet's verdict differs from --expect"),
        ],
        topics: &[&[Topic::Packet, Topic::Explain], CAPTURE],
        also: &[&[Setting::NetworkNamespace, Setting::CniMode, Setting::Timeout]],
        without: &[Setting::Format],
        pasted: true,
        word: Some(Setting::Destination),
        repeats: true,
        ..NONE
    },
    CommandEntry {
        command: Command::Status,
        name: "status",
        about: "Show captured traffic and problems",
        long_about: "Shows the effect of the network namespace's rules, of all meshes (with --mesh, of that one) and other \
                     programs: findings with level and code, such as a missing listener or other programs' rules that decide; \
                     captured and excluded traffic, with the options; and packets that rules have matched (in table nat, the \
                     first of each connection). Changes nothing.\n\n--kernel shows the requirements for setting rules: \
                     capabilities, iptables programs, the kernel's matches and targets, IPv6.\n\n--all, as root on a node, \
                     shows the state of each network namespace with a name or a process: unknown (not readable), drifted \
                     (rules were changed later), overruled (other programs' rules decide first), failing (such as a missing \
                     listener), partial (one direction, or one family), captured, not captured.",
        examples: &[
            "sidecar-init status",
            "sidecar-init status --kernel",
            "sidecar-init status --all",
            "sidecar-init status --watch --interval 500ms",
            "sidecar-init status --network-namespace /proc/1234/ns/net --output json",
        ],
        exits: &[
            ("0", "in place"),
            ("1", "a failure is found, or the rules could not be read"),
            ("2", "invalid input"),
            ("3", "nothing is captured (without --all), or rules were changed after they were set"),
        ],
        topics: &[&[Topic::Status]],
        also: &[&[Setting::Mesh, Setting::NetworkNamespace, Setting::Timeout, Setting::Format]],
        ..NONE
    },
    CommandEntry {
        command: Command::Lint,
        name: "lint",
        about: "Find likely mistakes in flags or manifests",
        long_about: "Checks capture flags, a manifest (-f), or else the settings stored with the network namespace's rules, \
                     for valid but probably unintended settings: unreachable rules, options without effect, redundant items, \
                     misspelt annotations, containers that run as the proxy's user. Each finding names the option and a \
                     remedy. With --network-namespace, also reports pod IPv6 that is not captured. For rules without stored \
                     settings, reports the findings of status. Changes nothing.",
        examples: &["sidecar-init lint -f pod.yaml", "sidecar-init lint --deny -i '*' -b '*' -d 15090"],
        exits: &[("0", "checked"), ("1", "warnings, with --deny"), ("2", "invalid input")],
        topics: &[&[Topic::Lint], CAPTURE],
        also: &[&[Setting::NetworkNamespace, Setting::CniMode, Setting::Timeout]],
        without: &[Setting::Format],
        pasted: true,
        ..NONE
    },
    CommandEntry {
        command: Command::Diff,
        name: "diff",
        about: "Compare live rules with settings, or two settings",
        long_about: "Compares the verdicts for all packets and prints groups of changes, with the reason on each side, then \
                     how many rules, policy rules, routes and addresses differ. --rules lists them: - is the first side, + the \
                     second, and the reason follows #: missing, extra, moved, changed, or a foreign rule that comes first. \
                     Changes nothing.\n\nThe first side is the network namespace; the second is the rules that apply would set \
                     with the given flags or -f, else the settings stored with the rules (iptables stores none). To name both \
                     sides, repeat -f (several pods are matched by kind, namespace and name), --from-save or \
                     --network-namespace. With -f and capture flags but no --network-namespace, the sides are the manifest \
                     without and with those flags.",
        examples: &[
            "sidecar-init diff",
            "sidecar-init diff -f pod.yaml --network-namespace web --rules",
            "sidecar-init diff -f old.yaml -f new.yaml",
            "sidecar-init diff -f pod.yaml -o 5432",
            "sidecar-init diff --from-save old.txt --from-save new.txt",
        ],
        exits: &[
            ("0", "the same"),
            ("1", "the rules could not be read, or are too many to compare"),
            ("2", "invalid input"),
            (
                "3",
                "the sides differ, other programs' rules come first, another mesh captures too, or a pod is in one file only",
            ),
        ],
        topics: &[&[Topic::Diff], CAPTURE],
        also: &[COMPARING],
        pasted: true,
        ..NONE
    },
    CommandEntry {
        command: Command::Render,
        name: "render",
        about: "Print the rules as text or data",
        long_about: "Prints the rules that apply would set with the same flags: as text for \
                     iptables-restore, as commands, or as JSON. Changes nothing.",
        examples: &["sidecar-init render -i '*' -b '*'", "sidecar-init render -f pod.yaml --output nft"],
        exits: &[("0", "printed"), ("2", "invalid input")],
        topics: &[&[Topic::Render], CAPTURE],
        also: &[&[Setting::NetworkNamespace, Setting::CniMode]],
        without: &[Setting::Format],
        pasted: true,
        ..NONE
    },
    CommandEntry {
        command: Command::Trace,
        name: "trace",
        about: "Show packets, the rules they match and their verdicts",
        long_about: "Prints each packet as it meets rules: the time, protocol, addresses, interfaces, the sending user and \
                     group, the matched rules with their options, and the verdict with its reason.\n\nIf rules were set with \
                     --iptables-trace-logging, shows their reports (NFLOG group 1337) and adds nothing to the namespace. \
                     Otherwise, and with --enable, the table inet sidecar_init_trace makes the kernel trace packets through \
                     all nf_tables rules, including rules of iptables (nft) and other programs, but not of iptables (legacy); \
                     the table is removed on exit, even after SIGKILL. For TCP, only the first packet of a connection is \
                     traced: NAT rules see no others.\n\nEnds on SIGINT or SIGTERM, after --count packets, or after the --for \
                     duration. --output json prints one line per packet.",
        examples: &[
            "sidecar-init trace 443",
            "sidecar-init trace --enable --count 10",
            "sidecar-init trace --network-namespace web --for 1m --output json",
        ],
        exits: &[
            ("0", "ended as requested"),
            ("1", "no rule can report, or the reports could not be read"),
            ("2", "invalid input"),
        ],
        topics: &[&[Topic::Trace]],
        word: Some(Setting::TraceDestination),
        also: &[&[Setting::Mesh, Setting::NetworkNamespace, Setting::Timeout, Setting::Format]],
        ..NONE
    },
    CommandEntry {
        command: Command::Verify,
        name: "verify",
        about: "Test capture with real connections",
        long_about: "Makes connections in the network namespace (outbound, from the proxy, to the pod itself, DNS, and one per \
                     list of networks, ports or groups, over IPv4 and IPv6) and observes where each arrives. The expected \
                     outcomes follow from flags or -f, else from the settings stored with the rules, else from the rules; the \
                     first line names the source. The command's own listener proves an outcome by a token and the original \
                     destination; if a proxy already listens, conntrack proves it.\n\nOther machines are not affected: calls \
                     go to the pod itself, to documentation addresses, or into a listed network, and no packet passes the \
                     first router. No data is sent to unknown servers. Inbound packets can't be tested; diff compares the \
                     rules for them.\n\nCalling as the proxy needs CAP_SETUID and CAP_SETGID; reading conntrack needs \
                     CAP_NET_ADMIN; listening for TPROXY needs CAP_NET_ADMIN or CAP_NET_RAW.",
        examples: &[
            "sidecar-init verify -i '*' -b '*' -d 15090",
            "sidecar-init verify -f pod.yaml --network-namespace /run/netns/web",
        ],
        exits: &[
            ("0", "every connection behaved as expected"),
            ("1", "nothing is captured, or no connection could be tried"),
            ("2", "invalid input"),
            ("3", "a connection behaved otherwise"),
        ],
        topics: &[CAPTURE],
        also: &[COMPARING, &[Setting::ProbePort, Setting::ProbeTimeout]],
        pasted: true,
        ..NONE
    },
    CommandEntry {
        command: Command::Sandbox,
        name: "sandbox",
        about: "Try the rules in a temporary pod, or run a command in it",
        long_about: "Sets the rules in a temporary pod: an unnamed network namespace, connected to another one, where test \
                     servers answer at every address. A small proxy listens on the rules' ports, logs each connection and \
                     forwards it. Works as root, and as any user if user namespaces are allowed.\n\nWithout a command, a \
                     one-minute demo shows the path of connections, with reasons. A command after -- runs in the pod, as an \
                     application would; the proxy's log goes to standard error.\n\nThe pod is at 10.9.0.1 and fd09::1, the \
                     servers at 10.9.0.2 and fd09::2. The servers answer HTTP on ports 80, 3000, 8000, 8080, 9080 and others, \
                     echo anything else, and resolve every name. To call the pod, use their HTTP proxy on port 3128. The \
                     defaults are the mesh injector's: all ports but 15090, 15021 and 15020, all networks, both families.",
        examples: &[
            "sidecar-init sandbox",
            "sidecar-init sandbox -x 10.1.0.0/16 --redirect-dns",
            "sidecar-init sandbox -- curl http://10.9.0.2",
            "sidecar-init sandbox -f pod.yaml -- sh",
            "sidecar-init sandbox --proxy none --run-as root -- ./start-my-proxy",
        ],
        exits: &[
            ("0", "without a command: every connection went as the rules require"),
            ("1", "the pod could not be created"),
            ("2", "invalid input"),
            ("126", "the command could not be started"),
            ("127", "the command does not exist"),
            ("128+N", "signal N ended the command"),
            ("other", "the exit status of the command"),
        ],
        topics: &[&[Topic::Sandbox, Topic::Capture, Topic::Manifest]],
        also: &[&[Setting::Backend, Setting::Timeout]],
        trailing: Some(("COMMAND", "Program to run, with its arguments")),
        ..NONE
    },
    CommandEntry {
        command: Command::Completions,
        name: "completions",
        about: "Print shell completions",
        long_about: "Prints a script with which bash, zsh or fish completes command lines of sidecar-init, which must be on \
            PATH, and of istio-iptables, if the program has that name. With the words of a line after --, prints candidates \
            for the last word.",
        examples: &[
            "sidecar-init completions bash >/etc/bash_completion.d/sidecar-init",
            "sidecar-init completions zsh >/usr/local/share/zsh/site-functions/_sidecar-init",
            "sidecar-init completions fish >/etc/fish/completions/sidecar-init.fish",
        ],
        exits: &[("0", "printed"), ("1", "failed"), ("2", "invalid input")],
        also: &[&[Setting::Shell]],
        word: Some(Setting::Shell),
        trailing: Some(("WORD", "Words of a line; the last one is completed")),
        ..NONE
    },
    CommandEntry {
        command: Command::Man,
        name: "man",
        about: "Write the manual pages",
        long_about: "Writes manual pages into a folder: sidecar-init.1 and one for each command, such as sidecar-init-apply.1. \
            Other files there are kept.",
        examples: &["sidecar-init man /usr/local/share/man/man1"],
        exits: &[("0", "written"), ("1", "failed"), ("2", "invalid input")],
        also: &[&[Setting::ManDirectory]],
        word: Some(Setting::ManDirectory),
        ..NONE
    },
    CommandEntry {
        command: Command::IstioIptables,
        name: "istio-iptables",
        about: "Apply the rules with the flags of istio-iptables",
        long_about: "Sets the rules that send a pod's traffic through its proxy, taking the flags and variables of \
            istio-iptables.\n\nThe command line wins over the environment, which wins over defaults. List items are \
            comma-separated. Ports may be ranges: 8000-9000. Existing rules that differ from the requested ones are an error, \
            unless --reconcile is given.",
        examples: &["sidecar-init istio-iptables -p 15001 -z 15006 -u 1337 -m REDIRECT -i '*' -b '*'"],
        exits: &[
            ("0", "done"),
            ("1", "failed"),
            ("2", "invalid input; nothing was changed"),
            ("3", "done, but rules of other programs come first"),
            ("126", "validation failed"),
        ],
        topics: &[CAPTURE, &[Topic::Operation, Topic::Validation]],
        without: &[Setting::Format, Setting::AllowHostNamespace, Setting::Mesh, Setting::Replace],
        mesh: Some(Mesh::Istio),
        changes: true,
        ..NONE
    },
    CommandEntry {
        command: Command::LinkerdInit,
        name: "linkerd-init",
        about: "Apply linkerd's rules with the flags of its proxy-init",
        long_about: "Sets the rules that send a pod's traffic through linkerd's proxy, with the flags of proxy-init. Called as \
            proxy-init or linkerd2-proxy-init, sidecar-init runs this command. Reads one variable, NATIVE_NFTABLES, set in \
            images without iptables.\n\nList items are separated by commas, or the flag is repeated. Either all rules take \
            effect or the old state is kept, and a second call writes nothing.",
        examples: &[
            "sidecar-init linkerd-init --incoming-proxy-port 4143 --outgoing-proxy-port 4140 --proxy-uid 2102",
        ],
        exits: &[("0", "done"), ("1", "failed, or invalid input; nothing was changed")],
        topics: &[&[Topic::Capture, Topic::DropIn]],
        also: &[&[Setting::NativeNftables, Setting::Timeout]],
        without: &[Setting::Mesh],
        mesh: Some(Mesh::Linkerd),
        changes: true,
        ..NONE
    },
    CommandEntry {
        command: Command::KumaInit,
        name: "kuma-init",
        about: "Apply or remove Kuma's rules with the flags of kumactl",
        long_about: "Sets the rules that send a machine's or a pod's traffic through Kuma's proxy, or removes them, taking the \
            arguments, files and variables of kumactl. The command line wins over the environment, which wins over files, \
            which win over defaults.\n\nEither the whole change takes effect or the old state is kept. Rules in place are not \
            written again; changed rules are replaced without a gap.",
        examples: &[
            "sidecar-init kuma-init install transparent-proxy --kuma-dp-user 5678",
            "sidecar-init kuma-init uninstall transparent-proxy",
        ],
        exits: &[("0", "done"), ("1", "failed, or invalid input; nothing was changed")],
        topics: &[&[Topic::Capture, Topic::Facts, Topic::DropIn]],
        also: &[&[Setting::NetworkNamespace, Setting::Backend, Setting::NativeNftables, Setting::Timeout]],
        without: &[Setting::Mesh],
        word: Some(Kuma::Verb),
        mesh: Some(Mesh::Kuma),
        changes: true,
        ..NONE
    },
    CommandEntry {
        command: Command::CniInstall,
        name: "cni install",
        about: "Install the plugin on this node",
        long_about: "Copies this program to BIN-DIR/sidecar-cni, with sidecar-node if it is in the same folder, and appends \
            the plugin's entry to the plugin list in the first file of CONF-DIR that a runtime would use; every other byte is \
            kept. X.conf, with a single plugin, is replaced by X.conflist. Waits for a file in CONF-DIR. Files are replaced \
            atomically.\n\nKeys without a flag are given with --entry: '{\"defaults\":{\"proxy-uid\":2102}}'. sidecar-init cni \
            --help lists all keys.\n\n--watch keeps running, once per node, and restores files that other programs overwrite. \
            On SIGTERM everything stays installed: while a DaemonSet is replaced, a node without the plugin would start pods \
            that are not captured. --uninstall-on-exit removes the plugin.",
        examples: &[
            "sidecar-init cni install --watch",
            "sidecar-init cni install --conf-dir /etc/cni/net.d --bin-dir /opt/cni/bin",
        ],
        exits: &[("0", "installed, or ended as requested"), ("1", "failed"), ("2", "invalid input")],
        topics: &[&[Topic::Install]],
        without: &[Setting::KeepProgram],
        changes: true,
        ..NONE
    },
    CommandEntry {
        command: Command::CniUninstall,
        name: "cni uninstall",
        about: "Undo cni install",
        long_about: "Removes the plugin's entry from every file in CONF-DIR, and sidecar-cni and sidecar-node from BIN-DIR. A \
            file not changed since installation is restored byte for byte; a list made from a single-plugin file becomes that \
            file again. Stop cni install --watch on the node first.\n\nSome runtimes, such as CRI-O, call plugins to remove a \
            container; for these, use --keep-program until existing containers are gone.",
        examples: &["sidecar-init cni uninstall", "sidecar-init cni uninstall --keep-program"],
        exits: &[("0", "nothing is left"), ("1", "failed"), ("2", "invalid input")],
        also: &[&[Setting::ConfDir, Setting::BinDir, Setting::KeepProgram]],
        changes: true,
        ..NONE
    },
    CommandEntry {
        command: Command::CniRepair,
        name: "cni repair",
        about: "Apply the rules to a container that runs without them",
        long_about: "Brings a container's network namespace to the state described by the flags or its pod's manifest (-f), \
                     from the node, and verifies it. Use it for pods started before the plugin's installation: their \
                     validation exits with 126 until the rules are set.\n\nUsers and groups are given by number. DNS servers \
                     come from the process (--pid), or must be given (--dns-servers). The metrics of cni install --watch count \
                     repairs.\n\ncni repair --watch runs sidecar-node, found next to this program or on PATH, with the \
                     remaining arguments, to repair broken pods on the node. See sidecar-node repair --help.",
        examples: &[
            "sidecar-init cni repair --pid 4711 -f pod.yaml",
            "sidecar-init cni repair --watch --node worker-1",
        ],
        exits: &[
            ("0", "the rules are in place"),
            ("1", "failed"),
            ("2", "invalid input; nothing was changed"),
            ("3", "in place, but rules of other programs come first"),
            ("126", "validation failed"),
        ],
        topics: &[&[Topic::Repair], CAPTURE, &[Topic::Validation]],
        also: &[&[
            Setting::StateDir,
            Setting::ForceBinary,
            Setting::NativeNftables,
            Setting::Backend,
            Setting::LockWait,
            Setting::Timeout,
            Setting::Format,
        ]],
        without: &[Setting::SkipRuleApply],
        changes: true,
        ..NONE
    },
    CommandEntry {
        command: Command::AmbientHost,
        name: "ambient-host",
        about: "Give the host's calls to ambient pods an address that the rules exclude",
        long_about: "Creates an nf_tables table on the host, inet sidecar_init_ambient_host, with the addresses of pods \
                     captured by apply --mesh ambient. TCP connections from host processes to them, such as kubelet probes, \
                     then come from the probe address, which the pods' rules exclude. Forwarded traffic keeps its source, and \
                     is captured.\n\nWithout a flag, creates the table, or repairs it if it was changed, keeping its pods and \
                     probe address. --add and --remove may be combined and repeated. The change is atomic.\n\nWorks in the \
                     current network namespace: on a node, the host's; from elsewhere, name it with --network-namespace pid:1.",
        examples: &[
            "sidecar-init ambient-host --add 10.1.2.3,fd00::3",
            "sidecar-init ambient-host --remove 10.1.2.3",
            "sidecar-init ambient-host --clean",
        ],
        exits: &[("0", "done"), ("1", "failed"), ("2", "invalid input; nothing was changed")],
        topics: &[&[Topic::AmbientHost]],
        also: &[&[
            Ambient::ProbeAddress,
            Ambient::ProbeAddressV4,
            Ambient::ProbeAddressV6,
            Setting::NetworkNamespace,
            Setting::Format,
        ]],
        mesh: Some(Mesh::Ambient),
        changes: true,
        ..NONE
    },
];
