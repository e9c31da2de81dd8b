{{/* How Prometheus reaches an endpoint; takes {root, monitor}. */}}
{{- define "raindrop.endpoint" -}}
port: {{ include "raindrop.adminPort" .root }}
path: /metrics
{{- if include "raindrop.tlsSecretName" .root }}
scheme: https
tlsConfig:
  {{- if .monitor.tlsConfig }}
  {{- toYaml .monitor.tlsConfig | nindent 2 }}
  {{- else }}
  ca:
    secret:
      name: {{ include "raindrop.tlsSecretName" .root }}
      key: ca.crt
  serverName: {{ include "raindrop.fullname" .root }}{{ if .root.Values.admin.enabled }}-admin{{ end }}.{{ .root.Release.Namespace }}.svc
  {{- end }}
{{- end }}
{{- if .monitor.honorLabels }}
honorLabels: true
{{- end }}
interval: {{ .monitor.interval }}
scrapeTimeout: {{ .monitor.scrapeTimeout }}
{{- with .monitor.relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Whether this release has nodes, by the labels that the chart's own monitor gives them. */}}
{{- define "raindrop.absentExpression" -}}
{{- if or .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
absent(raindrop_build_info{job={{ .Release.Name | quote }}, namespace={{ .Release.Namespace | quote }}})
{{- end -}}
{{- end -}}
