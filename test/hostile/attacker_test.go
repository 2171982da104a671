// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-dev/weir/test/testenv"
)

// The attacker is a process of its own with the lowest priority. So it takes no CPU time from the others
// or from weir on a small machine: what the others notice is what weir and Redis do for it.
const (
	envAttack = "WEIR_HOSTILE_ATTACK"
	envHTTP   = "WEIR_HOSTILE_HTTP"
	envGRPC   = "WEIR_HOSTILE_GRPC"
)

// load is what an attacker sends until the context ends.
type load func(ctx context.Context, a *attacker)

// attacker sends the load of one attack.
type attacker struct {
	HTTP, GRPC string // addresses
	rate       int    // requests a second
	dialed     atomic.Int64
	http       *http.Client
	calls      []*grpc.ClientConn

	mu       sync.Mutex
	outcomes map[string]int // of the load
	ready    func()         // is called once the load is complete
}

// sources is the number of the addresses that connections come from: 127.0.0.2 and the next ones.
const sources = 64

// dial opens a connection from the next address.
func (a *attacker) dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+a.dialed.Add(1)%sources))}}
	return d.DialContext(ctx, "tcp", address)
}

func newAttacker(httpAddress, grpcAddress string, rate int) (*attacker, error) {
	a := &attacker{HTTP: httpAddress, GRPC: grpcAddress, rate: rate}
	a.http = &http.Client{Transport: &http.Transport{
		DialContext:     func(ctx context.Context, _, address string) (net.Conn, error) { return a.dial(ctx, address) },
		MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64, DisableCompression: true,
	}}
	for range 4 {
		conn, err := grpc.NewClient(grpcAddress, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(a.dial))
		if err != nil {
			return nil, err
		}
		a.calls = append(a.calls, conn)
	}
	return a, nil
}

// count counts one request by its outcome.
func (a *attacker) count(outcome string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.outcomes[outcome]++
}

// paced sends requests at the rate of the attack. send returns the outcome of the n-th one.
func paced(send func(ctx context.Context, a *attacker, n int) (string, error)) load {
	const timeout = 10 * time.Second
	return func(ctx context.Context, a *attacker) {
		a.ready()
		var all sync.WaitGroup
		defer all.Wait()
		places := make(chan struct{}, 256)
		due := time.Now()
		for n := 0; ctx.Err() == nil; n++ {
			due = due.Add(time.Second / time.Duration(a.rate))
			if !pause(ctx, time.Until(due)) {
				return
			}
			select {
			case places <- struct{}{}:
			default:
				a.count("not sent")
				continue
			}
			all.Go(func() {
				defer func() { <-places }()
				limited, cancel := context.WithTimeout(ctx, timeout) // busy: outcomes of attackers are counted, not judged
				defer cancel()
				switch outcome, err := send(limited, a, n); {
				case ctx.Err() != nil: // the round ended
				case err != nil:
					a.count(fmt.Sprintf("%.60s", err))
				default:
					a.count(outcome)
				}
			})
		}
	}
}

// pause waits, and reports whether the context still lasts.
func pause(ctx context.Context, length time.Duration) bool {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// runAttacker obeys the commands of startAttacker, one a line: the name of a load starts it, an empty line
// stops it and prints the outcomes.
func runAttacker(ctx context.Context) error {
	at := findAttack(os.Getenv(envAttack))
	if at == nil {
		return errors.New("no such attack")
	}
	a, err := newAttacker(os.Getenv(envHTTP), os.Getenv(envGRPC), at.rate)
	if err != nil {
		return err
	}
	loads := map[string]load{"worst": at.worst, "harmless": at.harmless}
	cancel, done := context.CancelFunc(func() {}), make(chan struct{})
	close(done)
	for commands := bufio.NewScanner(os.Stdin); commands.Scan(); {
		load := commands.Text()
		if load == "" {
			cancel()
			<-done
			if err := json.NewEncoder(os.Stdout).Encode(a.outcomes); err != nil {
				return err
			}
			continue
		}
		var running context.Context
		running, cancel = context.WithCancel(ctx)
		a.outcomes = map[string]int{}
		a.ready = sync.OnceFunc(func() { _, _ = fmt.Fprintln(os.Stdout) })
		done = make(chan struct{})
		go func() {
			defer close(done)
			loads[load](running, a)
		}()
	}
	cancel()
	<-done
	return nil
}

// attackerProcess is an attacker's process.
type attackerProcess struct {
	tb      testing.TB
	cmd     *exec.Cmd
	input   io.WriteCloser
	answers *bufio.Reader
}

// startAttacker starts the process of an attacker on weir. It stops with the test.
func startAttacker(tb testing.TB, at *attack, w *weir) *attackerProcess {
	tb.Helper()
	g := NewWithT(tb)
	p := &attackerProcess{tb: tb, cmd: testenv.Command("nice", "-n", "19", os.Args[0])}
	p.cmd.Env = append(os.Environ(), envAttack+"="+at.name, envHTTP+"="+w.HTTP, envGRPC+"="+w.GRPC)
	log := &testenv.Log{}
	p.cmd.Stderr = log
	var err error
	p.input, err = p.cmd.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	output, err := p.cmd.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	p.answers = bufio.NewReader(output)
	g.Expect(p.cmd.Start()).To(Succeed())
	tb.Cleanup(func() {
		_ = p.input.Close()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if tb.Failed() && log.String() != "" {
			tb.Logf("attacker:\n%s", log.String())
		}
	})
	return p
}

// start starts the load and waits until it is complete.
func (p *attackerProcess) start(load string) {
	p.tb.Helper()
	_, err := fmt.Fprintln(p.input, load)
	NewWithT(p.tb).Expect(err).NotTo(HaveOccurred())
	_, err = p.answers.ReadString('\n')
	NewWithT(p.tb).Expect(err).NotTo(HaveOccurred(), "the attacker ended")
}

// stop stops the load and returns how many requests had which outcome.
func (p *attackerProcess) stop() (outcomes map[string]int) {
	p.tb.Helper()
	g := NewWithT(p.tb)
	_, err := fmt.Fprintln(p.input)
	g.Expect(err).NotTo(HaveOccurred())
	line, err := p.answers.ReadBytes('\n')
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Unmarshal(line, &outcomes)).To(Succeed())
	return outcomes
}
