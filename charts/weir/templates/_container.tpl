{{/* The values that set the flags of weir.args. extraArgs must not set these, too: the last one of two flags wins, and
     templates follow the value. */}}
{{- define "weir.valuesOfFlags" -}}
redis-url-file: redis.urlFromSecret
redis-url: redis.url
redis-prefix: redis.prefix
redis-credentials-command: redis.credentialsCommand
redis-username-file: redis.secretKeys.username
redis-password-file: redis.secretKeys.password
redis-sentinel-username-file: redis.secretKeys.sentinelUsername
redis-sentinel-password-file: redis.secretKeys.sentinelPassword
redis-ca-file: redis.secretKeys.ca
redis-cert-file: redis.secretKeys.certificate
redis-key-file: redis.secretKeys.privateKey
redis-server-name: redis.serverName
installation: installation
installation-was: installationWas
lease-name: installation
store-timeout: storeTimeout
drain-delay: drainDelaySeconds
log-level: logLevel
controllers: split.enabled
decisions: split.enabled
new-keys-per-minute: newKeys.perMinute
new-keys-per-window: newKeys.perWindow
local-keys: localKeys
slices: slices
observe: observe
console: console.enabled
trusted-proxies: trustedProxies
principal-header: principalHeader
trust-route-extensions: trustRouteExtensions
admin-token-file: adminTokenSecret
legacy-headers: legacyHeaders
metrics-detail: metricsDetail
tenancy: tenancy
max-namespace-policies: budgets.namespace.policies
max-namespace-plan-bytes: budgets.namespace.planBytes
max-namespace-key-bytes: budgets.namespace.keyBytes
max-namespace-exceptions: budgets.namespace.exceptions
max-namespace-exception-bytes: budgets.namespace.exceptionBytes
max-policies: budgets.total.policies
max-plan-bytes: budgets.total.planBytes
max-key-bytes: budgets.total.keyBytes
max-exception-bytes: budgets.total.exceptionBytes
watch-namespaces: watchNamespaces
exclude-namespaces: excludeNamespaces
webhook-address: webhook.port
webhook-cert-file: webhook.certManager.enabled
webhook-key-file: webhook.certManager.enabled
webhook-secret: webhook.enabled
webhook-service: webhook.enabled
webhook-configuration: webhook.enabled
tls-cert-file: tls.enabled
tls-key-file: tls.enabled
client-ca-file: tls.clientCertificates.required
allowed-client-names: tls.clientCertificates.allowedNames
{{- end -}}

{{/* The arguments of a container: {root, controllers, decisions}. */}}
{{- define "weir.args" -}}
{{- $values := .root.Values -}}
{{- $fullname := include "weir.fullname" .root -}}
- manager
{{- if $values.redis.urlFromSecret }}
- --redis-url-file=/etc/weir/redis-url/url
{{- else }}
- {{ printf "--redis-url=%s" (include "weir.redisURL" .root) | quote }}
{{- end }}
- {{ printf "--redis-prefix=%s" $values.redis.prefix | quote }}
{{- with $values.redis.credentialsCommand }}
- {{ printf "--redis-credentials-command=%s" . | quote }}
{{- end }}
{{- if $values.redis.existingSecret }}
{{- with $values.redis.secretKeys }}
{{- if .username }}
- --redis-username-file=/etc/weir/redis/username
{{- end }}
{{- if .password }}
- --redis-password-file=/etc/weir/redis/password
{{- end }}
{{- if .sentinelUsername }}
- --redis-sentinel-username-file=/etc/weir/redis/sentinel-username
{{- end }}
{{- if .sentinelPassword }}
- --redis-sentinel-password-file=/etc/weir/redis/sentinel-password
{{- end }}
{{- if .ca }}
- --redis-ca-file=/etc/weir/redis/ca.crt
{{- end }}
{{- if .certificate }}
- --redis-cert-file=/etc/weir/redis/tls.crt
- --redis-key-file=/etc/weir/redis/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- with $values.redis.serverName }}
- {{ printf "--redis-server-name=%s" . | quote }}
{{- end }}
{{- with $values.installation }}
- --installation={{ . }}
{{- end }}
{{- with $values.installationWas }}
- --installation-was={{ . }}
{{- end }}
- --lease-name={{ include "weir.leaseName" .root }}
- --store-timeout={{ $values.storeTimeout }}
- --drain-delay={{ $values.drainDelaySeconds }}s
- --log-level={{ $values.logLevel }}
{{- if not .controllers }}
- --controllers=false
{{- end }}
{{- if not .decisions }}
- --decisions=false
{{- end }}
{{- if .decisions }}
- --new-keys-per-minute={{ int64 $values.newKeys.perMinute }}
- --new-keys-per-window={{ int64 $values.newKeys.perWindow }}
- --local-keys={{ int64 $values.localKeys }}
- --slices={{ int64 $values.slices }}
{{- if not $values.observe }}
- --observe=false
{{- end }}
{{- if $values.console.enabled }}
- --console
{{- end }}
{{- with $values.trustedProxies }}
- --trusted-proxies={{ join "," . }}
{{- end }}
{{- with $values.principalHeader }}
- --principal-header={{ . }}
{{- end }}
{{- if $values.trustRouteExtensions }}
- --trust-route-extensions
{{- end }}
{{- if $values.adminTokenSecret }}
- --admin-token-file=/etc/weir/admin/token
{{- end }}
{{- if $values.legacyHeaders }}
- --legacy-headers
{{- end }}
{{- if ne $values.metricsDetail "Policy" }}
- --metrics-detail={{ $values.metricsDetail }}
{{- end }}
{{- end }}
{{- if .controllers }}
- --tenancy={{ $values.tenancy }}
- --max-namespace-policies={{ int64 $values.budgets.namespace.policies }}
- --max-namespace-plan-bytes={{ int64 $values.budgets.namespace.planBytes }}
- --max-namespace-key-bytes={{ int64 $values.budgets.namespace.keyBytes }}
- --max-namespace-exceptions={{ int64 $values.budgets.namespace.exceptions }}
- --max-namespace-exception-bytes={{ int64 $values.budgets.namespace.exceptionBytes }}
- --max-policies={{ int64 $values.budgets.total.policies }}
- --max-plan-bytes={{ int64 $values.budgets.total.planBytes }}
- --max-key-bytes={{ int64 $values.budgets.total.keyBytes }}
- --max-exception-bytes={{ int64 $values.budgets.total.exceptionBytes }}
{{- with $values.watchNamespaces }}
- --watch-namespaces={{ join "," . }}
{{- end }}
{{- with $values.excludeNamespaces }}
- --exclude-namespaces={{ join "," . }}
{{- end }}
{{- if not $values.webhook.enabled }}
- --webhook-address=
{{- else }}
{{- if ne (int $values.webhook.port) 9443 }}
- --webhook-address=:{{ int $values.webhook.port }}
{{- end }}
{{- if $values.webhook.certManager.enabled }}
- --webhook-cert-file=/etc/weir/webhook/tls.crt
- --webhook-key-file=/etc/weir/webhook/tls.key
{{- else }}
- --webhook-secret={{ $fullname }}-webhook
- --webhook-service={{ $fullname }}-webhook
- --webhook-configuration={{ $fullname }}
{{- end }}
{{- end }}
{{- end }}
{{- if $values.tls.enabled }}
- --tls-cert-file=/etc/weir/tls/tls.crt
- --tls-key-file=/etc/weir/tls/tls.key
{{- if $values.tls.clientCertificates.required }}
- --client-ca-file=/etc/weir/clients/ca.crt
{{- with $values.tls.clientCertificates.allowedNames }}
- {{ printf "--allowed-client-names=%s" (join "," .) | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- $valuesOfFlags := include "weir.valuesOfFlags" . | fromYaml }}
{{- range $values.extraArgs }}
{{- $flag := regexFind "^--[a-z-]+" . }}
{{- with get $valuesOfFlags (trimPrefix "--" $flag) }}
{{- fail (printf "extraArgs: the value %s sets %s" . $flag) }}
{{- end }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Volumes, each mounted at /etc/weir/<name>: {root, decisions, certManager}. */}}
{{- define "weir.volumes" -}}
{{- $values := .root.Values -}}
{{- if and .decisions $values.adminTokenSecret }}
- name: admin
  secret:
    secretName: {{ $values.adminTokenSecret }}
    defaultMode: 0440
    items:
    - {key: token, path: token}
{{- end }}
{{- with $values.redis.urlFromSecret }}
- name: redis-url
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    items:
    - {key: {{ .key | quote }}, path: url}
{{- end }}
{{- if $values.redis.existingSecret }}
- name: redis
  secret:
    secretName: {{ $values.redis.existingSecret }}
    defaultMode: 0440
    items:
    {{- $files := dict "username" "username" "password" "password" "sentinelUsername" "sentinel-username" "sentinelPassword" "sentinel-password" "ca" "ca.crt" "certificate" "tls.crt" "privateKey" "tls.key" }}
    {{- range $value, $path := $files }}
    {{- with get $values.redis.secretKeys $value }}
    - {key: {{ . | quote }}, path: {{ $path }}}
    {{- end }}
    {{- end }}
{{- end }}
{{- if $values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ include "weir.tlsSecret" .root }}
    defaultMode: 0440
    items:
    - {key: tls.crt, path: tls.crt}
    - {key: tls.key, path: tls.key}
{{- if $values.tls.clientCertificates.required }}
- name: clients
  secret:
    secretName: {{ $values.tls.clientCertificates.caSecret | default (include "weir.tlsSecret" .root) }}
    defaultMode: 0440
    items:
    - {key: ca.crt, path: ca.crt}
{{- end }}
{{- end }}
{{- if .certManager }}
# Optional: the pod starts before cert-manager has issued the certificate.
- name: webhook
  secret:
    secretName: {{ include "weir.fullname" .root }}-webhook-tls
    defaultMode: 0440
    optional: true
{{- end }}
{{- end -}}
