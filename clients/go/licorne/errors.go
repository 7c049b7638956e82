package licorne

import (
	"errors"
	"fmt"
	"strings"
)

// ErrClosed is returned by calls after Close, and after the end of Run's context.
var ErrClosed = errors.New("licorne: the client was closed")

// ErrNotTold is returned by Close if the server could not be told of the end, or not be asked to forget
// the RM.
var ErrNotTold = errors.New("licorne: the server was not told of the end: there was no session, or it was left before")

// FencedError says that a newer instance of this RM has taken over. This one must stop.
type FencedError struct{ Text string }

// UnauthorizedError says that the server does not know who we are, or does not let us act as this RM.
type UnauthorizedError struct{ Text string }

// ProtocolError says that the server does not speak the protocol of this client, and where they differ. A
// message was refused, sent again and refused again. If the versions of client and server agree, look at
// the log of the server, and at what changes bytes on the way; TLS notices that.
type ProtocolError struct{ Text string }

// RegistrationError says that the server refused the RM's id, its version, policy group, build info or
// extra configuration, and which of them.
type RegistrationError struct{ Text string }

// LostError says that there was no session for longer than Retry.GiveUpAfter, or no answer to a call.
type LostError struct{ Text string }

// mayPass says whether a refusal is of a message that was perhaps changed on its way. The others end the
// client at once.
func mayPass(refusal error) bool {
	var protocolError *ProtocolError
	return errors.As(refusal, &protocolError) || refusesRegistration(refusal)
}

// ConfigError says that the server refused the queue configuration.
type ConfigError struct {
	Text string
	// Problems are all that the server found there, as it worded them.
	Problems []string
}

// InvalidError says that a field of a Config or of an item can never be sent. Nothing of the call was
// done.
type InvalidError struct {
	// Field names the field, such as "allocations[3].allocationKey".
	Field string
	// Value is the value as an error shows it: in short, and in quotes if it is a text.
	Value string
	// Problem says what is wrong with it.
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
