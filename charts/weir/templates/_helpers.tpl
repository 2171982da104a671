{{/* The name of all objects: "weir" for a release of that name, else "<release>-weir". */}}
{{- define "weir.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if eq .Release.Name .Chart.Name -}}
{{- .Chart.Name -}}
{{- else -}}
{{- /* A release name may contain dots, a Service name may not. */ -}}
{{- printf "%s-%s" (.Release.Name | replace "." "-" | trunc 40 | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* Selector labels of all pods of Weir. */}}
{{- define "weir.selectorLabels" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of every object. */}}
{{- define "weir.labels" -}}
{{ include "weir.selectorLabels" . }}
{{ include "weir.commonLabels" . }}
{{- end -}}

{{- define "weir.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: weir
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{/* Labels of pods by role. Services select pods by these, whether the halves run in one
     Deployment or in two. */}}
{{- define "weir.controllersLabel" -}}
ratelimit.weir.dev/controllers: "true"
{{- end -}}
{{- define "weir.decisionsLabel" -}}
ratelimit.weir.dev/decisions: "true"
{{- end -}}

{{- define "weir.redis.labels" -}}
app.kubernetes.io/name: weir-redis
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weir.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Deployments, as a list of {name, controllers, decisions, replicas, resources}. */}}
{{- define "weir.deployments" -}}
{{- if .Values.split.enabled -}}
- name: controller
  controllers: true
  decisions: false
  replicas: {{ .Values.split.controller.replicas }}
  resources: {{ mergeOverwrite (deepCopy .Values.resources) .Values.split.controller.resources | toJson }}
- name: decision
  controllers: false
  decisions: true
  replicas: {{ .Values.split.decision.replicas }}
  resources: {{ mergeOverwrite (deepCopy .Values.resources) .Values.split.decision.resources | toJson }}
{{- else -}}
- name: manager
  controllers: true
  decisions: true
  replicas: {{ .Values.replicas }}
  resources: {{ .Values.resources | toJson }}
{{- end -}}
{{- end -}}

{{/* The ServiceAccount of a Deployment: {root, name}. */}}
{{- define "weir.serviceAccountName" -}}
{{- $base := .root.Values.serviceAccount.name | default (include "weir.fullname" .root) -}}
{{- if .root.Values.split.enabled -}}
{{- printf "%s-%s" $base .name -}}
{{- else -}}
{{- $base -}}
{{- end -}}
{{- end -}}

{{- define "weir.redisURL" -}}
{{- if .Values.redis.bundled.enabled -}}
redis://{{ include "weir.fullname" . }}-redis:6379
{{- else -}}
{{- .Values.redis.url -}}
{{- end -}}
{{- end -}}

{{/* Checks that the schema cannot express: values that require each other. */}}
{{- define "weir.validate" -}}
{{- with .Values -}}
{{- if and .redis.bundled.enabled .redis.url -}}
{{- fail "redis.url and redis.bundled.enabled: choose one" -}}
{{- end -}}
{{- if not (or .redis.bundled.enabled .redis.url) -}}
{{- fail "redis.url: set the URL of Redis, as in --set redis.url=redis://redis.example:6379; or set redis.bundled.enabled to try Weir out" -}}
{{- end -}}
{{- if and .redis.bundled.enabled (not .redis.bundled.image) -}}
{{- fail "redis.bundled.image: set the image of Redis" -}}
{{- end -}}
{{- if .redis.existingSecret -}}
{{- if .redis.bundled.enabled -}}
{{- fail "redis.existingSecret: the bundled Redis has no credentials" -}}
{{- end -}}
{{- with .redis.secretKeys -}}
{{- if not (or .username .password .sentinelPassword .ca .certificate) -}}
{{- fail "redis.secretKeys: name a key, or leave redis.existingSecret empty" -}}
{{- end -}}
{{- if and .username (not .password) -}}
{{- fail "redis.secretKeys.username: needs redis.secretKeys.password" -}}
{{- end -}}
{{- if and .sentinelUsername (not .sentinelPassword) -}}
{{- fail "redis.secretKeys.sentinelUsername: needs redis.secretKeys.sentinelPassword" -}}
{{- end -}}
{{- if and .sentinelPassword (not (regexMatch "^rediss?-sentinel://" $.Values.redis.url)) -}}
{{- fail "redis.secretKeys.sentinelPassword: needs a redis.url with redis-sentinel:// or rediss-sentinel://" -}}
{{- end -}}
{{- if ne (empty .certificate) (empty .privateKey) -}}
{{- fail "redis.secretKeys.certificate, redis.secretKeys.privateKey: need each other" -}}
{{- end -}}
{{- if and (or .ca .certificate) (not (hasPrefix "rediss" $.Values.redis.url)) -}}
{{- fail "redis.secretKeys.ca, redis.secretKeys.certificate: need a redis.url with rediss://, rediss-cluster:// or rediss-sentinel://" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .redis.serverName (not (hasPrefix "rediss" .redis.url)) -}}
{{- fail "redis.serverName: needs a redis.url with rediss://, rediss-cluster:// or rediss-sentinel://" -}}
{{- end -}}
{{- if and .tls.enabled (not .tls.existingSecret) -}}
{{- fail "tls.existingSecret: set the Secret with tls.crt and tls.key" -}}
{{- end -}}
{{- if and .tls.clientCertificates.required (not .tls.enabled) -}}
{{- fail "tls.clientCertificates.required: needs tls.enabled" -}}
{{- end -}}
{{- if and .tls.clientCertificates.allowedNames (not .tls.clientCertificates.required) -}}
{{- fail "tls.clientCertificates.allowedNames: needs tls.clientCertificates.required" -}}
{{- end -}}
{{- if and .webhook.certManager.enabled (not .webhook.enabled) -}}
{{- fail "webhook.certManager.enabled: needs webhook.enabled" -}}
{{- end -}}
{{- if and .webhook.clientCIDRs (not (and .webhook.enabled .networkPolicy.enabled)) -}}
{{- fail "webhook.clientCIDRs: needs webhook.enabled and networkPolicy.enabled" -}}
{{- end -}}
{{- if and .access (not .rbac.create) -}}
{{- fail "access: needs rbac.create" -}}
{{- end -}}
{{- $accounts := list -}}
{{- range include "weir.deployments" $ | fromYamlArray -}}
{{- $accounts = append $accounts (include "weir.serviceAccountName" (dict "root" $ "name" .name)) -}}
{{- end -}}
{{- range .access -}}
{{- if has .name $accounts -}}
{{- fail (printf "access: %s is the ServiceAccount of another entry or of the pods; choose another name" .name) -}}
{{- end -}}
{{- $accounts = append $accounts .name -}}
{{- end -}}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas: must not be more than autoscaling.maxReplicas" -}}
{{- end -}}
{{- range $label, $_ := .podLabels -}}
{{- if regexMatch "^(app\\.kubernetes\\.io/(name|instance|component|part-of)$|ratelimit\\.weir\\.dev/)" $label -}}
{{- fail (printf "podLabels: %s is a selector label set by the chart" $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
