// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// Invalid values are rejected with a message that names them.
func TestInvalidValuesAreRejected(t *testing.T) {
	for _, tc := range []struct{ values, want string }{
		{"replica=3", "additional properties 'replica' not allowed"},
		{"replicas=0", "at '/replicas': minimum: got 0, want 1"},
		{"replicas=two", "at '/replicas': got string, want integer"},
		{"image.tagg=1", "at '/image': additional properties 'tagg' not allowed"},
		{"image.digest=sha256:12", "at '/image/digest'"},
		{"image.pullPolicy=Sometimes", "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'"},
		{"redis.url=", "redis.url: set the URL of Redis"},
		{"redis.url=http://redis", "at '/redis/url'"},
		{"redis.url=redis://user:secret@redis:6379", "redis.url: contains a user or password, which everyone who reads the Deployment would see; put the URL into a Secret and set redis.urlFromSecret"},
		{"redis.url=redis-sentinel://sentinel:26379", "at '/redis/url'"},
		{"redis.url=redis-sentinel://sentinel:26379/m/db", "at '/redis/url'"},
		{"redis.url=redis-sentinel://sentinel:26379/m?addr=user:secret@b:1", "set redis.urlFromSecret"},
		{"redis.serverName=a:1", "at '/redis/serverName'"},
		{"redis.serverName=redis.example", "redis.serverName: needs a redis.url with rediss://"},
		{"redis.existingSecret=s,redis.secretKeys.sentinelPassword=p", "redis.secretKeys.sentinelPassword: needs a redis.url with redis-sentinel://"},
		{"redis.existingSecret=s,redis.secretKeys.sentinelUsername=u", "redis.secretKeys.sentinelUsername: needs redis.secretKeys.sentinelPassword"},
		{"redis.prefix={}", "at '/redis/prefix'"},
		{"redis.bundled.enabled=true", "redis.url and redis.bundled.enabled: choose one"},
		{"redis.url=,redis.bundled.enabled=true", "redis.bundled.image: set the image"},
		{"watchNamespaces={Shop}", "at '/watchNamespaces/0'"},
		{"watchNamespaces={a},excludeNamespaces={b}", "watchNamespaces and excludeNamespaces: choose one"},
		{"watchNamespaces={a}", "watchNamespaces: needs crds.enabled=false"},
		{"watchNamespaces={a},crds.enabled=false", "watchNamespaces: needs webhook.enabled=false, or webhook.certManager.enabled"},
		{"watchNamespaces={a},crds.enabled=false,webhook.enabled=false," + access("on-call", "inspect"), "access: binds ClusterRoles"},
		{"redis.urlFromSecret.name=s,redis.urlFromSecret.key=k", "redis.urlFromSecret, redis.url, redis.bundled.enabled: choose one"},
		{"redis.url=,redis.urlFromSecret.name=s", "at '/redis/urlFromSecret'"},
		{"redis.bundled.digest=sha256:12", "at '/redis/bundled/digest'"},
		{`commonLabels.app\.kubernetes\.io/name=x`, "commonLabels: app.kubernetes.io/name is a label set by the chart"},
		{`commonLabels.rbac\.authorization\.k8s\.io/aggregate-to-view=a`, "commonLabels: rbac.authorization.k8s.io/aggregate-to-view is"},
		{"extraVolumes[0].name=tls", "extraVolumes: tls is a volume set by the chart"},
		{"extraVolumes[0].emptyDir.medium=Memory", "missing property 'name'"},
		{"extraVolumeMounts[0].name=a", "missing property 'mountPath'"},
		{"autoscaling.behavior.up=1", "at '/autoscaling/behavior': additional properties 'up' not allowed"},
		{"service.trafficDistribution=Near", "at '/service/trafficDistribution'"},
		{"tls.certManager.enabled=true", "tls.certManager.enabled: needs tls.enabled"},
		{"tls.enabled=true,tls.existingSecret=s,tls.certManager.enabled=true", "tls.existingSecret and tls.certManager.enabled: choose one"},
		{"tls.enabled=true,tls.certManager.enabled=true,tls.clientCertificates.required=true", "tls.clientCertificates.caSecret: set the Secret"},
		{"webhook.hostNetwork=true", "webhook.hostNetwork: needs webhook.enabled and split.enabled"},
		{"webhook.hostNetwork=true,split.enabled=true,webhook.enabled=false", "webhook.hostNetwork: needs webhook.enabled and split.enabled"},
		{"webhook.hostNetwork=true,split.enabled=true,webhook.clientCIDRs={192.0.2.0/24}", "webhook.clientCIDRs: a NetworkPolicy does not apply"},
		{"redis.existingSecret=s,redis.secretKeys.password=", "redis.secretKeys: name a key"},
		{"redis.existingSecret=s,redis.secretKeys.password=,redis.secretKeys.username=u", "redis.secretKeys.username: needs redis.secretKeys.password"},
		{"redis.existingSecret=s,redis.secretKeys.certificate=c", "redis.secretKeys.certificate, redis.secretKeys.privateKey: need each other"},
		{"redis.existingSecret=s,redis.secretKeys.ca=c", "need a redis.url with rediss://"},
		{"tenancy=None", "at '/tenancy': value must be one of 'Namespace', 'Cluster'"},
		{"installation=a/b", "at '/installation'"},
		{"localKeys=0", "at '/localKeys': minimum: got 0, want 1"},
		{"slices=-1", "at '/slices': minimum: got -1, want 0"},
		{"storeTimeout=0s", "at '/storeTimeout'"},
		{"storeTimeout=50", "at '/storeTimeout'"},
		{"trustedProxies={proxy}", "at '/trustedProxies/0'"},
		{"logLevel=loud", "at '/logLevel'"},
		{"drainDelaySeconds=-1", "at '/drainDelaySeconds': minimum: got -1, want 0"},
		{"tls.enabled=true", "tls.existingSecret: set the Secret"},
		{"tls.clientCertificates.required=true", "tls.clientCertificates.required: needs tls.enabled"},
		{"tls.enabled=true,tls.existingSecret=s,tls.clientCertificates.allowedNames={a}", "tls.clientCertificates.allowedNames: needs tls.clientCertificates.required"},
		{"webhook.failurePolicy=Maybe", "at '/webhook/failurePolicy': value must be one of 'Ignore', 'Fail'"},
		{"webhook.timeoutSeconds=31", "at '/webhook/timeoutSeconds': maximum: got 31, want 30"},
		{"webhook.clientCIDRs={apiserver}", "at '/webhook/clientCIDRs/0'"},
		{"networkPolicy.enabled=false,webhook.clientCIDRs={192.0.2.0/24}", "webhook.clientCIDRs: needs webhook.enabled and networkPolicy.enabled"},
		{"webhook.enabled=false,webhook.certManager.enabled=true", "webhook.certManager.enabled: needs webhook.enabled"},
		{"autoscaling.enabled=true,autoscaling.minReplicas=11", "autoscaling.minReplicas: must not be more than autoscaling.maxReplicas"},
		{"podDisruptionBudget.maxUnavailable=0", "at '/podDisruptionBudget/maxUnavailable'"},
		{"networkPolicy.extraClients[0].namespace=a", "additional properties 'namespace' not allowed"},
		{"networkPolicy.metricsNamespaces={Monitoring}", "at '/networkPolicy/metricsNamespaces/0'"},
		{"topologySpread.whenUnsatisfiable=Never", "at '/topologySpread/whenUnsatisfiable'"},
		{access("on-call", "admin"), "at '/access/0/role': value must be one of 'inspect', 'operator'"},
		{access("on-call", "inspect") + ",access[0].subjects[0].kind=ServiceAccount", "missing property 'namespace'"},
		{access("on-call", "inspect") + ",access[0].namespaces[0]=Shop", "at '/access/0/namespaces/0'"},
		{access("on-call", "inspect") + ",access[0].reveal=true", "at '/access/0/reveal': value must be false"},
		{access("weir", "inspect"), "access: weir is the ServiceAccount of another entry or of the pods"},
		{access("on-call", "inspect") + ",rbac.create=false", "access: needs rbac.create"},
		{"access[0].name=on-call", "missing properties 'role', 'namespaces', 'subjects'"},
		{"extraArgs={manager}", "at '/extraArgs/0'"},
		{"extraArgs={--tenancy=Cluster}", "extraArgs: the value tenancy sets --tenancy"},
		{"extraArgs={--tenancy,Cluster}", "at '/extraArgs/1'"},
		{"split.enabled=true,extraArgs={--lease-duration=30s,--console}", "extraArgs: the value console.enabled sets --console"},
		{"extraEnv[0].value=x", "missing property 'name'"},
		{"prometheusRule.disabled.WeirNonesuch=true", "at '/prometheusRule/disabled': additional properties 'WeirNonesuch' not allowed"},
		{"webhook.port=8080", "at '/webhook/port'"},
		{"webhook.port=443", "at '/webhook/port': minimum: got 443, want 1,024"},
		{"service.ipFamilies={IPv5}", "at '/service/ipFamilies/0'"},
		{"service.loadBalancerSourceRanges={192.0.2.1}", "at '/service/loadBalancerSourceRanges/0'"},
		{"service.loadBalancerSourceRanges={192.0.2.0/24}", "service.loadBalancerSourceRanges: needs service.type=LoadBalancer"},
		{"service.type=ExternalName", "at '/service/type'"},
		{`podLabels.ratelimit\.weir\.dev/decisions=no`, "podLabels: ratelimit.weir.dev/decisions is a selector label"},
		{"resources.limit=1", "at '/resources': additional properties 'limit' not allowed"},
	} {
		t.Run(tc.values, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			_, complaint, err := tryHelm(t, template(t, "weir", []string{redisURL, tc.values})...)
			g.Expect(err).To(HaveOccurred())
			g.Expect(complaint).To(And(ContainSubstring(tc.want), Not(ContainSubstring("secret@"))))
		})
	}
}

// The schema has exactly the values of values.yaml.
func TestSchemaMatchesTheValues(t *testing.T) {
	g := NewWithT(t)
	var schema, values map[string]any
	g.Expect(json.Unmarshal([]byte(read(t, chart+"/values.schema.json")), &schema)).To(Succeed())
	g.Expect(yaml.Unmarshal([]byte(read(t, chart+"/values.yaml")), &values)).To(Succeed())
	definitions := schema["definitions"].(map[string]any)
	// Some objects are of Kubernetes types, or maps with keys that users choose.
	theirs := regexp.MustCompile(`(resources|issuerRef|affinity|labels|annotations|Annotations|Labels|nodeSelector|global|urlFromSecret|behavior|disabled|[sS]ecurityContext)$`)
	var compare func(path string, schema, value map[string]any)
	compare = func(path string, schema, value map[string]any) {
		if name, found := strings.CutPrefix(text(schema["$ref"]), "#/definitions/"); found {
			schema = definitions[name].(map[string]any)
		}
		if theirs.MatchString(path) {
			return
		}
		g.Expect(schema["additionalProperties"]).To(BeFalse(), path)
		properties := schema["properties"].(map[string]any)
		names := slices.Collect(maps.Keys(value))
		if path == "" {
			names = append(names, "global", "enabled")
		}
		g.Expect(slices.Collect(maps.Keys(properties))).To(ConsistOf(names), path)
		for name, inner := range value {
			if inner, nested := inner.(map[string]any); nested {
				compare(path+"."+name, properties[name].(map[string]any), inner)
			}
		}
	}
	compare("", schema, values)
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

// Alerts query existing metrics and link to existing sections of the runbook.
func TestAlertsReferToMetricsAndRunbook(t *testing.T) {
	g := NewWithT(t)
	var rules []struct {
		Alert, Expr, For    string
		Labels, Annotations map[string]string
	}
	g.Expect(yaml.UnmarshalStrict([]byte(read(t, chart+"/files/alerts.yaml")), &rules)).To(Succeed())
	g.Expect(len(rules)).To(BeNumerically(">", 5))
	sections := anchors(read(t, root+"/docs/runbook.md"))
	for _, rule := range rules {
		expectMetrics(t, rule.Alert, rule.Expr)
		g.Expect([]string{"critical", "warning", "info"}).To(ContainElement(rule.Labels["severity"]), rule.Alert)
		g.Expect(rule.Annotations).To(HaveKey("summary"), rule.Alert)
		anchor, found := strings.CutPrefix(rule.Annotations["runbook_url"], "$RUNBOOK#")
		g.Expect(found).To(BeTrue(), rule.Alert)
		g.Expect(sections).To(ContainElement(anchor), rule.Alert)
	}
	rendered := render(t, "weir", redisURL, "prometheusRule.enabled=true", "prometheusRule.runbookURL=https://runbook.example").
		find(t, "PrometheusRule/weir")
	out, err := json.Marshal(rendered.Object)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(ContainSubstring("https://runbook.example#redis-does-not-answer"))
	g.Expect(string(out)).To(ContainSubstring("{{ $labels.cause }}"))
	g.Expect(string(out)).NotTo(ContainSubstring("$RUNBOOK"))
}

func TestDashboardQueriesExistingMetrics(t *testing.T) {
	g := NewWithT(t)
	config := render(t, "weir", redisURL, "dashboard.enabled=true").find(t, "ConfigMap/weir-dashboard")
	g.Expect(config.GetLabels()).To(HaveKeyWithValue("grafana_dashboard", "1"))
	data, _ := config.Object["data"].(map[string]any)
	g.Expect(data).To(HaveLen(2))
	for _, file := range []string{"weir.json", "weir-tenants.json"} {
		var dashboard struct {
			Panels []struct {
				ID      int
				Title   string
				Targets []struct{ Expr string }
			}
		}
		g.Expect(json.Unmarshal([]byte(text(data[file])), &dashboard)).To(Succeed())
		seen := map[int]bool{}
		for _, panel := range dashboard.Panels {
			g.Expect(seen).NotTo(HaveKey(panel.ID))
			seen[panel.ID] = true
			g.Expect(panel.Targets).NotTo(BeEmpty(), panel.Title)
			for _, target := range panel.Targets {
				expectMetrics(t, panel.Title, target.Expr)
				if file == "weir-tenants.json" {
					g.Expect(target.Expr).To(ContainSubstring(`namespace=~"$namespace"`), panel.Title)
				}
			}
		}
	}
}

var metricName = regexp.MustCompile(`weir_[a-z_]+`)

// expectMetrics expects every weir_ metric of the query to be in docs/metrics.md.
func expectMetrics(t *testing.T, what, query string) {
	t.Helper()
	g := NewWithT(t)
	documented := read(t, root+"/docs/metrics.md")
	for _, name := range metricName.FindAllString(query, -1) {
		g.Expect(documented).To(ContainSubstring("| `"+strings.TrimSuffix(name, "_bucket")+"` |"), what)
	}
	g.Expect(strings.Count(query, "(")).To(Equal(strings.Count(query, ")")), what)
}

var heading = regexp.MustCompile(`(?m)^#+ (.*)$`)

// anchors returns the link anchors of the headings of a page.
func anchors(page string) (all []string) {
	for _, found := range heading.FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(found[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// extraArgs can set no flag that a value sets: the last one of two flags wins, while templates follow the value.
func TestExtraArgsRepeatNoFlagOfAValue(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(chart + "/templates/_container.tpl")
	g.Expect(err).NotTo(HaveOccurred())
	_, arguments, _ := strings.Cut(string(text), `define "weir.args"`)
	arguments, _, _ = strings.Cut(arguments, "extraArgs")
	flags := regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(arguments, -1)
	g.Expect(len(flags)).To(BeNumerically(">", 40))
	for _, flag := range flags {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			_, complaint, err := tryHelm(t, template(t, "weir", []string{redisURL, "extraArgs={" + flag + "=x}"})...)
			g := NewWithT(t)
			g.Expect(err).To(HaveOccurred())
			g.Expect(complaint).To(MatchRegexp("extraArgs: the value [a-zA-Z.]+ sets " + flag + `\b`))
		})
	}
}
