// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9/auth"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

// botocore stands in for the library that signs requests to AWS.
var botocore = map[string]string{
	"__init__.py": "",
	"session.py": `
class Session:
    def get_credentials(self): return "key"
    def get_component(self, name): return name
def get_session(): return Session()
`,
	"model.py": "ServiceId = str\n",
	"signers.py": `
class RequestSigner:
    def __init__(self, service, region, name, version, credentials, emitter):
        assert (service, region, name, version, credentials, emitter) == ("elasticache", "eu-west-1", "elasticache", "v4", "key", "event_emitter")
    def generate_presigned_url(self, request, operation_name, expires_in, region_name):
        assert (request["method"], operation_name, expires_in, region_name) == ("GET", "connect", 900, "eu-west-1")
        return request["url"] + "&signed"
`,
}

// The programs of the page print credentials that the command reads.
func TestProgramsOfThePage(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../../docs/tasks/expiring-credentials.md")
	g.Expect(err).NotTo(HaveOccurred())
	programs := slices.DeleteFunc(append(testenv.CodeBlocks(string(page), "sh"), testenv.CodeBlocks(string(page), "python")...), func(block string) bool {
		return !strings.HasPrefix(block, "#!")
	})
	g.Expect(programs).To(HaveLen(3))
	s := secrets{t, t.TempDir()}
	s.executable("gcloud", "#!/bin/sh\nprintf 'token-g\\t2999-01-01T00:00:00Z\\n'\n")
	s.executable("az", "#!/bin/sh\nprintf 'token-a\\t32472144000\\n'\n")
	g.Expect(os.Mkdir(s.path("botocore"), 0o700)).To(Succeed())
	for name, text := range botocore {
		s.write("botocore/"+name, text)
	}
	for name, value := range map[string]string{
		"PATH": s.dir + ":" + os.Getenv("PATH"), "OBJECT_ID": "object", "PYTHONPATH": s.dir,
		"REDIS_USER": "weir", "CACHE_NAME": "cache", "AWS_REGION": "eu-west-1",
	} {
		t.Setenv(name, value)
	}
	for name, want := range map[string]string{
		"gcloud": "default:token-g", "az account": "object:token-a", "botocore": "weir:cache/?Action=connect&User=weir&signed",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n := slices.IndexFunc(programs, func(p string) bool { return strings.Contains(p, name) })
			g.Expect(n).To(BeNumerically(">=", 0))
			command, err := redisclient.NewCredentialsCommand(t.Context(), s.executable("program", programs[n]), slog.New(slog.DiscardHandler), prometheus.NewRegistry())
			g.Expect(err).NotTo(HaveOccurred())
			client, err := redisclient.Files{Command: command}.New("redis://localhost", time.Second)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(client.Close()).To(Succeed())
			printed, _, err := command.Subscribe(silent{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(printed.RawCredentials()).To(Equal(want))
		})
	}
}

// silent listens to nothing.
type silent struct{}

func (silent) OnNext(auth.Credentials) {}
func (silent) OnError(error)           {}
