package schedulerapi

import "github.com/apache/yunikorn-scheduler-interface/lib/go/si"

// groupOf returns a name of an allocation's task group that is unique across applications; "" if it has none.
func groupOf(allocation *si.Allocation) string {
	if allocation.GetTaskGroupName() == "" {
		return ""
	}
	return allocation.GetApplicationID() + "\x00" + allocation.GetTaskGroupName()
}

// inGroup counts a placeholder in its group; other asks are ignored. It is called with the lock held.
func (b *books) inGroup(known *ask) {
	if known.allocation.GetPlaceholder() {
		known.group = groupOf(known.allocation)
	}
	if known.group != "" {
		b.placeholders[known.group]++
	}
}

// ungroup reverts inGroup. It is called with the lock held.
func (b *books) ungroup(known *ask) {
	if known.group == "" {
		return
	}
	if b.placeholders[known.group]--; b.placeholders[known.group] == 0 {
		delete(b.placeholders, known.group)
	}
}

// replaces returns whether an ask will replace a placeholder: it is a member of a group that still has
// placeholders.
func (b *books) replaces(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.asks[key]
	return known != nil && !known.allocation.GetPlaceholder() && b.placeholders[groupOf(known.allocation)] > 0
}
