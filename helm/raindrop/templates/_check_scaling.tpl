{{- define "raindrop.check.scaling" -}}
{{- with .Values.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas = %d: must be at most autoscaling.maxReplicas (%d)" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- if not (dig "requests" "cpu" "" (default dict $.Values.resources)) -}}
{{- fail "autoscaling.enabled needs resources.requests.cpu, because its target is a percentage of that" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A budget that can never be met keeps every machine with a node from being drained. */}}
{{- define "raindrop.check.disruption" -}}
{{- $nodes := include "raindrop.minReplicas" . | int -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and .enabled (eq (kindIs "invalid" .minAvailable) (kindIs "invalid" .maxUnavailable)) -}}
{{- fail "exactly one of podDisruptionBudget.maxUnavailable and podDisruptionBudget.minAvailable must be set; null unsets one" -}}
{{- end -}}
{{- if and .enabled (include "raindrop.several" $) (gt $nodes 0) -}}
{{- if kindIs "invalid" .minAvailable -}}
{{- if has (toString .maxUnavailable) (list "0" "0%" "00%") -}}
{{- fail (printf "podDisruptionBudget.maxUnavailable = %v: permits no eviction at all, so no machine could be drained; set at least 1" .maxUnavailable) -}}
{{- end -}}
{{- else if ge (include "raindrop.share" (dict "value" .minAvailable "of" $nodes) | int) $nodes -}}
{{- fail (printf "podDisruptionBudget.minAvailable = %v: must leave room for an eviction while %d nodes run (%s), or no machine can be drained" .minAvailable $nodes (ternary "autoscaling.minReplicas" "replicaCount" (not (empty $.Values.autoscaling.enabled)))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
