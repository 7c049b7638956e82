package licorne

// Stats has counts since New, and the present sizes of queues and the cache.
type Stats struct {
	// Streams is the number of attempts to open a stream.
	Streams uint64
	// Resumed is the number of resumptions of a session.
	Resumed uint64
	// Replayed is the number of complete replays, including the first.
	Replayed uint64
	// Sent is the number of messages written to streams.
	Sent uint64
	// SentItems is the number of nodes, applications, asks, removals and answers to notices in these messages.
	SentItems uint64
	// Received is the number of messages read from streams.
	Received uint64
	// Checks is the number of predicate checks and preemption checks that were begun or skipped.
	Checks uint64
	// Unanswered is the number of checks that were skipped because their deadline had passed.
	Unanswered uint64
	// OutgoingItems and OutgoingBytes are the number and size of items that wait to be sent.
	OutgoingItems, OutgoingBytes int
	// IncomingItems is the number of received items that wait for the handlers.
	IncomingItems int
	// Nodes, Applications, Asks and Allocations are the numbers of items that a replay would send.
	Nodes, Applications, Asks, Allocations int
}
