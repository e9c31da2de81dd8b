{{- define "raindrop.check.monitoring" -}}
{{- $monitors := list -}}
{{- if .Values.serviceMonitor.enabled }}{{ $monitors = append $monitors "serviceMonitor" }}{{ end -}}
{{- if .Values.podMonitor.enabled }}{{ $monitors = append $monitors "podMonitor" }}{{ end -}}
{{- if gt (len $monitors) 1 -}}
{{- fail "only one of serviceMonitor.enabled and podMonitor.enabled may be set, or Prometheus scrapes each node twice" -}}
{{- end -}}
{{- range $monitors -}}
{{- if and $.Values.auth.existingSecret (not $.Values.admin.enabled) -}}
{{- fail (printf "%s.enabled with auth.existingSecret needs admin.enabled, because /metrics on the other port needs a token" .) -}}
{{- end -}}
{{- if and $.Values.tls.existingSecret (not (get $.Values .).tlsConfig) -}}
{{- fail (printf "%s.enabled with tls.existingSecret needs its tlsConfig, such as {ca: {secret: {name: …, key: ca.crt}}, serverName: …} or {insecureSkipVerify: true}" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.check.service" -}}
{{- with .Values.service -}}
{{- if ne .type "LoadBalancer" -}}
{{- range $key := list "loadBalancerClass" "loadBalancerSourceRanges" -}}
{{- if get $.Values.service $key -}}
{{- fail (printf "service.%s needs service.type=LoadBalancer, not %s" $key $.Values.service.type) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key := list "externalTrafficPolicy" "nodePort" -}}
{{- if and (get $.Values.service $key) (eq $.Values.service.type "ClusterIP") -}}
{{- fail (printf "service.%s needs service.type=LoadBalancer or NodePort" $key) -}}
{{- end -}}
{{- end -}}
{{- if and .trafficDistribution (semverCompare "<1.30-0" $.Capabilities.KubeVersion.Version) -}}
{{- fail (printf "service.trafficDistribution needs Kubernetes 1.30 or later, not %s" $.Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.check.routes" -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts is empty: name at least one host, or set ingress.enabled=false" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs is empty: name at least one Gateway, or set httpRoute.enabled=false" -}}
{{- end -}}
{{- end -}}

{{/* A policy must not shut out what other values let in. */}}
{{- define "raindrop.check.network" -}}
{{- $policy := .Values.networkPolicy -}}
{{- if $policy.enabled -}}
{{- $from := dict "ingress.enabled" .Values.ingress.enabled "httpRoute.enabled" .Values.httpRoute.enabled (printf "service.type=%s" .Values.service.type) (ne .Values.service.type "ClusterIP") -}}
{{- range $value, $isSet := $from -}}
{{- if and $isSet (not $policy.ingressFrom) -}}
{{- fail (printf "networkPolicy.ingressFrom is empty, which admits only pods of the release's namespace: with %s, list the peers that forward requests, such as {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}" $value) -}}
{{- end -}}
{{- end -}}
{{- if and (or .Values.serviceMonitor.enabled .Values.podMonitor.enabled) (not $policy.metricsFrom) (or .Values.admin.enabled (not $policy.ingressFrom)) -}}
{{- fail "networkPolicy.metricsFrom is empty, which shuts out Prometheus: list its pods, such as {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}" -}}
{{- end -}}
{{- end -}}
{{- end -}}
