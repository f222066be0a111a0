//! Settings common to all meshes: operation, place and output. Settings of capture are in each mesh's own table.

use super::SettingKind::{Switch, Value};
use super::{Setting, SettingTable, settings};
use crate::mesh::Mesh;

settings! {
    Setting of SettingTable::Common;
    Capture {
        Mesh: "mesh" _ [] example "istio" of { Mesh::NAMES }, Value("MESH"),
            "Mesh of the rules, and of the flags in --help: istio, linkerd, kuma or ambient [default: \
             detected from the pod, else istio; clean, status and trace: all]";
    }
    Operation {
        DryRun: "dry-run" 'n' ["DRY_RUN"], Switch,
            "Print the rules; change nothing";
        RestoreFormat: "restore-format" 'f' ["RESTORE_FORMAT"], Switch,
            "With --dry-run: restore text; =false prints one command per line [default: true]";
        NetworkNamespace: "network-namespace" _ ["NETWORK_NAMESPACE"] example "/run/netns/pod", Value("NAME"),
            "Network namespace: a name of ip netns, a container id or its prefix, pid:N, or a path";
        CniMode: "cni-mode" _ ["CNI_MODE"], Switch,
            "Run on the node's file system: one lock per namespace, users and groups by number only";
        ForceBinary: "force-iptables-binary" _ ["FORCE_IPTABLES_BINARY"]
            example "nft" of ["legacy", "nft"], Value("VARIANT"),
            "Variant of iptables, legacy or nft, even if the other one is in use";
        Reconcile: "reconcile" _ ["RECONCILE"], Switch,
            "Replace rules of this program that differ, instead of failing";
        Replace: "replace" _ [], Switch,
            "Replace the rules of another mesh, instead of failing";
        CleanupOnly: "cleanup-only" _ ["CLEANUP_ONLY"], Switch,
            "Remove the rules of this program; create nothing";
        ForceApply: "force-apply" _ ["FORCE_APPLY"], Switch,
            "Apply even if nothing differs";
        LockWait: "lock-wait" _ ["LOCK_WAIT"] example "10", Value("SECONDS"),
            "How long to wait for another run in the namespace, and for the lock of iptables, in seconds [default: 30]";
        Timeout: "timeout" _ [] example "10s", Value("TIME"),
            "Time limit of each started program, such as 10s or 1m [default: 30s]";
        AllowHostNamespace: "allow-host-namespace" _ [], Switch,
            "Allow the machine's own network namespace";
        Format: "output" _ [] example "json" of ["text", "json", "yaml"], Value("FORMAT"),
            "Output format: text, json or yaml; short form -o in commands without capture flags [default: text]";
        Backend: "backend" _ []
            example "nftables" of ["nftables", "iptables", "iptables-nft", "iptables-legacy"], Value("BACKEND"),
            "nftables, iptables, iptables-nft or iptables-legacy [default: the one that has rules of this program, else nftables]";
        NativeNftables: "native-nftables" _ ["NATIVE_NFTABLES"], Switch,
            "Set rules of nf_tables directly, without iptables";
    }
    Manifest {
        Filename: "filename" 'f' [] example "pod.yaml", Value("FILE"),
            "Read settings from this manifest of pods or workloads (file, - for standard input, or JSON); \
             other flags override it";
    }
    Facts {
        PodIps: "pod-ips" _ [] example "10.1.2.3,fd00::3", Value("IP,.."),
            "Addresses of the pod, instead of those of the interfaces";
        DnsServers: "dns-servers" _ [] example "10.96.0.10", Value("IP,.."),
            "DNS servers, instead of those of resolv.conf; empty means none";
        IptablesVersion: "iptables-version" _ ["IPTABLES_VERSION"] example "1.8.9", Value("VERSION"),
            "Version of iptables, such as 1.8.9, instead of the program's own report";
    }
    Validation {
        RunValidation: "run-validation" _ ["RUN_VALIDATION"], Switch,
            "Check with real connections that capture works; exit with 126 if it does not";
        SkipRuleApply: "skip-rule-apply" _ ["SKIP_RULE_APPLY"], Switch,
            "Set no rules; only validate those of another program";
        ProbePort: "iptables-probe-port" _ ["IPTABLES_PROBE_PORT"] example "15002", Value("PORT"),
            "Port to call where the rules name none [default: 15002]";
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
        Sender: "sender" _ [] example "external" of ["app", "proxy", "external"], Value("WHO"),
            "Sender of the packet: app, proxy or external [default: app]";
        Direction: "direction" _ [] example "inbound" of ["outbound", "inbound"], Value("WAY"),
            "outbound or inbound [default: inbound for external, else outbound]";
        Protocol: "proto" _ [] example "udp" of ["tcp", "udp"], Value("PROTOCOL"), "tcp or udp [default: tcp]";
        Destination: "destination" _ [] example "10.0.0.5:443", Value("ADDRESS:PORT"),
            "Destination of the packet, also NAME:PORT or a URL; a port alone is the pod's, called from outside";
        PacketSource: "source" _ [] example "10.0.0.9:40000", Value("ADDRESS[:PORT]"),
            "Source of the packet [default: the pod; inbound, any external address]";
        SenderUid: "uid" _ [] example "1000", Value("UID"),
            "User of the sending process [default: that of --sender: 1000, or the proxy's]";
        SenderGid: "gid" _ [] example "1000", Value("GID"),
            "Group of the sending process [default: the number of the user]";
        InInterface: "in-interface" _ [] example "eth0", Value("NAME"),
            "Interface of an inbound packet [default: by the kernel's routes; eth0 of a described pod]";
        OutInterface: "out-interface" _ [] example "eth0", Value("NAME"),
            "Interface of an outbound packet [default: by the kernel's routes; of a described pod, lo to itself, else eth0]";
        PacketMark: "mark" _ [] example "0x539", Value("MARK"), "Mark of the packet [default: 0]";
        CtState: "ct-state" _ []
            example "established" of ["new", "established", "related", "invalid"], Value("STATE"),
            "Conntrack state: new, established, related or invalid [default: new]";
    }
    Explain {
        Live: "live" _ [], Switch,
            "Use the rules of the network namespace, even with capture flags";
        FromSave: "from-save" _ [] example "rules.txt", Value("FILE"),
            "Use the rules in this output of iptables-save; - is standard input";
        Expect: "expect" _ [] example "captured" of ["captured", "not-captured"], Value("VERDICT"),
            "Exit with 3 unless the packet is captured, or not-captured";
        ExplainFormat: "output" _ []
            example "json" of ["text", "json", "yaml", "picture", "svg"], Value("FORMAT"),
            "text, json or yaml; all traffic with the packet's path: picture (text) or svg [default: text]";
        PictureOf: "of" _ [] example "traffic" of ["traffic", "summary"], Value("WHAT"),
            "Content of a picture: traffic or summary (its main paths) [default: traffic]";
        ExplainVerbose: "verbose" _ [], Switch, "Also show the rules that do not match the packet";
    }
    Diff {
        DiffRules: "rules" _ [], Switch, "Also print the rules that differ";
    }
    Lint {
        LintFormat: "output" _ []
            example "sarif" of ["text", "json", "yaml", "sarif", "github"], Value("FORMAT"),
            "text, json or yaml; for pull requests: sarif, or github (workflow commands) [default: text]";
        Deny: "deny" _ [], Switch, "Exit with 1 if there is a warning";
        Allow: "allow" _ [] joined "," example "SI007", Value("CODE,.."), "Omit findings of these codes";
        Notes: "notes" _ [], Switch, "Also show notes: known limits of the rules";
    }
    Render {
        RenderFormat: "output" _ []
            example "nft" of ["iptables", "commands", "nft", "json", "yaml"], Value("FORMAT"),
            "iptables, commands, nft, json or yaml [default: iptables]";
    }
    Status {
        StatusVerbose: "verbose" _ [], Switch,
            "Also show listeners, rules that matched no packet, and the origin of the rules";
        StatusKernel: "kernel" _ [], Switch,
            "Show support by the kernel and its programs; needs no rules";
        StatusAll: "all" _ [], Switch, "Show every network namespace of the machine, one per line, the worst first";
        StatusWatch: "watch" _ [], Switch, "Repeat, with packets per second, until SIGINT or SIGTERM";
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
            "With --enable: every TCP packet, not only the first of each connection";
        TraceCount: "count" _ [] example "10", Value("N"), "End after this number of packets";
        TraceTime: "for" _ [] example "30s", Value("DURATION"), "End after this time, such as 30s or 5m";
    }
    Sandbox {
        SandboxProxy: "proxy" _ [] example "none" of ["built-in", "none"], Value("WHICH"),
            "built-in, or none if your own proxy listens [default: built-in]";
        RunAs: "run-as" _ [] example "app" of ["app", "proxy", "root"], Value("WHO"),
            "User of the command: app, proxy or root [default: app]";
    }
    Install {
        ConfDir: "conf-dir" _ [] example "/etc/cni/net.d", Value("DIR"),
            "Folder of the runtime's network configurations [default: /etc/cni/net.d]";
        BinDir: "bin-dir" _ [] example "/opt/cni/bin", Value("DIR"), "Folder of its plugins [default: /opt/cni/bin]";
        StateDir: "state-dir" _ [] example "/run/sidecar-init/cni", Value("DIR"),
            "Folder of the plugin's attachments and counters [default: /run/sidecar-init/cni]";
        PluginLog: "plugin-log" _ [] example "journal", Value("PATH"),
            "Log of the plugin: a file, journal or none [default: /var/log/sidecar-init/cni.log]";
        ExcludeNamespaces: "exclude-namespaces" _ [] example "kube-system,monitoring", Value("NAME,.."),
            "Kubernetes namespaces whose pods are excluded [default: kube-system]";
        PluginEntry: "entry" _ [] example "{\"timeout\":\"5s\"}", Value("JSON"),
            "Other keys of the plugin's entry, as a JSON object or the path of its file";
        InstallWait: "wait" _ [] example "30s", Value("TIME"),
            "How long to wait for a network configuration, such as 30s [default: no limit]";
        Watch: "watch" _ [], Switch, "Keep running, and restore the plugin and its entry if they are lost";
        ReadyFile: "ready-file" _ [] example "/run/sidecar-init/ready", Value("PATH"),
            "With --watch: file that exists while everything is installed";
        ReadyAddress: "ready-address" _ [] example "127.0.0.1:15071", Value("IP:PORT"),
            "With --watch: serve /readyz here, 200 while everything is installed, else 503";
        Metrics: "metrics" _ [] example "0.0.0.0:15072", Value("IP:PORT"),
            "With --watch: serve /metrics here, for Prometheus";
        UninstallOnExit: "uninstall-on-exit" _ [], Switch,
            "With --watch: uninstall on SIGTERM or SIGINT";
        KeepProgram: "keep-program" _ [], Switch,
            "Keep the plugin's program, for runtimes that call it when containers are removed";
    }
    Repair {
        Netns: "netns" _ [] example "/run/netns/pod", Value("NAME"),
            "Network namespace to repair: a name of ip netns, a container id or its prefix, pid:N, or a path";
        Pid: "pid" _ [] example "4711", Value("PID"), "Process in the network namespace to repair";
    }
    AmbientHost {
        HostAdd: "add" _ [] example "10.1.2.3,fd00::3", Value("IP,.."),
            "Addresses of pods to add; existing ones are kept";
        HostRemove: "remove" _ [] example "10.1.2.3", Value("IP,.."),
            "Addresses of pods to remove; missing ones are ignored";
        HostClean: "clean" _ [], Switch, "Remove the table";
    }
    Generate {
        Shell: "shell" _ [] example "bash" of ["bash", "zsh", "fish"], Value("SHELL"),
            "Shell: bash, zsh or fish";
        ManDirectory: "directory" _ [] example "man1", Value("DIR"), "Folder of the pages; created if missing";
    }
}
