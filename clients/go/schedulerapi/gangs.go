package schedulerapi

import "github.com/apache/yunikorn-scheduler-interface/lib/go/si"

// groupOf names the task group of an allocation among those of all applications; "" if it has none.
func groupOf(allocation *si.Allocation) string {
	if allocation.GetTaskGroupName() == "" {
		return ""
	}
	return allocation.GetApplicationID() + "\x00" + allocation.GetTaskGroupName()
}

// inGroup counts a placeholder in its group. It is called with the lock held.
func (b *books) inGroup(known *ask) {
	if known.allocation.GetPlaceholder() {
		known.group = groupOf(known.allocation)
	}
	if known.group != "" {
		b.placeholders[known.group]++
	}
}

// ungroup takes that back. It is called with the lock held.
func (b *books) ungroup(known *ask) {
	if known.group == "" {
		return
	}
	if b.placeholders[known.group]--; b.placeholders[known.group] == 0 {
		delete(b.placeholders, known.group)
	}
}

// replaces tells whether an ask takes the place of a placeholder, as far as the shim knows: it is a
// member of a group that still has some.
func (b *books) replaces(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.asks[key]
	return known != nil && !known.allocation.GetPlaceholder() && b.placeholders[groupOf(known.allocation)] > 0
}
