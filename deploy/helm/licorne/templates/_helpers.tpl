{{/* The name of everything. */}}
{{- define "licorne.name" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "licorne.selector" -}}
app.kubernetes.io/name: licorne
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "licorne.labels" -}}
{{ include "licorne.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: scheduler
{{- end }}

{{- define "licorne.image" -}}
{{- with .Values.image }}
{{- $repository := default "licorne" .repository }}
{{- if .digest }}{{ $repository }}@{{ .digest }}{{ else }}{{ $repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* Whether there are members that share the RMs: a word, or nothing. */}}
{{- define "licorne.members" -}}
{{- if gt (int .Values.replicas) 1 }}yes{{ end }}
{{- end }}

{{/* Whether their store is Kubernetes: a word, or nothing. */}}
{{- define "licorne.leases" -}}
{{- if and (include "licorne.members" .) (not .Values.coordination.store) }}yes{{ end }}
{{- end }}

{{/* The stateful set. Members have another one, as what they have for storage cannot be changed in one that is there. */}}
{{- define "licorne.set" -}}
{{ include "licorne.name" . }}{{ if include "licorne.members" . }}-members{{ end }}
{{- end }}

{{/* The name of each pod's own address. Certificates have names, and addresses of pods come and go. */}}
{{- define "licorne.ownHost" -}}
$(POD_NAME).{{ include "licorne.name" . }}-headless.{{ .Release.Namespace }}.svc
{{- end }}

{{/* Whether gRPC has TLS: a word, or nothing. */}}
{{- define "licorne.tls" -}}
{{- if and .Values.tls.secretName (not .Values.insecure) (not .Values.shim.enabled) }}yes{{ end }}
{{- end }}

{{- define "licorne.plainHttp" -}}
{{- if or .Values.http.insecure (not (include "licorne.tls" .)) }}yes{{ end }}
{{- end }}

{{- define "licorne.plainMetrics" -}}
{{- if or .Values.metrics.insecure (include "licorne.plainHttp" .) }}yes{{ end }}
{{- end }}

{{- define "licorne.ownShimAccount" -}}
{{- if and .Values.shim.enabled (not .Values.shim.serviceAccountName) }}yes{{ end }}
{{- end }}

{{- define "licorne.serviceAccount" -}}
{{- if .Values.shim.enabled }}
{{- default (include "licorne.name" .) .Values.shim.serviceAccountName }}
{{- else if .Values.serviceAccount.create }}
{{- default (include "licorne.name" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* What does not go together is refused here, with what to do. `licorne serve` would refuse it too, in the pod. */}}
{{- define "licorne.check" -}}
{{- $clients := and (include "licorne.tls" .) .Values.tls.clientAuthority }}
{{- $tokens := or .Values.tokens.rms .Values.tokens.operators }}
{{- if and (not .Values.tls.secretName) (not .Values.insecure) (not .Values.shim.enabled) }}
{{- fail "tls.secretName: give a secret with a certificate, or say insecure: true" }}
{{- end }}
{{- if and (or .Values.rmIdentities .Values.operators .Values.viewers) (not $clients) }}
{{- fail "rmIdentities, operators and viewers are names in certificates: they need tls.clientAuthority" }}
{{- end }}
{{- if and $tokens $clients }}
{{- fail "tokens are for a server without client certificates: set tls.clientAuthority to an empty text" }}
{{- end }}
{{- if and (or $tokens .Values.tokens.viewers) (not .Values.tokens.secretName) }}
{{- fail "tokens.secretName: the secret with the tokens" }}
{{- end }}
{{- if and $tokens (or (include "licorne.plainHttp" .) .Values.metrics.insecure) }}
{{- fail "tokens need TLS everywhere: leave insecure and http.insecure out, and set metrics.insecure to false" }}
{{- end }}
{{- if and .Values.tokens.viewers (not (or $tokens $clients)) }}
{{- fail "tokens.viewers: without other tokens or tls.clientAuthority everybody may do everything" }}
{{- end }}
{{- if and .Values.tokens.viewers (include "licorne.plainHttp" .) }}
{{- fail "tokens.viewers: plain HTTP shows everything to everybody: leave http.insecure out" }}
{{- end }}
{{- if and .Values.ingress.host $clients (not .Values.tokens.viewers) (not (include "licorne.plainHttp" .)) }}
{{- fail "ingress.host: nobody shows a certificate through it: name a key with a token in tokens.viewers" }}
{{- end }}
{{- if and .Values.certManager.enabled (not (include "licorne.tls" .)) }}
{{- fail "certManager.enabled: there is no TLS: set tls.secretName, and leave insecure and shim.enabled out" }}
{{- end }}
{{- if and .Values.certManager.clients (not (and .Values.certManager.enabled $clients)) }}
{{- fail "certManager.clients: certificates of clients need certManager.enabled and tls.clientAuthority" }}
{{- end }}
{{- if and .Values.web.enabled (not (include "licorne.plainHttp" .)) }}
{{- fail "web.enabled: the web UI needs plain HTTP: say http.insecure: true" }}
{{- end }}
{{- if include "licorne.members" . }}
{{- if .Values.shim.enabled }}
{{- fail "replicas: a core beside the shim is the only one: leave replicas at 1" }}
{{- end }}
{{- if .Values.persistence.enabled }}
{{- fail "replicas: members keep what is applied in their store: set persistence.enabled to false. What one core has on its volume is not moved there: docs/running.md says how" }}
{{- end }}
{{- if and (include "licorne.leases" .) (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.name: members need an account of their own, as it may write Leases and config maps" }}
{{- end }}
{{- if le (int .Values.terminationGracePeriodSeconds) 10 }}
{{- fail "terminationGracePeriodSeconds: a member gives its RMs away when it ends: more than the 10 seconds of --drain" }}
{{- end }}
{{- else if .Values.coordination.store }}
{{- fail "coordination.store: one core shares nothing: set replicas to 2 or more" }}
{{- end }}
{{- if and .Values.coordination.secretName (not .Values.coordination.store) }}
{{- fail "coordination.secretName is for an etcd: set coordination.store" }}
{{- end }}
{{- if and .Values.shim.enabled (not .Values.shim.image) }}
{{- fail "shim.image: an image with licorne-k8shim" }}
{{- end }}
{{- if not (or .Values.image.repository (eq .Values.image.pullPolicy "Never")) }}
{{- fail "image.repository: where you have pushed the image. `make image` builds it; nobody publishes one. Set it to licorne if the nodes have the image, as after `make image-load` for kind" }}
{{- end }}
{{- end }}

{{/* The arguments of `licorne`. */}}
{{- define "licorne.args" -}}
- serve
{{- if .Values.shim.enabled }}
- --listen=127.0.0.1:7070
{{- else }}
- --listen=0.0.0.0:7070
{{- end }}
- --http=0.0.0.0:9080
- --metrics=0.0.0.0:9081
- --config=/etc/licorne/queues/queues.yaml
{{- if include "licorne.members" . }}
- --coordination={{ default (printf "kubernetes://%s/%s" .Release.Namespace (include "licorne.name" .)) .Values.coordination.store }}
- --advertise={{ include "licorne.ownHost" . }}:7070
- --advertise-http={{ include "licorne.scheme" . | lower }}://{{ include "licorne.ownHost" . }}:9080
- --member-name=$(POD_NAME)
{{- if .Values.coordination.secretName }}
- --coordination-ca=/etc/licorne/coordination/ca.crt
- --coordination-cert=/etc/licorne/coordination/tls.crt
- --coordination-key=/etc/licorne/coordination/tls.key
{{- end }}
{{- else }}
- --state-dir=/var/lib/licorne
{{- end }}
- --log-level={{ .Values.logLevel }}
- --log-format=json
{{- if include "licorne.tls" . }}
- --tls-cert=/etc/licorne/tls/tls.crt
- --tls-key=/etc/licorne/tls/tls.key
{{- with .Values.tls.clientAuthority }}
- --tls-client-ca=/etc/licorne/tls/{{ . }}
{{- end }}
{{- if .Values.http.insecure }}
- --http-insecure
{{- else if .Values.metrics.insecure }}
- --http-insecure=metrics
{{- end }}
{{- else }}
- --insecure
{{- end }}
{{- range $rm, $names := .Values.rmIdentities }}
{{- range $names }}
- {{ printf "--rm-identity=%s=%s" $rm . | quote }}
{{- end }}
{{- end }}
{{- range .Values.operators }}
- {{ printf "--operator=%s" . | quote }}
{{- end }}
{{- range .Values.viewers }}
- {{ printf "--viewer=%s" . | quote }}
{{- end }}
{{- range $rm, $keys := .Values.tokens.rms }}
{{- range $keys }}
- {{ printf "--rm-token=%s=/etc/licorne/tokens/%s" $rm . | quote }}
{{- end }}
{{- end }}
{{- range .Values.tokens.operators }}
- {{ printf "--operator-token=/etc/licorne/tokens/%s" . | quote }}
{{- end }}
{{- range .Values.tokens.viewers }}
- {{ printf "--viewer-token=/etc/licorne/tokens/%s" . | quote }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "licorne.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "licorne.scheme" -}}
{{- if include "licorne.plainHttp" . }}HTTP{{ else }}HTTPS{{ end }}
{{- end }}
