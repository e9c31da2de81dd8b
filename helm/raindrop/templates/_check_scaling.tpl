{{/* A budget that can never be met keeps every machine with a node from being drained. */}}
{{- define "raindrop.check.scaling" -}}
{{- with .Values.autoscaling -}}
{{- if and (or .enabled .external) (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas = %d: must be at most autoscaling.maxReplicas (%d)" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- $requests := default dict (default dict .Values.resources).requests -}}
{{- if and .Values.autoscaling.enabled (not .Values.autoscaling.metrics) (not $requests.cpu) -}}
{{- fail "autoscaling.enabled needs resources.requests.cpu, of which autoscaling.targetCPUUtilizationPercentage is a share; set it, for example to 100m, or set autoscaling.metrics" -}}
{{- end -}}
{{- $nodes := include "raindrop.minReplicas" . | int -}}
{{- $isScaled := and (include "raindrop.several" .) (gt $nodes 0) -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and .enabled (eq (kindIs "invalid" .minAvailable) (kindIs "invalid" .maxUnavailable)) -}}
{{- fail "exactly one of podDisruptionBudget.maxUnavailable and podDisruptionBudget.minAvailable must be set; null unsets one" -}}
{{- end -}}
{{- $kept := include "raindrop.share" (dict "value" (default 0 .minAvailable) "of" $nodes) | int -}}
{{- if and .enabled $isScaled (ge $kept $nodes) -}}
{{- fail (printf "podDisruptionBudget.minAvailable = %v: must leave room for an eviction while %d nodes run (%s), or no machine can be drained" .minAvailable $nodes (include "raindrop.scaledBy" $)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
