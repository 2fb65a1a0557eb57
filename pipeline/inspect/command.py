"""`python -m pipeline.inspect`: plays one episode and draws it."""

from collections.abc import Sequence

import vl_convert

from pipeline.files import write_atomically
from pipeline.inspect.arguments import USAGE, read_arguments
from pipeline.inspect.chart import Caption, timeline_chart
from pipeline.inspect.choice import chosen_episode
from pipeline.inspect.episode import play
from pipeline.inspect.facts import facts, load_in_words, reading_in_words, replica_names
from pipeline.inspect.timeline import build_timeline, cut_to
from pipeline.progress import progress
from pipeline.stage import ROOT
from simulator.checks import check


def main(words: Sequence[str]) -> None:
    """The picture is at `out`, and its facts are printed. Raises ValueError for a bad argument."""
    if any(word in ("-h", "--help") for word in words):
        print(USAGE, end="")
        return
    arguments = read_arguments(words)
    episode = chosen_episode(arguments, ROOT / "data")
    start_s, end_s = arguments.start_s, arguments.end_s
    end_s = episode.horizon_s if end_s is None else end_s
    rule = f"must be below end_s = {end_s:g}, both within the {episode.horizon_s:g} s"
    check(start_s < end_s <= episode.horizon_s, "start_s", start_s, rule)
    with progress("inspect: simulated ms", int(episode.horizon_s * 1e3)) as advance:
        played = play(episode, advance)

    timeline = build_timeline(episode.scenario, played.records, played.events, played.end_s)
    shown = cut_to(timeline, start_s, end_s)
    lines = facts(episode, played, timeline)
    load, overloaded = load_in_words(episode, played)
    reading = reading_in_words(episode.scenario, shown, timeline.end_s, start_s, end_s)
    caption = Caption(
        f"{episode.name} · {episode.rule} · seed {episode.seed}",
        [*lines, reading],
        replica_names(timeline, len(episode.scenario.replicas)),
        overloaded,
    )
    picture = timeline_chart(shown, episode.scenario, caption, start_s, end_s)
    write_atomically(arguments.out, _drawn(picture, arguments.out.suffix))
    if overloaded:
        print(f"warning: {load}")
    print("\n".join([caption.title, *lines, f"Written to {arguments.out}"]))


def _drawn(picture: dict[str, object], suffix: str) -> bytes:
    if suffix == ".svg":
        return str(vl_convert.vegalite_to_svg(picture)).encode()
    return bytes(vl_convert.vegalite_to_png(picture))
