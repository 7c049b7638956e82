package dev.licorne.example;

import dev.licorne.si.v1.AllocationRequest;
import dev.licorne.si.v1.ApplicationRequest;
import dev.licorne.si.v1.NodeRequest;
import dev.licorne.v1.Goodbye;
import dev.licorne.v1.Heartbeat;
import dev.licorne.v1.Hello;
import dev.licorne.v1.ReplayBegin;
import dev.licorne.v1.ReplayEnd;
import dev.licorne.v1.SessionGrpc;
import dev.licorne.v1.UpdateRequest;
import dev.licorne.v1.UpdateResponse;
import io.grpc.Channel;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;

/** One stream of a session, from its hello on. Without a resume token it begins with a replay. */
final class OverSession {
  private static final long INSTANCE = System.currentTimeMillis();

  private final Cluster cluster;
  private final Answers<UpdateResponse> answers = new Answers<>();
  private final StreamObserver<UpdateRequest> stream;
  private long number;
  private long acknowledged;

  OverSession(Channel channel, Cluster cluster) {
    this.cluster = cluster;
    stream = SessionGrpc.newStub(channel).update(answers);
  }

  void run(boolean restart) throws InterruptedException {
    var hello = Hello.newBuilder().setRmId(Cluster.RM).setInstance(INSTANCE).setProtocol(1);
    sendAside(UpdateRequest.newBuilder().setHello(hello.setRegistration(Cluster.REGISTRATION)));
    while (!cluster.all().isEmpty()) {
      UpdateResponse response = answers.next();
      acknowledged = Math.max(acknowledged, response.getNumber());
      switch (response.getMessageCase()) {
        case WELCOME -> replay();
        case HEARTBEAT -> sendAside(UpdateRequest.newBuilder().setHeartbeat(Heartbeat.getDefaultInstance()));
        case REPLAY_RESULT -> {
          if (!response.getReplayResult().getComplete()) {
            throw Status.DATA_LOSS.withDescription(response.getReplayResult().getReason()).asRuntimeException();
          }
          if (cluster.running() == Cluster.COUNT) {
            System.out.println("replayed " + Cluster.COUNT + " allocations");
            send(UpdateRequest.newBuilder().setAllocations(cluster.releases()));
          }
        }
        case ALLOCATIONS -> {
          int before = cluster.running();
          cluster.note(response.getAllocations());
          if (before < Cluster.COUNT && cluster.running() == Cluster.COUNT) {
            System.out.println(Cluster.COUNT + " allocations");
            if (!restart) {
              send(UpdateRequest.newBuilder().setAllocations(cluster.releases()));
            }
          }
        }
        default -> {}
      }
    }
    System.out.println(Cluster.COUNT + " releases");
    send(UpdateRequest.newBuilder().setGoodbye(Goodbye.newBuilder().setUnregister(true)));
    answers.untilEnd();
  }

  private void replay() {
    System.out.println("registered");
    var all = cluster.all();
    var nodes = NodeRequest.newBuilder().addAllNodes(Cluster.NODES);
    var end = ReplayEnd.newBuilder().setNodes(Cluster.NODES.size()).setApplications(1).setAllocations(all.size());
    send(UpdateRequest.newBuilder().setReplayBegin(ReplayBegin.getDefaultInstance()));
    send(UpdateRequest.newBuilder().setNodes(nodes));
    send(UpdateRequest.newBuilder().setApplications(ApplicationRequest.newBuilder().addNew(Cluster.APPLICATION)));
    send(UpdateRequest.newBuilder().setAllocations(AllocationRequest.newBuilder().addAllAllocations(all)));
    send(UpdateRequest.newBuilder().setReplayEnd(end));
  }

  /** Sends what has a number. */
  private void send(UpdateRequest.Builder request) {
    number++;
    sendAside(request.setNumber(number));
  }

  private void sendAside(UpdateRequest.Builder request) {
    stream.onNext(request.setAcknowledged(acknowledged).build());
  }
}
