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
        long_about: "Brings the network namespace to the state that the flags describe, whatever its state. Either \
            the whole change takes effect or the old state is kept, and meanwhile no connection that both states \
            capture gets past the proxy. Rules of other programs are kept; ours are placed before them. Where \
            another mesh captures, the command refuses, unless --replace is given.\n\nIt is idempotent: if \
            everything is in place, nothing is written.",
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
        long_about: "Removes what this program, or one that it replaces, has set for any mesh (with --mesh, for \
            that one), in both variants of iptables and both families, and names the meshes. Rules are recognized \
            by their names and comments, so no other flag is needed. Rules of other programs are kept.",
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
        long_about: "Walks packets through rules, and shows where each ends and which rule decided; without a \
            destination, all traffic. The rules are those that capture flags or a manifest (-f) describe, or those \
            of a listing (--from-save), else those of the network namespace, as always with --live; the first line \
            names the source. Variables describe none.\n\nEvery rule that the packet meets is shown: + for those \
            it matches, with the condition that failed for the others, and with the option that made the rule. In \
            a namespace, the kernel is asked for routes. Names are resolved on this machine. Where a rule of \
            another program is not understood and could decide, the verdict is unknown.\n\nAccepts all flags of \
            istio-iptables, so that a manifest's arguments can be pasted; those of another mesh with --mesh.",
        examples: &[
            "sidecar-init explain",
            "sidecar-init explain 8080",
            "sidecar-init explain --network-namespace web --uid 1337 https://example.com/",
            "sidecar-init explain -i '*' 10.0.0.5:443 10.0.0.5:53",
            "kubectl get pod web -o yaml | sidecar-init explain -f - 8080",
        ],
        exits: &[
            ("0", "answered"),
            ("1", "the rules could not be read"),
            ("2", "invalid input"),
            ("3", "a packet does not end as --expect says"),
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
        about: "Show what is captured, and what is wrong with it",
        long_about: "Shows what the rules of the network namespace mean, of any mesh (with --mesh, of that one) \
            and from any program: findings, each with its level and code, such as a listener that is missing or \
            rules of other programs that decide; what is captured and what is excluded, with the option that says \
            so; and the packets that rules have met (in the table nat, the first of each connection). It reads \
            only.\n\nWith --kernel, it shows what is needed to set rules, before any are there: capabilities, \
            programs of iptables, matches and targets of the kernel, IPv6.\n\nWith --all, as root on a node, it \
            shows all network namespaces that have a name or a process: unknown (not readable), drifted (changed \
            since they were made), overruled (rules of other programs decide first), failing (such as a listener \
            that is missing), partial (one direction, or one family), captured, not captured.",
        examples: &[
            "sidecar-init status",
            "sidecar-init status --kernel",
            "sidecar-init status --all",
            "sidecar-init status --watch --interval 500ms",
            "sidecar-init status --network-namespace /proc/1234/ns/net --format json",
        ],
        exits: &[
            ("0", "in place"),
            ("1", "a failure is found, or the rules could not be read"),
            ("2", "invalid input"),
            ("3", "nothing is captured (without --all), or rules were changed since they were made"),
        ],
        topics: &[&[Topic::Status]],
        also: &[&[Setting::Mesh, Setting::NetworkNamespace, Setting::Timeout, Setting::Format]],
        ..NONE
    },
    CommandEntry {
        command: Command::Lint,
        name: "lint",
        about: "Find likely mistakes in flags or manifests",
        long_about: "Checks capture flags, or those of a manifest (-f), or else those that are stored with the \
            rules of the network namespace, for what is valid but probably not intended: rules that nothing \
            reaches, options without effect, items that other items contain, misspelt annotations, containers that \
            run as the proxy's user. Each finding names the option and a remedy. With --network-namespace, IPv6 of \
            the pod that is not captured is a finding, too. For rules without a note, the findings are those of \
            status. Touches nothing.",
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
        about: "Show what differs between live rules and settings, or two settings",
        long_about: "Compares verdicts for all packets, and prints those that change, in groups, with both \
            reasons; then how many rules, policy rules, routes and addresses differ. --rules prints each: - for \
            the first side, + for the second, and after # the reason: missing, extra, moved, changed, or a foreign \
            rule that comes first. Touches nothing.\n\nThe first side is the network namespace, and the second \
            what is asked for: with flags or -f, what apply would set with the same, else the settings that are \
            stored with the rules (those of iptables store none). Both are given by -f twice: the pods of two \
            manifests, matched by kind, namespace and name where a file has several; by -f and capture flags, \
            without --network-namespace: the manifest without and with these flags; and by --from-save or \
            --network-namespace twice.",
        examples: &[
            "sidecar-init diff",
            "sidecar-init diff -f pod.yaml --network-namespace web --rules",
            "sidecar-init diff -f old.yaml -f new.yaml",
            "sidecar-init diff -f pod.yaml -o 5432",
            "sidecar-init diff --from-save old.txt --from-save new.txt",
        ],
        exits: &[
            ("0", "the same"),
            ("1", "the rules could not be read, or are too many to compare all packets"),
            ("2", "invalid input"),
            (
                "3",
                "a difference, rules of other programs come first, another mesh captures too, or a pod is in one file only",
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
        long_about: "Prints the rules that apply would set with the same flags: as text for iptables-restore, as \
commands, or as JSON. Touches nothing.",
        examples: &["sidecar-init render -i '*' -b '*'", "sidecar-init render -f pod.yaml --format nft"],
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
        long_about: "Prints each packet as it meets rules: the time, protocol, addresses, interfaces, the sending \
            user and group, the rules that it matches, with the option that made each, and its verdict, with the \
            reason.\n\nWhere rules were set with --iptables-trace-logging, it shows their reports (NFLOG group \
            1337), and adds nothing to the namespace. Elsewhere, and with --enable, a table inet \
            sidecar_init_trace makes the kernel trace packets through all rules of nf_tables, also those of \
            iptables (nft) and of other programs, but not of iptables (legacy); it is removed when the trace ends, \
            in whatever way. Of TCP, packets that begin a connection are traced. NAT rules see no others.\n\nIt \
            ends with SIGINT or SIGTERM, after --count packets, or after the time --for. With --format json it \
            prints one object a line for each packet.",
        examples: &[
            "sidecar-init trace 443",
            "sidecar-init trace --enable --count 10",
            "sidecar-init trace --network-namespace web --for 1m --format json",
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
        long_about: "Makes connections in the network namespace and observes where each arrives: outbound ones, \
            the proxy's own, those to the pod itself, DNS, one for each list of networks, ports or groups, by IPv4 \
            and IPv6. The expected outcomes follow from flags or -f, else from the settings that are stored with \
            the rules, or from the rules; the first line names their source. The command's own listener proves an \
            outcome by a token and by the original destination; where a proxy listens already, conntrack proves \
            it.\n\nOther machines are not affected: calls go to the pod itself, to addresses for documentation, or \
            into a network that a list names, and no packet gets further than the first router. No data is sent to \
            unknown servers. Packets from outside can't be tried; diff compares those rules.\n\nCalling as the \
            proxy needs CAP_SETUID and CAP_SETGID; asking conntrack needs CAP_NET_ADMIN, listening for TPROXY that \
            or CAP_NET_RAW.",
        examples: &[
            "sidecar-init verify -i '*' -b '*' -d 15090",
            "sidecar-init verify -f pod.yaml --network-namespace /run/netns/web",
        ],
        exits: &[
            ("0", "every connection ended as expected"),
            ("1", "nothing is captured, or no connection could be tried"),
            ("2", "invalid input"),
            ("3", "a connection ended otherwise"),
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
        long_about: "Sets the rules in a temporary pod: an unnamed network namespace, connected to another one, \
            whose test servers answer at every address. A small proxy listens where the rules send connections to: \
            it logs each and passes it on. Works as root, and as any user where user namespaces are \
            allowed.\n\nWithout a command, a demo of a minute shows what happens to connections, and why. A \
            command after -- runs in the pod, as an application would; the proxy's log goes to standard \
            error.\n\nThe pod is 10.9.0.1 and fd09::1, the servers are at 10.9.0.2 and fd09::2. They answer HTTP \
            at ports 80, 3000, 8000, 8080, 9080 and others, echo anything else, resolve every name, and call the \
            pod for clients of their HTTP proxy at port 3128. Defaults are those of the mesh's injector: all ports \
            but 15090, 15021 and 15020, all networks, both families.",
        examples: &[
            "sidecar-init sandbox",
            "sidecar-init sandbox -x 10.1.0.0/16 --redirect-dns",
            "sidecar-init sandbox -- curl http://10.9.0.2",
            "sidecar-init sandbox -f pod.yaml -- sh",
            "sidecar-init sandbox --proxy none --run-as root -- ./start-my-proxy",
        ],
        exits: &[
            ("0", "without a command: every connection went as the rules say"),
            ("1", "the pod could not be created"),
            ("2", "invalid input"),
            ("126", "the command could not be started"),
            ("127", "the command does not exist"),
            ("128+N", "signal N ended the command"),
            ("other", "the exit status of the command"),
        ],
        topics: &[&[Topic::Sandbox, Topic::Capture, Topic::Manifest]],
        also: &[&[Setting::Backend, Setting::Timeout]],
        trailing: Some(("COMMAND", "What to run, with its arguments")),
        ..NONE
    },
    CommandEntry {
        command: Command::Completions,
        name: "completions",
        about: "Print shell completions",
        long_about: "Prints a script by which bash, zsh or fish completes calls of sidecar-init, which has to be \
            on PATH, and of istio-iptables, where the program has that name. With the words of a line after --, \
            the command prints what may stand in the place of the last one.",
        examples: &[
            "sidecar-init completions bash >/etc/bash_completion.d/sidecar-init",
            "sidecar-init completions zsh >/usr/local/share/zsh/site-functions/_sidecar-init",
            "sidecar-init completions fish >/etc/fish/completions/sidecar-init.fish",
        ],
        exits: &[("0", "printed"), ("1", "failed"), ("2", "invalid input")],
        also: &[&[Setting::Shell]],
        word: Some(Setting::Shell),
        trailing: Some(("WORD", "The words of a line, the last one to be completed")),
        ..NONE
    },
    CommandEntry {
        command: Command::Man,
        name: "man",
        about: "Write the manual pages",
        long_about: "Writes pages of the manual into a folder: sidecar-init.1 and one for each command, such as \
            sidecar-init-apply.1. Other files there are kept.",
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
            istio-iptables.\n\nThe command line wins over the environment, which wins over defaults. Lists are \
            separated by commas. Ports may be ranges: 8000-9000. Rules of ours that differ from the desired ones \
            are an error unless --reconcile is given.",
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
        long_about: "Sets the rules that send a pod's traffic through linkerd's proxy, taking the flags of \
            proxy-init, which it replaces where the program is called proxy-init or linkerd2-proxy-init. It reads \
            one variable, NATIVE_NFTABLES, by which an image says that it holds no iptables.\n\nItems of lists are \
            separated by commas, or the flag is repeated. Either all rules take effect or the old state is kept, \
            and a second call writes nothing.",
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
        long_about: "Sets the rules that send a machine's or a pod's traffic through Kuma's proxy, or removes \
            them, taking the words, files and variables of kumactl. The command line wins over the environment, \
            which wins over files, which win over defaults.\n\nEither the whole change takes effect or the old \
            state is kept. Rules that are in place are not written again, and rules are replaced without a gap.",
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
        long_about: "Copies this program to BIN-DIR/sidecar-cni, with sidecar-node if that is next to it, and puts \
            the plugin's entry into the first file of CONF-DIR that a runtime would use, last in its list of \
            plugins; every other byte is kept. X.conf, with a single plugin, is replaced by X.conflist. Where \
            there is no file yet, it waits. Files are exchanged as a whole.\n\nKeys of the entry without a flag \
            are given by --entry: '{\"defaults\":{\"proxy-uid\":2102}}'. They are listed by sidecar-init cni \
            --help.\n\nWith --watch it keeps running, one on a node, and restores what other programs overwrite. \
            On SIGTERM everything is left installed, as a node without the plugin would start pods uncaptured \
            while a DaemonSet is replaced; --uninstall-on-exit removes it.",
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
        long_about: "Removes the plugin's entry from every file of CONF-DIR, and removes sidecar-cni and \
            sidecar-node from BIN-DIR. A file that was not changed since is restored to the byte; a list that was \
            made of a single plugin becomes that file again. An install --watch on the node has to end \
            first.\n\nSome runtimes, such as CRI-O, call the plugins of each container when it is removed: there, \
            use --keep-program until those containers are gone.",
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
        long_about: "Brings the network namespace of a container to the state that the flags, or its pod's \
            manifest (-f), describe, from the node, and compares it afterwards. For pods that started before the \
            plugin was installed: their validation ends with 126 again and again until the rules are set.\n\nUsers \
            and groups are given by number. DNS servers are those of the process (--pid), or have to be given \
            (--dns-servers). Metrics of cni install --watch count it.\n\ncni repair --watch runs sidecar-node, \
            found next to this program or on PATH, with the remaining arguments: it repairs broken pods on the \
            node. See sidecar-node repair --help.",
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
        long_about: "Makes a table of nf_tables on the host, inet sidecar_init_ambient_host, with the addresses of \
            the pods that apply --mesh ambient captures. TCP calls of the host's own processes to them, such as \
            the probes of its kubelet, then come from the probe address, which the rules in the pods exclude. What \
            the host only forwards keeps its source, and is captured.\n\nWithout a flag the table is made, or \
            repaired if it was changed; its pods and its probe address are kept. --add and --remove may be \
            combined and repeated. The change is atomic.\n\nIt works in the current network namespace: on a node, \
            the host's; from elsewhere, name it with --network-namespace pid:1.",
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
