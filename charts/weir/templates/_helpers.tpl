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
{{ include "weir.releaseLabels" . }}
{{- end -}}

{{- define "weir.releaseLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: weir
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of an object to which users add their own: {root, extra}. */}}
{{- define "weir.labelsWith" -}}
{{- merge (dict) .extra (include "weir.labels" .root | fromYaml) | toYaml -}}
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

{{/* Annotations and labels of the objects of helm test, which deletes them when the test has
     passed. After a failure they remain until the next test. */}}
{{- define "weir.testHook" -}}
helm.sh/hook: test
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
{{- define "weir.testLabels" -}}
app.kubernetes.io/name: weir-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The Namespace of the policy of helm test: the Namespace of the release, if its policies are enforced. */}}
{{- define "weir.testNamespace" -}}
{{- if or (not .Values.watchNamespaces) (has .Release.Namespace .Values.watchNamespaces) -}}
{{- .Release.Namespace -}}
{{- else -}}
{{- first .Values.watchNamespaces -}}
{{- end -}}
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

{{/* The Lease of the leader election, which a split release shares. */}}
{{- define "weir.leaseName" -}}
{{- printf "%s-manager" (include "weir.fullname" .) -}}
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

{{/* The IP families of a Service. */}}
{{- define "weir.ipFamilies" -}}
{{- with .Values.service.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.service.ipFamilies }}
ipFamilies: {{ toJson . }}
{{- end }}
{{- end -}}

{{- define "weir.redisURL" -}}
{{- if .Values.redis.bundled.enabled -}}
redis://{{ include "weir.fullname" . }}-redis:6379
{{- else -}}
{{- .Values.redis.url -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the certificate of the HTTP and the gRPC port. */}}
{{- define "weir.tlsSecret" -}}
{{- ternary (printf "%s-tls" (include "weir.fullname" .)) .Values.tls.existingSecret .Values.tls.certManager.enabled -}}
{{- end -}}

{{/* A Certificate of cert-manager: {root, name, secret, dnsNames, issuerRef}. Without an issuer
     it is signed by itself. */}}
{{- define "weir.certificate" -}}
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "weir.labels" .root | nindent 4 }}
spec:
  secretName: {{ .secret }}
  dnsNames:
  {{- range .dnsNames }}
  - {{ . | quote }}
  {{- end }}
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  usages: [server auth]
  issuerRef:
    {{- if .issuerRef }}
    {{- toYaml .issuerRef | nindent 4 }}
    {{- else }}
    name: {{ .name }}
    kind: Issuer
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "weir.labels" .root | nindent 4 }}
spec:
  selfSigned: {}
    {{- end }}
{{- end -}}

{{/* Checks that the schema cannot express: values that require each other. */}}
{{- define "weir.validate" -}}
{{- with .Values -}}
{{- if and .redis.bundled.enabled .redis.url -}}
{{- fail "redis.url and redis.bundled.enabled: choose one" -}}
{{- end -}}
{{- if and .redis.urlFromSecret (or .redis.url .redis.bundled.enabled) -}}
{{- fail "redis.urlFromSecret, redis.url, redis.bundled.enabled: choose one" -}}
{{- end -}}
{{- if not (or .redis.bundled.enabled .redis.url .redis.urlFromSecret) -}}
{{- fail "redis.url: set the URL of Redis, as in --set redis.url=redis://redis.example:6379; or set redis.bundled.enabled to try Weir out" -}}
{{- end -}}
{{- if contains "@" .redis.url -}}
{{- fail "redis.url: contains a user or password, which everyone who reads the Deployment would see; put the URL into a Secret and set redis.urlFromSecret, or put the password into redis.existingSecret" -}}
{{- end -}}
{{- if and .redis.bundled.enabled (not .redis.bundled.image) -}}
{{- fail "redis.bundled.image: set the image of Redis" -}}
{{- end -}}
{{- if and .redis.credentialsCommand .redis.existingSecret (or .redis.secretKeys.password .redis.secretKeys.username) -}}
{{- fail "redis.credentialsCommand: prints user and password; set redis.secretKeys.username and redis.secretKeys.password to \"\"" -}}
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
{{- if and .sentinelPassword $.Values.redis.url (not (regexMatch "^rediss?-sentinel://" $.Values.redis.url)) -}}
{{- fail "redis.secretKeys.sentinelPassword: needs a redis.url with redis-sentinel:// or rediss-sentinel://" -}}
{{- end -}}
{{- if ne (empty .certificate) (empty .privateKey) -}}
{{- fail "redis.secretKeys.certificate, redis.secretKeys.privateKey: need each other" -}}
{{- end -}}
{{- if and (or .ca .certificate) $.Values.redis.url (not (hasPrefix "rediss" $.Values.redis.url)) -}}
{{- fail "redis.secretKeys.ca, redis.secretKeys.certificate: need a redis.url with rediss://, rediss-cluster:// or rediss-sentinel://" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .redis.serverName (not .redis.urlFromSecret) (not (hasPrefix "rediss" .redis.url)) -}}
{{- fail "redis.serverName: needs a redis.url with rediss://, rediss-cluster:// or rediss-sentinel://" -}}
{{- end -}}
{{- if and .tls.enabled (not .tls.existingSecret) (not .tls.certManager.enabled) -}}
{{- fail "tls.existingSecret: set the Secret with tls.crt and tls.key, or set tls.certManager.enabled" -}}
{{- end -}}
{{- if and .tls.certManager.enabled (not .tls.enabled) -}}
{{- fail "tls.certManager.enabled: needs tls.enabled" -}}
{{- end -}}
{{- if and .tls.certManager.enabled .tls.existingSecret -}}
{{- fail "tls.existingSecret and tls.certManager.enabled: choose one" -}}
{{- end -}}
{{- if and .tls.clientCertificates.required (not .tls.clientCertificates.caSecret) .tls.certManager.enabled (not .tls.certManager.issuerRef) -}}
{{- fail "tls.clientCertificates.caSecret: set the Secret with the CAs of the clients; a self-signed certificate has none" -}}
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
{{- if and .service.loadBalancerSourceRanges (ne .service.type "LoadBalancer") -}}
{{- fail "service.loadBalancerSourceRanges: needs service.type=LoadBalancer" -}}
{{- end -}}
{{- if and .webhook.hostNetwork (not (and .webhook.enabled .split.enabled)) -}}
{{- fail "webhook.hostNetwork: needs webhook.enabled and split.enabled, since pods that decide stay behind their NetworkPolicy" -}}
{{- end -}}
{{- if and .webhook.hostNetwork .webhook.clientCIDRs -}}
{{- fail "webhook.clientCIDRs: a NetworkPolicy does not apply to webhook.hostNetwork" -}}
{{- end -}}
{{- if .watchNamespaces -}}
{{- if .excludeNamespaces -}}
{{- fail "watchNamespaces and excludeNamespaces: choose one" -}}
{{- end -}}
{{- if .crds.enabled -}}
{{- fail "watchNamespaces: needs crds.enabled=false, and a CRD installed by an owner of the cluster" -}}
{{- end -}}
{{- if and .webhook.enabled (not .webhook.certManager.enabled) -}}
{{- fail "watchNamespaces: needs webhook.enabled=false, or webhook.certManager.enabled and a ValidatingWebhookConfiguration made by an owner of the cluster" -}}
{{- end -}}
{{- if .access -}}
{{- fail "access: binds ClusterRoles, which watchNamespaces does not create; set adminTokenSecret" -}}
{{- end -}}
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
{{- range $label, $_ := .commonLabels -}}
{{- if regexMatch "^(app\\.kubernetes\\.io|helm\\.sh|rbac\\.authorization\\.k8s\\.io|ratelimit\\.weir\\.dev)/" $label -}}
{{- fail (printf "commonLabels: %s is a label set by the chart" $label) -}}
{{- end -}}
{{- end -}}
{{- range .extraVolumes -}}
{{- if has .name (list "redis" "redis-url" "tls" "clients" "webhook" "admin") -}}
{{- fail (printf "extraVolumes: %s is a volume set by the chart; choose another name" .name) -}}
{{- end -}}
{{- end -}}
{{- range $label, $_ := .podLabels -}}
{{- if regexMatch "^(app\\.kubernetes\\.io/(name|instance|component|part-of)$|ratelimit\\.weir\\.dev/)" $label -}}
{{- fail (printf "podLabels: %s is a selector label set by the chart" $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The subjects of a binding. */}}
{{- define "weir.subjects" -}}
{{- range . }}
- kind: {{ .kind }}
  name: {{ .name | quote }}
  {{- if eq .kind "ServiceAccount" }}
  namespace: {{ .namespace | quote }}
  {{- else }}
  apiGroup: rbac.authorization.k8s.io
  {{- end }}
{{- end }}
{{- end }}
