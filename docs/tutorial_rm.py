"""A resource manager (RM) with one node and three asks, of which two fit into the queue."""

import asyncio
import sys

import licorne

QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: batch
            resources: {max: {vcore: 2}}
"""
NODE = licorne.Node(node_id="n1", capacity={"vcore": 4000, "memory": 16 * 2**30})
REPORT = licorne.Application(application_id="report", queue="root.batch", user="ann")
ASKS = [
    licorne.Ask(key=key, application_id="report", resources={"vcore": 1000})
    for key in ("first", "second", "third")
]


async def read(rm: licorne.Client) -> None:
    async for event in rm.events():
        match event:
            case licorne.NodeAccepted(node_id=node):
                print(f"{node} is a node", flush=True)
            case licorne.ApplicationAccepted(application_id=application):
                print(f"{application} is accepted", flush=True)
            case licorne.Allocated(key=key, node_id=node):
                print(f"{key} runs on {node}", flush=True)
            case licorne.Released(key=key):
                print(f"{key} has ended", flush=True)
            case licorne.Reconnected():
                print("connected again", flush=True)


async def main(target: str) -> None:
    async with licorne.Client(target, rm_id="tutorial", config=QUEUES) as rm:
        await rm.ready()
        reading = asyncio.create_task(read(rm))
        await rm.add_nodes([NODE])
        await rm.submit_applications([REPORT])
        await rm.ask(ASKS)
        while key := (await asyncio.to_thread(sys.stdin.readline)).strip():
            await rm.release([key])
        reading.cancel()
        await rm.close(unregister=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7070"))
