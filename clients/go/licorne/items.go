package licorne

import (
	"fmt"
	"strconv"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

const (
	// maxItemBytes is the maximum size of one item: the server's 6 MiB minus the two tags and the node that a
	// replay may add. A larger item would be refused in every replay.
	maxItemBytes = 6*1024*1024 - 1024
	// maxShown is the maximum number of bytes of a value that an error quotes.
	maxShown = 64
)

// buffers has reusable buffers, into which items are encoded to check that it is possible.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func invalid(field, value, problem string) *InvalidError {
	return &InvalidError{Field: field, Value: value, Problem: problem}
}

// shown returns a text as an error quotes it.
func shown(value string) string {
	if len(value) > maxShown {
		return strconv.Quote(value[:maxShown]) + "…"
	}
	return strconv.Quote(value)
}

// checkRequest refuses a request that is missing or of another RM.
func checkRequest(missing bool, given, own string) error {
	if missing {
		return invalid("request", "nil", "it must be there")
	}
	if given != "" && given != own {
		return invalid("rmID", shown(given), "this is the client of RM "+shown(own))
	}
	return nil
}

// checkSize returns the encoded size of an item that is not nil; the error says why it cannot be encoded.
func checkSize(list string, at int, id string, item proto.Message) (int, error) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	encoded, err := proto.MarshalOptions{}.MarshalAppend((*buffer)[:0], item)
	*buffer = encoded[:0]
	if err != nil {
		return 0, invalid(field(list, at, ""), shown(id), "it cannot be encoded: "+err.Error())
	}
	if len(encoded) > maxItemBytes {
		return 0, invalid(field(list, at, ""), shown(id),
			fmt.Sprintf("it has %d bytes, at most %d can be sent", len(encoded), maxItemBytes))
	}
	return len(encoded), nil
}

func field(list string, at int, name string) string {
	if name == "" {
		return fmt.Sprintf("%s[%d]", list, at)
	}
	return fmt.Sprintf("%s[%d].%s", list, at, name)
}

// checkItems appends the size of each item of a list to sizes. No item may be nil, and each must pass check,
// which returns the id of the item and the error for an invalid field.
func checkItems[T proto.Message](
	sizes []int, list string, items []T, check func(T) (id string, bad *InvalidError),
) ([]int, error) {
	for at, item := range items {
		if !item.ProtoReflect().IsValid() {
			return nil, invalid(field(list, at, ""), "nil", "it must be there")
		}
		id, bad := check(item)
		if bad != nil {
			bad.Field = field(list, at, bad.Field)
			return nil, bad
		}
		size, err := checkSize(list, at, id, item)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

func checkNode(item *si.NodeInfo) (string, *InvalidError) {
	id := item.GetNodeID()
	if id == "" {
		return "", invalid("nodeID", `""`, "a node must have an id")
	}
	action := item.GetAction()
	if action < si.NodeInfo_CREATE || action > si.NodeInfo_CREATE_DRAIN {
		return id, invalid("action", action.String(), "node "+shown(id)+" must have an action that the server knows")
	}
	return id, nil
}

func checkNewApplication(item *si.AddApplicationRequest) (string, *InvalidError) {
	return named(item.GetApplicationID(), "applicationID", "an application must have an id")
}

func checkRemovedApplication(item *si.RemoveApplicationRequest) (string, *InvalidError) {
	return named(item.GetApplicationID(), "applicationID", "the removal of an application must name it")
}

func checkAllocation(item *si.Allocation) (string, *InvalidError) {
	key := item.GetAllocationKey()
	if _, bad := checkpointIn(item.GetAllocationTags(), 0); bad != nil {
		return key, bad
	}
	return named(key, "allocationKey", "an ask must have a key")
}

func checkRelease(item *si.AllocationRelease) (string, *InvalidError) {
	if item.GetApplicationID() != "" {
		return item.GetAllocationKey(), nil
	}
	return named(item.GetAllocationKey(), "allocationKey", "a release must name an allocation or an application")
}

func named(id, field, problem string) (string, *InvalidError) {
	if id == "" {
		return "", invalid(field, `""`, problem)
	}
	return id, nil
}

// checkText refuses a text that is not UTF-8, which protobuf cannot encode.
func checkText(field, value string) error {
	if !utf8.ValidString(value) {
		return invalid(field, shown(value), "it must be UTF-8")
	}
	return nil
}
