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

{{/* The table `worker` or `segment` of a release in the Kubernetes API; takes {root, table}. A table's name
has at most 48 characters: a long release name is cut, and a hash of all of it keeps the result unique. */}}
{{- define "raindrop.leaseTable" -}}
{{- $given := dig "store" dict .root.Values.config | default dict | dig (printf "%s_table" .table) "" -}}
{{- $name := include "raindrop.fullname" .root -}}
{{- if gt (len $name) 40 -}}
{{- $name = printf "%s_%s" (trunc 31 $name) (sha256sum $name | trunc 8) -}}
{{- end -}}
{{- default (printf "%s_%s" $name .table | replace "-" "_") $given -}}
{{- end -}}

{{/* The store that a configuration file names, in words. */}}
{{- define "raindrop.storeInWords" -}}
{{- if regexMatch `(?m)^url = "kubernetes:"` . -}}
{{- printf "the Kubernetes API (%s)" (regexFindAll `(?m)^(?:worker|segment)_table = .*$` . -1 | join ", ") -}}
{{- else if regexMatch `(?m)^url = "sqlite:` . -}}
a SQLite file
{{- else -}}
the store URL of a Secret
{{- end -}}
{{- end -}}
