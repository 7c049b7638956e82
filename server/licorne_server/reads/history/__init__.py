"""History of the server: samples of queues and nodes, marks, and places of asks, all bounded.

In: the views of the core, and what operators noted, step by step by the server's clock. Out: values of
the last hour and of the last day. Nothing of it survives the process.

Caller: `reads/history/samples.py` takes the samples, the page reads them.
"""
