{{/* Refuses values that contradict each other. The schema refuses values of the wrong form; the service refuses invalid
settings in `config`, in the init container `check-config`. */}}
{{- define "raindrop.check" -}}
{{- include "raindrop.check.numbers" (dict "value" (omit .Values "global") "path" "") -}}
{{- include "raindrop.check.kind" . -}}
{{- include "raindrop.check.image" . -}}
{{- include "raindrop.check.labels" . -}}
{{- include "raindrop.check.store" . -}}
{{- include "raindrop.check.workers" . -}}
{{- include "raindrop.check.workerIds" . -}}
{{- include "raindrop.check.pods" . -}}
{{- include "raindrop.check.scaling" . -}}
{{- include "raindrop.check.monitoring" . -}}
{{- include "raindrop.check.alerts" . -}}
{{- include "raindrop.check.network" . -}}
{{- include "raindrop.check.entry" . -}}
{{- include "raindrop.check.liveNamespace" . -}}
{{- include "raindrop.check.liveStore" . -}}
{{- include "raindrop.check.live" . -}}
{{- end -}}

{{/* Helm reads numbers as float64, which rounds those above 2^53: a code's start, rounded down, repeats numbers.
The schema says so in its own words, but it can be skipped. */}}
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
{{- $number := float64 .value | printf "%.0f" -}}
{{- fail (printf "%s = %s, perhaps rounded by Helm: a number above 9007199254740991 must be in quotes, or set by --set-string" (trimPrefix "." .path) $number) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Also where the schema is skipped: every check takes a kind that is not StatefulSet for a Deployment. */}}
{{- define "raindrop.check.kind" -}}
{{- if not (has .Values.kind (list "Deployment" "StatefulSet")) -}}
{{- fail (printf "kind = %q: must be Deployment or StatefulSet" (toString .Values.kind)) -}}
{{- end -}}
{{- end -}}

{{/* A reference with two tags names no image. */}}
{{- define "raindrop.check.image" -}}
{{- range $path, $image := dict "image" .Values.image "tests.image" .Values.tests.image -}}
{{- with regexFind "[:@][^/]*$" $image.repository -}}
{{- fail (printf "%s.repository = %q: must not contain the tag or digest %q; set %s.tag or %s.digest" $path $image.repository . $path $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Some tools refuse a key that is there twice, and others take either value. */}}
{{- define "raindrop.check.labels" -}}
{{- $own := keys (include "raindrop.podSelectorLabels" . | fromYaml) (include "raindrop.chartLabels" . | fromYaml) (dict "raindrop/scraped" "" "checksum/config" "" "checksum/store" "") -}}
{{- $given := dict "commonLabels" .Values.commonLabels "podLabels" .Values.podLabels "podAnnotations" .Values.podAnnotations -}}
{{- range $name := list "serviceMonitor" "podMonitor" "prometheusRule" "grafanaDashboard" -}}
{{- $_ := set $given (printf "%s.labels" $name) (get $.Values $name).labels -}}
{{- end -}}
{{- range $path, $entries := $given -}}
{{- range $key := keys (default dict $entries) | sortAlpha -}}
{{- if has $key $own -}}
{{- fail (printf "%s: must not contain %s, because the chart sets it; use another key, or nameOverride for app.kubernetes.io/name" $path $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Nodes on two stores issue the same IDs. */}}
{{- define "raindrop.check.store" -}}
{{- $store := .Values.store -}}
{{- $given := list -}}
{{- if $store.existingSecret }}{{ $given = append $given "store.existingSecret" }}{{ end -}}
{{- if $store.url }}{{ $given = append $given "store.url" }}{{ end -}}
{{- if $store.sqlite.enabled }}{{ $given = append $given "store.sqlite.enabled" }}{{ end -}}
{{- if gt (len $given) 1 -}}
{{- fail (printf "only one of store.existingSecret, store.url and store.sqlite.enabled may be set, not %s" (join " and " $given)) -}}
{{- end -}}
{{- if hasPrefix (include "raindrop.fullname" . | printf "%s-store-url-") (toString $store.existingSecret) -}}
{{- fail (printf "store.existingSecret = %q: is the name of a Secret that the chart creates for store.url, and removes without it; use another name" $store.existingSecret) -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if regexMatch "^RAINDROP(CONFIG|STORE(URL|URLFILE|WORKERTABLE|SEGMENTTABLE))$" (upper .name | replace "_" "") -}}
{{- fail (printf "extraEnv: must not contain %s, because the chart sets it; set config or store" .name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraArgs -}}
{{- with regexFind "^--(config|listen|store-url)" . -}}
{{- fail (printf "extraArgs: must not contain %s, because the chart sets it; set config, config.http.listen or store" .) -}}
{{- end -}}
{{- end -}}
{{- if hasPrefix "sqlite:" (toString $store.url) -}}
{{- fail "store.url: a SQLite file in the pod is lost with the pod; set store.sqlite.enabled=true, which keeps it on a volume" -}}
{{- end -}}
{{- if and $store.sqlite.existingClaim (not $store.sqlite.enabled) -}}
{{- fail "store.sqlite.existingClaim needs store.sqlite.enabled" -}}
{{- end -}}
{{- if and $store.sqlite.enabled (ne .Values.kind "StatefulSet") -}}
{{- fail (printf "store.sqlite.enabled needs kind=StatefulSet, not %s" .Values.kind) -}}
{{- end -}}
{{- if and $store.sqlite.enabled (include "raindrop.several" .) -}}
{{- fail "store.sqlite.enabled needs exactly one replica, because replicas with separate files issue the same IDs; set replicaCount=1 and autoscaling.enabled=false, or use a database" -}}
{{- end -}}
{{- end -}}

{{/* A probe of a namespace that does not exist answers 404: no pod would ever be ready. */}}
{{- define "raindrop.check.pods" -}}
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
{{- $tokens := include "raindrop.tokens" $ -}}
{{- if and $tokens (not $.Values.admin.enabled) -}}
{{- fail (printf "readinessNamespace: needs admin.enabled beside %s: without it the probe would need a token" $tokens) -}}
{{- end -}}
{{- end -}}
{{- $listen := .Values.config.http.listen -}}
{{- if regexMatch "^(127[.]|localhost:|\\[::1\\]:|\\[::ffff:127[.])" $listen -}}
{{- fail (printf "config.http.listen = %q: neither the Service nor the probes reach this address; set [::]:8080, 0.0.0.0:8080 or :8080" $listen) -}}
{{- end -}}
{{- if and (include "raindrop.isGiven" .Values.tls.clientCA) (not (include "raindrop.tlsSecretName" .)) -}}
{{- fail "tls.clientCA needs TLS, without which clients send no certificates; set tls.existingSecret or tls.certificate.enabled" -}}
{{- end -}}
{{- $drain := .Values.config.http.drain_delay -}}
{{- $shutdown := .Values.config.http.shutdown_timeout -}}
{{- $needed := add (include "raindrop.milliseconds" $drain) (include "raindrop.milliseconds" $shutdown) -}}
{{- $grace := int64 .Values.terminationGracePeriodSeconds -}}
{{- if le (mul 1000 $grace) $needed -}}
{{- fail (printf "terminationGracePeriodSeconds = %d: must be more than config.http.drain_delay (%v) + config.http.shutdown_timeout (%v), or Kubernetes kills pods before they release their worker ids" $grace $drain $shutdown) -}}
{{- end -}}
{{- end -}}
