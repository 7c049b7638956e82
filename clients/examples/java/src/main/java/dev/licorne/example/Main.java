package dev.licorne.example;

import dev.licorne.si.v1.AllocationRelease;
import dev.licorne.si.v1.AllocationReleasesRequest;
import dev.licorne.si.v1.AllocationRequest;
import dev.licorne.si.v1.AllocationResponse;
import dev.licorne.si.v1.ApplicationRequest;
import dev.licorne.si.v1.ApplicationResponse;
import dev.licorne.si.v1.NodeRequest;
import dev.licorne.si.v1.NodeResponse;
import dev.licorne.si.v1.RegisterResourceManagerRequest;
import dev.licorne.si.v1.SchedulerGrpc;
import dev.licorne.v1.Goodbye;
import dev.licorne.v1.Heartbeat;
import dev.licorne.v1.Hello;
import dev.licorne.v1.ReplayBegin;
import dev.licorne.v1.ReplayEnd;
import dev.licorne.v1.SessionGrpc;
import dev.licorne.v1.UpdateRequest;
import dev.licorne.v1.UpdateResponse;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.function.Function;

/** The example RM in Java: over a session, or over the three streams of si.v1. */
public final class Main {
  private static final long INSTANCE = System.currentTimeMillis();

  private Main() {}

  /** Takes the server's address, {@code session} or {@code si}, and {@code restart} if it will be restarted. */
  public static void main(String[] args) throws Exception {
    if (args.length < 2 || !List.of("session", "si").contains(args[1])) {
      throw new IllegalArgumentException("usage: example HOST:PORT session|si [restart]");
    }
    Books books = new Books(args.length > 2);
    ManagedChannel channel = ManagedChannelBuilder.forTarget(args[0]).usePlaintext().build();
    while (!books.isOver()) {
      try {
        if (args[1].equals("session")) {
          overSession(channel, books);
        } else {
          overSi(channel, books);
        }
      } catch (RuntimeException lost) {
        System.err.println(lost.getMessage());
        Thread.sleep(200);
        channel.resetConnectBackoff();
      }
    }
    channel.shutdownNow();
  }

  /** One stream of a session, from its hello on. Without a resume token it begins with a replay. */
  private static void overSession(ManagedChannel channel, Books books) throws InterruptedException {
    var answers = new Answers<UpdateResponse>();
    var requests = new Requests(SessionGrpc.newStub(channel).update(answers));
    requests.sendAside(
        UpdateRequest.newBuilder()
            .setHello(
                Hello.newBuilder()
                    .setRmId(Books.RM)
                    .setInstance(INSTANCE)
                    .setProtocol(1)
                    .setRegistration(
                        RegisterResourceManagerRequest.newBuilder().setConfig(Books.QUEUES))));
    while (!books.isOver()) {
      UpdateResponse response = answers.next();
      requests.acknowledge(response.getNumber());
      switch (response.getMessageCase()) {
        case WELCOME -> {
          System.out.println("registered");
          replay(requests, books);
        }
        case HEARTBEAT ->
            requests.sendAside(UpdateRequest.newBuilder().setHeartbeat(Heartbeat.getDefaultInstance()));
        case REPLAY_RESULT -> {
          if (!response.getReplayResult().getComplete()) {
            throw new IllegalStateException(response.getReplayResult().getReason());
          }
          requests.release(books.replayed());
        }
        case ALLOCATIONS -> requests.release(books.note(response.getAllocations()));
        default -> {}
      }
    }
    requests.send(UpdateRequest.newBuilder().setGoodbye(Goodbye.newBuilder().setUnregister(true)));
    answers.untilEnd();
  }

  private static void replay(Requests requests, Books books) {
    var all = books.all();
    requests.send(UpdateRequest.newBuilder().setReplayBegin(ReplayBegin.getDefaultInstance()));
    requests.send(UpdateRequest.newBuilder().setNodes(NodeRequest.newBuilder().addAllNodes(Books.NODES)));
    requests.send(
        UpdateRequest.newBuilder().setApplications(ApplicationRequest.newBuilder().addNew(Books.APPLICATION)));
    requests.send(UpdateRequest.newBuilder().setAllocations(AllocationRequest.newBuilder().addAllAllocations(all)));
    requests.send(
        UpdateRequest.newBuilder()
            .setReplayEnd(
                ReplayEnd.newBuilder().setNodes(Books.NODES.size()).setApplications(1).setAllocations(all.size())));
  }

  /** The three streams have no order among them, so each waits for the one before. */
  private static void overSi(ManagedChannel channel, Books books) throws InterruptedException {
    SchedulerGrpc.newBlockingStub(channel)
        .registerResourceManager(
            RegisterResourceManagerRequest.newBuilder().setRmID(Books.RM).setConfig(Books.QUEUES).build());
    System.out.println("registered");
    var stub = SchedulerGrpc.newStub(channel);
    var nodes = new Answers<NodeResponse>();
    stub.updateNode(nodes).onNext(NodeRequest.newBuilder().setRmID(Books.RM).addAllNodes(Books.NODES).build());
    for (int accepted = 0; accepted < Books.NODES.size(); ) {
      accepted += nodes.next().getAcceptedCount();
    }
    var applications = new Answers<ApplicationResponse>();
    stub.updateApplication(applications)
        .onNext(ApplicationRequest.newBuilder().setRmID(Books.RM).addNew(Books.APPLICATION).build());
    applications.next();
    int known = books.running();
    int echoed = 0;
    var answers = new Answers<AllocationResponse>();
    var asks = stub.updateAllocation(answers);
    Function<List<AllocationRelease>, AllocationRequest> releasing =
        items ->
            AllocationRequest.newBuilder()
                .setRmID(Books.RM)
                .setReleases(AllocationReleasesRequest.newBuilder().addAllAllocationsToRelease(items))
                .build();
    asks.onNext(AllocationRequest.newBuilder().setRmID(Books.RM).addAllAllocations(books.all()).build());
    while (!books.isOver()) {
      AllocationResponse response = answers.next();
      // The server echoes every allocation that it was told of.
      echoed += response.getNewCount();
      asks.onNext(releasing.apply(books.note(response)));
      if (known > 0 && echoed == known) {
        asks.onNext(releasing.apply(books.replayed()));
      }
    }
  }

  /** Numbers what is sent over a session. */
  private static final class Requests {
    private final StreamObserver<UpdateRequest> stream;
    private long number;
    private long acknowledged;

    Requests(StreamObserver<UpdateRequest> stream) {
      this.stream = stream;
    }

    void acknowledge(long handled) {
      acknowledged = Math.max(acknowledged, handled);
    }

    void send(UpdateRequest.Builder request) {
      number++;
      sendAside(request.setNumber(number));
    }

    void sendAside(UpdateRequest.Builder request) {
      stream.onNext(request.setAcknowledged(acknowledged).build());
    }

    void release(List<AllocationRelease> items) {
      if (!items.isEmpty()) {
        var releases = AllocationReleasesRequest.newBuilder().addAllAllocationsToRelease(items);
        send(UpdateRequest.newBuilder().setAllocations(AllocationRequest.newBuilder().setReleases(releases)));
      }
    }
  }
}
