# The guides' steps on a real cluster. scripts/cluster runs this inside its namespaces, with an administrator's KUBECONFIG, and
# images at registry.test that only containerd has. shellcheck shell=bash disable=SC2154

agents=kube-system

# Runs as a workstation user with the permissions that docker/kubectl grants.
capture() { KUBECONFIG="$scratch/developer.kubeconfig" kubectl capture "$@"; }

step() { printf '\n== %s\n' "$*"; }

# expect PATTERN COMMAND...: the output matches, with lines joined, whatever the exit code.
expect() {
  local pattern="$1" output
  shift
  output="$("$@" 2>&1)" || true
  printf '$ %s\n%s\n' "$*" "$output"
  grep -qE -- "$pattern" <<<"$(xargs -d '\n' <<<"$output" | tr -s ' ')" || fail "expected: $pattern"
}

# exits STATUS COMMAND...
exits() {
  local expected="$1" status=0
  shift
  printf '$ %s\n' "$*"
  "$@" || status=$?
  ((status == expected)) || fail "exit code $status; expected $expected"
}

rolled_out() { until_true 180 "$*" kubectl rollout status --timeout=1s "$@"; }

# pod_of NAMESPACE APP: the pod that is not terminating.
pod_of() {
  kubectl -n "$1" get pods -l "app=$2" -o json |
    python3 -c 'import json, sys; print(next(p["metadata"]["name"] for p in json.load(sys.stdin)["items"] if "deletionTimestamp" not in p["metadata"]))'
}

ip_of() { kubectl -n shop get pod "$1" -o 'jsonpath={.status.podIP}'; }

calls() { kubectl -n shop exec "$(pod_of shop client)" -c app -- curl --silent --show-error --max-time 5 "$1"; }

# deployment NAME LABELS: another workload's manifest, as written by its author.
deployment() {
  cat <<YAML
apiVersion: apps/v1
kind: Deployment
metadata: { name: $1, namespace: shop }
spec:
  selector: { matchLabels: { app: $1 } }
  template:
    metadata:
      labels: { app: $1 ${2:-} }
      annotations: { inject.istio.io/templates: envoy, envoy.sidecar-init/ready-port: "0" }
    spec:
      terminationGracePeriodSeconds: 0
      containers:
        - name: app
          image: localhost/busybox:1
          command: [sh, -c, "mkdir -p /www && echo answer of $1 >/www/index.html && exec httpd -f -p 8080 -h /www"]
          ports: [{ containerPort: 8080 }]
          securityContext: { runAsUser: 0 }
---
apiVersion: v1
kind: Service
metadata: { name: $1, namespace: shop }
spec: { selector: { app: $1 }, ports: [{ port: 9080, targetPort: 8080 }] }
---
YAML
}

# The kernel's reports since startup of calls that our seccomp profiles refuse: program and number (syscall=).
refused() { dmesg | awk -F '[][]' -v since="$since" '$2 + 0 >= since + 0 && /type=1326 .*(comm="runc|exe="[^"]*sidecar-)/'; }
since="$(cut -d ' ' -f 1 /proc/uptime)"
trap refused EXIT

step "the CNI plugin and the node agent, with Helm and their seccomp profiles"
chmod 600 "$KUBECONFIG"
# Here a refused call kills its program, instead of failing.
mkdir -p /var/lib/kubelet/seccomp/profiles
for name in sidecar-cni sidecar-node; do
  sed 's/SCMP_ACT_ERRNO/SCMP_ACT_KILL_PROCESS/' "docker/cni/seccomp/$name.json" \
    >"/var/lib/kubelet/seccomp/profiles/$name.json"
done
profile() { echo "$1.seccompProfile.type=Localhost,$1.seccompProfile.localhostProfile=profiles/$2.json"; }
helm install cni docker/chart --namespace "$agents" --set injector.enabled=false \
  --set cni.enabled=true --set cni.image=registry.test/sidecar-init:0.1.0 \
  --set repair.enabled=true --set repair.image=registry.test/sidecar-node:0.1.0 \
  --set "$(profile cni sidecar-cni)" --set "$(profile repair sidecar-node)" >/dev/null
rolled_out -n "$agents" daemonset/sidecar-cni
rolled_out -n "$agents" daemonset/sidecar-node
grep -q sidecar-cni /etc/cni/net.d/10-pods.conflist || fail "the plugin is not in the network configuration"

step "the injector, from its manifests"
exits 0 sidecar-injector check
sidecar-injector manifests --image registry.test/sidecar-injector:0.1.0 --proxy-image localhost/envoy:1 \
  --init-image registry.test/sidecar-init:0.1.0 | kubectl apply -f -
rolled_out -n sidecar-injector deployment/sidecar-injector
exits 0 sidecar-injector check

step "pods, injected as they are created"
kubectl create namespace shop
kubectl label namespace shop istio-injection=enabled
kubectl -n shop create configmap envoy --from-file=envoy.yaml=docker/envoy.yaml
{
  deployment web
  deployment client
  deployment plain ', sidecar.istio.io/inject: "false"'
} | kubectl apply -f -
for name in web client plain; do rolled_out -n shop "deployment/$name"; done
web="$(pod_of shop web)"
expect '^envoy app' kubectl -n shop get pod "$web" -o 'jsonpath={.spec.containers[*].name}'
expect 'answer of web' calls "http://$(ip_of "$web"):8080/"
until_true 30 "the proxy saw the call" grep -q "inbound .* to $(ip_of "$web"):8080" <(kubectl -n shop logs "$web" -c envoy)

step "the kernel's answers, for a user with the permissions of docker/kubectl"
expect 'sidecar-capture' capture explain "$web" 8080 -n shop
kubectl apply -f docker/kubectl/clusterrole.yaml
kubectl create clusterrolebinding developer --clusterrole=sidecar-capture --user=developer
kubectl -n "$agents" create rolebinding developer-agent --role=sidecar-capture-agent --user=developer
expect "from the kernel of pod shop/$web on node node-1, through agent $agents/sidecar-node" \
  capture explain deployment/web -n shop 8080
expect ': captured:' capture explain "$web" -n shop 8080
expect ':9080 captured:' capture explain "$web" -n shop client:9080
expect ':9080 not captured:' capture explain "$web" -n shop client:9080 --sender proxy
expect ': not captured: .* The manifest agrees' capture explain deployment/plain -n shop 8080
exits 3 capture explain deployment/plain -n shop 8080 --expect captured
expect 'inbound traffic is captured over IPv4' capture status "$web" -n shop
exits 0 capture diff "$web" -n shop
capture trace "$web" -n shop --for 8s --count 1 --destination 8080 >"$scratch/trace" 2>&1 &
trace=$!
for _ in 1 2 3 4 5 6; do
  calls "http://$(ip_of "$web"):8080/" >/dev/null
  sleep 1
done
wait "$trace" || true
expect 'captured' cat "$scratch/trace"

step "a pod whose rules were changed"
agent="$(kubectl -n "$agents" get pods -l app.kubernetes.io/name=sidecar-node -o name)"
for process in $(pgrep -f "httpd -f -p 8080"); do
  if [[ "$(nsenter -t "$process" -n ip -4 -o address show dev eth0)" == *" $(ip_of "$web")/"* ]]; then break; fi
done
nsenter -t "$process" -n nft flush ruleset
expect 'the manifest disagrees' capture explain "$web" -n shop 8080
exits 3 capture diff "$web" -n shop
kubectl -n shop delete pod "$web" --wait=false
until_true 60 "a new pod" kubectl -n shop wait --for=delete "pod/$web" --timeout=1s
rolled_out -n shop deployment/web
web="$(pod_of shop web)"

step "a node's overview"
expect 'shop/web' kubectl -n "$agents" exec "$agent" -- sidecar-init status --all
expect '^0 0$' kubectl -n "$agents" get pods -o 'jsonpath={.items[*].status.containerStatuses[*].restartCount}'

step "our containers' memory, in MiB: in use, and requested"
kubectl get pods -A -o json >"$scratch/pods"
sleep 15 # The kubelet checks its pods every ten seconds.
kubectl get --raw /api/v1/nodes/node-1/proxy/stats/summary | python3 -c '
import json, sys
used = {(pod["podRef"]["name"], container["name"]): container["memory"].get("workingSetBytes", 0) / 2**20
        for pod in json.load(sys.stdin)["pods"] for container in pod.get("containers", [])}
exceeds = False
for pod in json.load(open(sys.argv[1]))["items"]:
    for container in pod["spec"]["containers"]:
        if container["image"].startswith("registry.test/"):
            name = pod["metadata"]["name"], container["name"]
            requested = int(container["resources"]["requests"]["memory"].removesuffix("Mi"))
            print(*name, round(used[name], 1), requested)
            exceeds |= not 0 < used[name] < requested
sys.exit(exceeds)' "$scratch/pods"

step "without an agent, through an ephemeral container"
helm upgrade cni docker/chart --namespace "$agents" --reuse-values --set repair.enabled=false >/dev/null
until_true 60 "the agent ends" bash -c "! kubectl -n $agents get $agent"
kubectl create clusterrolebinding developer-debug --clusterrole=sidecar-capture-debug --user=developer
expect 'from the manifest' capture explain "$web" -n shop 8080
expect "from the kernel of pod shop/$web" capture explain "$web" -n shop 8080 --yes \
  --image registry.test/sidecar-init:0.1.0
exits 0 capture diff "$web" -n shop --yes --image registry.test/sidecar-init:0.1.0
expect 'inbound traffic is captured over IPv4' capture status "$web" -n shop --yes \
  --image registry.test/sidecar-init:0.1.0

step "cluster lint"
kubectl create clusterrolebinding developer-lint --clusterrole=sidecar-capture-lint --user=developer
expect '^No findings' capture lint -A

step "an upgrade to a revision, and back"
exits 0 sidecar-injector check --revision two
sidecar-injector manifests --revision two --image registry.test/sidecar-injector:0.1.0 --proxy-image localhost/envoy:1 \
  --init-image registry.test/sidecar-init:0.1.0 | kubectl apply -f -
rolled_out -n sidecar-injector deployment/sidecar-injector-two
exits 0 sidecar-injector check --revision two
injector_of() {
  kubectl -n shop get pod "$(pod_of shop web)" -o 'jsonpath={.metadata.annotations.sidecar\.istio\.io/status}'
}
kubectl label namespace shop istio-injection- istio.io/rev=two --overwrite
kubectl -n shop rollout restart deployment
for name in web client plain; do rolled_out -n shop "deployment/$name"; done
expect '"revision":"two"' injector_of
kubectl label namespace shop istio.io/rev- istio-injection=enabled --overwrite
kubectl -n shop rollout restart deployment
for name in web client plain; do rolled_out -n shop "deployment/$name"; done
expect '"revision":"default"' injector_of
kubectl label namespace -l istio-injection=enabled istio-injection- istio.io/rev=two --overwrite
kubectl -n shop rollout restart deployment
for name in web client plain; do rolled_out -n shop "deployment/$name"; done
sidecar-injector uninstall | kubectl delete --ignore-not-found -f -
exits 0 sidecar-injector check --revision two
expect 'answer of web' calls "http://$(ip_of "$(pod_of shop web)"):8080/"

step "another revision, with Helm"
helm install three docker/chart --namespace sidecar-injector --set injector.revision=three \
  --set injector.image=registry.test/sidecar-injector:0.1.0 --set injector.proxyImage=localhost/envoy:1 \
  --set injector.initImage=registry.test/sidecar-init:0.1.0 >/dev/null
rolled_out -n sidecar-injector deployment/sidecar-injector-three
exits 0 sidecar-injector check --revision three
kubectl label namespace shop istio.io/rev=three --overwrite
kubectl -n shop rollout restart deployment
for name in web client plain; do rolled_out -n shop "deployment/$name"; done
expect '"revision":"three"' injector_of
helm uninstall three --namespace sidecar-injector >/dev/null
kubectl -n sidecar-injector delete secret sidecar-injector-ca-three

step "everything is removed"
kubectl delete namespace shop
sidecar-injector uninstall --revision two --delete-namespace | kubectl delete --ignore-not-found -f -
helm upgrade cni docker/chart --namespace "$agents" --reuse-values --set cni.uninstallOnExit=true >/dev/null
rolled_out -n "$agents" daemonset/sidecar-cni
helm uninstall cni --namespace "$agents" >/dev/null
kubectl delete clusterrolebinding developer developer-debug developer-lint
kubectl delete -f docker/kubectl/clusterrole.yaml
left() {
  local kind
  for kind in $(kubectl api-resources --verbs=list -o name | grep -v events); do
    kubectl get "$kind" -A -o name --ignore-not-found 2>/dev/null | grep sidecar | sed "s,^,left: ,"
  done
  return 0
}
until_true 60 "pods end" bash -c "! kubectl -n $agents get pods -o name | grep ."
expect '^$' left
! grep -q sidecar /etc/cni/net.d/* || fail "the plugin is still in the network configuration"
expect '^$' find /opt/cni/bin -name 'sidecar*'
expect '^$' refused

say "everything works on Kubernetes $(kubectl version -o json | sed -n 's/.*"gitVersion": "\(.*\)".*/\1/p' | tail -n 1)"
