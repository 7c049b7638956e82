"""All attacks by name, in the order in which they are tried."""

from licorne_tools.bench.isolation import asks, configurations, http2, messages, readers, things
from licorne_tools.bench.isolation.attack import Attack

ATTACKS = {
    "asks": Attack("200,000 asks at once", asks.flood),
    "releases": Attack("asks that are given back at once", asks.releases),
    "nodes": Attack("nodes created and decommissioned", things.nodes),
    "applications": Attack("applications added and removed", things.applications),
    "explain": Attack("8 readers of explanations", readers.explain),
    "lists": Attack("8 readers of outstanding asks, applications, nodes", readers.lists),
    "rest": Attack("8 readers of lists over REST", readers.rest),
    "dump": Attack("8 readers of the state dump", readers.dump),
    "watchers": Attack("100 event watchers of asks that come and go", readers.watchers),
    "register": Attack("50 RMs register again and again", configurations.register),
    "reload": Attack("configurations of 1,000 queues updated", configurations.reload),
    "validate": Attack("configurations of 1,000 queues validated", configurations.validate),
    "partitions": Attack("asks in 800 partitions", asks.partitions),
    "sizes": Attack("20,000 asks of as many sizes that fit nowhere", asks.sizes),
    "tags": Attack("200,000 asks of 20 tags that fit nowhere", asks.tagged),
    "namespaces": Attack("10,000 queues of namespaces that come and go", things.namespaces),
    "messages": Attack("messages of 8 MiB with tiny fields", messages.largest),
    "ping": Attack("PING frames of HTTP/2", http2.ping),
    "settings": Attack("SETTINGS frames of HTTP/2", http2.settings),
}
