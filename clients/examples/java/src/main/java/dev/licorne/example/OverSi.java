package dev.licorne.example;

import dev.licorne.si.v1.AllocationRequest;
import dev.licorne.si.v1.AllocationResponse;
import dev.licorne.si.v1.ApplicationRequest;
import dev.licorne.si.v1.ApplicationResponse;
import dev.licorne.si.v1.NodeRequest;
import dev.licorne.si.v1.NodeResponse;
import dev.licorne.si.v1.SchedulerGrpc;
import io.grpc.Channel;

/** The three streams of si.v1. They have no order among them, so each waits for the one before. */
final class OverSi {
  private OverSi() {}

  static void run(Channel channel, Cluster cluster, boolean restart) throws InterruptedException {
    SchedulerGrpc.newBlockingStub(channel).registerResourceManager(Cluster.REGISTRATION);
    System.out.println("registered");
    var stub = SchedulerGrpc.newStub(channel);
    var nodes = new Answers<NodeResponse>();
    stub.updateNode(nodes).onNext(NodeRequest.newBuilder().setRmID(Cluster.RM).addAllNodes(Cluster.NODES).build());
    for (int accepted = 0; accepted < Cluster.NODES.size(); ) {
      NodeResponse response = nodes.next();
      Cluster.checkNone(response.getRejectedList());
      accepted += response.getAcceptedCount();
    }
    var applications = new Answers<ApplicationResponse>();
    stub.updateApplication(applications)
        .onNext(ApplicationRequest.newBuilder().setRmID(Cluster.RM).addNew(Cluster.APPLICATION).build());
    Cluster.checkNone(applications.next().getRejectedList());

    boolean replaying = cluster.running() > 0;
    var answers = new Answers<AllocationResponse>();
    var asks = stub.updateAllocation(answers);
    asks.onNext(AllocationRequest.newBuilder().setRmID(Cluster.RM).addAllAllocations(cluster.all()).build());
    int confirmed = 0;
    while (!cluster.all().isEmpty()) {
      AllocationResponse response = answers.next();
      cluster.note(response);
      // The server echoes every reported allocation.
      confirmed += response.getNewCount();
      if (response.getNewCount() > 0 && confirmed == Cluster.COUNT) {
        System.out.println((replaying ? "replayed " : "") + Cluster.COUNT + " allocations");
        if (replaying || !restart) {
          asks.onNext(cluster.releases());
        }
      }
    }
    System.out.println(Cluster.COUNT + " releases");
  }
}
