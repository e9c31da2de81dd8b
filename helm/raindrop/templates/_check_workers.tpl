{{- define "raindrop.check.workers" -}}
{{- if not (has .Values.kind (list "Deployment" "StatefulSet")) -}}
{{- fail (printf "kind = %q: must be Deployment or StatefulSet" (toString .Values.kind)) -}}
{{- end -}}
{{- $isStateful := eq .Values.kind "StatefulSet" -}}
{{- $sections := dict "config.worker" (default dict .Values.config.worker) -}}
{{- range $name, $namespace := .Values.config.namespaces -}}
{{- $_ := set $sections (printf "config.namespaces.%s.worker" $name) (dig "worker" dict (default dict $namespace) | default dict) -}}
{{- end -}}
{{- range $section, $worker := $sections -}}
{{- if and (not (kindIs "invalid" $worker.id)) (or (not $isStateful) (include "raindrop.several" $)) -}}
{{- fail (printf "%s.id needs kind=StatefulSet and one replica, so that no two pods have the same id" $section) -}}
{{- end -}}
{{- if and (eq (toString $worker.source) "hostname") (not $isStateful) -}}
{{- fail (printf "%s.source = \"hostname\" needs kind=StatefulSet, whose pod names end in a number" $section) -}}
{{- end -}}
{{- end -}}
{{- $worker := get $sections "config.worker" -}}
{{- $isGiven := or (not (kindIs "invalid" $worker.id)) (eq (toString $worker.source) "hostname") -}}
{{- range .Values.extraEnv -}}
{{- if eq .name "RAINDROP__WORKER__ID" -}}{{- $isGiven = true -}}{{- end -}}
{{- end -}}
{{- if and (eq .Values.store.url "memory:") (not (and $isStateful $isGiven)) -}}
{{- fail "store.url = memory: does not lease worker ids; set kind=StatefulSet, and config.worker.id, config.worker.source=hostname or RAINDROP__WORKER__ID in extraEnv" -}}
{{- end -}}
{{- end -}}

{{/* Every namespace in snowflake mode has worker ids of its own. What the environment sets is not known. */}}
{{- define "raindrop.check.workerIds" -}}
{{- $isKnown := true -}}
{{- range .Values.extraEnv -}}
{{- if regexMatch "^RAINDROP__(MODE$|LAYOUT__|NAMESPACES__|WORKER__(ID|SOURCE|MIN_ID|MAX_ID)$)" .name -}}{{- $isKnown = false -}}{{- end -}}
{{- end -}}
{{- $config := .Values.config -}}
{{- $nodes := include "raindrop.maxReplicas" . | int -}}
{{- $surge := include "raindrop.surge" . | int -}}
{{- range $name, $settings := merge (dict "" (pick $config "mode" "layout" "worker")) (default dict $config.namespaces) -}}
{{- $range := include "raindrop.workerRange" (dict "settings" (default dict $settings) "inherited" (default dict $config.worker)) | fromJson -}}
{{- if and $isKnown $range -}}
{{- $ids := add 1 (sub $range.last $range.first) -}}
{{- if lt $ids (add $nodes $surge) -}}
{{- fail (printf "config.%sworker: the %d worker ids %v to %v are too few for %d nodes and %d more during an update; widen min_id and max_id, use a layout with more worker bits than %v, or run fewer nodes" (ternary (printf "namespaces.%s." $name) "" (ne $name "")) $ids $range.first $range.last $nodes $surge $range.bits) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* {first, last, bits} of the worker ids that a namespace leases; {} if each node is given its own, or none. */}}
{{- define "raindrop.workerRange" -}}
{{- $own := default dict .settings.worker -}}
{{- $given := ternary .inherited $own (empty (pick $own "id" "source" "min_id" "max_id")) -}}
{{- $bits := include "raindrop.workerBits" (default dict .settings.layout) | int -}}
{{- if or $given.source (not (kindIs "invalid" $given.id)) (not $bits) (eq (toString .settings.mode) "segment") -}}
{}
{{- else -}}
{{- $last := 0 -}}
{{- range until $bits -}}{{- $last = add 1 (mul 2 $last) -}}{{- end -}}
{{- $range := dict "first" 1 "last" $last "bits" $bits -}}
{{- range $worker := list .inherited $own -}}
{{- range $key, $end := dict "min_id" "first" "max_id" "last" -}}
{{- if not (kindIs "invalid" (index $worker $key)) -}}{{- $_ := set $range $end (get $worker $key | int64) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $range -}}
{{- end -}}
{{- end -}}

{{/* The width of a layout's worker id; 0 for a preset that the service will reject. */}}
{{- define "raindrop.workerBits" -}}
{{- $presets := dict "raindrop" 9 "js-safe" 5 "twitter" 5 "lingdu" 15 "westid" 10 "westid-qr" 5 "yitter" 6 "yitter-csharp" 6 "yitter-js" 6 "node" 5 "adnc-classic" 5 "sonyflake" 16 "sonyflake-v2" 16 "baidu-uid" 16 "baidu-uid-default" 16 -}}
{{- if .preset -}}
{{- get $presets .preset | default 0 -}}
{{- else -}}
{{- default 9 .worker_bits | int -}}
{{- end -}}
{{- end -}}
