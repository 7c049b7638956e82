// Package licorne is the Go client of Licorne: it maintains the session of a resource manager (RM) with the
// server.
//
// The messages are those of the published scheduler interface, package si. The client registers the RM, sends
// the caller's items, and passes the answers to the Handlers. It stores all items, so that it can connect
// again after a loss, and replay them to a restarted server. The handlers see only differences: an acceptance
// or an allocation that they have already received is not repeated.
//
// Without load, no item waits. Items that arrive while a message is written are sent together in the next
// message.
package licorne
