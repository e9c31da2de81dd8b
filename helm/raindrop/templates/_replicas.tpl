{{/* The live object of the chart's kind; empty on installation and where no cluster is at hand. */}}
{{- define "raindrop.live" -}}
{{- lookup "apps/v1" .Values.kind (include "raindrop.namespace" .) (include "raindrop.fullname" .) | toJson -}}
{{- end -}}

{{/* The number of nodes; empty if only an autoscaler knows it. Kubernetes resets an object that loses the field to one
pod, so an autoscaler's number is rendered wherever a cluster tells it. */}}
{{- define "raindrop.replicas" -}}
{{- $live := include "raindrop.live" . | fromJson -}}
{{- if .Values.autoscaling.enabled -}}
{{- dig "spec" "replicas" .Values.autoscaling.minReplicas $live -}}
{{- else if .Values.autoscaling.external -}}
{{- dig "spec" "replicas" "" $live -}}
{{- else -}}
{{- .Values.replicaCount -}}
{{- end -}}
{{- end -}}

{{/* The value that sets the fewest nodes that run. */}}
{{- define "raindrop.scaledBy" -}}
{{- ternary "autoscaling.minReplicas" "replicaCount" (not (empty (or .Values.autoscaling.enabled .Values.autoscaling.external))) -}}
{{- end -}}

{{/* The fewest nodes that run. */}}
{{- define "raindrop.minReplicas" -}}
{{- ternary .Values.replicaCount .Values.autoscaling.minReplicas (eq (include "raindrop.scaledBy" .) "replicaCount") | int -}}
{{- end -}}

{{/* The most nodes that run, not counting an update's. */}}
{{- define "raindrop.maxReplicas" -}}
{{- ternary .Values.replicaCount .Values.autoscaling.maxReplicas (eq (include "raindrop.scaledBy" .) "replicaCount") | int -}}
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
