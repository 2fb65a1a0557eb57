"""One page for the manager who decides and the engineer who checks."""

from pipeline.files import write_atomically
from pipeline.reporting.inputs import read_inputs
from pipeline.reporting.page import render_page
from pipeline.settings import Settings
from pipeline.stage import Folders, stage

PAGE = "index.html"


@stage
def main(settings: Settings, folders: Folders) -> None:
    """`reports/index.html` shows the verdict and all that it rests on, self-contained."""
    inputs = read_inputs(settings, folders.data, folders.project / "reports")
    page = render_page(inputs, settings).encode()
    write_atomically(folders.reports / PAGE, page)
    print(f"{PAGE}: {len(page) / 1e6:.2f} MB")
    print(inputs.verdict.sentence)


if __name__ == "__main__":
    main()
