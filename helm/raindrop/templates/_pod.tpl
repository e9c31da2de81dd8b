{{/* The pod template of the Deployment and the StatefulSet. */}}
{{- define "raindrop.pod" -}}
metadata:
  annotations:
    checksum/config: {{ include "raindrop.config" . | sha256sum }}
    {{- if eq (include "raindrop.store" .) "secret" }}
    {{- with .Values.store.url }}
    checksum/store: {{ sha256sum . }}
    {{- end }}
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "raindrop.podSelectorLabels" . | nindent 4 }}
    {{- with .Values.commonLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "raindrop.serviceAccountName" . }}
  automountServiceAccountToken: {{ eq (include "raindrop.store" .) "kubernetes" }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with include "raindrop.imagePullSecrets" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with .Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with .Values.hostAliases }}
  hostAliases:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.dnsPolicy }}
  dnsPolicy: {{ . }}
  {{- end }}
  {{- with .Values.dnsConfig }}
  dnsConfig:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: raindrop
      image: {{ include "raindrop.image" (dict "root" . "image" .Values.image) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve]
      env:
        - name: RAINDROP_CONFIG
          value: /etc/raindrop/raindrop.toml
        {{- include "raindrop.storeEnv" . | nindent 8 }}
        {{- if kindIs "invalid" (dig "worker" "holder" nil .Values.config) }}
        # The node's label in the store. A StatefulSet's pod finds its previous worker id by it.
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: POD_NAMESPACE
          valueFrom:
            fieldRef:
              fieldPath: metadata.namespace
        - name: RAINDROP__WORKER__HOLDER
          value: $(POD_NAMESPACE)/$(POD_NAME)
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.extraEnvFrom }}
      envFrom:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: http
          containerPort: {{ include "raindrop.portOf" .Values.config.http.listen }}
          protocol: TCP
        {{- if .Values.admin.enabled }}
        - name: admin
          containerPort: {{ .Values.admin.port }}
          protocol: TCP
        {{- end }}
      livenessProbe:
        httpGet:
          path: /livez
          port: {{ include "raindrop.adminPort" . }}
          {{- if include "raindrop.tlsSecretName" . }}
          scheme: HTTPS
          {{- end }}
        {{- with .Values.livenessProbe }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      readinessProbe:
        httpGet:
          path: /readyz{{ with .Values.readinessNamespace }}?namespace={{ . }}{{ end }}
          port: {{ include "raindrop.adminPort" . }}
          {{- if include "raindrop.tlsSecretName" . }}
          scheme: HTTPS
          {{- end }}
        {{- with .Values.readinessProbe }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: config
          mountPath: /etc/raindrop
          readOnly: true
        {{- if eq (include "raindrop.store" .) "sqlite" }}
        - name: data
          mountPath: /var/lib/raindrop
        {{- else if eq (include "raindrop.store" .) "secret" }}
        - name: store
          mountPath: /etc/raindrop-store
          readOnly: true
        {{- end }}
        {{- if .Values.stateFile.enabled }}
        - name: state
          mountPath: /var/lib/raindrop-state
        {{- end }}
        {{- if .Values.auth.existingSecret }}
        - name: auth
          mountPath: /etc/raindrop-auth
          readOnly: true
        {{- end }}
        {{- if include "raindrop.tlsSecretName" . }}
        - name: tls
          mountPath: /etc/raindrop-tls
          readOnly: true
        {{- end }}
        {{- if include "raindrop.hasClientCA" . }}
        - name: client-ca
          mountPath: /etc/raindrop-client-ca
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "raindrop.fullname" . }}
    {{- if eq (include "raindrop.store" .) "secret" }}
    - name: store
      secret:
        secretName: {{ include "raindrop.storeSecretName" . }}
        # Only the pod's group may read it.
        defaultMode: 0440
        items:
          - key: {{ ternary .Values.store.existingSecretKey "url" (not (empty .Values.store.existingSecret)) }}
            path: url
    {{- else if .Values.store.sqlite.existingClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ .Values.store.sqlite.existingClaim }}
    {{- end }}
    {{- if .Values.stateFile.enabled }}
    - name: state
      emptyDir:
        sizeLimit: 16Mi
    {{- end }}
    {{- with .Values.auth }}
    {{- if .existingSecret }}
    - name: auth
      secret:
        secretName: {{ .existingSecret }}
        defaultMode: 0440
        items:
          - key: {{ .existingSecretKey }}
            path: tokens.toml
    {{- end }}
    {{- end }}
    {{- with include "raindrop.tlsSecretName" . }}
    - name: tls
      secret:
        secretName: {{ . }}
        defaultMode: 0440
        items:
          - key: tls.crt
            path: tls.crt
          - key: tls.key
            path: tls.key
    {{- end }}
    {{- if include "raindrop.hasClientCA" . }}
    {{- with .Values.tls.clientCA }}
    - name: client-ca
      {{- if .existingSecret }}
      secret:
        secretName: {{ .existingSecret }}
      {{- else }}
      configMap:
        name: {{ .existingConfigMap }}
      {{- end }}
        defaultMode: 0440
        items:
          - key: {{ .key }}
            path: ca.crt
    {{- end }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- range . }}
    {{- $ours := dict "labelSelector" (dict "matchLabels" (include "raindrop.selectorLabels" $ | fromYaml)) }}
    {{- list (ternary . (merge $ours .) (hasKey . "labelSelector")) | toYaml | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
