"""Error texts of providers and programs, and the times they name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intent_board.runtimes import Outcome
from intent_board.runtimes.failures import of_status, of_text, retry_time

#: Wednesday.
NOW = datetime(2026, 10, 7, 12, 0, tzinfo=UTC)

TEXTS = {
    Outcome.RATE_LIMITED: [
        "exceeded retry limit, last status: 429 Too Many Requests",
        "rate limit exceeded: Rate limit reached for x, please try again in 11.054s",
        "You’ve hit your usage limit. Try again later.",
        "You've hit your weekly limit · resets Oct 9, 3pm (Europe/Berlin)",
        "Claude AI usage limit reached|1791561600",
        "API Error: Request rejected (429) · this may be a temporary capacity issue, rate_limit_error",
    ],
    Outcome.QUOTA: [
        "Quota exceeded. Check your plan and billing details.",
        "You exceeded your current quota, please check your plan",
        "Your credit balance is too low to access the API",
        "unexpected status 402 Payment Required: Insufficient credits",
    ],
    Outcome.BAD_CREDENTIALS: [
        "unexpected status 401 Unauthorized: Missing bearer, url: https://x/v1/responses",
        "unexpected status 403 Forbidden: Country not supported",
        "Missing environment variable: `OPENAI_API_KEY`.",
        "Not logged in · Please run /login",
        "Invalid API key · Fix external API key",
    ],
    Outcome.REFUSED_CONFIGURATION: [
        "unexpected status 404 Not Found: fake error 404, url: http://127.0.0.1:5003/v1/responses",
        "There's an issue with the selected model (x). It may not exist: model_not_found",
        "unexpected status 400 Bad Request: The 'x' model is not supported",
        "The model `x` does not exist",
    ],
    Outcome.OUTAGE: [
        "We’re currently experiencing high demand, which may cause temporary errors.",
        "unexpected status 503 Service Unavailable: x",
        "stream disconnected before completion: idle timeout waiting for SSE",
        "Connection failed: error sending request",
        "Reconnecting... waiting for network (Connection failed: error sending request)",
        "API Error: 529 overloaded_error",
        "API Error: Connection error.",
        "API Error: Unable to connect to API (ECONNREFUSED)",
        "Request timed out.",
    ],
    Outcome.FAILED: [
        "Codex ran out of room in the model's context window. Start a new thread or clear earlier history.",
        "Incomplete response returned, reason: max_output_tokens",
        "stop_reason: refusal",
        "unexpected status 400 Bad Request: the prompt has 503 tokens too many",
        "the tool printed 429 lines",
        "something else",
        "",
    ],
}


@pytest.mark.parametrize(("outcome", "text"), [(outcome, text) for outcome, texts in TEXTS.items() for text in texts])
def test_texts(outcome: Outcome, text: str) -> None:
    assert of_text(text) is outcome


@pytest.mark.parametrize(
    ("status", "text", "outcome"),
    [
        (429, "slow down", Outcome.RATE_LIMITED),
        (429, "insufficient_quota", Outcome.QUOTA),
        (400, "Your credit balance is too low", Outcome.QUOTA),
        (400, "x", Outcome.FAILED),
        (402, "x", Outcome.QUOTA),
        (401, "x", Outcome.BAD_CREDENTIALS),
        (403, "x", Outcome.BAD_CREDENTIALS),
        (404, "x", Outcome.REFUSED_CONFIGURATION),
        (408, "x", Outcome.OUTAGE),
        (500, "rate limit", Outcome.OUTAGE),
        (529, "x", Outcome.OUTAGE),
        (None, "ECONNRESET", Outcome.OUTAGE),
    ],
)
def test_statuses(status: int | None, text: str, outcome: Outcome) -> None:
    assert of_status(status, text) is outcome


def at(day: int, hour: int, minute: int = 0, *, month: int = 10, year: int = 2026) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("weekly limit, resets at 3pm (UTC)", at(7, 15)),
        ("weekly limit, resets at 3pm (Europe/Berlin)", at(7, 13)),
        ("weekly limit, resets at 9:30am (Europe/Berlin)", at(8, 7, 30)),
        ("weekly limit, resets at 15:45 (UTC)", at(7, 15, 45)),
        ("weekly limit, resets at 2026-10-09 18:00 (UTC)", at(9, 18)),
        ("weekly limit, resets at 2026-10-09T18:00:00Z", at(9, 18)),
        ("weekly limit, resets at 2026-10-09T18:00:00+02:00", at(9, 16)),
        ("You've hit your weekly limit · resets Oct 9, 3pm (Europe/Berlin)", at(9, 13)),
        ("You've hit your weekly limit · resets Oct 9 at 3:15pm (America/New_York)", at(9, 19, 15)),
        ("You've hit your weekly limit · resets Nov 2, 3pm (Europe/Berlin)", at(2, 14, month=11)),
        ("session limit reached ∙ resets 12am (UTC)", at(8, 0)),
        ("resets 12pm (UTC)", at(8, 12)),
        ("resets Mon 9am (UTC)", at(12, 9)),
        ("resets Wednesday 9am (UTC)", at(14, 9)),
        ("resets tomorrow at 9am (UTC)", at(8, 9)),
        ("Try again at Oct 8th, 2026 3:04 PM UTC.", at(8, 15, 4)),
        ("Claude AI usage limit reached|1791561600", 1791561600.0),
        ("please try again in 11.054s. Visit x", NOW.timestamp() + 11.054),
        ("try again in 250ms", NOW.timestamp() + 0.25),
        ("Try again in 2 days 3 hours 5 minutes.", (NOW + timedelta(days=2, hours=3, minutes=5)).timestamp()),
        ("try again in 1 hour and 30 minutes", (NOW + timedelta(minutes=90)).timestamp()),
        ("resets in 6m0s", (NOW + timedelta(minutes=6)).timestamp()),
        ("retry-after: 120", (NOW + timedelta(minutes=2)).timestamp()),
        ('{"retry_after": 90}', (NOW + timedelta(seconds=90)).timestamp()),
        ("resets at 3pm (UTC); weekly resets at Oct 9, 3pm (UTC)", at(9, 15)),
    ],
)
def test_times(text: str, when: float) -> None:
    assert retry_time(text, NOW.timestamp()) == pytest.approx(when)


def test_a_date_of_next_year() -> None:
    now = datetime(2026, 12, 30, 12, 0, tzinfo=UTC).timestamp()
    assert retry_time("resets Jan 2, 3pm (UTC)", now) == at(2, 15, month=1, year=2027)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Try again later.",
        "resets soon",
        "resets at 25:00 (UTC)",
        "resets at 99pm",
        "resets Feb 31, 3pm (UTC)",
        "resets at 2026-13-45T99:00:00Z",
        "resets at 2031-01-01T00:00:00Z",
        "resets at 2020-01-01T00:00:00Z",
        "try again in 5000 weeks",
        "try again in 999999999 weeks",
        "try again in " + "1s " * 40,
        "request 1234567890 was refused",
        "retry-after: Wed, 21 Oct 2015 07:28:00 GMT",
        "the rate is 50% after 10 tries",
    ],
)
def test_no_time(text: str) -> None:
    found = retry_time(text, NOW.timestamp())
    assert found is None or 0 < found - NOW.timestamp() < 60


@pytest.mark.parametrize("zone", ["(Nowhere/Land)", "(../../etc/passwd)", "(XYZ)", ""])
def test_an_unknown_zone_is_the_hosts_own(zone: str) -> None:
    here = NOW.astimezone().replace(hour=15, minute=0)
    expected = here if here > NOW else here + timedelta(days=1)
    assert retry_time(f"resets at 3pm {zone}", NOW.timestamp()) == expected.timestamp()


WORDS = "resets at in on try again retry-after: Oct 31, Mon tomorrow 12 99 3pm 25:61 weeks ms , · 1e9 9999999999"
WORDS += " 2026-02-30T24:00 2026-10-09 18:00 (UTC+99) (Z) (A/../B) Europe/Berlin"


@given(st.lists(st.sampled_from(WORDS.split(" ")) | st.text(max_size=4), max_size=12))
def test_no_text_is_too_strange(words: list[str]) -> None:
    text = " ".join(words)
    assert of_text(text) in Outcome
    found = retry_time(text, NOW.timestamp())
    assert found is None or found > NOW.timestamp()
