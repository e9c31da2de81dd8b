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

{{/* The scrapes and windows for which the alerts are made. tests/chart/rules_test.py takes them through whole outages. */}}
{{- define "raindrop.check.alerts" -}}
{{- range $name, $monitor := pick .Values "serviceMonitor" "podMonitor" -}}
{{- $interval := include "raindrop.milliseconds" .interval | int64 -}}
{{- if and .enabled (gt (include "raindrop.milliseconds" .scrapeTimeout | int64) $interval) -}}
{{- fail (printf "%s.scrapeTimeout = %s: must be at most %s.interval (%s), or Prometheus refuses the target; lower it, or scrape less often" $name .scrapeTimeout $name .interval) -}}
{{- end -}}
{{- if and .enabled $.Values.prometheusRule.enabled (gt $interval 60000) -}}
{{- fail (printf "%s.interval = %s: must be at most 60s with prometheusRule.enabled, whose alerts are made for that; scrape more often, or set prometheusRule.enabled=false and install alerts of your own" $name .interval) -}}
{{- end -}}
{{- end -}}
{{- $sections := dict "config" .Values.config -}}
{{- range $name, $namespace := .Values.config.namespaces }}{{ $_ := set $sections (printf "config.namespaces.%s" $name) $namespace }}{{ end -}}
{{- $least := dict "RaindropStoreUnreachable" "4m30s" "RaindropLeasesEnding" "3m30s" -}}
{{- range $path, $section := $sections -}}
{{- $window := (default dict (default dict $section).lease).window -}}
{{- range $alert, $needed := $least -}}
{{- $isShort := and $window (lt (include "raindrop.milliseconds" $window | int64) (include "raindrop.milliseconds" $needed | int64)) -}}
{{- if and $.Values.prometheusRule.enabled $isShort (not (has $alert $.Values.prometheusRule.disabled)) -}}
{{- fail (printf "%s.lease.window = %v: must be at least %s with the alert %s, which otherwise fires although renewals succeed; widen the window, or list the alert in prometheusRule.disabled and install one of your own" $path $window $needed $alert) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What leads clients in. */}}
{{- define "raindrop.check.entry" -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled needs a name in ingress.hosts; set it, for example to [ids.example.org]" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.enabled needs a Gateway in httpRoute.parentRefs; set it, for example to [{name: public, namespace: gateways}]" -}}
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
