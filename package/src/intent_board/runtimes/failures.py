"""What an agent program's error text means for the board: wait, pause, correct the configuration, or give up.

The texts are those the programs were seen to print (tests/agents runs the real ones).  Only text from a program's
error channel belongs here, never a model's words.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from intent_board.runtimes.order import Outcome

#: A provider's longest limit is a month; a time beyond it was misread.
LONGEST_WAIT = timedelta(days=32)

_FAULT = r"context (window|length|limit)|max_output_tokens|output (token )?limit|refusal|content.?policy"
_QUOTA = r"insufficient_quota|quota exceeded|exceeded your current quota|credit balance is too low|out of credits"
_QUOTA += r"|insufficient credits|payment required|billing details"
_LIMIT = r"rate.?limit|too many requests|(usage|session|weekly|hourly|daily|monthly|5-hour|opus|sonnet) limit"
_LIMIT += r"|hit your limit|limit reached"
_CREDENTIALS = r"unauthori[sz]ed|forbidden|authentication|invalid (x-)?api.?key|incorrect api key|not logged in"
_CREDENTIALS += r"|missing environment variable|please run /login|permission_error"
_CONFIGURATION = (
    r"model_not_found|model not found|not_found_error|unknown model|invalid model|unsupported (value|param)"
)
_CONFIGURATION += r"|model.{0,80}(does not exist|not supported|may not exist)"
_OUTAGE = r"overloaded|high demand|server_error|api_error|internal server error|bad gateway|service unavailable"
_OUTAGE += (
    r"|stream (disconnected|closed|error)|waiting for network|network error|network is unreachable|econn|enotfound"
)
_OUTAGE += r"|connection (failed|refused|reset|error|closed)|error sending request|timed? ?out|timeout|fetch failed"
_OUTAGE += r"|unable to connect|socket hang up|dns error|failed to lookup"
_STATUS = r"(?:\bstatus(?: code)?|api error|\bhttp(?:/[\d.]+)?|error(?: code)?)[\s:=(]{1,3}([45]\d\d)\b"

#: First match wins.  Quota before limit: a used-up account answers 429 as well, and waiting does not help it.
_KINDS = (
    (Outcome.FAILED, _FAULT),
    (Outcome.QUOTA, _QUOTA),
    (Outcome.RATE_LIMITED, _LIMIT),
    (Outcome.BAD_CREDENTIALS, _CREDENTIALS),
    (Outcome.REFUSED_CONFIGURATION, _CONFIGURATION),
    (Outcome.OUTAGE, _OUTAGE),
)


def of_status(status: int | None, text: str) -> Outcome:
    """The outcome of an API error with its HTTP status, where the program tells it."""
    if status is None:
        return of_text(text)
    if status == 402 or (status in (400, 429) and re.search(_QUOTA, text, re.IGNORECASE)):
        return Outcome.QUOTA
    exact = {
        401: Outcome.BAD_CREDENTIALS,
        403: Outcome.BAD_CREDENTIALS,
        404: Outcome.REFUSED_CONFIGURATION,
        408: Outcome.OUTAGE,
        429: Outcome.RATE_LIMITED,
    }
    if status in exact:
        return exact[status]
    if status >= 500:
        return Outcome.OUTAGE
    refused = re.search(_CONFIGURATION, text, re.IGNORECASE)
    return Outcome.REFUSED_CONFIGURATION if refused else Outcome.FAILED


def of_text(text: str) -> Outcome:
    """The outcome that an error text stands for; FAILED when it stands for none."""
    if status := re.search(_STATUS, text, re.IGNORECASE):
        return of_status(int(status[1]), text)
    return next((kind for kind, pattern in _KINDS if re.search(pattern, text, re.IGNORECASE)), Outcome.FAILED)


# --- when to come back ---------------------------------------------------------------------------------------------


def retry_time(text: str, now: float) -> float | None:
    """When a limit ends, in epoch seconds: the latest time that `text` names, or None when it names none.

    Understands spans (`try again in 2 days 3 hours`, `in 1m30s`, `retry-after: 30`), epoch seconds, ISO times, and
    clock times with or without a day and a zone (`resets Oct 7, 3pm (Europe/Berlin)`).  A clock time without a zone
    is the host's own; one without a day is the next such time.
    """
    here = datetime.fromtimestamp(now, UTC)
    times = (*_spans(text, here), *_moments(text), *_clocks(text, here))
    found = [when for when in times if timedelta(0) < when - here <= LONGEST_WAIT]
    return max(found).timestamp() if found else None


#: What stands in front of a time.
_LEAD = r"\b(?:resets?|again|retry|available|until|after)\b\s*(?::|·|-)?\s*"
_UNIT = r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![a-z])"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def _spans(text: str, now: datetime) -> Iterator[datetime]:
    for match in re.finditer(r"\bretry[-_ ]after[\"']?[:=]?\s*[\"']?(\d{1,7})(?![\d-])", text, re.IGNORECASE):
        yield now + timedelta(seconds=int(match[1]))
    for match in re.finditer(_LEAD + r"in\s+(?=(.{1,80}))", text, re.IGNORECASE | re.DOTALL):
        whole = re.match(rf"(?:\s*(?:,|and)?\s*\d{{1,6}}(?:\.\d+)?\s*{_UNIT})+", match[1], re.IGNORECASE)
        seconds = 0.0
        for amount, name in re.findall(rf"(\d+(?:\.\d+)?)\s*{_UNIT}", whole[0] if whole else "", re.IGNORECASE):
            unit = name.lower()
            seconds += float(amount) * _SECONDS["ms" if unit.startswith(("ms", "mil")) else unit[0]]
        # Longer than any limit; adding it could leave the calendar.
        if 0 < seconds <= 2 * LONGEST_WAIT.total_seconds():
            yield now + timedelta(seconds=seconds)


def _moments(text: str) -> Iterator[datetime]:
    for match in re.finditer(r"(?<!\d)(\d{10})(?!\d)", text):
        yield datetime.fromtimestamp(int(match[1]), UTC)
    for match in re.finditer(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?", text):
        with contextlib.suppress(ValueError, OverflowError):
            moment = datetime.fromisoformat(match[0])
            yield (moment if moment.tzinfo else moment.replace(tzinfo=_zone(text[match.end() :]))).astimezone(UTC)


def _clocks(text: str, now: datetime) -> Iterator[datetime]:
    for match in re.finditer(_LEAD + r"(?:at|on)?\s*(?=([A-Za-z0-9].{0,80}))", text, re.IGNORECASE):
        if (moment := _clock(match[1], now)) is not None:
            yield moment


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DATE = r"(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_DATE += r"(?:,?\s+(?P<year>20\d\d))?"
_WEEKDAY = r"(?P<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]*"
_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::\d\d)?\s*(?P<half>am|pm)?"


def _clock(text: str, now: datetime) -> datetime | None:
    match = re.match(
        rf"(?:(?:{_DATE}|{_WEEKDAY}|(?P<tomorrow>tomorrow)|today),?\s*(?:at\s+)?)?{_CLOCK}(?![\d.%a-z])",
        text,
        re.IGNORECASE,
    )
    if not match or not (match["minute"] or match["half"]):
        return None
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if match["half"] and hour > 12:
        return None
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
    here = now.astimezone(_zone(text[match.end() :]))
    try:
        return _on_day(match, here.replace(hour=hour, minute=minute, second=0, microsecond=0), here)
    except ValueError:
        return None


def _on_day(match: re.Match[str], moment: datetime, here: datetime) -> datetime:
    if match["month"]:
        month = _MONTHS.index(match["month"].lower()) + 1
        moment = moment.replace(year=int(match["year"] or here.year), month=month, day=int(match["day"]))
        # A date without its year that lies behind us is one of next year.
        return moment if match["year"] or moment > here - timedelta(days=1) else moment.replace(year=here.year + 1)
    if match["weekday"]:
        moment += timedelta(days=(_DAYS.index(match["weekday"].lower()) - here.weekday()) % 7)
        return moment if moment > here else moment + timedelta(days=7)
    if match["tomorrow"]:
        return moment + timedelta(days=1)
    return moment if moment > here else moment + timedelta(days=1)


def _zone(after: str) -> tzinfo | None:
    """The zone that stands right after a time; None, the host's own, when there is none that is known."""
    match = re.match(r"\s*\(?(?P<name>[A-Z][A-Za-z_]+(?:/[A-Za-z_+-]+)*|UTC|GMT|Z)\b(?P<offset>[+-]\d{1,2})?", after)
    if not match:
        return None
    try:
        if match["name"] in ("UTC", "GMT", "Z"):
            return timezone(timedelta(hours=int(match["offset"] or 0)))
        return ZoneInfo(match["name"])
    except (KeyError, ValueError, OSError):
        return None
