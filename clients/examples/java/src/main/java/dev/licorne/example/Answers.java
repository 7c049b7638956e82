package dev.licorne.example;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** The answers of a stream, read one by one. */
final class Answers<T> implements StreamObserver<T> {
  private final BlockingQueue<Object> waiting = new LinkedBlockingQueue<>();

  /** The next answer; throws if the stream has ended. */
  @SuppressWarnings("unchecked")
  T next() throws InterruptedException {
    Object item = waiting.take();
    if (item instanceof StatusRuntimeException end) {
      waiting.add(end);
      throw end;
    }
    return (T) item;
  }

  /** Waits until the server has ended the stream in good order. */
  void untilEnd() throws InterruptedException {
    try {
      while (true) {
        next();
      }
    } catch (StatusRuntimeException end) {
      if (end.getStatus().getCode() != Status.Code.OK) {
        throw end;
      }
    }
  }

  @Override
  public void onNext(T answer) {
    waiting.add(answer);
  }

  @Override
  public void onError(Throwable error) {
    waiting.add(Status.fromThrowable(error).asRuntimeException());
  }

  @Override
  public void onCompleted() {
    waiting.add(Status.OK.asRuntimeException());
  }
}
