// Package licorne is the Go client of Licorne: it keeps the session of one resource manager (RM)
// with the server.
//
// The messages are those of the published scheduler interface, package si. The client registers
// the RM, reports what it is told, and hands the answers to the Handlers. It keeps what it was told,
// so that it can connect again after a loss, and tell a restarted server everything once more. The
// handlers see nothing of that where nothing has changed: an acceptance or an allocation that they
// have been told of is not repeated.
//
// Nothing is delayed by a timer. While a message is being written, what comes is gathered and leaves
// as one message next.
package licorne
