package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A set of files of which one is missing is refused. Nothing falls back to less than was meant.
func TestIncompleteSets(t *testing.T) {
	for _, one := range []struct {
		set     []string
		missing string
	}{
		{[]string{certificateFile}, keyFile},
		{[]string{keyFile}, certificateFile},
		{[]string{authorityFile, keyFile}, certificateFile},
		{[]string{authorityFile, certificateFile}, keyFile},
		{[]string{certificateFile, keyFile}, authorityFile},
	} {
		t.Run(strings.Join(one.set, " "), func(t *testing.T) {
			for _, name := range one.set {
				t.Setenv(name, "some file")
			}
			config, err := TLS()
			if config != nil || err == nil || !strings.Contains(err.Error(), one.missing+" is not") {
				t.Fatalf("TLS is %v, %v", config, err)
			}
		})
	}
}

// The window is that of the variable. Without it the client's own counts, and what is no time is refused.
func TestJoinWindow(t *testing.T) {
	if window, err := JoinWindow(); window != nil || err != nil {
		t.Fatalf("without the variable the window is %v, %v", window, err)
	}
	for text, wanted := range map[string]time.Duration{"0": 0, "1500us": 1500 * time.Microsecond} {
		t.Setenv(joinWindow, text)
		if window, err := JoinWindow(); err != nil || *window != wanted {
			t.Errorf("%s is %v, %v", text, window, err)
		}
	}
	t.Setenv(joinWindow, "1")
	if _, err := JoinWindow(); err == nil || err.Error() != `LICORNE_JOIN_WINDOW is "1": it must be a time such as 1ms, or 0` {
		t.Errorf("1 is refused by %v", err)
	}
}

// Without any of the files the connection is plain text. Files that are wrong are named.
func TestFiles(t *testing.T) {
	if config, err := TLS(); config != nil || err != nil {
		t.Fatalf("TLS is %v, %v", config, err)
	}
	folder := t.TempDir()
	t.Setenv(authorityFile, filepath.Join(folder, "absent"))
	if _, err := TLS(); err == nil || !strings.Contains(err.Error(), authorityFile) {
		t.Fatalf("no such file: %v", err)
	}
	authority, key := writePair(t, folder, "server")
	t.Setenv(authorityFile, key)
	if _, err := TLS(); err == nil || !strings.Contains(err.Error(), "has no certificate") {
		t.Fatalf("a key for an authority: %v", err)
	}
	t.Setenv(authorityFile, authority)
	if config, err := TLS(); err != nil || config.GetClientCertificate != nil {
		t.Fatalf("without a certificate of its own: %v", err)
	}
	t.Setenv(certificateFile, authority)
	t.Setenv(keyFile, authority)
	if _, err := TLS(); err == nil || !strings.Contains(err.Error(), keyFile) {
		t.Fatalf("a certificate for a key: %v", err)
	}
}

// A certificate that was replaced is shown to the server from the next connection on.
func TestReplacedCertificate(t *testing.T) {
	servers, clients := t.TempDir(), t.TempDir()
	serverCertificate, serverKey := writePair(t, servers, "server")
	certificate, key := writePair(t, clients, "old")
	t.Setenv(authorityFile, serverCertificate)
	t.Setenv(certificateFile, certificate)
	t.Setenv(keyFile, key)
	config, err := TLS()
	if err != nil {
		t.Fatal(err)
	}
	config.ServerName = "localhost"
	pair, err := tls.LoadX509KeyPair(serverCertificate, serverKey)
	if err != nil {
		t.Fatal(err)
	}
	server := &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	for _, name := range []string{"old", "new"} {
		writePair(t, clients, name)
		if shown := handshake(t, server, config); shown != name {
			t.Fatalf("the server was shown %q, want %q", shown, name)
		}
	}
}

// handshake returns the name in the certificate that the client showed.
func handshake(t *testing.T, server, client *tls.Config) string {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	result := make(chan error, 1)
	go func() { result <- tls.Client(here, client).Handshake() }()
	accepted := tls.Server(there, server)
	if err := accepted.Handshake(); err != nil {
		t.Fatal(err)
	}
	// The client reads what the server sends after its own part, and would wait without end.
	there.Close()
	<-result
	return accepted.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// writePair writes a certificate that signs itself, and its key.
func writePair(t *testing.T, folder, name string) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(folder, "certificate.pem"), filepath.Join(folder, "key.pem")
	for file, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: encoded},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}
