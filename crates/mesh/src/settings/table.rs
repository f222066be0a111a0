//! Settings common to all meshes: operation, place and output. Settings of capture are in each mesh's own table.

use super::SettingKind::{Switch, Value};
use super::{Setting, SettingTable, settings};
use crate::mesh::Mesh;

settings! {
    Setting of SettingTable::Common;
    Capture {
        Mesh: "mesh" _ [] example "istio" of { Mesh::NAMES }, Value("MESH"),
            "Whose rules, and whose flags --help lists: istio, linkerd, kuma or ambient [default: what the pod says, else istio; clean, status and trace: all]";
    }
    Operation {
        DryRun: "dry-run" 'n' ["DRY_RUN"], Switch,
            "Print the rules; touch nothing";
        RestoreFormat: "restore-format" 'f' ["RESTORE_FORMAT"], Switch,
            "With --dry-run: restore text; =false prints one command a line [default: true]";
        NetworkNamespace: "network-namespace" _ ["NETWORK_NAMESPACE"] example "/run/netns/pod", Value("NAME"),
            "Work in this network namespace: a name of ip netns, a container's id or its start, pid:N, or a path";
        CniMode: "cni-mode" _ ["CNI_MODE"], Switch,
            "Run on the node's file system: one lock a namespace, users and groups by number only";
        ForceBinary: "force-iptables-binary" _ ["FORCE_IPTABLES_BINARY"]
            example "nft" of ["legacy", "nft"], Value("VARIANT"),
            "Use this variant of iptables, legacy or nft, whatever is in use";
        Reconcile: "reconcile" _ ["RECONCILE"], Switch,
            "Replace rules of this program that differ, instead of failing";
        Replace: "replace" _ [], Switch,
            "Replace another mesh that captures here, instead of failing";
        CleanupOnly: "cleanup-only" _ ["CLEANUP_ONLY"], Switch,
            "Remove the rules of this program; create nothing";
        ForceApply: "force-apply" _ ["FORCE_APPLY"], Switch,
            "Apply even where the state looks right";
        LockWait: "lock-wait" _ ["LOCK_WAIT"] example "10", Value("SECONDS"),
            "How long to wait for another run in the namespace, and for the lock that programs of iptables share [default: 30]";
        Timeout: "timeout" _ [] example "10s", Value("TIME"),
            "Time limit of each program that is started, such as 10s or 1m [default: 30s]";
        AllowHostNamespace: "allow-host-namespace" _ [], Switch,
            "Allow the machine's own network namespace";
        Format: "format" _ [] example "json" of ["text", "json", "yaml"], Value("FORMAT"),
            "How to print the outcome: text, json or yaml; -o for short where no capture flags are taken [default: text]";
        Backend: "backend" _ []
            example "nftables" of ["nftables", "iptables", "iptables-nft", "iptables-legacy"], Value("BACKEND"),
            "nftables, iptables, iptables-nft or iptables-legacy [default: the one that has rules of this program, else nftables]";
        NativeNftables: "native-nftables" _ ["NATIVE_NFTABLES"], Switch,
            "Set rules of nf_tables directly, without iptables";
    }
    Manifest {
        Filename: "filename" 'f' [] example "pod.yaml", Value("FILE"),
            "Read settings from this manifest (file, - for input, or JSON): pods or workloads; other flags override it";
    }
    Facts {
        PodIps: "pod-ips" _ [] example "10.1.2.3,fd00::3", Value("IP,.."),
            "The pod's addresses, instead of those of the interfaces";
        DnsServers: "dns-servers" _ [] example "10.96.0.10", Value("IP,.."),
            "The DNS servers, instead of those of resolv.conf; empty means none";
        IptablesVersion: "iptables-version" _ ["IPTABLES_VERSION"] example "1.8.9", Value("VERSION"),
            "The version of iptables, such as 1.8.9, instead of asking the program";
    }
    Validation {
        RunValidation: "run-validation" _ ["RUN_VALIDATION"], Switch,
            "Check with real connections that capture works; exit with 126 if it does not";
        SkipRuleApply: "skip-rule-apply" _ ["SKIP_RULE_APPLY"], Switch,
            "Set no rules; for validation of rules that another program has set";
        ProbePort: "iptables-probe-port" _ ["IPTABLES_PROBE_PORT"] example "15002", Value("PORT"),
            "Port that verify and a validation call where the rules name none [default: 15002]";
        ProbeTimeout: "probe-timeout" _ ["PROBE_TIMEOUT"] example "5s", Value("TIME"),
            "How long verify and a validation try, such as 5s or 1m30s [default: 5s]";
    }
    Logging {
        LogOutputLevel: "log_output_level" _ [] example "default:debug", Value("LEVELS"),
            "Levels by scope, SCOPE:LEVEL,..; of none, fatal, error, warn, info, debug, trace [default: default:info]";
        LogAsJson: "log_as_json" _ [], Switch,
            "Write log lines as JSON";
        LogTarget: "log_target" _ [] example "stderr", Value("TARGET,.."),
            "Where log lines go: stderr, stdout, or paths of files [default: stderr]";
    }
    Compatibility {
        LogCaller: "log_caller" _ [] example "default", Value("SCOPES"), "No effect";
        LogStacktraceLevel: "log_stacktrace_level" _ [] example "default:none", Value("LEVELS"), "No effect";
        LogRotate: "log_rotate" _ [] example "/var/log/sidecar-init.log", Value("PATH"), "No effect";
        LogRotateMaxAge: "log_rotate_max_age" _ [] example "30", Value("DAYS"), "No effect";
        LogRotateMaxBackups: "log_rotate_max_backups" _ [] example "1000", Value("COUNT"), "No effect";
        LogRotateMaxSize: "log_rotate_max_size" _ [] example "104857600", Value("MEGABYTES"), "No effect";
        Vklog: "vklog" _ [] example "0", Value("LEVEL"), "No effect";
    }
    Packet {
        Sender: "as" _ [] example "external" of ["app", "proxy", "external"], Value("WHO"),
            "Who sends the packet: app, proxy or external [default: app]";
        Direction: "direction" _ [] example "inbound" of ["outbound", "inbound"], Value("WAY"),
            "outbound or inbound [default: inbound for external, else outbound]";
        Protocol: "proto" _ [] example "udp" of ["tcp", "udp"], Value("PROTOCOL"), "tcp or udp [default: tcp]";
        Destination: "destination" _ [] example "10.0.0.5:443", Value("ADDRESS:PORT"),
            "Where the packet goes, also NAME:PORT or a URL; a port alone is the pod's, called from outside";
        PacketSource: "source" _ [] example "10.0.0.9:40000", Value("ADDRESS[:PORT]"),
            "Where it comes from [default: the pod; inbound, any address outside]";
        SenderUid: "uid" _ [] example "1000", Value("UID"),
            "The sending process's user [default: that of --as: 1000, or the proxy's]";
        SenderGid: "gid" _ [] example "1000", Value("GID"),
            "The sending process's group [default: the number of the user]";
        InInterface: "in-interface" _ [] example "eth0", Value("NAME"),
            "Where an inbound packet arrives [default: where the kernel has it arrive; eth0 of a pod that is described]";
        OutInterface: "out-interface" _ [] example "eth0", Value("NAME"),
            "Where an outbound packet leaves [default: where the kernel routes it; of a pod that is described, lo to itself, else eth0]";
        PacketMark: "mark" _ [] example "0x539", Value("MARK"), "The packet's mark [default: 0]";
        CtState: "ct-state" _ []
            example "established" of ["new", "established", "related", "invalid"], Value("STATE"),
            "new, established, related or invalid [default: new]";
    }
    Explain {
        Live: "live" _ [], Switch,
            "Walk through the rules of the network namespace even where flags describe others";
        FromSave: "from-save" _ [] example "rules.txt", Value("FILE"),
            "Walk through the rules that iptables-save printed into this file; - reads input";
        Expect: "expect" _ [] example "captured" of ["captured", "not-captured"], Value("VERDICT"),
            "Exit with 3 unless the packet is captured, or not-captured";
        ExplainFormat: "format" _ []
            example "json" of ["text", "json", "yaml", "picture", "svg"], Value("FORMAT"),
            "text, json or yaml; all traffic with the packet's path: picture (text) or svg [default: text]";
        PictureOf: "of" _ [] example "traffic" of ["traffic", "summary"], Value("WHAT"),
            "What a picture shows: traffic or summary (its main paths) [default: traffic]";
    }
    Diff {
        DiffRules: "rules" _ [], Switch, "Print the lines of rules that differ, too";
    }
    Lint {
        LintFormat: "format" _ []
            example "sarif" of ["text", "json", "yaml", "sarif", "github"], Value("FORMAT"),
            "text, json or yaml; for pull requests: sarif, or github (workflow commands) [default: text]";
        Deny: "deny" _ [], Switch, "Exit with 1 if there is a warning";
        Allow: "allow" _ [] joined "," example "SI007", Value("CODE,.."), "Omit findings of these codes";
        Notes: "notes" _ [], Switch, "Show notes too: limits of the rules, such as what is the same in every pod";
    }
    Render {
        RenderFormat: "format" _ []
            example "nft" of ["iptables", "commands", "nft", "json", "yaml"], Value("FORMAT"),
            "iptables, commands, nft, json or yaml [default: iptables]";
    }
    Status {
        StatusVerbose: "verbose" _ [], Switch,
            "Also show listeners, rules that met no packet, and how the rules were made";
        StatusKernel: "kernel" _ [], Switch,
            "Show what this kernel and its programs support; needs no rules";
        StatusAll: "all" _ [], Switch, "Show every network namespace of the machine, in a line each, the worst first";
        StatusWatch: "watch" _ [], Switch, "Repeat, with packets a second, until SIGINT or SIGTERM";
        StatusInterval: "interval" _ [] example "500ms", Value("DURATION"),
            "With --watch: the time between two readings, from 100ms [default: 2s]";
    }
    Trace {
        TraceRule: "rule" _ [] example "inbound-port", Value("NAME"), "Show only reports of rules of this name";
        TraceProtocol: "proto" _ [] example "tcp" of ["tcp", "udp", "icmp", "icmpv6"], Value("PROTOCOL"),
            "Show only packets of tcp, udp, icmp or icmpv6";
        TraceDestination: "destination" _ [] example "10.0.0.0/8", Value("WHERE"),
            "Show only packets to this ADDRESS, NETWORK, PORT or ADDRESS:PORT";
        TraceVerdict: "verdict" _ [] example "dropped" of ["captured", "not-captured", "dropped"], Value("VERDICT"),
            "Show only packets with this verdict: captured, not-captured or dropped";
        TraceEnable: "enable" _ [], Switch,
            "Make the kernel trace all rules of nf_tables; the default where no rule reports";
        TraceEvery: "every-packet" _ [], Switch,
            "With --enable: every packet of TCP, not only those that begin a connection";
        TraceCount: "count" _ [] example "10", Value("N"), "End after so many packets";
        TraceTime: "for" _ [] example "30s", Value("DURATION"), "End after this time, such as 30s or 5m";
    }
    Sandbox {
        SandboxProxy: "proxy" _ [] example "none" of ["built-in", "none"], Value("WHICH"),
            "built-in, or none to leave the proxy's ports to a proxy of your own [default: built-in]";
        RunAs: "run-as" _ [] example "app" of ["app", "proxy", "root"], Value("WHO"),
            "The user that the command runs as: app, proxy or root [default: app]";
    }
    Install {
        ConfDir: "conf-dir" _ [] example "/etc/cni/net.d", Value("DIR"),
            "Where the runtime looks for network configurations [default: /etc/cni/net.d]";
        BinDir: "bin-dir" _ [] example "/opt/cni/bin", Value("DIR"), "Where it looks for plugins [default: /opt/cni/bin]";
        StateDir: "state-dir" _ [] example "/run/sidecar-init/cni", Value("DIR"),
            "Where the plugin keeps attachments and counters [default: /run/sidecar-init/cni]";
        PluginLog: "plugin-log" _ [] example "journal", Value("PATH"),
            "The plugin's log: a file, journal or none [default: /var/log/sidecar-init/cni.log]";
        ExcludeNamespaces: "exclude-namespaces" _ [] example "kube-system,monitoring", Value("NAME,.."),
            "Namespaces of Kubernetes whose pods are excluded [default: kube-system]";
        PluginEntry: "entry" _ [] example "{\"timeout\":\"5s\"}", Value("JSON"),
            "Any other keys of the plugin's entry, as an object or as the path of a file that holds it";
        InstallWait: "wait" _ [] example "30s", Value("TIME"),
            "How long to wait for a network configuration, such as 30s [default: without end]";
        Watch: "watch" _ [], Switch, "Keep running, and restore the plugin and its entry when they are lost";
        ReadyFile: "ready-file" _ [] example "/run/sidecar-init/ready", Value("PATH"),
            "With --watch: a file that exists while everything is installed";
        ReadyAddress: "ready-address" _ [] example "127.0.0.1:15071", Value("IP:PORT"),
            "With --watch: serve /readyz here, 200 while everything is installed, else 503";
        Metrics: "metrics" _ [] example "0.0.0.0:15072", Value("IP:PORT"),
            "With --watch: serve /metrics here, for Prometheus";
        UninstallOnExit: "uninstall-on-exit" _ [], Switch,
            "With --watch: uninstall on SIGTERM or SIGINT; otherwise everything is left installed";
        KeepProgram: "keep-program" _ [], Switch,
            "Keep the plugin's program, for runtimes that will call it for containers that it has served";
    }
    Repair {
        Netns: "netns" _ [] example "/run/netns/pod", Value("NAME"),
            "The network namespace to repair: a name of ip netns, a container's id or its start, pid:N, or a path";
        Pid: "pid" _ [] example "4711", Value("PID"), "The process in whose network namespace to do so";
    }
    AmbientHost {
        HostAdd: "add" _ [] example "10.1.2.3,fd00::3", Value("IP,.."),
            "Addresses of pods to add; those that are there are kept";
        HostRemove: "remove" _ [] example "10.1.2.3", Value("IP,.."),
            "Addresses of pods to remove; missing ones are ignored";
        HostClean: "clean" _ [], Switch, "Remove the table";
    }
    Generate {
        Shell: "shell" _ [] example "bash" of ["bash", "zsh", "fish"], Value("SHELL"),
            "The shell: bash, zsh or fish";
        ManDirectory: "directory" _ [] example "man1", Value("DIR"), "Where to write the pages; created if missing";
    }
}
