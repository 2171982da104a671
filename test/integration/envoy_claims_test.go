// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// issuer signs tokens as the provider of the page.
type issuer struct{ secret []byte }

// jwks writes the key set of the issuer (RFC 7517) and returns its path.
func (i *issuer) jwks(t *testing.T) string {
	t.Helper()
	set, err := json.Marshal(map[string]any{"keys": []any{map[string]any{
		"kty": "oct", "alg": "HS256", "k": base64.RawURLEncoding.EncodeToString(i.secret),
	}}})
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(t.TempDir(), "jwks.json")
	g.Expect(os.WriteFile(path, set, 0o600)).To(Succeed())
	return path
}

// token returns the Authorization header with a token (RFC 7519) that has the claims.
func (i *issuer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{"iss": "https://id.shop.example", "aud": "shop", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	payload, err := json.Marshal(all)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode(payload)
	mac := hmac.New(sha256.New, i.secret)
	mac.Write([]byte(signed))
	return "Bearer " + signed + "." + encode(mac.Sum(nil))
}

// withFilters returns the configuration with other HTTP filters, as a page prints them.
func withFilters(t *testing.T, config, filters string) string {
	t.Helper()
	const indent = "          "
	before, rest, found := strings.Cut(config, indent+"http_filters:\n")
	NewWithT(t).Expect(found).To(BeTrue())
	_, after, found := strings.Cut(rest, indent+"route_config:\n")
	NewWithT(t).Expect(found).To(BeTrue())
	return before + indent + strings.ReplaceAll(filters, "\n", "\n"+indent) + "\n" + indent + "route_config:\n" + after
}

// A claim of a verified token is a key, and nothing else that a client sends.
func TestEnvoyClaims(t *testing.T) {
	page := blocks(t, "envoy.md")
	filters, policy := page[len(page)-2], page[len(page)-1]
	w, shop := newWorld(t, policy), &issuer{secret: []byte("a secret of 32 bytes for HS256..")}
	startEnvoy(t, w, w.printed(t, withFilters(t, page[0], filters), "/etc/envoy/jwks.json", shop.jwks(t)))
	g, client := NewWithT(t), clientFrom(t, "127.0.0.2")
	send := func(headers ...string) answer {
		return get(t, client, "http://"+w.proxy+"/", append([]string{"Host", "shop.example"}, headers...)...)
	}
	const tenant = "https://shop.example/tenant"
	acme := shop.token(t, map[string]any{tenant: "acme", "sub": "alice"})
	for range 3 {
		g.Expect(send("Authorization", acme).status).To(Equal(http.StatusOK))
	}
	for _, forged := range [][]string{
		{},
		{"X-Jwt-Payload", `{"` + tenant + `":"other"}`},
		{"X-Envoy-Metadata", `{"jwt":{"` + tenant + `":"other"}}`, "Weir-Claims", `{"jwt":{"` + tenant + `":"other"}}`},
	} {
		isDenied(t, send(append([]string{"Authorization", acme}, forged...)...), "shop/tenants-burst", "shop/tenants")
	}
	g.Expect(send("Authorization", shop.token(t, map[string]any{tenant: "acme", "sub": "bob"})).status).To(Equal(http.StatusTooManyRequests), "another user of the tenant")
	g.Expect(send("Authorization", shop.token(t, map[string]any{tenant: "other"})).status).To(Equal(http.StatusOK), "another tenant")
	g.Expect(send("Authorization", shop.token(t, map[string]any{tenant: 7})).status).To(Equal(http.StatusOK), "a number is a tenant")
	for name, value := range map[string]any{"none": nil, "a list": []string{"x"}, "a fraction": 1.5} {
		g.Expect(send("Authorization", shop.token(t, map[string]any{tenant: value})).status).To(Equal(http.StatusForbidden), name)
	}
	stranger := &issuer{secret: []byte("another secret of 32 bytes......")}
	g.Expect(send("Authorization", stranger.token(t, map[string]any{tenant: "other"})).status).To(Equal(http.StatusUnauthorized), "Envoy rejects it")
	g.Expect(send().status).To(Equal(http.StatusUnauthorized), "no token")
	g.Expect(get(t, client, "http://"+w.proxy+"/healthz", "Host", "shop.example").status).To(Equal(http.StatusOK))
}
