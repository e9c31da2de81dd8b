{{/* The live object of the chart's kind; empty on installation and where no cluster is at hand. */}}
{{- define "raindrop.live" -}}
{{- lookup "apps/v1" .Values.kind .Release.Namespace (include "raindrop.fullname" .) | toJson -}}
{{- end -}}

{{/* With autoscaling, an object without `replicas` would be reset to one pod when the field is removed. */}}
{{- define "raindrop.replicas" -}}
{{- if .Values.autoscaling.enabled -}}
{{- dig "spec" "replicas" .Values.autoscaling.minReplicas (include "raindrop.live" . | fromJson) -}}
{{- else -}}
{{- .Values.replicaCount -}}
{{- end -}}
{{- end -}}

{{/* The fewest nodes that run. */}}
{{- define "raindrop.minReplicas" -}}
{{- if .Values.autoscaling.enabled }}{{ int .Values.autoscaling.minReplicas }}{{ else }}{{ int .Values.replicaCount }}{{ end -}}
{{- end -}}

{{/* The most nodes that run, not counting an update's. */}}
{{- define "raindrop.maxReplicas" -}}
{{- if .Values.autoscaling.enabled }}{{ int .Values.autoscaling.maxReplicas }}{{ else }}{{ int .Values.replicaCount }}{{ end -}}
{{- end -}}

{{/* "yes" if there is more than one node; otherwise empty. */}}
{{- define "raindrop.several" -}}
{{- if gt (include "raindrop.maxReplicas" . | int) 1 -}}yes{{- end -}}
{{- end -}}

{{/* How many nodes an update starts before it stops others. */}}
{{- define "raindrop.surge" -}}
{{- if or (ne .Values.kind "Deployment") (eq (dig "type" "" (default dict .Values.strategy)) "Recreate") -}}
0
{{- else -}}
{{- $surge := dig "rollingUpdate" dict (default dict .Values.strategy) | default dict | dig "maxSurge" nil -}}
{{- if kindIs "invalid" $surge }}{{ $surge = "25%" }}{{ end -}}
{{- include "raindrop.share" (dict "value" $surge "of" (include "raindrop.maxReplicas" .)) -}}
{{- end -}}
{{- end -}}

{{/* A number, or a percentage of a number, rounded up as Kubernetes does. */}}
{{- define "raindrop.share" -}}
{{- if hasSuffix "%" (toString .value) -}}
{{- div (add 99 (mul (trimSuffix "%" .value | int) (int .of))) 100 -}}
{{- else -}}
{{- int .value -}}
{{- end -}}
{{- end -}}

{{/* An update strategy; rollingUpdate, which has a default, belongs to one type only. */}}
{{- define "raindrop.strategy" -}}
{{- toYaml (ternary . (omit . "rollingUpdate") (eq (dig "type" "RollingUpdate" .) "RollingUpdate")) -}}
{{- end -}}

{{/* The SQLite file's volume, unless it has one. */}}
{{- define "raindrop.volumeClaimTemplates" -}}
{{- with .Values.store.sqlite -}}
{{- if and .enabled (not .existingClaim) -}}
volumeClaimTemplates:
  - apiVersion: v1
    kind: PersistentVolumeClaim
    metadata:
      name: data
      labels:
        {{- include "raindrop.selectorLabels" $ | nindent 8 }}
    spec:
      accessModes:
        {{- toYaml .accessModes | nindent 8 }}
      {{- with .storageClassName }}
      storageClassName: {{ . }}
      {{- end }}
      resources:
        requests:
          storage: {{ .size }}
{{- end -}}
{{- end -}}
{{- end -}}
