{{/* Name suffix of revisioned objects. */}}
{{- define "sidecar-init.suffix" -}}
{{ if ne .Values.injector.revision "default" }}-{{ .Values.injector.revision }}{{ end }}
{{- end }}

{{- define "sidecar-init.injector" -}}
sidecar-injector{{ include "sidecar-init.suffix" . }}
{{- end }}

{{- define "sidecar-init.operator" -}}
sidecar-injector-environment{{ include "sidecar-init.suffix" . }}
{{- end }}

{{/* The webhook objects' labels, which also select the webhook's pods. */}}
{{- define "sidecar-init.webhookLabels" -}}
app.kubernetes.io/name: sidecar-injector
app.kubernetes.io/instance: {{ include "sidecar-init.injector" . }}
app.kubernetes.io/component: webhook
{{- end }}

{{- define "sidecar-init.operatorLabels" -}}
app.kubernetes.io/name: sidecar-injector
app.kubernetes.io/instance: {{ include "sidecar-init.injector" . }}
app.kubernetes.io/component: operator
{{- end }}

{{/* Webhook configurations' name prefixes, before the revision and before a tag. */}}
{{- define "sidecar-init.configuration" -}}
{{ .Values.injector.istioNames | ternary "istio-sidecar-injector" "sidecar-injector" }}
{{- end }}
{{- define "sidecar-init.tagConfiguration" -}}
{{ .Values.injector.istioNames | ternary "istio-revision-tag-" "sidecar-injector-revision-tag-" }}
{{- end }}

{{/* The webhook configurations that the server maintains, as a JSON list. */}}
{{- define "sidecar-init.configurations" -}}
{{- $names := list (print (include "sidecar-init.configuration" .) (include "sidecar-init.suffix" .)) }}
{{- $tag := include "sidecar-init.tagConfiguration" . }}
{{- range .Values.injector.tags }}
{{- $names = append $names (print $tag .) }}
{{- end }}
{{- if .Values.injector.environmentLabels }}
{{- $names = append $names (print "sidecar-injector.environment-tag" (include "sidecar-init.suffix" .)) }}
{{- end }}
{{- toJson $names }}
{{- end }}

{{/* Fields of an injector Deployment besides its pods. Takes the values, and the labels that select the pods. */}}
{{- define "sidecar-init.rollout" -}}
replicas: {{ .injector.replicas }}
strategy:
  type: RollingUpdate
  rollingUpdate: { maxUnavailable: 0, maxSurge: 1 }
selector:
  matchLabels: {{ .labels | nindent 4 }}
{{- end }}

{{/* Fields of all injector pods. Takes the same arguments. */}}
{{- define "sidecar-init.pod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 1337
  runAsGroup: 1337
  seccompProfile: { type: RuntimeDefault }
terminationGracePeriodSeconds: 30
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{ .labels | nindent 14 }}
topologySpreadConstraints:
  - topologyKey: topology.kubernetes.io/zone
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ .labels | nindent 8 }}
{{- include "sidecar-init.scheduling" (dict "component" .injector "pullSecrets" .pullSecrets) }}
{{- end }}

{{/* Scheduling, priority and image pull secrets of pods, each only if set. */}}
{{- define "sidecar-init.scheduling" -}}
{{- with .component.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .component.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .component.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end }}

{{/* Fields of all injector containers. Takes the injector's values. */}}
{{- define "sidecar-init.container" -}}
image: {{ .image | quote }}
imagePullPolicy: IfNotPresent
resources: {{ toJson .resources }}
securityContext:
  allowPrivilegeEscalation: false
  privileged: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{/* Egress rules of a NetworkPolicy: to the API server and the resolver (5353 in OpenShift). Takes the values. */}}
{{- define "sidecar-init.egress" -}}
- ports:
    {{- range .networkPolicy.apiServerPorts }}
    - { protocol: TCP, port: {{ . }} }
    {{- end }}
- ports:
    - { protocol: UDP, port: 53 }
    - { protocol: UDP, port: 5353 }
    - { protocol: TCP, port: 53 }
    - { protocol: TCP, port: 5353 }
{{- end }}

{{/* Fields common to all webhooks. The server sets caBundle. */}}
{{- define "sidecar-init.webhook" -}}
admissionReviewVersions: [v1]
rules:
  - { operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: "*" }
failurePolicy: Fail
sideEffects: None
timeoutSeconds: 10
{{- end }}

{{/* Fields of injection webhooks. Each pod causes at most one call. */}}
{{- define "sidecar-init.injecting" -}}
{{ include "sidecar-init.webhook" . }}
reinvocationPolicy: Never
clientConfig:
  service: { name: {{ include "sidecar-init.injector" . }}, namespace: {{ .Release.Namespace | quote }}, path: /inject, port: 443 }
{{- end }}

{{/* Problems with values that the schema cannot express, as a JSON list, for releases and `sidecar-injector manifests`. */}}
{{- define "sidecar-init.problems" -}}
{{- $injector := .Values.injector }}
{{- $problems := list }}
{{- if not (or $injector.enabled .Values.cni.enabled .Values.repair.enabled) }}
{{- $problems = append $problems "nothing is enabled; set injector.enabled, cni.enabled or repair.enabled" }}
{{- end }}

{{- /* Each image's key, value and example; whether it's required; whether it's for injected pods. */}}
{{- $images := list }}
{{- if $injector.enabled }}
{{- $images = append $images (list "injector.image" $injector.image "registry.example/sidecar-injector:0.1.0" true false) }}
{{- $proxy := "istio/proxyv2:1.31.0, the version of the control plane" }}
{{- $images = append $images (list "injector.proxyImage" $injector.proxyImage $proxy true true) }}
{{- $images = append $images (list "injector.initImage" $injector.initImage "registry.example/sidecar-init:0.1.0" false true) }}
{{- end }}
{{- if .Values.cni.enabled }}
{{- $images = append $images (list "cni.image" .Values.cni.image "registry.example/sidecar-init:0.1.0" true false) }}
{{- end }}
{{- if .Values.repair.enabled }}
{{- $images = append $images (list "repair.image" .Values.repair.image "registry.example/sidecar-node:0.1.0" true false) }}
{{- end }}
{{- range $images }}
{{- $key := index . 0 }}{{ $image := index . 1 }}{{ $example := index . 2 }}
{{- $fault := "" }}
{{- if not $image }}
{{- if index . 3 }}
{{- $missing := "is missing; expected an image with a tag or a digest, such as" }}
{{- $problems = append $problems (printf "%s: %s %s" $key $missing $example) }}
{{- end }}
{{- else if regexMatch `[\s[:cntrl:]]` $image }}
{{- $fault = "is not an image" }}
{{- else if and (index . 4) (not (contains "/" $image)) }}
{{- $fault = "has no slash, so it would be looked up in the values' hub" }}
{{- else if contains "@" $image }}
{{- /* The algorithms and forms of OCI's go-digest; container runtimes refuse any other. */}}
{{- if not (regexMatch `^[^@]*@(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})$` $image) }}
{{- $fault = "has an invalid digest; use, for example, sha256: and 64 lowercase hexadecimal digits" }}
{{- end }}
{{- /* A colon before the last slash precedes the port of a registry. */}}
{{- else if not (regexMatch `:[^/]*$` $image) }}
{{- $fault = "has neither tag nor digest, which means the tag latest" }}
{{- else if hasSuffix ":" $image }}
{{- $fault = "has an empty tag" }}
{{- else if hasSuffix ":latest" $image }}
{{- $fault = "has the tag latest, which names another image tomorrow" }}
{{- end }}
{{- if $fault }}
{{- $problems = append $problems (printf "%s: %q %s; expected a name such as %s" $key $image $fault $example) }}
{{- end }}
{{- end }}

{{- $names := list $injector.revision }}
{{- range $injector.tags }}
{{- if has . $names }}
{{- $fault := "is named already, so two webhooks would be called; name each once" }}
{{- $problems = append $problems (printf "injector.tags: %q %s" . $fault) }}
{{- end }}
{{- $names = append $names . }}
{{- end }}
{{- if and $injector.auto (not (has "default" $names)) }}
{{- $problems = append $problems "injector.auto: is for the default revision; expected default as the revision or as a tag" }}
{{- end }}
{{- if and $injector.operator.enabled (not $injector.enabled) }}
{{- $problems = append $problems "injector.operator.enabled: requires injector.enabled" }}
{{- end }}
{{- toJson $problems }}
{{- end }}
