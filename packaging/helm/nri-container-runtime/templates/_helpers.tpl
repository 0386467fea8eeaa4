{{/* labels: the labels of all objects */}}
{{- define "nri-container-runtime.labels" -}}
app.kubernetes.io/name: nri-container-runtime
app.kubernetes.io/component: installer
{{- end }}
{{/* image: the image of the installer */}}
{{- define "nri-container-runtime.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
