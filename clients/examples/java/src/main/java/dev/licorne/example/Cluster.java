package dev.licorne.example;

import dev.licorne.si.v1.AddApplicationRequest;
import dev.licorne.si.v1.Allocation;
import dev.licorne.si.v1.AllocationRelease;
import dev.licorne.si.v1.AllocationReleasesRequest;
import dev.licorne.si.v1.AllocationRequest;
import dev.licorne.si.v1.AllocationResponse;
import dev.licorne.si.v1.NodeInfo;
import dev.licorne.si.v1.Quantity;
import dev.licorne.si.v1.RegisterResourceManagerRequest;
import dev.licorne.si.v1.Resource;
import dev.licorne.si.v1.TerminationType;
import dev.licorne.si.v1.UserGroupInformation;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** What this resource manager has: ten nodes, one application, and a thousand asks. */
final class Cluster {
  static final int COUNT = 1000;
  static final String RM = "example-java";
  private static final String QUEUES =
      "partitions: [{name: default, queues: [{name: root, submitacl: \"*\", queues: [{name: examples}]}]}]";

  static final RegisterResourceManagerRequest REGISTRATION =
      RegisterResourceManagerRequest.newBuilder().setRmID(RM).setConfig(QUEUES).build();
  static final List<NodeInfo> NODES = IntStream.range(0, 10).mapToObj(Cluster::node).toList();
  static final AddApplicationRequest APPLICATION =
      AddApplicationRequest.newBuilder()
          .setApplicationID("a1")
          .setQueueName("root.examples")
          .setUgi(UserGroupInformation.newBuilder().setUser("ann"))
          .build();

  /** By key. An ask has no node, and an allocation that runs has one. So this is all that a replay needs. */
  private final Map<String, Allocation> items = new LinkedHashMap<>();

  Cluster() {
    for (int i = 0; i < COUNT; i++) {
      var ask = Allocation.newBuilder().setAllocationKey("k" + i).setApplicationID("a1").setResourcePerAlloc(vcore(1000));
      items.put("k" + i, ask.build());
    }
  }

  List<Allocation> all() {
    return List.copyOf(items.values());
  }

  int running() {
    return (int) items.values().stream().filter(one -> !one.getNodeID().isEmpty()).count();
  }

  void note(AllocationResponse response) {
    checkNone(response.getRejectedAllocationsList());
    response.getNewList().forEach(one -> items.put(one.getAllocationKey(), one));
    response.getReleasedList().forEach(one -> items.remove(one.getAllocationKey()));
  }

  AllocationRequest releases() {
    var releases = AllocationReleasesRequest.newBuilder();
    for (String key : items.keySet()) {
      releases.addAllocationsToRelease(
          AllocationRelease.newBuilder()
              .setAllocationKey(key)
              .setApplicationID("a1")
              .setTerminationType(TerminationType.STOPPED_BY_RM));
    }
    return AllocationRequest.newBuilder().setRmID(RM).setReleases(releases).build();
  }

  /** What the server rejects it would reject again. */
  static void checkNone(List<?> rejected) {
    if (!rejected.isEmpty()) {
      throw new IllegalStateException("rejected: " + rejected);
    }
  }

  private static NodeInfo node(int i) {
    return NodeInfo.newBuilder()
        .setNodeID("n" + i)
        .setAction(NodeInfo.ActionFromRM.CREATE)
        .setSchedulableResource(vcore(100_000))
        .build();
  }

  private static Resource vcore(long value) {
    return Resource.newBuilder().putResources("vcore", Quantity.newBuilder().setValue(value).build()).build();
  }
}
