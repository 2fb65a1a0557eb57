"""Writes simulated requests as BurstGPT_3 has them: whole seconds."""

from pathlib import Path

from tests.pipeline.readers.writers import SimulatedLog

HEADER = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type"
)


def write(log: SimulatedLog, path: Path) -> None:
    """A CSV file of API calls; failed requests have zero response tokens."""
    lines = [HEADER]
    for row, arrival_us in enumerate(log.arrival_us.tolist()):
        elapsed_s = (int(log.departure_us[row]) - arrival_us) // 1_000_000
        prompt, output = int(log.prompt_tokens[row]), int(log.output_tokens[row])
        lines.append(
            f"{arrival_us // 1_000_000}.0,,{elapsed_s},{log.request_class[row]},{prompt},{output},"
            f"{prompt + output},API log"
        )
    path.write_text("\n".join(lines) + "\n")
