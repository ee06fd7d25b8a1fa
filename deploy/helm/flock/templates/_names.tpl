{{/* What tells the agent's pods from others; a DaemonSet's selector cannot be changed later. */}}
{{- define "flock.selector" -}}
app.kubernetes.io/name: flock
app.kubernetes.io/component: agent
{{- end }}

{{/* The ServiceAccount, as bindings name it. */}}
{{- define "flock.subjects" -}}
- kind: ServiceAccount
  name: flock
  namespace: {{ .Release.Namespace }}
{{- end }}
