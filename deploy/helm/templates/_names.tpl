{{- define "winnow.labels" -}}
app.kubernetes.io/name: winnow
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "winnow.driverLabels" -}}
app.kubernetes.io/name: winnow
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: driver
{{- end }}

{{- /* The variable of a property of Spark. */ -}}
{{- define "winnow.sparkVariable" -}}
WINNOW_SPARK__CONF__{{ . | replace "." "__" }}
{{- end }}

{{- /* The variable of a property of the catalog. */ -}}
{{- define "winnow.catalogVariable" -}}
WINNOW_CATALOG__{{ . | replace "." "__" | replace "-" "_" | upper }}
{{- end }}
