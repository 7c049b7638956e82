package licorne_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"licorne.dev/clients/go/licorne"
	"licorne.dev/clients/go/licornev1"
)

// An invalid configuration is refused with its field and value.
func TestInvalidConfig(t *testing.T) {
	good := licorne.Config{Target: "localhost:7070", RMID: "rm1"}
	cases := map[string]func(*licorne.Config){
		`RMID is "": the resource manager must have an id`: func(c *licorne.Config) { c.RMID = "" },
		`Target is "localhost": it must be host:port`:      func(c *licorne.Config) { c.Target = "localhost" },
		`Target is "b:x": it must be host:port`:            func(c *licorne.Config) { c.Target = "localhost:1,b:x" },
		`Target is "b:0": it must be host:port`:            func(c *licorne.Config) { c.Target = "b:0" },
		`Target is "": it must be host:port`:               func(c *licorne.Config) { c.Target = "localhost:1," },
		`Target is "example.org:1": a token is sent there over TLS only`: func(c *licorne.Config) {
			c.Target, c.Token = "localhost:1,example.org:1", func() (string, error) { return "", nil }
		},
		`Queues is "\xff": it must be UTF-8`:                      func(c *licorne.Config) { c.Queues = "\xff" },
		`BuildInfo["k"] is "\xff": it must be UTF-8`:              func(c *licorne.Config) { c.BuildInfo = map[string]string{"k": "\xff"} },
		`a name in ExtraConfig is "\xff": it must be UTF-8`:       func(c *licorne.Config) { c.ExtraConfig = map[string]string{"\xff": ""} },
		`Retry.Stable is -1s: it must not be negative`:            func(c *licorne.Config) { c.Retry.Stable = -time.Second },
		`Retry.Initial is 876000h0m0s: it must be below 70 years`: func(c *licorne.Config) { c.Retry.Initial = 100 * 365 * 24 * time.Hour },
		`Limits.ResendBytes is -1: it must not be negative`:       func(c *licorne.Config) { c.Limits.ResendBytes = -1 },
		`JoinWindow is -1ns: it must be between 0s and 2ms`: func(c *licorne.Config) {
			window := time.Duration(-1)
			c.JoinWindow = &window
		},
		`JoinWindow is 3ms: it must be between 0s and 2ms`: func(c *licorne.Config) {
			window := 3 * time.Millisecond
			c.JoinWindow = &window
		},
		`Handlers.Check is nil: Predicates are set, so somebody must answer the checks`: func(c *licorne.Config) {
			c.Predicates = &licorne.PredicateOptions{}
		},
		`Predicates.Deadline is 5ms: it must be whole milliseconds between 10ms and 1m0s`: func(c *licorne.Config) {
			c.Predicates = &licorne.PredicateOptions{Deadline: 5 * time.Millisecond}
		},
		`Predicates.ClassBy is 9: it must be ByAsk, ByTag or ByAllTags`: func(c *licorne.Config) {
			c.Predicates = &licorne.PredicateOptions{ClassBy: 9}
		},
	}
	for text, change := range cases {
		config := good
		change(&config)
		_, err := licorne.New(config, licorne.Handlers{})
		if !isA[*licorne.InvalidError](err) || err.Error() != "licorne: "+text {
			t.Errorf("%v\nand not\n%s", err, text)
		}
	}
	if _, err := licorne.New(good, licorne.Handlers{}); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

// With TLS both sides are authenticated. A server of another authority is refused.
func TestTLS(t *testing.T) {
	authority := newAuthority(t)
	serverPair, clientPair := authority.issue(t, "127.0.0.1"), authority.issue(t, "rm1")
	server := newScripted(t, "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{serverPair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.pool,
	})
	r := run(t, server.address, func(config *licorne.Config, _ *licorne.Handlers) {
		config.TLS = &tls.Config{RootCAs: authority.pool, Certificates: []tls.Certificate{clientPair}}
	})
	server.register()
	r.ready()
	stranger := run(t, server.address, func(config *licorne.Config, _ *licorne.Handlers) {
		config.TLS = &tls.Config{RootCAs: newAuthority(t).pool, Certificates: []tls.Certificate{clientPair}}
		config.Retry.GiveUpAfter = time.Millisecond
	})
	if err := stranger.awaitEnd(); !isA[*licorne.LostError](err) {
		t.Fatalf("Run returned %v", err)
	}
}

// authority makes certificates for a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key, pool: x509.NewCertPool()}
	if a.certificate, err = x509.ParseCertificate(encoded); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.certificate)
	return a
}

func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{encoded}, PrivateKey: key}
}

// The messages of the session and of the published interface work in one program: both can be encoded,
// printed, and inspected.
func TestOneRegistry(t *testing.T) {
	request := &licornev1.UpdateRequest{Number: 7, Message: &licornev1.UpdateRequest_Allocations{
		Allocations: &si.AllocationRequest{Allocations: []*si.Allocation{ask("k1")}},
	}}
	encoded, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var decoded licornev1.UpdateRequest
	if err := proto.Unmarshal(encoded, &decoded); err != nil || !proto.Equal(request, &decoded) {
		t.Fatalf("decoded: %v, %v", &decoded, err)
	}
	text, err := prototext.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	decoded.Reset()
	if err := prototext.Unmarshal(text, &decoded); err != nil || !proto.Equal(request, &decoded) {
		t.Fatalf("read again: %v, %v", &decoded, err)
	}
	field := request.ProtoReflect().Descriptor().Fields().ByName("allocations")
	if name := field.Message().FullName(); name != "si.v1.AllocationRequest" {
		t.Fatalf("the field has type %s", name)
	}
	if field.Message() != (&si.AllocationRequest{}).ProtoReflect().Descriptor() {
		t.Fatal("the field has a type of its own")
	}
}
