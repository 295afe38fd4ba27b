{{- define "ramcloud-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "ramcloud-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "ramcloud-operator.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ramcloud-operator.selector" -}}
app.kubernetes.io/name: {{ include "ramcloud-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ramcloud-operator.labels" -}}
{{ include "ramcloud-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/component: operator
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end -}}

{{- define "ramcloud-operator.serviceAccount" -}}
{{- default (include "ramcloud-operator.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- /* "yes" where the release has a PriorityClass of its own: it is not namespaced, so only where the release is not. */ -}}
{{- define "ramcloud-operator.makesPriorityClass" -}}
{{- if and .Values.memberPriority.create (not .Values.memberPriority.className) (not .Values.namespaced) -}}yes{{- end -}}
{{- end -}}

{{- /* The PriorityClass of clusters' pods; empty: none. */ -}}
{{- define "ramcloud-operator.priorityClass" -}}
{{- if .Values.memberPriority.className -}}
{{- .Values.memberPriority.className -}}
{{- else if include "ramcloud-operator.makesPriorityClass" . -}}
{{- include "ramcloud-operator.fullname" . }}-members
{{- end -}}
{{- end -}}

{{- /* An image of {image: {repository, tag, digest}, default: tag}. */ -}}
{{- define "ramcloud-operator.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .default .image.tag) -}}
{{- end -}}
{{- end -}}
