package licorne

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// Tags of applications and asks, for properties for which the published messages have no fields.
const (
	// TagRuntime has the expected runtime in whole seconds, which is not enforced.
	TagRuntime = "licorne/runtime"
	// TagStartBy has the latest desired start, in unix seconds.
	TagStartBy = "licorne/start-by"
	// TagTopology has a level: the gang is placed inside one domain of it, either always or if possible.
	TagTopology = "licorne/topology"
	// TagSlice has size and level of the slices of a gang.
	TagSlice = "licorne/slice"
	// TagGangMin has the number of members with which an elastic gang starts.
	TagGangMin = "licorne/gang-min"
	// TagGangMax has the maximum number of members of an elastic gang.
	TagGangMax = "licorne/gang-max"
	// TagGangStep has the number of members by which an elastic gang grows and shrinks.
	TagGangStep = "licorne/gang-step"
	// TagCheckpoint has the time up to which the work of a running allocation is saved, in unix seconds. To
	// report it, send the allocation again with the tag and otherwise unchanged, or call Client.Checkpoint. A
	// replay repeats the last one.
	TagCheckpoint = "licorne/checkpoint"
	// TagLostWork is an alternative to TagCheckpoint: the whole seconds of work that would be lost now.
	TagLostWork = "licorne/lost-work"
	// TagStarted has the start of a running allocation, in unix seconds, for reports after a restart. It must
	// not be in the future.
	TagStarted = "licorne/started"
)

const (
	maxRuntime = 1_000_000_000 * time.Second
	maxUnix    = 9_999_999_999
	maxSlice   = 100_000
	maxLevel   = 256
	maxMembers = 100_000
	// maxDigits is the maximum number of digits of whole seconds that the server accepts.
	maxDigits = 10
)

// Tags has the values of tags for a new application or ask; zero values set no tags. A tag of an ask
// overrides the tag of its application.
type Tags struct {
	// Runtime is the expected runtime, in whole seconds.
	Runtime time.Duration
	// StartBy is the latest desired start, rounded down to a second.
	StartBy time.Time
	// Topology is only for gangs.
	Topology Topology
	// Slice is only for gangs.
	Slice Slice
	// Elastic is only for applications without placeholders.
	Elastic Elastic
}

// Topology places a gang inside one domain of a level, which is the name of a node attribute.
type Topology struct {
	Level string
	// Preferred also allows other placements, if the gang fits into no domain of the level.
	Preferred bool
}

// Slice divides a gang into slices of Size members, each inside one domain of Level.
type Slice struct {
	Size  int
	Level string
}

// Elastic makes an application an elastic gang: its asks with a task group are the members.
type Elastic struct {
	// Min is the number of members that start together.
	Min int
	// Max is the maximum number of members; 0 for no limit.
	Max int
	// Step is the number of members by which the gang grows and shrinks; 0 means 1.
	Step int
}

// OnApplication sets the tags of an application before it is sent; other tags are retained. If it returns an
// error, which is an *InvalidError, it has set nothing.
func (t Tags) OnApplication(application *si.AddApplicationRequest) error {
	texts, err := t.texts()
	if err != nil {
		return err
	}
	application.Tags = joined(application.Tags, texts)
	return nil
}

// OnAsk sets the tags of an ask before it is sent, like OnApplication. Topology, Slice and Elastic must not
// be set.
func (t Tags) OnAsk(ask *si.Allocation) error {
	if t.Topology != (Topology{}) {
		return invalid("Topology", shown(t.Topology.Level), "it is for the application of a gang, not for an ask")
	}
	if t.Slice != (Slice{}) {
		return invalid("Slice", shown(t.Slice.Level), "it is for the application of a gang, not for an ask")
	}
	if t.Elastic != (Elastic{}) {
		return invalid("Elastic", strconv.Itoa(t.Elastic.Min), "it is for the application of a gang, not for an ask")
	}
	texts, err := t.texts()
	if err != nil {
		return err
	}
	ask.AllocationTags = joined(ask.AllocationTags, texts)
	return nil
}

// joined returns a copy of a map with more entries, or the map itself if there are none to add.
func joined(tags, more map[string]string) map[string]string {
	if len(more) == 0 {
		return tags
	}
	together := make(map[string]string, len(tags)+len(more))
	for name, value := range tags {
		together[name] = value
	}
	for name, value := range more {
		together[name] = value
	}
	return together
}

// texts returns the tags as they are sent.
func (t Tags) texts() (map[string]string, error) {
	texts := map[string]string{}
	if t.Runtime != 0 {
		if t.Runtime < 0 || t.Runtime > maxRuntime || t.Runtime%time.Second != 0 {
			return nil, invalid("Runtime", t.Runtime.String(), "it must be whole seconds, 1000000000 at most")
		}
		texts[TagRuntime] = strconv.FormatInt(int64(t.Runtime/time.Second), 10)
	}
	if !t.StartBy.IsZero() {
		unix, err := unixSeconds("StartBy", t.StartBy)
		if err != nil {
			return nil, err
		}
		texts[TagStartBy] = strconv.FormatInt(unix, 10)
	}
	if t.Topology != (Topology{}) {
		if !isLevel(t.Topology.Level) {
			return nil, invalid("Topology.Level", shown(t.Topology.Level), levelProblem)
		}
		kind := "required="
		if t.Topology.Preferred {
			kind = "preferred="
		}
		texts[TagTopology] = kind + t.Topology.Level
	}
	if t.Slice != (Slice{}) {
		if !isLevel(t.Slice.Level) {
			return nil, invalid("Slice.Level", shown(t.Slice.Level), levelProblem)
		}
		if t.Slice.Size < 1 || t.Slice.Size > maxSlice {
			return nil, invalid("Slice.Size", strconv.Itoa(t.Slice.Size), "it must lie between 1 and 100000")
		}
		texts[TagSlice] = "size=" + strconv.Itoa(t.Slice.Size) + ",level=" + t.Slice.Level
	}
	if err := t.Elastic.in(texts); err != nil {
		return nil, err
	}
	return texts, nil
}

// in adds the tags of an elastic gang to texts.
func (e Elastic) in(texts map[string]string) error {
	if e == (Elastic{}) {
		return nil
	}
	if e.Min < 1 || e.Min > maxMembers {
		return invalid("Elastic.Min", strconv.Itoa(e.Min), "it must lie between 1 and 100000")
	}
	if e.Step < 0 || e.Step > maxMembers {
		return invalid("Elastic.Step", strconv.Itoa(e.Step), "it must lie between 0 and 100000")
	}
	if e.Max != 0 && (e.Max < e.Min || e.Max > maxMembers || (e.Max-e.Min)%max(1, e.Step) != 0) {
		return invalid("Elastic.Max", strconv.Itoa(e.Max), "it must be Min and whole steps, 100000 at most, or 0")
	}
	texts[TagGangMin] = strconv.Itoa(e.Min)
	if e.Max != 0 {
		texts[TagGangMax] = strconv.Itoa(e.Max)
	}
	if e.Step != 0 {
		texts[TagGangStep] = strconv.Itoa(e.Step)
	}
	return nil
}

// unixSeconds returns a time in unix seconds, rounded down; an error names the field.
func unixSeconds(field string, at time.Time) (int64, error) {
	unix := at.Unix()
	if unix < 1 || unix > maxUnix {
		return 0, invalid(field, at.Format(time.RFC3339), "it must lie between 1970 and 2286")
	}
	return unix, nil
}

// checkpointIn returns the time up to which work is saved, by the tags of an allocation at the time now, both
// in unix seconds; 0 without such tags.
func checkpointIn(tags map[string]string, now int64) (int64, *InvalidError) {
	if text, said := tags[TagCheckpoint]; said {
		return wholeSeconds(TagCheckpoint, text, 1)
	}
	text, said := tags[TagLostWork]
	if !said {
		return 0, nil
	}
	lost, bad := wholeSeconds(TagLostWork, text, 0)
	if bad != nil {
		return 0, bad
	}
	return max(1, now-lost), nil
}

// wholeSeconds parses a tag with the same rules as the server.
func wholeSeconds(tag, text string, lowest uint64) (int64, *InvalidError) {
	seconds, err := strconv.ParseUint(text, 10, 64)
	if err != nil || len(text) > maxDigits || seconds < lowest {
		problem := fmt.Sprintf("it must be whole seconds from %d on, of %d digits at most", lowest, maxDigits)
		return 0, invalid("allocationTags["+tag+"]", shown(text), problem)
	}
	return int64(seconds), nil
}

const levelProblem = "it must be the name of a node attribute, without spaces, commas and equals signs"

func isLevel(name string) bool {
	if name == "" || len(name) > maxLevel {
		return false
	}
	return !strings.ContainsFunc(name, func(char rune) bool {
		return char == ',' || char == '=' || char == ' ' || !strconv.IsPrint(char)
	})
}
