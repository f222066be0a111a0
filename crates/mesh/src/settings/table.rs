//! Settings common to all meshes: operation, input and output. Capture settings are in each mesh's own table.

use super::SettingKind::{Switch, Value};
use super::{Setting, SettingTable, settings};
use crate::mesh::Mesh;

settings! {
    Setting of SettingTable::Common;
    Capture {
        Mesh: "mesh" _ [] example "istio" of { Mesh::NAMES }, Value("MESH"),
            "Mesh of the rules, and of the flags in --help: istio, linkerd, kuma or ambient [default: \
             from the pod, else istio; all in clean, status and trace]";
    }
    Operation {
        DryRun: "dry-run" 'n' ["DRY_RUN"], Switch,
            "Print the plan; change nothing";
        RestoreFormat: "restore-format" 'f' ["RESTORE_FORMAT"], Switch,
            "With --dry-run: iptables-restore format; =false prints one command per line [default: true]";
        NetworkNamespace: "network-namespace" _ ["NETWORK_NAMESPACE"] example "/run/netns/pod", Value("NAME"),
            "Network namespace: an ip netns name, a container id or its prefix, pid:N, or a path";
        CniMode: "cni-mode" _ ["CNI_MODE"], Switch,
            "Run on the node's file system: one lock per namespace, users and groups by number only";
        ForceBinary: "force-iptables-binary" _ ["FORCE_IPTABLES_BINARY"]
            example "nft" of ["legacy", "nft"], Value("VARIANT"),
            "iptables variant, legacy or nft, even if the other is in use";
        Reconcile: "reconcile" _ ["RECONCILE"], Switch,
            "Replace this program's differing rules instead of failing";
        Replace: "replace" _ [], Switch,
            "Replace another mesh's rules instead of failing";
        CleanupOnly: "cleanup-only" _ ["CLEANUP_ONLY"], Switch,
            "Remove this program's rules; create nothing";
        ForceApply: "force-apply" _ ["FORCE_APPLY"], Switch,
            "Apply even if nothing differs";
        LockWait: "lock-wait" _ ["LOCK_WAIT"] example "10", Value("SECONDS"),
            "How long to wait for another run in the namespace, and for the iptables lock, in seconds [default: 30]";
        Timeout: "timeout" _ [] example "10s", Value("TIME"),
            "Time limit for each child process, such as 10s or 1m [default: 30s]";
        AllowHostNamespace: "allow-host-namespace" _ [], Switch,
            "Allow the machine's own network namespace";
        Format: "output" _ [] example "json" of ["text", "json", "yaml"], Value("FORMAT"),
            "Output format: text, json or yaml; short form -o in commands without capture flags [default: text]";
        Backend: "backend" _ []
            example "nftables" of ["nftables", "iptables", "iptables-nft", "iptables-legacy"], Value("BACKEND"),
            "nftables, iptables, iptables-nft or iptables-legacy [default: the one with this program's rules, else nftables]";
        NativeNftables: "native-nftables" _ ["NATIVE_NFTABLES"], Switch,
            "Set nf_tables rules directly, without iptables";
    }
    Manifest {
        Filename: "filename" 'f' [] example "pod.yaml", Value("FILE"),
            "Pod or workload manifest with settings: a file, - for standard input, or JSON; other flags \
             override it";
    }
    Facts {
        PodIps: "pod-ips" _ [] example "10.1.2.3,fd00::3", Value("IP,.."),
            "Pod addresses, instead of detected ones";
        DnsServers: "dns-servers" _ [] example "10.96.0.10", Value("IP,.."),
            "DNS servers, overriding resolv.conf; empty means none";
        IptablesVersion: "iptables-version" _ ["IPTABLES_VERSION"] example "1.8.9", Value("VERSION"),
            "iptables version, such as 1.8.9, instead of the detected one";
    }
    Validation {
        RunValidation: "run-validation" _ ["RUN_VALIDATION"], Switch,
            "Check with real connections that capture works; exit with 126 if it does not";
        SkipRuleApply: "skip-rule-apply" _ ["SKIP_RULE_APPLY"], Switch,
            "Set no rules; only validate existing rules";
        ProbePort: "iptables-probe-port" _ ["IPTABLES_PROBE_PORT"] example "15002", Value("PORT"),
            "Port to call if the rules name none [default: 15002]";
        ProbeTimeout: "probe-timeout" _ ["PROBE_TIMEOUT"] example "5s", Value("TIME"),
            "Time limit for verify or a validation, such as 5s or 1m30s [default: 5s]";
    }
    Logging {
        LogOutputLevel: "log_output_level" _ [] example "default:debug", Value("LEVELS"),
            "Levels by scope, SCOPE:LEVEL,..: none, fatal, error, warn, info, debug or trace [default: default:info]";
        LogAsJson: "log_as_json" _ [], Switch,
            "Write log lines as JSON";
        LogTarget: "log_target" _ [] example "stderr", Value("TARGET,.."),
            "Where log lines go: stderr, stdout, or file paths [default: stderr]";
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
            "ADDRESS:PORT, NAME:PORT or a URL; a port alone means an inbound packet to that port of the pod";
        PacketSource: "source" _ [] example "10.0.0.9:40000", Value("ADDRESS[:PORT]"),
            "Packet source [default: the pod; any external address if inbound]";
        SenderUid: "uid" _ [] example "1000", Value("UID"),
            "User of the sending process [default: the proxy's for --sender proxy, else 1000]";
        SenderGid: "gid" _ [] example "1000", Value("GID"),
            "Group of the sending process [default: the user's number]";
        InInterface: "in-interface" _ [] example "eth0", Value("NAME"),
            "Interface of an inbound packet [default: from the kernel's routes; eth0 for a described pod]";
        OutInterface: "out-interface" _ [] example "eth0", Value("NAME"),
            "Interface of an outbound packet [default: from the kernel's routes; for a described pod, lo to itself, else eth0]";
        PacketMark: "mark" _ [] example "0x539", Value("MARK"), "Mark of the packet [default: 0]";
        CtState: "ct-state" _ []
            example "established" of ["new", "established", "related", "invalid"], Value("STATE"),
            "Conntrack state: new, established, related or invalid [default: new]";
    }
    Explain {
        Live: "live" _ [], Switch,
            "Use the network namespace's rules, even with capture flags";
        FromSave: "from-save" _ [] example "rules.txt", Value("FILE"),
            "Use the rules in this iptables-save output; - is standard input";
        Expect: "expect" _ [] example "captured" of ["captured", "not-captured"], Value("VERDICT"),
            "Expected verdict, captured or not-captured; exit with 3 otherwise";
        ExplainFormat: "output" _ []
            example "json" of ["text", "json", "yaml", "picture", "svg"], Value("FORMAT"),
            "text, json or yaml; to draw all traffic: picture (text) or svg [default: text]";
        PictureOf: "of" _ [] example "traffic" of ["traffic", "summary"], Value("WHAT"),
            "Content of a picture: traffic, or summary (the main paths) [default: traffic]";
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
        Allow: "allow" _ [] joined "," example "SI007", Value("CODE,.."), "Omit findings with these codes";
        Notes: "notes" _ [], Switch, "Also show notes: known limits of the rules";
    }
    Render {
        RenderFormat: "output" _ []
            example "nft" of ["iptables", "commands", "nft", "json", "yaml"], Value("FORMAT"),
            "iptables, commands, nft, json or yaml [default: iptables]";
    }
    Status {
        StatusVerbose: "verbose" _ [], Switch,
            "Also show listeners, rules that matched no packet, and the rules' origin";
        StatusKernel: "kernel" _ [], Switch,
            "Show kernel and iptables support; works without rules";
        StatusAll: "all" _ [], Switch, "Show every network namespace on the machine, one per line, worst first";
        StatusWatch: "watch" _ [], Switch, "Repeat, with packets per second, until SIGINT or SIGTERM";
        StatusInterval: "interval" _ [] example "500ms", Value("DURATION"),
            "With --watch: time between readings, at least 100ms [default: 2s]";
    }
    Trace {
        TraceRule: "rule" _ [] example "inbound-port", Value("NAME"), "Show only reports from rules with this name";
        TraceProtocol: "proto" _ [] example "tcp" of ["tcp", "udp", "icmp", "icmpv6"], Value("PROTOCOL"),
            "Show only packets of tcp, udp, icmp or icmpv6";
        TraceDestination: "destination" _ [] example "10.0.0.0/8", Value("WHERE"),
            "Show only packets to this ADDRESS, NETWORK, PORT or ADDRESS:PORT";
        TraceVerdict: "verdict" _ [] example "dropped" of ["captured", "not-captured", "dropped"], Value("VERDICT"),
            "Show only packets with this verdict: captured, not-captured or dropped";
        TraceEnable: "enable" _ [], Switch,
            "Make the kernel trace all nf_tables rules; the default if no rule reports";
        TraceEvery: "every-packet" _ [], Switch,
            "With --enable: trace every TCP packet, not only each connection's first";
        TraceCount: "count" _ [] example "10", Value("N"), "End after this number of packets";
        TraceTime: "for" _ [] example "30s", Value("DURATION"), "End after this time, such as 30s or 5m";
    }
    Sandbox {
        SandboxProxy: "proxy" _ [] example "none" of ["built-in", "none"], Value("WHICH"),
            "built-in, or none if your own proxy listens [default: built-in]";
        RunAs: "run-as" _ [] example "app" of ["app", "proxy", "root"], Value("WHO"),
            "Run the command as app, proxy or root [default: app]";
    }
    Install {
        ConfDir: "conf-dir" _ [] example "/etc/cni/net.d", Value("DIR"),
            "Folder of the runtime's network configurations [default: /etc/cni/net.d]";
        BinDir: "bin-dir" _ [] example "/opt/cni/bin", Value("DIR"), "Folder of CNI plugins [default: /opt/cni/bin]";
        StateDir: "state-dir" _ [] example "/run/sidecar-init/cni", Value("DIR"),
            "Folder of the plugin's attachments and counters [default: /run/sidecar-init/cni]";
        PluginLog: "plugin-log" _ [] example "journal", Value("PATH"),
            "Plugin log: a file, journal or none [default: /var/log/sidecar-init/cni.log]";
        ExcludeNamespaces: "exclude-namespaces" _ [] example "kube-system,monitoring", Value("NAME,.."),
            "Kubernetes namespaces whose pods are excluded [default: kube-system]";
        PluginEntry: "entry" _ [] example "{\"timeout\":\"5s\"}", Value("JSON"),
            "Other keys of the plugin's entry: a JSON object, or a path to one";
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
            "Network namespace to repair: an ip netns name, a container id or its prefix, pid:N, or a path";
        Pid: "pid" _ [] example "4711", Value("PID"), "Process in the network namespace to repair";
    }
    AmbientHost {
        HostAdd: "add" _ [] example "10.1.2.3,fd00::3", Value("IP,.."),
            "Pod addresses to add; existing ones are kept";
        HostRemove: "remove" _ [] example "10.1.2.3", Value("IP,.."),
            "Pod addresses to remove; missing ones are ignored";
        HostClean: "clean" _ [], Switch, "Remove the table";
    }
    Generate {
        Shell: "shell" _ [] example "bash" of ["bash", "zsh", "fish"], Value("SHELL"),
            "Shell: bash, zsh or fish";
        ManDirectory: "directory" _ [] example "man1", Value("DIR"), "Folder for the pages; created if missing";
    }
}
