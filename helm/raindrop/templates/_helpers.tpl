{{- define "raindrop.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for a StatefulSet's revision and the longest suffix used in this chart. */}}
{{- define "raindrop.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The Kubernetes namespace of every object. */}}
{{- define "raindrop.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "raindrop.selectorLabels" -}}
app.kubernetes.io/name: {{ include "raindrop.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end -}}

{{/* The labels by which a Deployment or StatefulSet finds its pods. They cannot change, so the API server refuses an
update to another store: its nodes would issue the IDs of the old store's nodes. */}}
{{- define "raindrop.podSelectorLabels" -}}
{{ include "raindrop.selectorLabels" . }}
raindrop/store: {{ include "raindrop.store" . }}-{{ include "raindrop.storeHash" . }}
{{- end -}}

{{- define "raindrop.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* An object's metadata; takes {root, name, suffix, labels, annotations}, of which only root is needed. */}}
{{- define "raindrop.metadata" -}}
metadata:
  name: {{ default (include "raindrop.fullname" .root) .name }}{{ default "" .suffix }}
  namespace: {{ include "raindrop.namespace" .root }}
  labels:
    {{- include "raindrop.selectorLabels" .root | nindent 4 }}
    {{- include "raindrop.chartLabels" .root | nindent 4 }}
    {{- include "raindrop.entries" (list 4 .root.Values.commonLabels .labels) }}
  {{- with include "raindrop.entries" (list 4 .root.Values.commonAnnotations .annotations) }}
  annotations:
    {{- . }}
  {{- end }}
{{- end -}}

{{/* The entries of several maps, each key once: the last map wins. Takes a list of their indentation and the maps. */}}
{{- define "raindrop.entries" -}}
{{- $all := dict -}}
{{- range rest . }}{{ $all = mergeOverwrite $all (default dict . | deepCopy) }}{{ end -}}
{{- with $all }}{{ toYaml . | nindent (first $) }}{{ end -}}
{{- end -}}

{{/* The fields of a map that are not empty; takes a list of their indentation and the map. */}}
{{- define "raindrop.optional" -}}
{{- $given := dict -}}
{{- range $field, $value := last . -}}
{{- if $value }}{{ $_ := set $given $field $value }}{{ end -}}
{{- end -}}
{{- if $given }}{{ toYaml $given | nindent (first .) }}{{ end -}}
{{- end -}}

{{/* Labels of the test pod, which the Service must not select. */}}
{{- define "raindrop.testSelectorLabels" -}}
{{ include "raindrop.selectorLabels" . | replace "component: server" "component: test" }}
{{- end -}}

{{- define "raindrop.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "raindrop.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The name of an image; takes {root, image}. */}}
{{- define "raindrop.image" -}}
{{- $global := default dict .root.Values.global -}}
{{- with default .image.registry $global.imageRegistry }}{{ . }}/{{ end -}}
{{- .image.repository -}}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end -}}
{{- end -}}

{{/* The Secrets for pulling images, those of charts that include this one, too: their names, or {name: …}. */}}
{{- define "raindrop.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat (default list (default dict .Values.global).imagePullSecrets) (default list .Values.imagePullSecrets) -}}
{{- if kindIs "string" . -}}
{{- $secrets = append $secrets (dict "name" .) -}}
{{- else -}}
{{- $secrets = append $secrets . -}}
{{- end -}}
{{- end -}}
{{- with uniq $secrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* Another store has another Secret: nodes of the old one read theirs again at each login. */}}
{{- define "raindrop.generatedSecretName" -}}
{{ include "raindrop.fullname" . }}-store-url-{{ include "raindrop.storeHash" . }}
{{- end -}}

{{- define "raindrop.storeSecretName" -}}
{{- default (include "raindrop.generatedSecretName" .) .Values.store.existingSecret -}}
{{- end -}}

{{/* The Secret with the certificate of the ports; empty if they use plain HTTP. */}}
{{- define "raindrop.tlsSecretName" -}}
{{- if .Values.tls.certificate.enabled -}}
{{ include "raindrop.fullname" . }}-tls
{{- else -}}
{{ .Values.tls.existingSecret }}
{{- end -}}
{{- end -}}

{{/* http or https. */}}
{{- define "raindrop.scheme" -}}
{{- ternary "https" "http" (not (empty (include "raindrop.tlsSecretName" .))) -}}
{{- end -}}

{{/* "yes" if this names a Secret or a ConfigMap; otherwise empty. */}}
{{- define "raindrop.isGiven" -}}
{{- if or .existingSecret .existingConfigMap -}}yes{{- end -}}
{{- end -}}

{{/* What makes requests need a token; empty if they need none. */}}
{{- define "raindrop.tokens" -}}
{{- $found := ternary "auth.existingSecret" "" (not (empty .Values.auth.existingSecret)) -}}
{{- range .Values.extraEnv -}}
{{- if has .name (list "RAINDROP__AUTH__TOKENS_FILE" "RAINDROP_AUTH_TOKENS_FILE") }}{{ $found = .name }}{{ end -}}
{{- end -}}
{{- $found -}}
{{- end -}}

{{/* The name of the port that serves metrics and probes. */}}
{{- define "raindrop.adminPort" -}}
{{- ternary "admin" "http" .Values.admin.enabled -}}
{{- end -}}
