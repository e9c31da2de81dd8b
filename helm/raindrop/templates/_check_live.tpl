{{/* Two stores are two sets of marks: nodes on the old store and nodes on the new one issue the same IDs. */}}
{{- define "raindrop.check.liveStore" -}}
{{- $name := include "raindrop.fullname" . -}}
{{- $file := lookup "v1" "ConfigMap" .Release.Namespace $name | dig "data" "raindrop.toml" "" -}}
{{- if $file -}}
{{- $was := include "raindrop.storeInWords" $file -}}
{{- $is := include "raindrop.config" . | include "raindrop.storeInWords" -}}
{{- $isStopped := false -}}
{{- range $kind := ternary list (list "Deployment" "StatefulSet") (eq $was $is) -}}
{{- with lookup "apps/v1" $kind $.Release.Namespace $name -}}
{{- $isStopped = not (or (dig "spec" "replicas" 1 .) (dig "status" "replicas" 0 .)) -}}
{{- end -}}
{{- end -}}
{{- if and (ne $was $is) (not $isStopped) -}}
{{- fail (printf "%s: its store cannot change from %s to %s while nodes run, because nodes on two stores issue the same IDs; keep the values of the store, or follow docs/kubernetes.md, Another store" $name $was $is) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fields that Kubernetes never changes: its own error names none of the values. Without a cluster, nothing is live. */}}
{{- define "raindrop.check.live" -}}
{{- $live := include "raindrop.live" . | fromJson -}}
{{- if $live -}}
{{- $object := printf "%s %s" .Values.kind (include "raindrop.fullname" .) -}}
{{- $was := dig "spec" "selector" "matchLabels" dict $live | toJson -}}
{{- $is := include "raindrop.selectorLabels" . | fromYaml | toJson -}}
{{- if ne $was $is -}}
{{- fail (printf "%s: its selector cannot change from %s to %s; keep nameOverride, or follow docs/kubernetes.md, Fields that cannot change" $object $was $is) -}}
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
