package dev.licorne.example;

import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import java.util.List;

/** The example RM in Java: over a session, or over the three streams of si.v1. */
public final class Main {
  private Main() {}

  /** Takes the server's address, {@code session} or {@code si}, and {@code restart} if it will be restarted. */
  public static void main(String[] args) throws InterruptedException {
    if (args.length < 2 || !List.of("session", "si").contains(args[1])) {
      throw new IllegalArgumentException("usage: example HOST:PORT session|si [restart]");
    }
    // With restart, nothing is released before a replay.
    boolean restart = args.length > 2;
    Cluster cluster = new Cluster();
    while (!cluster.all().isEmpty()) {
      ManagedChannel channel = ManagedChannelBuilder.forTarget(args[0]).usePlaintext().build();
      try {
        if (args[1].equals("session")) {
          new OverSession(channel, cluster).run(restart);
        } else {
          OverSi.run(channel, cluster, restart);
        }
      } catch (StatusRuntimeException lost) {
        System.err.println(lost.getMessage());
        Thread.sleep(200);
      } finally {
        channel.shutdownNow(); // ends the open streams of this attempt
      }
    }
  }
}
