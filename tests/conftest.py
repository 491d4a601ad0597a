"""What every test may use, and the list of what was not tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Say last, after pytest's own closing line, which tests this machine could not run and why."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or session.config.option.collectonly:
        return
    reasons = Counter(_reason(report) for report in reporter.stats.get("skipped", []))
    reporter.write_line("")
    if not reasons:
        reporter.write_line("No test was skipped.")
        return
    reporter.write_line(f"Not tested on this machine ({sum(reasons.values())}):")
    for reason, number in reasons.most_common():
        reporter.write_line(f"  {number:4} x {reason}")


def _reason(report: pytest.TestReport) -> str:
    # A skip's longrepr is (file, line, "Skipped: why"); one that xfail made is a text.
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
