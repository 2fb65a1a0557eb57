"""The quality of a source in lines that can be read."""

from pipeline.quality.content import Content
from pipeline.quality.order import Order
from pipeline.quality.source import SourceQuality

_REASONS = 5  # that are printed
_CLASSES = 8
_GAPS = 3


def quality_in_words(quality: SourceQuality) -> list[str]:
    """One line for each thing there is to know; the first names the source."""
    share = quality.rows_rejected / quality.rows_read if quality.rows_read else 0.0
    lines = [
        f"{quality.source} ({quality.kind}, license {quality.license or 'not stated'})",
        f"rows: {quality.rows_read:,} read, {quality.rows_kept:,} kept, "
        f"{quality.rows_rejected:,} rejected ({share:.2%})",
        *(
            f"rejected: {reason.rows:,} x {reason.reason} ({reason.file}, first in line "
            f"{reason.first_line:,})"
            for reason in quality.rejects[:_REASONS]
        ),
        f"clock: {quality.clock}, time 0 is {quality.origin}, zone {quality.zone}",
    ]
    if quality.order is not None and quality.content is not None:
        lines += _order(quality.order) + _content(quality.content)
        if quality.spread is not None:
            lines.append(_spread(quality))
        lines.append(f"survivors: {quality.survivors}")
    lines += [f"note: {note}" for note in quality.notes]
    for name, use in quality.uses.items():
        can = "can" if use.possible else "cannot"
        lines.append(f"{can} calibrate {name.replace('_', ' ')}: {use.reason}")
    return [lines[0], *(f"  {line}" for line in lines[1:])]


def _order(order: Order) -> list[str]:
    step = "too few instants to tell" if order.step_us is None else duration(order.step_us)
    gaps = order.gaps
    lines = [
        f"order: {order.inversions:,} inversions, {order.duplicates:,} duplicates",
        f"arrivals: {order.distinct_instants:,} instants, {order.ties:,} ties, at most "
        f"{order.most_at_once:,} at once, resolution {step}",
    ]
    if gaps.longest:
        longest = ", ".join(
            f"{duration(gap.length_us)} from {gap.start_us / 1e6:,.3f} s"
            for gap in gaps.longest[:_GAPS]
        )
        lines.append(
            f"gaps: longest {longest}; mean {duration(gaps.mean_us)}; {gaps.beyond_poisson:,} "
            f"above {duration(gaps.poisson_longest_us)} (99 % of Poisson logs have none above it)"
        )
    return lines


def _content(content: Content) -> list[str]:
    total = sum(content.classes.values())
    shown = list(content.classes.items())[:_CLASSES]
    classes = ", ".join(f"{name} {rows / total:.1%}" for name, rows in shown)
    more = len(content.classes) - len(shown)
    per_s = [
        sum(rows) / content.rate.window_s
        for rows in zip(*content.rate.whole_windows().values(), strict=True)
    ]
    facts = ", ".join(
        f"{name.replace('_', ' ')} {fact.origin}"
        + (f" ({fact.coverage:.1%})" if 0 < fact.coverage < 1 else "")
        for name, fact in content.facts.items()
    )
    return [
        f"classes: {classes}" + (f" and {more:,} more" if more else ""),
        f"rate: {min(per_s):.4g} to {max(per_s):.4g} requests/s in windows of "
        f"{content.rate.window_s:g} s",
        f"facts: {facts}",
    ]


def _spread(quality: SourceQuality) -> str:
    spread, order = quality.spread, quality.order
    if spread is None or order is None:
        raise RuntimeError("spread: there is none")
    return (
        f"de-quantized over {spread.width_s:g} s: {spread.ties_before:,} ties before, "
        f"{order.ties:,} after; {spread.distinct_before:,} instants before"
    )


def duration(length_us: float) -> str:
    """`250 us`, `1 ms`, `3 s`: three digits in the unit that fits."""
    for unit, size in (("h", 3.6e9), ("min", 6e7), ("s", 1e6), ("ms", 1e3)):
        if length_us >= size:
            return f"{length_us / size:.3g} {unit}"
    return f"{length_us:.3g} us"
