"""How long single asks waited for their allocations, and whether that is short enough."""

from math import ceil

from licorne_tools.bench.report import Run


def waits(name: str, seconds: list[float]) -> Run:
    """Median, 99th percentile and worst in milliseconds, and how many there were."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return {
        f"{name}_p50_ms": ordered[last // 2] * 1000,
        f"{name}_p99_ms": ordered[ceil(last * 0.99)] * 1000,
        f"{name}_worst_ms": ordered[last] * 1000,
        f"{name}_samples": len(ordered),
    }
