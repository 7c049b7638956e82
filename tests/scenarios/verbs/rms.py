"""``rms``: who is registered, with session, partitions and extra configuration."""

from scenarios.stage import Line, Stage


def run(stage: Stage, _: Line) -> list[str]:
    """Print the RMs."""
    lines = []
    for rm in stage.driver.views.rms():
        extra = " ".join(f"{key}={value}" for key, value in sorted(rm.extra_config.items()))
        partitions = " ".join(rm.partitions)
        lines.append(f"{rm.rm_id}, session {rm.session}: {partitions}, extra {extra or '-'}")
    return lines
