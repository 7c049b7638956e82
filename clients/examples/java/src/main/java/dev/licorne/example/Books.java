package dev.licorne.example;

import dev.licorne.si.v1.AddApplicationRequest;
import dev.licorne.si.v1.Allocation;
import dev.licorne.si.v1.AllocationRelease;
import dev.licorne.si.v1.AllocationResponse;
import dev.licorne.si.v1.NodeInfo;
import dev.licorne.si.v1.Quantity;
import dev.licorne.si.v1.Resource;
import dev.licorne.si.v1.TerminationType;
import dev.licorne.si.v1.UserGroupInformation;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** What this resource manager has, and what it does next, whatever carries its messages. */
final class Books {
  static final String RM = "example-java";
  static final String QUEUES =
      "partitions: [{name: default, queues: [{name: root, submitacl: \"*\", queues: [{name: examples}]}]}]";
  private static final int COUNT = 1000;

  static final List<NodeInfo> NODES =
      IntStream.range(0, 10)
          .mapToObj(
              i ->
                  NodeInfo.newBuilder()
                      .setNodeID("n" + i)
                      .setAction(NodeInfo.ActionFromRM.CREATE)
                      .setSchedulableResource(vcore(100_000))
                      .build())
          .toList();
  static final AddApplicationRequest APPLICATION =
      AddApplicationRequest.newBuilder()
          .setApplicationID("a1")
          .setQueueName("root.examples")
          .setUgi(UserGroupInformation.newBuilder().setUser("ann"))
          .build();

  private enum Phase {
    ASKING,
    WAITING,
    RELEASING,
    OVER
  }

  /** An ask has no node, and an allocation that runs has one. So this is all that a replay needs. */
  private final Map<String, Allocation> items = new LinkedHashMap<>();

  private final boolean restart;
  private Phase phase = Phase.ASKING;

  /** With {@code restart} nothing is released before it was replayed. */
  Books(boolean restart) {
    this.restart = restart;
    for (int i = 0; i < COUNT; i++) {
      String key = "k" + i;
      items.put(
          key,
          Allocation.newBuilder()
              .setAllocationKey(key)
              .setApplicationID("a1")
              .setResourcePerAlloc(vcore(1000))
              .build());
    }
  }

  synchronized List<Allocation> all() {
    return List.copyOf(items.values());
  }

  synchronized boolean isOver() {
    return phase == Phase.OVER;
  }

  synchronized int running() {
    return (int) items.values().stream().filter(one -> !one.getNodeID().isEmpty()).count();
  }

  /** Notes what the server says; returns what to release then, which mostly is nothing. */
  synchronized List<AllocationRelease> note(AllocationResponse response) {
    response.getNewList().forEach(one -> items.put(one.getAllocationKey(), one));
    response.getReleasedList().forEach(one -> items.remove(one.getAllocationKey()));
    if (phase == Phase.ASKING && running() == COUNT) {
      System.out.println(COUNT + " allocations");
      phase = Phase.WAITING;
      if (!restart) {
        return release();
      }
    }
    if (phase == Phase.RELEASING && items.isEmpty()) {
      System.out.println(COUNT + " releases");
      phase = Phase.OVER;
    }
    return List.of();
  }

  /** The server knows all of it again; returns what to release then. */
  synchronized List<AllocationRelease> replayed() {
    if (phase != Phase.WAITING) {
      return List.of();
    }
    System.out.println("replayed " + running() + " allocations");
    return release();
  }

  private List<AllocationRelease> release() {
    phase = Phase.RELEASING;
    return items.keySet().stream()
        .map(
            key ->
                AllocationRelease.newBuilder()
                    .setAllocationKey(key)
                    .setApplicationID("a1")
                    .setTerminationType(TerminationType.STOPPED_BY_RM)
                    .build())
        .toList();
  }

  private static Resource vcore(long value) {
    return Resource.newBuilder()
        .putResources("vcore", Quantity.newBuilder().setValue(value).build())
        .build();
  }
}
