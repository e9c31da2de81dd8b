{{/* The pod template of the Deployment and the StatefulSet. */}}
{{- define "raindrop.pod" -}}
metadata:
  annotations:
    checksum/config: {{ include "raindrop.config" . | sha256sum }}
    {{- if and .Values.store.url (eq (include "raindrop.store" .) "secret") }}
    checksum/store: {{ sha256sum .Values.store.url }}
    {{- end }}
    {{- include "raindrop.entries" (list 4 .Values.podAnnotations) }}
  labels:
    {{- include "raindrop.podSelectorLabels" . | nindent 4 }}
    {{- include "raindrop.entries" (list 4 .Values.commonLabels .Values.podLabels) }}
spec:
  serviceAccountName: {{ include "raindrop.serviceAccountName" . }}
  automountServiceAccountToken: {{ eq (include "raindrop.store" .) "kubernetes" }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with include "raindrop.imagePullSecrets" . }}{{ . | nindent 2 }}{{ end }}
  {{- include "raindrop.optional" (list 2 (include "raindrop.podSecurity" (list . .Values.podSecurityContext) | fromJson)) }}
  {{- include "raindrop.optional" (list 2 (pick .Values "priorityClassName" "runtimeClassName" "schedulerName")) }}
  {{- include "raindrop.optional" (list 2 (pick .Values "hostAliases" "dnsPolicy" "dnsConfig")) }}
  {{- include "raindrop.optional" (list 2 (pick .Values "nodeSelector" "affinity" "tolerations")) }}
  initContainers:
    {{- with .Values.initContainers }}{{ toYaml . | nindent 4 }}{{ end }}
    {{- if .Values.checkConfig }}
    # Stops the pod before it serves if the configuration is invalid, and says why. It does not connect to the store.
    - name: check-config
      args: [config{{ range .Values.extraArgs }}, {{ quote . }}{{ end }}]
      terminationMessagePolicy: FallbackToLogsOnError
      {{- include "raindrop.container" . | nindent 6 }}
    {{- end }}
  containers:
    - name: raindrop
      args: [serve{{ range .Values.extraArgs }}, {{ quote . }}{{ end }}]
      {{- include "raindrop.container" . | nindent 6 }}
      ports:
        - name: http
          containerPort: {{ regexFind "[0-9]+$" .Values.config.http.listen }}
          protocol: TCP
        {{- if .Values.admin.enabled }}
        - name: admin
          containerPort: {{ .Values.admin.port }}
          protocol: TCP
        {{- end }}
      {{- include "raindrop.optional" (list 6 (pick .Values "lifecycle")) }}
      {{- with .Values.startupProbe }}
      startupProbe:
        {{- include "raindrop.probe" (dict "root" $ "path" "/livez" "timing" .) | nindent 8 }}
      {{- end }}
      livenessProbe:
        {{- include "raindrop.probe" (dict "root" . "path" "/livez" "timing" .Values.livenessProbe) | nindent 8 }}
      readinessProbe:
        {{- $path := "/readyz" }}
        {{- with .Values.readinessNamespace }}{{ $path = printf "/readyz?namespace=%s" . }}{{ end }}
        {{- include "raindrop.probe" (dict "root" . "path" $path "timing" .Values.readinessProbe) | nindent 8 }}
    {{- with .Values.extraContainers }}{{ toYaml . | nindent 4 }}{{ end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "raindrop.fullname" . }}
    {{- with include "raindrop.fileVolumes" . }}{{ trim . | nindent 4 }}{{ end }}
    {{- with .Values.store.sqlite.existingClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ . }}
    {{- end }}
    {{- if .Values.stateFile.enabled }}
    - name: state
      emptyDir:
        sizeLimit: 16Mi
    {{- end }}
    {{- with .Values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    {{- $ours := dict "labelSelector" (dict "matchLabels" (include "raindrop.selectorLabels" $ | fromYaml)) }}
    {{- list (ternary . (merge $ours .) (hasKey . "labelSelector")) | toYaml | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end -}}

{{/* What the service's container and the check of its configuration have in common. */}}
{{- define "raindrop.container" -}}
image: {{ include "raindrop.image" (dict "root" . "image" .Values.image) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: RAINDROP_CONFIG
    value: /etc/raindrop/raindrop.toml
  {{- include "raindrop.storeEnv" . | nindent 2 }}
  {{- $extra := list }}
  {{- range .Values.extraEnv }}{{ $extra = append $extra .name }}{{ end }}
  {{- $isHolderSet := not (kindIs "invalid" (default dict .Values.config.worker).holder) }}
  {{- range $name, $field := ternary dict (dict "POD_NAME" "name" "POD_NAMESPACE" "namespace") $isHolderSet }}
  {{- if not (has $name $extra) }}
  - name: {{ $name }}
    valueFrom:
      fieldRef:
        fieldPath: metadata.{{ $field }}
  {{- end }}
  {{- end }}
  {{- with .Values.extraEnv }}{{ toYaml . | nindent 2 }}{{ end }}
  {{- if not (or $isHolderSet (has "RAINDROP__WORKER__HOLDER" $extra) (has "RAINDROP_WORKER_HOLDER" $extra)) }}
  # The node's label in the store. A StatefulSet's pod finds its previous worker id by it.
  - name: RAINDROP__WORKER__HOLDER
    value: $(POD_NAMESPACE)/$(POD_NAME)
  {{- end }}
{{- include "raindrop.optional" (list 0 (dict "envFrom" .Values.extraEnvFrom)) }}
{{- include "raindrop.optional" (list 0 (pick .Values "resources" "securityContext")) }}
volumeMounts:
  - name: config
    mountPath: /etc/raindrop
    readOnly: true
  {{- range include "raindrop.fileVolumes" . | fromYamlArray }}
  - name: {{ .name }}
    mountPath: /etc/raindrop-{{ .name }}
    readOnly: true
  {{- end }}
  {{- if .Values.store.sqlite.enabled }}
  - name: data
    mountPath: /var/lib/raindrop
  {{- end }}
  {{- if .Values.stateFile.enabled }}
  - name: state
    mountPath: /var/lib/raindrop-state
  {{- end }}
  {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}

{{/* The security context of pods; takes a list of the root and the context. OpenShift chooses the user and the groups of
pods itself, and admits none that names others. */}}
{{- define "raindrop.podSecurity" -}}
{{- $context := last . -}}
{{- if (default dict (first .).Values.openshift).enabled }}{{ $context = omit (default dict $context) "runAsUser" "runAsGroup" "fsGroup" }}{{ end -}}
{{- toJson (dict "securityContext" $context) -}}
{{- end -}}

{{/* A probe; takes {root, path, timing}. */}}
{{- define "raindrop.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ include "raindrop.adminPort" .root }}
  {{- if include "raindrop.tlsSecretName" .root }}
  scheme: HTTPS
  {{- end }}
{{- with .timing }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The volumes of Secrets and ConfigMaps, each mounted at /etc/raindrop-NAME. */}}
{{- define "raindrop.fileVolumes" -}}
{{- if eq (include "raindrop.store" .) "secret" }}
{{- $secret := include "raindrop.storeSecretName" . }}
{{- $key := ternary .Values.store.existingSecretKey "url" (not (empty .Values.store.existingSecret)) }}
{{ include "raindrop.fileVolume" (dict "name" "store" "secret" $secret "files" (dict "url" $key)) }}
{{- end }}
{{- with .Values.auth.existingSecret }}
{{- $files := dict "tokens.toml" $.Values.auth.existingSecretKey }}
{{ include "raindrop.fileVolume" (dict "name" "auth" "secret" . "files" $files) }}
{{- end }}
{{- with include "raindrop.tlsSecretName" . }}
{{- $files := dict "tls.crt" "tls.crt" "tls.key" "tls.key" }}
{{ include "raindrop.fileVolume" (dict "name" "tls" "secret" . "files" $files) }}
{{- end }}
{{- range $name, $path := dict "CA" "ca.crt" "CRL" "ca.crl" }}
{{- with index $.Values.tls (printf "client%s" $name) }}
{{- if include "raindrop.isGiven" . }}
{{- $source := dict "secret" .existingSecret "configMap" .existingConfigMap }}
{{- $volume := dict "name" (printf "client-%s" (lower $name)) "files" (dict $path .key) }}
{{ include "raindrop.fileVolume" (merge $volume $source) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A volume that only the pod's group may read; takes {name, secret or configMap, files: {file name: key}}. */}}
{{- define "raindrop.fileVolume" -}}
- name: {{ .name }}
  {{- if .secret }}
  secret:
    secretName: {{ .secret }}
  {{- else }}
  configMap:
    name: {{ .configMap }}
  {{- end }}
    defaultMode: 0440
    items:
      {{- range $path, $key := .files }}
      - key: {{ $key }}
        path: {{ $path }}
      {{- end }}
{{- end -}}
