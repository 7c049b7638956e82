"""``partitions``: all of them with node order, nodes and what runs."""

from scenarios.stage import Line, Stage


def run(stage: Stage, _: Line) -> list[str]:
    """Print the partitions."""
    lines = []
    for partition in stage.driver.views.partitions():
        weights = " ".join(f"{k}={v:g}" for k, v in sorted(partition.node_sort_weights.items()))
        over = f" over {partition.node_sort_attribute}" if partition.node_sort_attribute else ""
        lines.append(
            f"{partition.name} {partition.state}: {partition.nodes} nodes by "
            f"{partition.node_sort_policy}{over} ({weights}), {partition.allocations} allocations, "
            f"{partition.pending_asks} asks, preemption "
            f"{'on' if partition.preemption_enabled else 'off'}"
        )
    return lines
