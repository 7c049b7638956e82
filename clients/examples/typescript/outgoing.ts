/** A list that is written while a stream reads it. */
export class Outgoing<T> implements AsyncIterable<T> {
  private readonly waiting: T[] = [];
  private wake = () => {};
  private isOver = false;

  push(item: T) {
    this.waiting.push(item);
    this.wake();
  }

  end() {
    this.isOver = true;
    this.wake();
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.waiting.length > 0) yield this.waiting.shift()!;
      if (this.isOver) return;
      await new Promise<void>((resolve) => { this.wake = resolve; });
    }
  }
}
