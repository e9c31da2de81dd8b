{{/* Where worker ids are leased: `kubernetes`, `sqlite`, or `secret` for a URL in a Secret. */}}
{{- define "raindrop.store" -}}
{{- with .Values.store -}}
{{- if .sqlite.enabled -}}
sqlite
{{- else if or .existingSecret (not (has (default "" .url) (list "" "kubernetes:"))) -}}
secret
{{- else -}}
kubernetes
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The store's table `worker` or `segment`; takes {root, table}. In the Kubernetes API, a release has its own.
A table's name has at most 48 characters: a long release name is cut, and a hash of all of it keeps the result unique. */}}
{{- define "raindrop.storeTable" -}}
{{- $name := "soc_raindrop" -}}
{{- if eq (include "raindrop.store" .root) "kubernetes" -}}
{{- $name = include "raindrop.fullname" .root -}}
{{- if gt (len $name) 40 -}}
{{- $name = printf "%s_%s" (trunc 31 $name) (sha256sum $name | trunc 8) -}}
{{- end -}}
{{- end -}}
{{- $given := get (default dict .root.Values.config.store) (printf "%s_table" .table) -}}
{{- default (printf "%s_%s" $name .table | replace "-" "_") $given -}}
{{- end -}}

{{/* A hash of what decides which rows the nodes use. */}}
{{- define "raindrop.storeHash" -}}
{{- $kind := include "raindrop.store" . -}}
{{- $parts := list $kind -}}
{{- range list "worker" "segment" -}}
{{- $parts = append $parts (include "raindrop.storeTable" (dict "root" $ "table" .)) -}}
{{- end -}}
{{- with .Values.store -}}
{{- if .name -}}
{{- $parts = append $parts .name -}}
{{- else if eq $kind "sqlite" -}}
{{- $parts = append $parts (default "" .sqlite.existingClaim) -}}
{{- else if .existingSecret -}}
{{- $parts = append $parts (list .existingSecret .existingSecretKey) -}}
{{- else if eq $kind "secret" -}}
{{- $parts = append $parts (include "raindrop.urlPlace" .url) -}}
{{- end -}}
{{- end -}}
{{- toJson $parts | sha256sum | trunc 10 -}}
{{- end -}}

{{/* What a store URL leads to: without user, password and TLS, and the hosts in any order. */}}
{{- define "raindrop.urlPlace" -}}
{{- $engine := regexFind "^[a-z]+" . | replace "rediss" "redis" | replace "mariadb" "mysql" | replace "postgresql" "postgres" -}}
{{- $place := regexReplaceAll "^[^:]*:(//([^?]*@)?)?|[?].*$" . "" -}}
{{- $hosts := regexFind "^[^/]*" $place | lower | splitList "," | sortAlpha -}}
{{- $parameters := regexFindAll "[?&](dbname|host|options|port|socket)[^&]*" . -1 | join "" | replace "?" "&" -}}
{{- list $engine $hosts (regexFind "/.*" $place) $parameters | toJson -}}
{{- end -}}

{{/* The environment that names the store. It wins over `extraEnvFrom` (an empty value counts as unset), and is a part
of the pods: a ConfigMap could change although the API server refuses the pods of another store. */}}
{{- define "raindrop.storeEnv" -}}
{{- $urls := dict "kubernetes" "kubernetes:" "sqlite" "sqlite:///var/lib/raindrop/raindrop.db" -}}
{{- $kind := include "raindrop.store" . -}}
- name: RAINDROP__STORE__URL
  value: {{ get $urls $kind | quote }}
- name: RAINDROP__STORE__URL_FILE
  value: {{ ternary "/etc/raindrop-store/url" "" (eq $kind "secret") | quote }}
{{- range list "worker" "segment" }}
- name: RAINDROP__STORE__{{ upper . }}_TABLE
  value: {{ include "raindrop.storeTable" (dict "root" $ "table" .) | quote }}
{{- end }}
{{- end -}}
