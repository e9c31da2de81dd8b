{{/* Checks that the schema cannot express, and those that must also hold if the schema is skipped. */}}
{{- define "raindrop.check" -}}
{{- include "raindrop.check.store" . -}}
{{- include "raindrop.check.workers" . -}}
{{- include "raindrop.check.termination" . -}}
{{- include "raindrop.check.scaling" . -}}
{{- include "raindrop.check.listeners" . -}}
{{- include "raindrop.check.tls" . -}}
{{- include "raindrop.check.monitoring" . -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts is empty: name at least one host, or set ingress.enabled=false" -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.check.store" -}}
{{- $store := .Values.store -}}
{{- $given := list -}}
{{- if $store.existingSecret }}{{ $given = append $given "store.existingSecret" }}{{ end -}}
{{- if $store.url }}{{ $given = append $given "store.url" }}{{ end -}}
{{- if $store.sqlite.enabled }}{{ $given = append $given "store.sqlite.enabled" }}{{ end -}}
{{- if ne (len $given) 1 -}}
{{- fail (printf "exactly one of store.existingSecret, store.url and store.sqlite.enabled must be set, not %s" (ternary "none" (join " and " $given) (empty $given))) -}}
{{- end -}}
{{- range list "url" "url_file" -}}
{{- if hasKey (default dict $.Values.config.store) . -}}
{{- fail (printf "config.store.%s: must not be set; set store.existingSecret, store.url or store.sqlite.enabled" .) -}}
{{- end -}}
{{- end -}}
{{- if hasPrefix "sqlite:" $store.url -}}
{{- fail "store.url: a SQLite file in the pod is lost with the pod; set store.sqlite.enabled=true, which keeps it on a volume" -}}
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
{{- if and .Values.serviceMonitor.enabled $tls.existingSecret (not .Values.serviceMonitor.tlsConfig) -}}
{{- fail "serviceMonitor.enabled with tls.existingSecret needs serviceMonitor.tlsConfig, such as {ca: {secret: {name: …, key: ca.crt}}, serverName: …} or {insecureSkipVerify: true}" -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.check.monitoring" -}}
{{- if and .Values.serviceMonitor.enabled .Values.auth.existingSecret (not .Values.admin.enabled) -}}
{{- fail "serviceMonitor.enabled with auth.existingSecret needs admin.enabled, because /metrics on the other port needs a token" -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.check.scaling" -}}
{{- with .Values.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas = %d: must be at most autoscaling.maxReplicas (%d)" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- if not (dig "requests" "cpu" "" $.Values.resources) -}}
{{- fail "autoscaling.enabled needs resources.requests.cpu, because its target is a percentage of that" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and .enabled (eq (kindIs "invalid" .minAvailable) (kindIs "invalid" .maxUnavailable)) -}}
{{- fail "exactly one of podDisruptionBudget.maxUnavailable and podDisruptionBudget.minAvailable must be set; null unsets one" -}}
{{- end -}}
{{- end -}}
{{- end -}}
