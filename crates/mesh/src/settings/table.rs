//! The settings that every mesh has: how to work, where, and what to show. What to capture, each mesh says in a table of its
//! own.

use super::Kind::{Switch, Value};
use super::table_macro::settings;
use super::{Setting, Table};

settings! {
    Setting of Table::Common;
    Capture {
        Mesh: "mesh" _ [], Value("MESH"),
            "Whose rules, and whose flags --help lists: istio, linkerd, kuma or ambient [default: what the pod says, else istio]";
    }
    Operation {
        DryRun: "dry-run" 'n' ["DRY_RUN"], Switch,
            "Print the rules; touch nothing";
        RestoreFormat: "restore-format" 'f' ["RESTORE_FORMAT"], Switch,
            "With --dry-run: restore text; =false prints one command a line [default: true]";
        NetworkNamespace: "network-namespace" _ ["NETWORK_NAMESPACE"], Value("NAME"),
            "Work in this network namespace: a name of ip netns, a container's id or its start, pid:N, or a path";
        CniMode: "cni-mode" _ ["CNI_MODE"], Switch,
            "Run on the node's file system: one lock a namespace, users and groups by number only";
        ForceBinary: "force-iptables-binary" _ ["FORCE_IPTABLES_BINARY"], Value("VARIANT"),
            "Use this variant of iptables, legacy or nft, whatever is in use";
        Reconcile: "reconcile" _ ["RECONCILE"], Switch,
            "Replace rules of ours that are not as wanted, instead of failing";
        Replace: "replace" _ [], Switch,
            "Take the place of another mesh that captures here, instead of failing";
        CleanupOnly: "cleanup-only" _ ["CLEANUP_ONLY"], Switch,
            "Remove all that is ours; create nothing";
        ForceApply: "force-apply" _ ["FORCE_APPLY"], Switch,
            "Apply even where the state looks right";
        LockWait: "lock-wait" _ ["LOCK_WAIT"], Value("SECONDS"),
            "How long to wait for another run in the namespace, and for the lock that programs of iptables share [default: 30]";
        Timeout: "timeout" _ [], Value("TIME"),
            "How long each program that is started may take, such as 10s or 1m; then it is killed [default: 30s]";
        AllowHostNamespace: "allow-host-namespace" _ [], Switch,
            "Work even in the machine's own network namespace";
        Format: "format" _ [], Value("FORMAT"),
            "How to print the outcome: text, json or yaml; -o for short where no capture flags are taken [default: text]";
        Backend: "backend" _ [], Value("BACKEND"),
            "nftables, iptables, iptables-nft or iptables-legacy [default: what holds rules of ours, else nftables]";
        NativeNftables: "native-nftables" _ ["NATIVE_NFTABLES"], Switch,
            "Set rules of nf_tables directly, without iptables";
    }
    Manifest {
        Filename: "filename" 'f' [], Value("FILE"),
            "Say it by this manifest, or by input with -: pods, or what makes them; other flags win over what it says";
    }
    Facts {
        PodIps: "pod-ips" _ [], Value("IP,.."),
            "The pod's addresses, instead of those of the interfaces";
        DnsServers: "dns-servers" _ [], Value("IP,.."),
            "The DNS servers, instead of those of resolv.conf; empty means none";
        IptablesVersion: "iptables-version" _ ["IPTABLES_VERSION"], Value("VERSION"),
            "The version of iptables, such as 1.8.9, instead of asking the program";
    }
    Validation {
        RunValidation: "run-validation" _ ["RUN_VALIDATION"], Switch,
            "Check with real connections that capture works; exit with 126 if it does not";
        SkipRuleApply: "skip-rule-apply" _ ["SKIP_RULE_APPLY"], Switch,
            "Set no rules; for validation of what somebody else has set";
        ProbePort: "iptables-probe-port" _ ["IPTABLES_PROBE_PORT"], Value("PORT"),
            "Port that a validation or a probe calls where none is meant [default: 15002]";
        ProbeTimeout: "probe-timeout" _ ["PROBE_TIMEOUT"], Value("TIME"),
            "How long a validation or a probe tries, such as 5s or 1m30s [default: 5s]";
    }
    Logging {
        LogOutputLevel: "log_output_level" _ [], Value("LEVELS"),
            "Levels by scope, SCOPE:LEVEL,..; of none, fatal, error, warn, info, debug, trace [default: default:info]";
        LogAsJson: "log_as_json" _ [], Switch,
            "Write log lines as JSON";
        LogTarget: "log_target" _ [], Value("TARGET,.."),
            "Where log lines go: stderr, stdout, or paths of files [default: stderr]";
    }
    Compatibility {
        LogCaller: "log_caller" _ [], Value("SCOPES"), "No effect";
        LogStacktraceLevel: "log_stacktrace_level" _ [], Value("LEVELS"), "No effect";
        LogRotate: "log_rotate" _ [], Value("PATH"), "No effect";
        LogRotateMaxAge: "log_rotate_max_age" _ [], Value("DAYS"), "No effect";
        LogRotateMaxBackups: "log_rotate_max_backups" _ [], Value("COUNT"), "No effect";
        LogRotateMaxSize: "log_rotate_max_size" _ [], Value("MEGABYTES"), "No effect";
        Vklog: "vklog" _ [], Value("LEVEL"), "No effect";
    }
    Packet {
        Sender: "as" _ [], Value("WHO"), "Who sends the packet: app, proxy or external [default: app]";
        Direction: "direction" _ [], Value("WAY"),
            "outbound or inbound [default: inbound for external, else outbound]";
        Protocol: "proto" _ [], Value("PROTOCOL"), "tcp or udp [default: tcp]";
        Destination: "destination" _ [], Value("ADDRESS:PORT"),
            "Where the packet goes, also NAME:PORT or a URL; a port alone is the pod's, called from outside";
        PacketSource: "source" _ [], Value("ADDRESS[:PORT]"),
            "Where it comes from [default: the pod; inbound, any address outside]";
        SenderUid: "uid" _ [], Value("UID"),
            "The sending process's user [default: that of --as: 1000, or the proxy's]";
        SenderGid: "gid" _ [], Value("GID"), "The sending process's group [default: the number of the user]";
        InInterface: "in-interface" _ [], Value("NAME"), "Where an inbound packet arrives [default: where the kernel has it arrive; eth0 of a pod that is described]";
        OutInterface: "out-interface" _ [], Value("NAME"),
            "Where an outbound packet leaves [default: where the kernel routes it; of a pod that is described, lo to itself, else eth0]";
        PacketMark: "mark" _ [], Value("MARK"), "The packet's mark [default: 0]";
        CtState: "ct-state" _ [], Value("STATE"), "new, established, related or invalid [default: new]";
    }
    Explain {
        Live: "live" _ [], Switch,
            "Walk through the rules of the network namespace even where flags describe others";
        FromSave: "from-save" _ [], Value("FILE"),
            "Walk through the rules that iptables-save printed into this file; - reads input";
        Expect: "expect" _ [], Value("VERDICT"),
            "Exit with 3 unless the packet is captured, or not-captured";
        Matrix: "matrix" _ [], Switch, "Show the usual packets and where each ends";
        ExplainFormat: "format" _ [], Value("FORMAT"),
            "text, json or yaml; pictures of the packet's way: picture (text) and svg through all traffic, mermaid through \
             rules [default: text]";
    }
    Lint {
        Deny: "deny" _ [], Switch, "Exit with 1 if there is a warning";
        Notes: "notes" _ [], Switch, "Show notes too: what the rules can't do better, such as what is the same in every pod";
    }
    Render {
        RenderFormat: "format" _ [], Value("FORMAT"),
            "iptables, commands, nft, json or yaml; pictures: picture (text), svg, mermaid or dot [default: iptables]";
        PictureOf: "of" _ [], Value("WHAT"),
            "What to draw: traffic (picture, svg) or rules (svg, mermaid, dot) [default: traffic, if it can be]";
        PictureFamily: "family" _ [], Value("FAMILY"),
            "Of which family to draw rules: v4 or v6 [default: v4]";
    }
    Status {
        StatusWatch: "watch" _ [], Switch, "Look again and again, with packets a second, until SIGINT or SIGTERM";
        StatusInterval: "interval" _ [], Value("DURATION"),
            "With --watch: how long to wait between two looks, from 100ms [default: 2s]";
    }
    Trace {
        TraceRule: "rule" _ [], Value("NAME"), "Show only reports of rules of this name";
        TraceProtocol: "proto" _ [], Value("PROTOCOL"), "Show only packets of tcp, udp, icmp or icmpv6";
        TraceDestination: "destination" _ [], Value("WHERE"),
            "Show only packets to this ADDRESS, NETWORK, PORT or ADDRESS:PORT";
        TraceEnable: "enable" _ [], Switch,
            "Make the kernel report all rules of nf_tables meanwhile, whoever has set them; done without the flag where no rule reports";
        TraceEvery: "every-packet" _ [], Switch,
            "With --enable: every packet of TCP, not only those that begin a connection";
        TraceCount: "count" _ [], Value("N"), "End after so many packets";
        TraceTime: "for" _ [], Value("DURATION"), "End after this time, such as 30s or 5m";
    }
    Sandbox {
        SandboxProxy: "proxy" _ [], Value("WHICH"),
            "built-in, or none to leave the proxy's ports to a proxy of your own [default: built-in]";
        RunAs: "run-as" _ [], Value("WHO"), "As whom the command runs: app, proxy or root [default: app]";
    }
    Install {
        ConfDir: "conf-dir" _ [], Value("DIR"),
            "Where the runtime looks for network configurations [default: /etc/cni/net.d]";
        BinDir: "bin-dir" _ [], Value("DIR"), "Where it looks for plugins [default: /opt/cni/bin]";
        StateDir: "state-dir" _ [], Value("DIR"),
            "Where the plugin keeps attachments and counters [default: /run/sidecar-init/cni]";
        PluginLog: "plugin-log" _ [], Value("PATH"),
            "The plugin's log: a file, journal or none [default: /var/log/sidecar-init/cni.log]";
        ExcludeNamespaces: "exclude-namespaces" _ [], Value("NAME,.."),
            "Namespaces of Kubernetes whose pods are left alone [default: kube-system]";
        PluginEntry: "entry" _ [], Value("JSON"),
            "Any other keys of the plugin's entry, as an object or as the path of a file that holds it";
        InstallWait: "wait" _ [], Value("TIME"),
            "How long to wait for a network configuration, such as 30s [default: without end]";
        Watch: "watch" _ [], Switch, "Stay, and put the plugin and its entry back whenever they are lost";
        ReadyFile: "ready-file" _ [], Value("PATH"), "With --watch: a file that is there while all is installed";
        ReadyAddress: "ready-address" _ [], Value("IP:PORT"),
            "With --watch: answer /readyz here, 200 while all is installed, else 503";
        Metrics: "metrics" _ [], Value("IP:PORT"), "With --watch: answer /metrics here, as Prometheus asks for it";
        UninstallOnExit: "uninstall-on-exit" _ [], Switch,
            "With --watch: on SIGTERM or SIGINT, take all back; else it stays, and goes on to work";
        KeepProgram: "keep-program" _ [], Switch,
            "Leave the plugin's program, for runtimes that will call it for containers that it has served";
    }
    Repair {
        Netns: "netns" _ [], Value("NAME"),
            "The network namespace to repair: a name of ip netns, a container's id or its start, pid:N, or a path";
        Pid: "pid" _ [], Value("PID"), "The process in whose network namespace to do so";
    }
    AmbientHost {
        HostAdd: "add" _ [], Value("IP,.."), "Pods that come: their addresses; those that are there already stay";
        HostRemove: "remove" _ [], Value("IP,.."), "Pods that go: their addresses; those that are gone already are fine";
        HostClean: "clean" _ [], Switch, "Remove the table";
    }
    Generate {
        Shell: "shell" _ [], Value("SHELL"), "For which shell: bash, zsh or fish";
        ManDirectory: "directory" _ [], Value("DIR"), "Where to write the pages; made if it is not there";
    }
}
