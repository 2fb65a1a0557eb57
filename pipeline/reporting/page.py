"""The page: sections in their order, style, and the script that draws the charts."""

from functools import lru_cache

import vl_convert

from pipeline.reporting.comparison import comparison_section
from pipeline.reporting.data_quality import data_quality_section
from pipeline.reporting.fidelity import fidelity_section
from pipeline.reporting.gate import gate_section
from pipeline.reporting.inputs import ReportInputs
from pipeline.reporting.learning import learning_section
from pipeline.reporting.markup import Html, element, join, listing, section
from pipeline.reporting.simulator_fit import calibration_section
from pipeline.reporting.style import STYLE
from pipeline.reporting.text import count, percent, plural
from pipeline.reporting.verdict import verdict_section
from pipeline.settings import Settings

_TITLE = "Batchwright report"
_CONTENTS = {
    "verdict": "Verdict",
    "data-quality": "Data quality",
    "calibration": "Calibration fit",
    "fidelity": "Fidelity",
    "training": "Training curves",
    "comparison": "Policy comparison",
    "gate": "Gate",
    "reproduce": "How to reproduce",
}
_FEW_WINDOWS = 10
# A spec is JSON in its own element, so that no text of it is ever read as a program.
_DRAW = """
for (const source of document.querySelectorAll("script.specification")) {
  const options = {renderer: "svg", actions: false, mode: "vega-lite"};
  vegaEmbed(document.getElementById(source.dataset.target), JSON.parse(source.text), options);
}
"""


def render_page(inputs: ReportInputs, settings: Settings) -> str:
    """The whole page; equal inputs give equal text."""
    header = element(
        "header",
        element("h1", _TITLE),
        element(
            "nav",
            *(element("a", title, href=f"#{name}") for name, title in _CONTENTS.items()),
            aria_label="Contents",
        ),
    )
    main = element(
        "main",
        verdict_section(inputs, settings),
        data_quality_section(inputs, settings),
        calibration_section(inputs),
        fidelity_section(inputs),
        learning_section(inputs, settings),
        comparison_section(inputs, settings),
        gate_section(inputs, settings),
        _reproduce_section(inputs, settings),
    )
    no_script = element("noscript", "The charts need JavaScript; the tables hold their figures.")
    body = element("body", header, no_script, main, _script(_bundle()), _script(_DRAW))
    head = element(
        "head",
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", _TITLE),
        element("style", Html(STYLE)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _script(program: str) -> Html:
    # Inside a string of the program, `<\/script` means the same and does not end the element.
    return element("script", Html(program.replace("</script", "<\\/script")))


@lru_cache(maxsize=1)
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one program that sets `window.vegaEmbed`."""
    program: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return program


def _reproduce_section(inputs: ReportInputs, settings: Settings) -> Html:
    card = inputs.card
    horizon = f"{settings.scenario.horizon_s:g} s"
    few = " From so few windows they tend to be too narrow." if card.windows < _FEW_WINDOWS else ""
    return section(
        "reproduce",
        "How to reproduce",
        element(
            "p",
            join([element("code", "dvc repro"), " makes every figure and this page again from "]),
            "the sources; equal inputs give equal bytes. Experiments: ",
            element("code", "dvc exp run -S key=value"),
            f". Seed: {settings.seed}.",
        ),
        listing(
            [
                f"Intervals are {percent(settings.validate.confidence, 0)} bootstrap intervals "
                f"(BCa) over {plural(card.windows, 'window')} of {horizon} of test arrivals, "
                f"each shown equally often, {plural(card.episodes, 'episode')} in all, with "
                f"{count(settings.validate.resamples)} resamples." + few,
                "They cover the chance in arrivals and noise. They do not cover the error of the "
                "simulator: see Fidelity and Calibration fit for that.",
                "Nor do they cover traffic unlike that of the log, or the luck of one training: "
                "each agent was trained once, from one seed.",
                "The best rule is the best on the test split itself, which favors the rules.",
            ]
        ),
    )
