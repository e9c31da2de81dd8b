{{/* Checks that the schema cannot express, and those that must also hold if the schema is skipped. */}}
{{- define "raindrop.check" -}}
{{- include "raindrop.check.numbers" (dict "value" (omit .Values "global") "path" "") -}}
{{- include "raindrop.check.store" . -}}
{{- include "raindrop.check.stateFile" . -}}
{{- include "raindrop.check.readiness" . -}}
{{- include "raindrop.check.workers" . -}}
{{- include "raindrop.check.workerIds" . -}}
{{- include "raindrop.check.termination" . -}}
{{- include "raindrop.check.scaling" . -}}
{{- include "raindrop.check.disruption" . -}}
{{- include "raindrop.check.listeners" . -}}
{{- include "raindrop.check.tls" . -}}
{{- include "raindrop.check.monitoring" . -}}
{{- include "raindrop.check.service" . -}}
{{- include "raindrop.check.routes" . -}}
{{- include "raindrop.check.network" . -}}
{{- include "raindrop.check.liveStore" . -}}
{{- include "raindrop.check.live" . -}}
{{- end -}}

{{/* Helm reads numbers as float64, which rounds those above 2^53: a code's start, rounded down, repeats numbers. */}}
{{- define "raindrop.check.numbers" -}}
{{- if kindIs "map" .value -}}
{{- range $key, $value := .value -}}
{{- include "raindrop.check.numbers" (dict "value" $value "path" (printf "%s.%s" $.path $key)) -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $index, $value := .value -}}
{{- include "raindrop.check.numbers" (dict "value" $value "path" (printf "%s[%d]" $.path $index)) -}}
{{- end -}}
{{- else if or (kindIs "float64" .value) (kindIs "int64" .value) -}}
{{- if gt (maxf .value (mulf -1 .value)) 9007199254740991.0 -}}
{{- fail (printf "%s = %s, perhaps rounded by Helm: a number above 9007199254740991 must be in quotes, or set by --set-string" (trimPrefix "." .path) (float64 .value | printf "%.0f")) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.check.store" -}}
{{- $store := .Values.store -}}
{{- $given := list -}}
{{- if $store.existingSecret }}{{ $given = append $given "store.existingSecret" }}{{ end -}}
{{- if $store.url }}{{ $given = append $given "store.url" }}{{ end -}}
{{- if $store.sqlite.enabled }}{{ $given = append $given "store.sqlite.enabled" }}{{ end -}}
{{- if gt (len $given) 1 -}}
{{- fail (printf "only one of store.existingSecret, store.url and store.sqlite.enabled may be set, not %s" (join " and " $given)) -}}
{{- end -}}
{{- range list "url" "url_file" -}}
{{- if hasKey (default dict $.Values.config.store) . -}}
{{- fail (printf "config.store.%s: must not be set; set store.existingSecret, store.url or store.sqlite.enabled" .) -}}
{{- end -}}
{{- end -}}
{{- if hasPrefix (include "raindrop.fullname" . | printf "%s-store-url-") (toString $store.existingSecret) -}}
{{- fail (printf "store.existingSecret = %q: is the name of a Secret that the chart creates for store.url, and removes without it; use another name" $store.existingSecret) -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if regexMatch "^RAINDROPSTORE(URL|URLFILE|WORKERTABLE|SEGMENTTABLE)$" (upper .name | replace "_" "") -}}
{{- fail (printf "extraEnv: must not contain %s, because the chart sets it; set store, or config.store.worker_table and segment_table" .name) -}}
{{- end -}}
{{- end -}}
{{- if hasPrefix "sqlite:" (toString $store.url) -}}
{{- fail "store.url: a SQLite file in the pod is lost with the pod; set store.sqlite.enabled=true, which keeps it on a volume" -}}
{{- end -}}
{{- if and $store.sqlite.existingClaim (not $store.sqlite.enabled) -}}
{{- fail "store.sqlite.existingClaim needs store.sqlite.enabled" -}}
{{- end -}}
{{- if $store.sqlite.enabled -}}
{{- if ne .Values.kind "StatefulSet" -}}
{{- fail (printf "store.sqlite.enabled needs kind=StatefulSet, not %s" .Values.kind) -}}
{{- end -}}
{{- if include "raindrop.several" . -}}
{{- fail "store.sqlite.enabled needs exactly one replica, because replicas with separate files issue the same IDs; set replicaCount=1 and autoscaling.enabled=false, or use a database" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.check.stateFile" -}}
{{- if .Values.stateFile.enabled -}}
{{- if eq .Values.store.url "memory:" -}}
{{- fail "stateFile.enabled: must be false with store.url = memory:, which leases nothing that a file could keep" -}}
{{- end -}}
{{- if dig "state_file" "" (default dict .Values.config.store) -}}
{{- fail "config.store.state_file: must not be set beside stateFile.enabled, which sets it" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A probe of a namespace that does not exist answers 404: no pod would ever be ready. */}}
{{- define "raindrop.check.readiness" -}}
{{- $known := append (keys (default dict .Values.config.namespaces) | sortAlpha) "default" -}}
{{- range .Values.extraEnv -}}
{{- if hasPrefix "RAINDROP__NAMESPACES__" .name -}}
{{- $known = append $known (index (splitList "__" .name) 2 | lower) -}}
{{- end -}}
{{- end -}}
{{- with .Values.readinessNamespace -}}
{{- if not (has . $known) -}}
{{- fail (printf "readinessNamespace = %q: must be default or a name in config.namespaces (%s)" . (join ", " $known)) -}}
{{- end -}}
{{- if and $.Values.auth.existingSecret (not $.Values.admin.enabled) -}}
{{- fail "readinessNamespace: needs admin.enabled beside auth.existingSecret: without it the probe would need a token" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.check.termination" -}}
{{- $http := .Values.config.http -}}
{{- if not (regexMatch "^[^ ]+:[0-9]+$" (toString $http.listen)) -}}
{{- fail (printf "config.http.listen = %q: must be an address and port such as [::]:8080" (toString $http.listen)) -}}
{{- end -}}
{{- $drain := include "raindrop.milliseconds" (dict "key" "http.drain_delay" "value" $http.drain_delay) -}}
{{- $shutdown := include "raindrop.milliseconds" (dict "key" "http.shutdown_timeout" "value" $http.shutdown_timeout) -}}
{{- if le (mul 1000 (int64 .Values.terminationGracePeriodSeconds)) (add (int64 $drain) (int64 $shutdown)) -}}
{{- fail (printf "terminationGracePeriodSeconds = %d: must be more than config.http.drain_delay (%v) + config.http.shutdown_timeout (%v), or Kubernetes kills pods before they release their worker ids" (int64 .Values.terminationGracePeriodSeconds) $http.drain_delay $http.shutdown_timeout) -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.check.listeners" -}}
{{- if hasKey .Values.config.http "admin_listen" -}}
{{- fail "config.http.admin_listen: must not be set; set admin.enabled and admin.port" -}}
{{- end -}}
{{- if hasKey (default dict .Values.config.auth) "tokens_file" -}}
{{- fail "config.auth.tokens_file: must not be set; set auth.existingSecret" -}}
{{- end -}}
{{- if and .Values.admin.enabled (eq (toString .Values.admin.port) (include "raindrop.portOf" .Values.config.http.listen)) -}}
{{- fail (printf "admin.port = %v: must differ from the port of config.http.listen (%s)" .Values.admin.port .Values.config.http.listen) -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.check.tls" -}}
{{- $tls := .Values.tls -}}
{{- if hasKey .Values.config.http "tls" -}}
{{- fail "config.http.tls: must not be set; set tls.existingSecret or tls.certificate.enabled" -}}
{{- end -}}
{{- if and $tls.existingSecret $tls.certificate.enabled -}}
{{- fail "only one of tls.existingSecret and tls.certificate.enabled may be set" -}}
{{- end -}}
{{- if and $tls.certificate.enabled (not $tls.certificate.issuerRef.name) -}}
{{- fail "tls.certificate.enabled needs tls.certificate.issuerRef.name, the issuer that signs the certificate" -}}
{{- end -}}
{{- if and $tls.clientCA.existingSecret $tls.clientCA.existingConfigMap -}}
{{- fail "only one of tls.clientCA.existingSecret and tls.clientCA.existingConfigMap may be set" -}}
{{- end -}}
{{- if include "raindrop.hasClientCA" . -}}
{{- if not (include "raindrop.tlsSecretName" .) -}}
{{- fail "tls.clientCA needs tls.existingSecret or tls.certificate.enabled" -}}
{{- end -}}
{{- if not .Values.auth.existingSecret -}}
{{- fail "tls.clientCA needs auth.existingSecret, the token file that says what each certificate may do" -}}
{{- end -}}
{{- end -}}
{{- end -}}
