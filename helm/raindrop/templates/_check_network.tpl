{{- define "raindrop.check.monitoring" -}}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- fail "only one of serviceMonitor.enabled and podMonitor.enabled may be set, or Prometheus scrapes each node twice" -}}
{{- end -}}
{{- range $name, $monitor := pick .Values "serviceMonitor" "podMonitor" -}}
{{- $tokens := include "raindrop.tokens" $ -}}
{{- if and .enabled $tokens (not $.Values.admin.enabled) -}}
{{- fail (printf "%s.enabled with %s needs admin.enabled, because /metrics on the other port needs a token" $name $tokens) -}}
{{- end -}}
{{- if and .enabled $.Values.tls.existingSecret (not .tlsConfig) -}}
{{- fail (printf "%s.enabled with tls.existingSecret needs its tlsConfig, such as {ca: {secret: {name: …, key: ca.crt}}, serverName: …} or {insecureSkipVerify: true}" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A policy must not shut out what other values let in. */}}
{{- define "raindrop.check.network" -}}
{{- $version := .Capabilities.KubeVersion.Version -}}
{{- if and .Values.service.trafficDistribution (semverCompare "<1.30-0" $version) -}}
{{- fail (printf "service.trafficDistribution needs Kubernetes 1.30 or later, not %s" $version) -}}
{{- end -}}
{{- $policy := .Values.networkPolicy -}}
{{- $entry := "" -}}
{{- if ne .Values.service.type "ClusterIP" }}{{ $entry = printf "service.type=%s" .Values.service.type }}{{ end -}}
{{- if .Values.ingress.enabled }}{{ $entry = "ingress.enabled" }}{{ end -}}
{{- if .Values.httpRoute.enabled }}{{ $entry = "httpRoute.enabled" }}{{ end -}}
{{- if and $policy.enabled $entry (not $policy.ingressFrom) -}}
{{- fail (printf "networkPolicy.ingressFrom is empty, which admits only pods of the release's namespace: with %s, list the peers that forward requests, such as {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}" $entry) -}}
{{- end -}}
{{- $isScraped := or .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- $isOpen := and (not .Values.admin.enabled) $policy.ingressFrom -}}
{{- if and $policy.enabled $isScraped (not $policy.metricsFrom) (not $isOpen) -}}
{{- fail "networkPolicy.metricsFrom is empty, which shuts out Prometheus: list its pods, such as {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}" -}}
{{- end -}}
{{- end -}}
