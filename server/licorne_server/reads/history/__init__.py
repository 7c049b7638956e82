"""History of the server: samples of queues and nodes, marks, and places of asks, all bounded.

In: the views of the core and the acts of operators, read in steps of the server's clock. Out: values of the
last hour and of the last day. The history ends with the process.

Caller: `reads/history/recorder.py` takes the samples, the page reads them.
"""
