package licorne

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

var started = time.Unix(1_700_000_000, 500)

// TestTagsAreWrittenAsTheServerReadsThem sets all tags, in addition to existing ones, on copies of the maps,
// which the caller's items may share.
func TestTagsAreWrittenAsTheServerReadsThem(t *testing.T) {
	shared := map[string]string{"namespace": "default"}
	application := &si.AddApplicationRequest{Tags: shared}
	tags := Tags{
		Runtime:  time.Hour,
		StartBy:  started,
		Topology: Topology{Level: "topology.kubernetes.io/zone"},
		Slice:    Slice{Size: 18, Level: "nvlink"},
		Elastic:  Elastic{Min: 4, Max: 16, Step: 4},
	}
	if err := tags.OnApplication(application); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"namespace": "default", "licorne/runtime": "3600", "licorne/start-by": "1700000000",
		"licorne/topology": "required=topology.kubernetes.io/zone", "licorne/slice": "size=18,level=nvlink",
		"licorne/gang-min": "4", "licorne/gang-max": "16", "licorne/gang-step": "4",
	}
	if !maps.Equal(application.GetTags(), want) || len(shared) != 1 {
		t.Fatalf("the tags are %v, and those of before %v", application.GetTags(), shared)
	}
	ask := &si.Allocation{}
	if err := (Tags{Runtime: time.Second}).OnAsk(ask); err != nil {
		t.Fatal(err)
	}
	if err := (Tags{Topology: Topology{Level: "rack", Preferred: true}}).OnApplication(application); err != nil {
		t.Fatal(err)
	}
	if ask.GetAllocationTags()[TagRuntime] != "1" || application.GetTags()[TagTopology] != "preferred=rack" {
		t.Fatalf("the tags are %v and %v", ask.GetAllocationTags(), application.GetTags())
	}
}

// TestNoTagsChangeNothing checks that an item without new tags keeps its map, even a nil one.
func TestNoTagsChangeNothing(t *testing.T) {
	ask := &si.Allocation{}
	if err := (Tags{}).OnAsk(ask); err != nil || ask.AllocationTags != nil {
		t.Fatalf("the tags are %v, the error %v", ask.AllocationTags, err)
	}
}

// TestBadTagsAreRefused checks the field and the value of each tag that the server would refuse.
func TestBadTagsAreRefused(t *testing.T) {
	for field, tags := range map[string]Tags{
		"Runtime":        {Runtime: 1500 * time.Millisecond},
		"StartBy":        {StartBy: time.Unix(-5, 0)},
		"Topology.Level": {Topology: Topology{Level: "a=b"}},
		"Slice.Level":    {Slice: Slice{Size: 3}},
		"Slice.Size":     {Slice: Slice{Size: -1, Level: "rack"}},
		"Elastic.Min":    {Elastic: Elastic{Max: 4}},
		"Elastic.Max":    {Elastic: Elastic{Min: 4, Max: 9, Step: 2}},
		"Elastic.Step":   {Elastic: Elastic{Min: 4, Step: -2}},
	} {
		application := &si.AddApplicationRequest{}
		var bad *InvalidError
		if err := tags.OnApplication(application); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: the error is %v", field, err)
		}
		if application.Tags != nil {
			t.Errorf("%s: the tags are %v", field, application.Tags)
		}
	}
	for _, tags := range []Tags{
		{Runtime: -time.Second},
		{Topology: Topology{Preferred: true}},
		{Topology: Topology{Level: " rack"}},
		{Slice: Slice{Size: 2_000_000, Level: "rack"}},
		{Elastic: Elastic{Min: 100_001}},
		{Elastic: Elastic{Min: 4, Max: 2}},
	} {
		if err := tags.OnApplication(&si.AddApplicationRequest{}); err == nil {
			t.Errorf("%+v is taken", tags)
		}
	}
	for _, tags := range []Tags{
		{Topology: Topology{Level: "rack"}},
		{Slice: Slice{Size: 2, Level: "rack"}},
		{Elastic: Elastic{Min: 2}},
		{Runtime: time.Millisecond},
	} {
		if err := tags.OnAsk(&si.Allocation{}); err == nil {
			t.Errorf("%+v is taken for an ask", tags)
		}
	}
}
