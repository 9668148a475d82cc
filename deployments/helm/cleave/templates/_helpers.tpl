{{- define "cleave.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "cleave.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "cleave.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "cleave.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "cleave.selectorLabels" -}}
app.kubernetes.io/name: {{ include "cleave.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "cleave.labels" -}}
{{ include "cleave.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The one place that knows the account's name: DaemonSet, RBAC and the admission policy must agree. */}}
{{- define "cleave.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (printf "%s-node" (include "cleave.fullname" .)) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the account to use, since serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "cleave.pluginDir" -}}
{{ .Values.kubeletDir }}/plugins/{{ .Values.driverName }}
{{- end -}}

{{/* The host folder that holds the driver's files. */}}
{{- define "cleave.driverRoot" -}}
{{- if .Values.simulated.enabled -}}
{{ .Values.simulated.hostDir }}/root
{{- else -}}
{{ .Values.driverRoot }}
{{- end -}}
{{- end -}}

{{/* The folder above dev/, as the container sees it. */}}
{{- define "cleave.devRoot" -}}
{{- if or .Values.simulated.enabled (not .Values.devRoot) (eq .Values.devRoot .Values.driverRoot) -}}
/driver-root
{{- else -}}
/dev-root
{{- end -}}
{{- end -}}

{{/* The DeviceClass of a MIG profile, without the driver's name. */}}
{{- define "cleave.migClass" -}}
mig-{{ . | replace "+" "." | replace "-" ".no-" }}
{{- end -}}

{{/*
Simulated and real hardware never share a node: the simulator's label decides. A node
that is in several groups belongs to the first. Both go into every term, because terms
are alternatives.
*/}}
{{- define "cleave.affinity" -}}
{{- $always := list (dict "key" "cleave.dev/simulated" "operator" (ternary "Exists" "DoesNotExist" .Values.simulated.enabled)) }}
{{- range .before }}
{{- range $key, $value := .nodeLabel }}
{{- $always = append $always (dict "key" $key "operator" "NotIn" "values" (list $value)) }}
{{- end }}
{{- end }}
{{- range $key, $value := .nodeLabel }}
{{- $always = append $always (dict "key" $key "operator" "In" "values" (list $value)) }}
{{- end }}
{{- $affinity := deepCopy .Values.affinity }}
{{- $node := get $affinity "nodeAffinity" | default dict }}
{{- $required := get $node "requiredDuringSchedulingIgnoredDuringExecution" | default dict }}
{{- $terms := list }}
{{- range get $required "nodeSelectorTerms" | default (list dict) }}
{{- $terms = append $terms (set . "matchExpressions" (concat (get . "matchExpressions" | default list) $always)) }}
{{- end }}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) }}
{{- set $affinity "nodeAffinity" $node | toYaml }}
{{- end -}}

{{/*
Root, because the kubelet's folders and sockets belong to root. The container of the
hook needs the same, since hosts with SELinux keep others out of these folders.
*/}}
{{- define "cleave.securityContext" -}}
readOnlyRootFilesystem: true
{{- if .Values.privileged }}
privileged: true
{{- else }}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end }}
{{- end -}}
