// Package transport reads the configuration of the connection to the server from the environment.
package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"
)

// The environment variables with the paths of PEM files.
const (
	authorityFile   = "LICORNE_CA"
	certificateFile = "LICORNE_CERT"
	keyFile         = "LICORNE_KEY"
)

// joinWindow is the environment variable for Options.JoinWindow.
const joinWindow = "LICORNE_JOIN_WINDOW"

// JoinWindow returns the join window; nil, for the default, if the variable is not set. An error names the variable.
func JoinWindow() (*time.Duration, error) {
	text := os.Getenv(joinWindow)
	if text == "" {
		return nil, nil
	}
	window, err := time.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("%s is %q: it must be a time such as 1ms, or 0", joinWindow, text)
	}
	return &window, nil
}

// TLS returns the configuration of TLS; nil, for no TLS, if none of the variables is set. If the certificate or the key
// is missing, the error names it. The authority is read once. Certificate and key are read for every connection, so
// that they can be replaced while the shim runs.
func TLS() (*tls.Config, error) {
	authority, certificate, key := os.Getenv(authorityFile), os.Getenv(certificateFile), os.Getenv(keyFile)
	switch {
	case authority == "" && certificate == "" && key == "":
		return nil, nil
	case certificate == "" && key != "":
		return nil, missing(keyFile, certificateFile)
	case key == "" && certificate != "":
		return nil, missing(certificateFile, keyFile)
	case authority == "":
		return nil, missing(certificateFile, authorityFile)
	}
	text, err := os.ReadFile(authority)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", authorityFile, err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, errors.New(authorityFile + ": " + authority + " has no certificate")
	}
	if certificate == "" {
		return config, nil
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", certificateFile, keyFile, err)
		}
		return &pair, nil
	}
	// Errors in the files are also reported at the start.
	if _, err := config.GetClientCertificate(nil); err != nil {
		return nil, err
	}
	return config, nil
}

func missing(set, unset string) error {
	return fmt.Errorf("%s is set and %s is not", set, unset)
}
