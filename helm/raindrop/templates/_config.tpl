{{/* The user's configuration, with the keys that other values determine. The environment names the store. */}}
{{- define "raindrop.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $store := omit (default dict $config.store) "worker_table" "segment_table" -}}
{{- if .Values.stateFile.enabled -}}
{{- $_ := set $store "state_file" "/var/lib/raindrop-state/state" -}}
{{- end -}}
{{- $_ := set $config "store" (ternary $store nil (not (empty $store))) -}}
{{- $_ := set $config.http "listen" (include "raindrop.listen" .) -}}
{{- $worker := default dict $config.worker -}}
{{- if and (eq .Values.kind "StatefulSet") (not (hasKey $worker "prefer_previous")) -}}
{{- $_ := set $worker "prefer_previous" true -}}
{{- $_ := set $config "worker" $worker -}}
{{- end -}}
{{- if .Values.admin.enabled -}}
{{- $host := regexReplaceAll "[0-9]+$" $config.http.listen "" -}}
{{- $_ := set $config.http "admin_listen" (printf "%s%d" $host (int64 .Values.admin.port)) -}}
{{- end -}}
{{- $tls := dict -}}
{{- if include "raindrop.tlsSecretName" . -}}
{{- $tls = dict "cert_file" "/etc/raindrop-tls/tls.crt" "key_file" "/etc/raindrop-tls/tls.key" -}}
{{- end -}}
{{- if include "raindrop.isGiven" .Values.tls.clientCA -}}
{{- $_ := set $tls "client_ca_file" "/etc/raindrop-client-ca/ca.crt" -}}
{{- end -}}
{{- if include "raindrop.isGiven" .Values.tls.clientCRL -}}
{{- $_ := set $tls "client_crl_file" "/etc/raindrop-client-crl/ca.crl" -}}
{{- end -}}
{{- if $tls }}{{ $_ := set $config.http "tls" $tls }}{{ end -}}
{{- if .Values.auth.existingSecret -}}
{{- $auth := default dict $config.auth -}}
{{- $_ := set $auth "tokens_file" "/etc/raindrop-auth/tokens.toml" -}}
{{- $_ := set $config "auth" $auth -}}
{{- end -}}
{{- include "raindrop.table" (dict "table" $config "path" "") -}}
{{- end -}}

{{/* The address of the service. A port alone, such as `:8080`, is that port of every address. */}}
{{- define "raindrop.listen" -}}
{{- regexReplaceAll "^:" .Values.config.http.listen "[::]:" -}}
{{- end -}}

{{/* A TOML table: its values, then the tables in it. Helm's own toToml writes 8080 as 8080.0. */}}
{{- define "raindrop.table" -}}
{{- $path := .path -}}
{{- range $key, $value := .table -}}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value) (include "raindrop.isTables" $value)) }}
{{ include "raindrop.key" $key }} = {{ include "raindrop.value" $value }}
{{- end -}}
{{- end -}}
{{- range $key, $value := .table -}}
{{- $inner := printf "%s%s" (ternary "" (printf "%s." $path) (empty $path)) (include "raindrop.key" $key) -}}
{{- if kindIs "map" $value }}

[{{ $inner }}]
{{- include "raindrop.table" (dict "table" $value "path" $inner) -}}
{{- else if include "raindrop.isTables" $value -}}
{{- range $value }}

[[{{ $inner }}]]
{{- include "raindrop.table" (dict "table" . "path" $inner) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "yes" if this is a list of tables; otherwise empty. */}}
{{- define "raindrop.isTables" -}}
{{- if and (kindIs "slice" .) . -}}
{{- if kindIs "map" (first .) -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{- define "raindrop.key" -}}
{{- ternary . (toJson .) (regexMatch "^[A-Za-z0-9_-]+$" .) -}}
{{- end -}}

{{/* Helm passes a number as a float; a whole one is written without a decimal point, as is one in quotes. */}}
{{- define "raindrop.value" -}}
{{- if kindIs "slice" . -}}
[{{ range $index, $item := . }}{{ if $index }}, {{ end }}{{ include "raindrop.value" $item }}{{ end }}]
{{- else if kindIs "float64" . -}}
{{- if eq . (floor .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- else if eq (toString .) (int64 . | toString) -}}
{{- . -}}
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* Converts a duration such as 1m30s or 500ms to milliseconds. */}}
{{- define "raindrop.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- $total := 0 -}}
{{- range regexFindAll "[0-9]+(ms|s|m|h)" (toString .) -1 -}}
{{- $total = add $total (mul (int64 (regexFind "[0-9]+" .)) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $total -}}
{{- end -}}
