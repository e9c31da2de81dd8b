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

{{/* Every namespace in snowflake mode has worker ids of its own. */}}
{{- define "raindrop.check.workerIds" -}}
{{- $config := .Values.config -}}
{{- $isKnown := true -}}
{{- range .Values.extraEnv -}}
{{- if regexMatch "^RAINDROP__(MODE|LAYOUT|WORKER|NAMESPACES)" .name -}}{{- $isKnown = false -}}{{- end -}}
{{- end -}}
{{- $top := pick $config "mode" "layout" "worker" -}}
{{- range $name, $settings := merge (dict "" $top) (default dict $config.namespaces) -}}
{{- $settings = default dict $settings -}}
{{- $layout := default dict $settings.layout -}}
{{- $bits := include "raindrop.workerBits" $layout | int -}}
{{- $largest := 1 -}}
{{- range until $bits -}}{{- $largest = mul 2 $largest -}}{{- end -}}
{{- $largest = sub $largest 1 -}}
{{- $own := default dict $settings.worker -}}
{{- $inherited := default dict $config.worker -}}
{{- $given := ternary $own $inherited (or (hasKey $own "id") (hasKey $own "source") (hasKey $own "min_id") (hasKey $own "max_id")) -}}
{{- $hasRange := and (kindIs "invalid" $given.id) (kindIs "invalid" $given.source) -}}
{{- if and $isKnown $hasRange $bits (ne (default "snowflake" $settings.mode) "segment") -}}
{{- $first := 1 -}}
{{- $last := $largest -}}
{{- range list $inherited $own -}}
{{- if not (kindIs "invalid" .min_id) -}}{{- $first = int64 .min_id -}}{{- end -}}
{{- if not (kindIs "invalid" .max_id) -}}{{- $last = int64 .max_id -}}{{- end -}}
{{- end -}}
{{- $nodes := include "raindrop.maxReplicas" $ | int -}}
{{- $surge := include "raindrop.surge" $ | int -}}
{{- $ids := add 1 (sub $last $first) -}}
{{- if lt $ids (add $nodes $surge) -}}
{{- fail (printf "config.%sworker: the %d worker ids %d to %d are too few for %d nodes and %d more during an update; widen min_id and max_id, use a layout with more worker bits than %d, or run fewer nodes" (ternary (printf "namespaces.%s." $name) "" (ne $name "")) $ids $first $last $nodes $surge $bits) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The width of a layout's worker id; 0 for a preset that the service will reject. */}}
{{- define "raindrop.workerBits" -}}
{{- $presets := dict "raindrop" 9 "js-safe" 5 "twitter" 5 "lingdu" 15 "westid" 10 "westid-qr" 5 "yitter" 6 "yitter-csharp" 6 "yitter-js" 6 "node" 5 "adnc-classic" 5 -}}
{{- if .preset -}}
{{- get $presets .preset | default 0 -}}
{{- else -}}
{{- default 9 .worker_bits | int -}}
{{- end -}}
{{- end -}}
