{{/* Leases, Secrets and volumes belong to a namespace: nodes in two of them are on two stores, or may be. */}}
{{- define "raindrop.check.liveNamespace" -}}
{{- $namespace := include "raindrop.namespace" . -}}
{{- if ne $namespace .Release.Namespace -}}
{{- range dig "items" list (lookup "v1" "Pod" .Release.Namespace "") -}}
{{- $labels := .metadata.labels | default dict -}}
{{- if and (eq (get $labels "app.kubernetes.io/instance") $.Release.Name) (hasKey $labels "raindrop/store") -}}
{{- fail (printf "namespaceOverride = %q: must not move a release while its pod %s is there, because nodes in two namespaces may issue the same IDs; unset it, or follow docs/kubernetes.md, Another store" $namespace .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Pods of the other kind, or without their Deployment, are out of the selector's reach. */}}
{{- define "raindrop.check.liveStore" -}}
{{- $is := get (include "raindrop.podSelectorLabels" . | fromYaml) "raindrop/store" -}}
{{- range dig "items" list (lookup "v1" "Pod" (include "raindrop.namespace" .) "") -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $was := get $labels "raindrop/store" | default $is -}}
{{- if and (eq (get $labels "app.kubernetes.io/instance") $.Release.Name) (ne $was $is) -}}
{{- fail (printf "%s: its store cannot change from %s to %s while the pod %s is there, because nodes on two stores issue the same IDs; keep the values of the store, or follow docs/kubernetes.md, Another store" (include "raindrop.fullname" $) $was $is .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fields that Kubernetes never changes: its own error names none of the values. Without a cluster, nothing is live. */}}
{{- define "raindrop.check.live" -}}
{{- $live := include "raindrop.live" . | fromJson -}}
{{- if $live -}}
{{- $object := printf "%s %s" .Values.kind (include "raindrop.fullname" .) -}}
{{- $was := dig "spec" "selector" "matchLabels" dict $live | toJson -}}
{{- $is := include "raindrop.podSelectorLabels" . | fromYaml | toJson -}}
{{- if ne $was $is -}}
{{- fail (printf "%s: its selector cannot change from %s to %s; keep nameOverride and the values of the store, or follow docs/kubernetes.md, Fields that cannot change" $object $was $is) -}}
{{- end -}}
{{- if eq .Values.kind "StatefulSet" -}}
{{- $was = include "raindrop.claims" (dig "spec" "volumeClaimTemplates" list $live) -}}
{{- $is = include "raindrop.claims" (include "raindrop.volumeClaimTemplates" . | fromYaml).volumeClaimTemplates -}}
{{- if ne $was $is -}}
{{- fail (printf "%s: its volume cannot change from %s to %s; keep store.sqlite, or follow docs/kubernetes.md, Fields that cannot change" $object $was $is) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Volume claim templates in words, equal for equal sizes: 1024Mi is 1Gi. */}}
{{- define "raindrop.claims" -}}
{{- range . -}}
{{- $size := .spec.resources.requests.storage | toString -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $bytes := mulf (regexFind "^[0-9.]+" $size | float64) (get $units (regexFind "[A-Za-z]*$" $size) | float64) -}}
{{- printf "%.0f bytes, %s, class %q" $bytes (join " " .spec.accessModes) (default "" .spec.storageClassName) -}}
{{- else -}}
none
{{- end -}}
{{- end -}}
