{{- define "raindrop.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for a StatefulSet's revision and the longest suffix used in this chart. */}}
{{- define "raindrop.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "raindrop.selectorLabels" -}}
app.kubernetes.io/name: {{ include "raindrop.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end -}}

{{- define "raindrop.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "raindrop.labels" -}}
{{ include "raindrop.selectorLabels" . }}
{{ include "raindrop.commonLabels" . }}
{{- end -}}

{{/* Labels of the test pod, which the Service must not select. */}}
{{- define "raindrop.testSelectorLabels" -}}
app.kubernetes.io/name: {{ include "raindrop.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: test
{{- end -}}

{{- define "raindrop.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "raindrop.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.testImage" -}}
{{- with .Values.tests.image -}}
{{ .repository }}{{ ternary (printf "@%s" .digest) (printf ":%s" .tag) (not (empty .digest)) }}
{{- end -}}
{{- end -}}

{{/* A name of the chart's own: users call theirs <release>-store. */}}
{{- define "raindrop.generatedSecretName" -}}
{{ include "raindrop.fullname" . }}-store-url
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

{{/* "yes" if clients may have certificates; otherwise empty. */}}
{{- define "raindrop.hasClientCA" -}}
{{- with .Values.tls.clientCA -}}
{{- if or .existingSecret .existingConfigMap -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/* The port of an address such as [::]:8080. */}}
{{- define "raindrop.portOf" -}}
{{- regexFind "[0-9]+$" . -}}
{{- end -}}

{{/* The name of the port that serves metrics and probes. */}}
{{- define "raindrop.adminPort" -}}
{{- ternary "admin" "http" .Values.admin.enabled -}}
{{- end -}}

{{/* The IP families of every Service. */}}
{{- define "raindrop.ipFamilies" -}}
{{- with .Values.service.ipFamilyPolicy -}}
ipFamilyPolicy: {{ . }}
{{ end -}}
{{- with .Values.service.ipFamilies -}}
ipFamilies:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}
