{{- define "ramcloud-cluster.name" -}}
{{- default .Release.Name .Values.name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "ramcloud-cluster.labels" -}}
app.kubernetes.io/name: ramcloud-cluster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end -}}

{{- /* A container that runs the command line against the cluster: {root, args}. */ -}}
{{- define "ramcloud-cluster.step" -}}
image: {{ .root.Values.test.image | quote }}
command: ["/usr/bin/ramcloud"]
args: {{ concat (list "--cluster" "$(CLUSTER)") .args | toJson }}
env:
  - name: CLUSTER
    valueFrom:
      configMapKeyRef:
        name: {{ include "ramcloud-cluster.name" .root }}-connection
        key: cluster
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: ["ALL"]
{{- end -}}
