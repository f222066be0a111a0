{{/* Behind the names of what is one of each revision. */}}
{{- define "sidecar-init.suffix" -}}
{{ if ne .Values.injector.revision "default" }}-{{ .Values.injector.revision }}{{ end }}
{{- end }}

{{- define "sidecar-init.injector" -}}
sidecar-injector{{ include "sidecar-init.suffix" . }}
{{- end }}

{{- define "sidecar-init.operator" -}}
sidecar-injector-environment{{ include "sidecar-init.suffix" . }}
{{- end }}

{{/* The labels of the webhook's objects; they also select its pods. */}}
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

{{/* The names of webhook configurations before the revision, and before a tag. */}}
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

{{/* What a Deployment of the injector has beside its pods. Takes the values, and the labels that select its pods. */}}
{{- define "sidecar-init.rollout" -}}
replicas: {{ .injector.replicas }}
strategy:
  type: RollingUpdate
  rollingUpdate: { maxUnavailable: 0, maxSurge: 1 }
selector:
  matchLabels: {{ .labels | nindent 4 }}
{{- end }}

{{/* What all pods of the injector have. Takes the same. */}}
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

{{/* Where pods run, with what priority, and how their images are pulled; each of it only if it is set. */}}
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

{{/* What all containers of the injector have. Takes its values. */}}
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

{{/* What a NetworkPolicy lets out: calls of the API server, and of the resolver (5353 in OpenShift). Takes the values. */}}
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

{{/* What all webhooks have in common. The server sets caBundle. */}}
{{- define "sidecar-init.webhook" -}}
admissionReviewVersions: [v1]
rules:
  - { operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: "*" }
failurePolicy: Fail
sideEffects: None
timeoutSeconds: 10
{{- end }}

{{/* Those that inject. At most one of them is called for a pod. */}}
{{- define "sidecar-init.injecting" -}}
{{ include "sidecar-init.webhook" . }}
reinvocationPolicy: Never
clientConfig:
  service: { name: {{ include "sidecar-init.injector" . }}, namespace: {{ .Release.Namespace | quote }}, path: /inject, port: 443 }
{{- end }}
