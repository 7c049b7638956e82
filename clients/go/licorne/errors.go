package licorne

import (
	"errors"
	"fmt"
	"strings"
)

// ErrClosed is returned by calls after Close, and after the end of Run's context.
var ErrClosed = errors.New("licorne: the client was closed")

// ErrNotTold is returned by Close if the goodbye could not be sent, or could not ask the server to remove the
// RM.
var ErrNotTold = errors.New("licorne: the server was not told of the end: there was no session, or it was left before")

// FencedError means that a newer instance of this RM has replaced this one, which must stop.
type FencedError struct{ Text string }

// UnauthorizedError means that the server cannot authenticate the client, or does not permit it to act as
// this RM.
type UnauthorizedError struct{ Text string }

// ProtocolError means that the server does not support the protocol of this client; the text has the
// difference. It also means that a message was refused twice. If the versions of client and server agree,
// look at the log of the server, and for anything that corrupts bytes on the way, which TLS would detect.
type ProtocolError struct{ Text string }

// RegistrationError means that the server refused the RM's id, version, policy group, build info or extra
// configuration; the text names the field.
type RegistrationError struct{ Text string }

// LostError means that there was no session for longer than Retry.GiveUpAfter, or no answer to a call.
type LostError struct{ Text string }

// mayPass returns false for a refusal that ends the client at once, true if it may be of a corrupted message.
func mayPass(refusal error) bool {
	var protocolError *ProtocolError
	return errors.As(refusal, &protocolError) || refusesRegistration(refusal)
}

// ConfigError means that the server refused the queue configuration.
type ConfigError struct {
	Text string
	// Problems has the texts of all problems from the server.
	Problems []string
}

// InvalidError means that a field of a Config or of an item cannot be sent. No part of the call was carried
// out.
type InvalidError struct {
	// Field names the field, such as "allocations[3].allocationKey".
	Field string
	// Value is the value, shortened, and quoted if it is a text.
	Value string
	// Problem describes why the value is invalid.
	Problem string
}

func (e *FencedError) Error() string {
	return "licorne: a newer instance of the RM has taken over: " + e.Text
}
func (e *UnauthorizedError) Error() string { return "licorne: not authorized: " + e.Text }
func (e *ProtocolError) Error() string     { return "licorne: protocol error: " + e.Text }
func (e *RegistrationError) Error() string { return "licorne: registration refused: " + e.Text }
func (e *LostError) Error() string         { return "licorne: no connection: " + e.Text }
func (e *ConfigError) Error() string {
	return "licorne: configuration refused: " + strings.Join(e.Problems, "; ")
}
func (e *InvalidError) Error() string {
	return fmt.Sprintf("licorne: %s is %s: %s", e.Field, e.Value, e.Problem)
}
