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

{{/* Settings that the chart makes, as ports, probes and names of pods depend on them; and keys that are true or false. */}}
{{- define "licorne.ownSettings" -}}
{{- list "server.listen" "server.http" "server.metrics" "server.workers" "coordination.store" "coordination.name" "coordination.advertise" "coordination.advertise_http" | toJson }}
{{- end }}
{{- define "licorne.switches" -}}
{{- list "server.insecure" "server.http_insecure" "server.metrics_insecure" "server.reflection" "server.watch_config" "scheduling.reservations" "telemetry.metrics_queue_names" | toJson }}
{{- end }}

{{/* What does not go together is refused here, with what to do. `licorne serve` would refuse it too, in the pod. */}}
{{- define "licorne.check" -}}
{{- $clients := and (include "licorne.tls" .) .Values.tls.clientAuthority }}
{{- $tokens := or .Values.tokens.rms .Values.tokens.operators }}
{{- range $table, $keys := .Values.settings }}
{{- range $name, $value := $keys }}
{{- $key := printf "%s.%s" $table $name }}
{{- if has $key (include "licorne.ownSettings" $ | fromJsonArray) }}
{{- fail (printf "settings.%s is made by the chart, and cannot be set" $key) }}
{{- end }}
{{- if and (kindIs "bool" $value) (not (has $key (include "licorne.switches" $ | fromJsonArray))) }}
{{- fail (printf "settings.%s is no switch. If it is to be off, write \"off\" with quotes: YAML reads it as false without" $key) }}
{{- end }}
{{- end }}
{{- end }}
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
{{- $drain := dig "drain" 10 .Values.settings.server }}
{{- if le (float64 .Values.terminationGracePeriodSeconds) (float64 $drain) }}
{{- fail (printf "terminationGracePeriodSeconds: a member gives its RMs away when it ends: more than the %v seconds of settings.server.drain" $drain) }}
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

{{/* The tables of the settings: what the values say, and `settings` over it. */}}
{{- define "licorne.tables" -}}
{{- $server := dict "listen" (ternary "127.0.0.1:7070" "0.0.0.0:7070" .Values.shim.enabled) "http" "0.0.0.0:9080" "metrics" "0.0.0.0:9081" "config" "/etc/licorne/queues/queues.yaml" }}
{{- $coordination := dict }}
{{- if include "licorne.members" . }}
{{- $_ := set $coordination "store" (default (printf "kubernetes://%s/%s" .Release.Namespace (include "licorne.name" .)) .Values.coordination.store) }}
{{- if .Values.coordination.secretName }}
{{- range $key, $file := dict "ca" "ca.crt" "cert" "tls.crt" "key" "tls.key" }}
{{- $_ := set $coordination $key (printf "/etc/licorne/coordination/%s" $file) }}
{{- end }}
{{- end }}
{{- else }}
{{- $_ := set $server "state_dir" "/var/lib/licorne" }}
{{- end }}
{{- if include "licorne.tls" . }}
{{- $_ := set $server "tls_cert" "/etc/licorne/tls/tls.crt" }}
{{- $_ := set $server "tls_key" "/etc/licorne/tls/tls.key" }}
{{- with .Values.tls.clientAuthority }}
{{- $_ := set $server "tls_client_ca" (printf "/etc/licorne/tls/%s" .) }}
{{- end }}
{{- if .Values.http.insecure }}
{{- $_ := set $server "http_insecure" true }}
{{- else if .Values.metrics.insecure }}
{{- $_ := set $server "metrics_insecure" true }}
{{- end }}
{{- else }}
{{- $_ := set $server "insecure" true }}
{{- end }}
{{- $access := dict }}
{{- range $key, $names := dict "operators" .Values.operators "viewers" .Values.viewers "rm_identities" .Values.rmIdentities }}
{{- if $names }}{{ $_ := set $access $key $names }}{{ end }}
{{- end }}
{{- range $key, $names := dict "operator_token_files" .Values.tokens.operators "viewer_token_files" .Values.tokens.viewers }}
{{- if $names }}{{ $_ := set $access $key (include "licorne.tokens" $names | fromJsonArray) }}{{ end }}
{{- end }}
{{- $rms := dict }}
{{- range $rm, $names := .Values.tokens.rms }}
{{- $_ := set $rms $rm (include "licorne.tokens" $names | fromJsonArray) }}
{{- end }}
{{- if $rms }}{{ $_ := set $access "rm_token_files" $rms }}{{ end }}
{{- $telemetry := dict "log_level" .Values.logLevel "log_format" "json" }}
{{- $own := dict "server" $server "access" $access "coordination" $coordination "telemetry" $telemetry }}
{{- mustMergeOverwrite $own (deepCopy .Values.settings) | toJson }}
{{- end }}

{{/* The files of tokens, by their keys in the secret. */}}
{{- define "licorne.tokens" -}}
{{- $files := list }}
{{- range . }}{{ $files = append $files (printf "/etc/licorne/tokens/%s" .) }}{{ end }}
{{- toJson $files }}
{{- end }}

{{/* The file of settings. A value of JSON is one of TOML, but for a mapping. */}}
{{- define "licorne.settings" -}}
{{- range $table, $keys := include "licorne.tables" . | fromJson }}
{{- if $keys }}
[{{ $table }}]
{{- range $key, $value := $keys }}
{{- if kindIs "map" $value }}
{{- $pairs := list }}
{{- range $name, $items := $value }}{{ $pairs = append $pairs (printf "%s = %s" (toJson $name) (toJson $items)) }}{{ end }}
{{ $key }} = {{ printf "{%s}" (join ", " $pairs) }}
{{- else }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- end }}
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
