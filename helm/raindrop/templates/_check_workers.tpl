{{/* Each section `worker` of the configuration, as a map by the name of its namespace; "" is the top level's. */}}
{{- define "raindrop.workerSections" -}}
{{- $sections := dict "" (default dict .Values.config.worker) -}}
{{- range $name, $namespace := .Values.config.namespaces -}}
{{- $_ := set $sections $name (default dict (default dict $namespace).worker) -}}
{{- end -}}
{{- toJson $sections -}}
{{- end -}}

{{/* The key of such a section. */}}
{{- define "raindrop.workerKey" -}}
config.{{ with . }}namespaces.{{ . }}.{{ end }}worker
{{- end -}}

{{/* No two pods may have the same worker id, unless the store says whose it is. */}}
{{- define "raindrop.check.workers" -}}
{{- $isStateful := eq .Values.kind "StatefulSet" -}}
{{- $isMemory := eq .Values.store.url "memory:" -}}
{{- $isShared := and $isMemory (include "raindrop.several" .) -}}
{{- $sections := include "raindrop.workerSections" . | fromJson -}}
{{- range $name, $worker := $sections -}}
{{- if and (not (kindIs "invalid" $worker.id)) (or (not $isStateful) (include "raindrop.several" $)) -}}
{{- fail (printf "%s.id needs kind=StatefulSet and one replica, so that no two pods have the same id" (include "raindrop.workerKey" $name)) -}}
{{- end -}}
{{- if and (eq (toString $worker.source) "hostname") (not $isStateful) -}}
{{- fail (printf "%s.source = \"hostname\" needs kind=StatefulSet, whose pod names end in a number" (include "raindrop.workerKey" $name)) -}}
{{- end -}}
{{- if and $isShared $worker.source (ne $worker.source "hostname") -}}
{{- fail (printf "%s.source = %q needs a store that leases worker ids, or one replica, so that no two pods have the same id" (include "raindrop.workerKey" $name) $worker.source) -}}
{{- end -}}
{{- end -}}
{{- if and $isShared .Values.extraEnvFrom -}}
{{- fail "extraEnvFrom with store.url = memory: needs one replica: it may give every pod the same worker id" -}}
{{- end -}}
{{- $worker := get $sections "" -}}
{{- $isGiven := or (not (kindIs "invalid" $worker.id)) (eq (toString $worker.source) "hostname") -}}
{{- range .Values.extraEnv -}}
{{- $key := .name | upper | replace "_" "" -}}
{{- if eq $key "RAINDROPWORKERID" -}}{{- $isGiven = true -}}{{- end -}}
{{- if and $isShared (regexMatch "^RAINDROP((NAMESPACES.+)?WORKER(ID|SOURCE)|CONFIG)$" $key) (not (dig "fieldRef" "" (default dict .valueFrom))) -}}
{{- fail (printf "extraEnv: with store.url = memory: and several replicas, %s must come from a field of the pod (valueFrom.fieldRef), so that no two pods have the same worker id" .name) -}}
{{- end -}}
{{- $isSame := and .value (not (contains "$(" (toString .value))) -}}
{{- if and $isSame (regexMatch "^RAINDROP(NAMESPACES.+)?WORKERID$" $key) (include "raindrop.several" $) -}}
{{- fail (printf "extraEnv: %s = %v needs one replica, so that no two pods have the same id; take it from the pod's index by valueFrom" .name .value) -}}
{{- end -}}
{{- end -}}
{{- if and $isMemory (not (and $isStateful $isGiven)) -}}
{{- fail "store.url = memory: does not lease worker ids; set kind=StatefulSet, and config.worker.id, config.worker.source=hostname or RAINDROP__WORKER__ID in extraEnv" -}}
{{- end -}}
{{- end -}}

{{/* The worker bits of each preset, whose layout never changes. */}}
{{- define "raindrop.presetBits" -}}
{{- dict "raindrop" 9 "js-safe" 5 "twitter" 5 "lingdu" 15 "westid" 10 "westid-qr" 5 "yitter" 6 "yitter-csharp" 6 "yitter-js" 6 "node" 5 "adnc-classic" 5 "sonyflake" 16 "sonyflake-v2" 16 "baidu-uid" 16 "baidu-uid-default" 16 | toJson -}}
{{- end -}}

{{/* With too few worker ids for the nodes of an update, the update never ends. Every namespace in snowflake mode has
worker ids of its own. Not counted are those that the environment sets. */}}
{{- define "raindrop.check.workerIds" -}}
{{- $isKnown := true -}}
{{- range .Values.extraEnv -}}
{{- if regexMatch "^RAINDROP__(MODE$|LAYOUT__|NAMESPACES__|WORKER__(ID|SOURCE|MIN_ID|MAX_ID)$)" .name -}}
{{- $isKnown = false -}}
{{- end -}}
{{- end -}}
{{- $nodes := include "raindrop.maxReplicas" . | int -}}
{{- $surge := include "raindrop.surge" . | int -}}
{{- $sections := include "raindrop.workerSections" . | fromJson -}}
{{- $inherited := get $sections "" -}}
{{- range $name, $own := $sections -}}
{{- $config := $.Values.config -}}
{{- with $name }}{{ $config = default dict (get $config.namespaces .) }}{{ end -}}
{{- $layout := default dict $config.layout -}}
{{- $first := 1 -}}
{{- $last := 0 -}}
{{- $bits := default 9 $layout.worker_bits -}}
{{- with $layout.preset }}{{ $bits = get (include "raindrop.presetBits" $ | fromJson) . | default 0 }}{{ end -}}
{{- range until (int $bits) }}{{ $last = add 1 (mul 2 $last) }}{{ end -}}
{{- $isCounted := and $isKnown (gt (int $bits) 0) -}}
{{- range list $inherited $own -}}
{{- if not (kindIs "invalid" .min_id) }}{{ $first = int64 .min_id }}{{ end -}}
{{- if not (kindIs "invalid" .max_id) }}{{ $last = int64 .max_id }}{{ $isCounted = $isKnown }}{{ end -}}
{{- end -}}
{{- $source := ternary $inherited $own (empty (pick $own "id" "source" "min_id" "max_id")) -}}
{{- $isLeased := and (kindIs "invalid" $source.id) (not $source.source) (ne (toString $config.mode) "segment") -}}
{{- $ids := add 1 (sub $last $first) -}}
{{- if and $isCounted $isLeased (lt $ids (add $nodes $surge)) -}}
{{- fail (printf "%s: the %d worker ids %d to %d are too few for %d nodes and %d more during an update; widen min_id and max_id, use a layout with more worker bits, or run fewer nodes" (include "raindrop.workerKey" $name) $ids $first $last $nodes $surge) -}}
{{- end -}}
{{- end -}}
{{- end -}}
