"""Each fact once at each target, whoever is dead, slow or wrong."""

from __future__ import annotations

import logging
import time

import pytest
from notify_bench import NAME, OWNER, Bench, Place, configured, dead_url

from intent_board.notify import AlreadySending, NotifyError, send_due
from intent_board.notify.sending import EXPIRES_SECONDS, backoff
from intent_board.runtimes.credentials import Credentials
from intent_board.store import locks, open_store


def test_each_fact_is_sent_once_whatever_restarts(bench: Bench, place: Place) -> None:
    bench.facts("lamp", "desk", "door")
    for _ in range(3):
        bench.send()
        bench.again()
        bench.now += 7200
    assert place.count() == {"lamp": 1, "desk": 1, "door": 1}
    assert set(bench.states().values()) == {"sent"}
    assert bench.store.due_notifications(bench.now) == []


def test_the_message_says_who_speaks_about_what(bench: Bench, place: Place) -> None:
    bench.card("lamp")
    bench.fact("lamp", "negative_review", "The lamp: the tests are missing")
    bench.send()
    (sent,) = place.taken
    assert sent[1:] == (
        "Intent Board, Reviewer: negative review",
        "lamp: The lamp: the tests are missing\nboard why lamp",
    )


def test_a_dead_target_is_tried_again_later_and_later_and_the_living_one_hears_nothing_twice(
    bench: Bench, place: Place
) -> None:
    bench.urls += "\n" + place.url("/ill")
    place.refusing.add("/ill")
    bench.facts("lamp")
    start, tried_at = bench.now, []
    for minute in (0, 1, 2, 3, 6, 7, 14, 15, 30, 31):
        bench.now = start + minute * 60
        before = len(place.taken)
        bench.send()
        if len(place.taken) > before:
            tried_at.append(minute)
    assert tried_at == [0, 1, 3, 7, 15, 31]
    assert place.count() == {"lamp": 1}
    place.refusing.clear()
    bench.now += 3600
    assert bench.send().sent == 1
    assert bench.states()["lamp"] == "sent"
    assert place.count("/ill")["lamp"] == 7


def test_a_dead_target_costs_one_try_a_run_however_much_is_due(bench: Bench, place: Place) -> None:
    bench.urls = f"{place.url('/ill')}\n{place.url()}"
    place.refusing.add("/ill")
    bench.facts(*(f"card-{number}" for number in range(8)))
    report = bench.send()
    assert (report.sent, len(report.failures)) == (8, 1)
    assert len([1 for to, *_ in place.taken if to == "/ill"]) == 1
    assert bench.store.due_notifications(bench.now) == []
    bench.now += 60
    place.refusing.clear()
    bench.send()
    assert len(place.count("/ill")) == 8
    assert set(place.count().values()) == {1}


def test_a_fact_that_a_target_never_takes_stands_before_nobody(bench: Bench, place: Place) -> None:
    bench.card("lamp")
    bench.card("desk")
    bench.fact("lamp", text="poison")
    bench.fact("desk")
    place.words.add("poison")
    bench.send()
    bench.now += 60
    bench.send()
    assert bench.states() | {"lamp": "due", "desk": "sent"} == bench.states()


def test_a_slow_target_holds_up_no_other_and_is_not_waited_for_longer_than_its_time(bench: Bench, place: Place) -> None:
    place.seconds = 3.0
    bench.urls = place.url("/slow")
    bench.facts("lamp", "desk")
    start = time.monotonic()
    report = bench.send(deadline=0.4)
    assert time.monotonic() - start < 2.5
    assert report.sent == 0
    assert report.failures == ["line 1 (json) did not answer in time"]
    place.seconds = 0.0
    bench.now += 60
    bench.send()
    again = [message for to, _, message in place.taken if "lamp" in message]
    assert "second time" not in again[0]
    assert again[1].startswith("(Perhaps for the second time"), "it may have it already"


def test_a_wrong_line_is_named_by_its_number_and_the_others_are_told(
    bench: Bench, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    bench.urls = f"# people\n\nnonsense://sEcReT\nsEcReT without a scheme\n{place.url()}"
    bench.facts("lamp")
    with caplog.at_level(logging.DEBUG):
        report = bench.send()
    assert place.count() == {"lamp": 1}
    assert [failure.partition(" is ")[0].partition(" has ")[0] for failure in report.failures] == ["line 3", "line 4"]
    assert "sEcReT" not in "".join(report.failures) + caplog.text


def test_no_address_is_stored_or_said(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.urls = dead_url("/tOkEn-in-the-path?password=hunter22")
    bench.facts("lamp")
    with caplog.at_level(logging.DEBUG):
        report = bench.send()
    assert report.failures == ["line 1 (json) did not take it"]
    bench.store.close()
    kept = b"".join(file.read_bytes() for file in bench.config.state_dir.rglob("*") if file.is_file())
    for secret in ("tOkEn", "hunter22", "127.0.0.1"):
        assert secret.encode() not in kept
        assert secret not in caplog.text + repr(report)


@pytest.mark.parametrize("known", [{}, {NAME: "\n# only a comment\n"}])
def test_without_anybody_to_tell_it_is_one_sentence_and_the_facts_wait(bench: Bench, known: dict[str, str]) -> None:
    bench.facts("lamp")
    with pytest.raises(NotifyError) as error:
        send_due(bench.config, bench.store, Credentials(values=known))
    assert NAME in str(error.value) and "\n" not in str(error.value)
    assert bench.states()["lamp"] == "due"


def test_without_a_configured_credential_it_says_so(bench: Bench) -> None:
    config = configured(bench.config.state_dir, credential=None)
    with pytest.raises(NotifyError, match=r"\[notifications\] credential"):
        send_due(config, bench.store, Credentials(values={}))


def test_only_the_wanted_events_are_sent(bench: Bench, place: Place) -> None:
    bench.config = configured(bench.config.state_dir, events=["question"])
    bench.facts("lamp", "desk")
    bench.fact("desk", "question", "which one?")
    report = bench.send()
    assert (report.sent, report.unwanted) == (1, 2)
    assert [title for _, title, _ in place.taken] == ["Intent Board, Board: a question"]


def test_a_requester_hears_what_is_for_the_requester_and_nobody_else_does(bench: Bench, place: Place) -> None:
    bench.urls = f"{place.url('/owner')}\neva = {place.url('/eva')}\n{OWNER}={place.url('/tagged')}"
    for slug, requester in (("lamp", "eva"), ("desk", "tom"), ("door", OWNER)):
        bench.card(slug, requester)
    for slug in ("lamp", "desk", "door"):
        bench.fact(slug, "question", "which one?", to_requester=True)
    bench.fact("lamp", "question", "which one?")
    bench.send()
    assert place.count("/eva") == {"lamp": 1}
    assert place.count("/owner") == place.count("/tagged") == {"lamp": 1}
    assert bench.states() == {"lamp": "sent", "desk": "unwanted", "door": "unwanted"}


def test_hostile_text_is_short_plain_and_calls_nobody(bench: Bench, place: Place) -> None:
    bench.secrets["key"] = "sk-very-secret-value"
    bench.card("lamp")
    bench.fact("lamp", text="@everyone \u202eevil\u200b\x1b[31m\nsk-very-secret-value <!channel> " + "x" * 5000)
    bench.send()
    ((_, _, message),) = place.taken
    assert len(message) < 500
    for bad in ("@everyone", "\u202e", "\u200b", "\x1b", "sk-very-secret-value", "<!channel>"):
        assert bad not in message
    assert "[redacted]" in message


def test_what_is_too_old_is_no_news_any_more(bench: Bench, place: Place) -> None:
    bench.facts("lamp")
    bench.now += EXPIRES_SECONDS + 1
    assert bench.send().expired == 1
    assert place.taken == []
    assert bench.states()["lamp"] == "expired"


def test_a_clock_that_jumped_back_holds_nothing(bench: Bench, place: Place) -> None:
    place.refusing.add("/owner")
    bench.facts("lamp")
    bench.now += 400 * 86400
    bench.store.expire_notifications(0)
    with bench.store._writing() as work:
        work.connection.exec_driver_sql("UPDATE notifications SET created_at = 1000000")
    bench.now -= 400 * 86400
    bench.send()
    bench.now -= 10 * 86400
    place.refusing.clear()
    assert bench.send().sent == 1


def test_a_run_that_is_stopped_finishes_what_is_under_way_and_begins_nothing(bench: Bench, place: Place) -> None:
    bench.facts("lamp", "desk")
    stopped: list[bool] = []
    place.seconds = 0.3

    def stop() -> bool:
        # True as soon as the first message is on its way
        return bool(place.taken) or bool(stopped)

    report = bench.send(stop=stop)
    assert report.sent == 1
    assert sorted(bench.states().values()) == ["due", "sent"]


def test_two_at_once_send_nothing_twice(bench: Bench, place: Place) -> None:
    bench.facts("lamp")
    lock = locks.acquire(bench.config.state_dir / "locks" / "notify.lock")
    assert lock is not None
    with pytest.raises(AlreadySending):
        bench.send()
    assert place.taken == []


def test_more_than_one_batch_goes_out_in_one_run(bench: Bench, place: Place) -> None:
    bench.card("lamp")
    for number in range(130):
        bench.fact("lamp", text=f"fact {number}")
    assert bench.send().sent == 130
    assert len({message for *_, message in place.taken}) == 130


def test_the_bell_rings_only_where_somebody_is_to_be_told(bench: Bench, tmp_path: object) -> None:
    bell = bench.store.doorbells.path("notify", 0)
    bench.card("lamp")
    bell.unlink(missing_ok=True)
    bench.fact("lamp")
    assert bell.exists()
    bell.unlink()
    bench.store.tick(bench.now, off_branch={})
    assert bell.exists(), "a retry has no bell of its own"
    bell.unlink()
    bench.send()
    bench.store.tick(bench.now, off_branch={})
    assert not bell.exists()
    quiet = open_store(configured(bench.config.state_dir, credential=None))
    quiet.doorbells.ring("notify")
    assert not bell.exists()


def test_the_backoff_doubles_up_to_an_hour() -> None:
    assert [backoff(tries) for tries in (1, 2, 3, 7, 50, 10**6)] == [60, 120, 240, 3600, 3600, 3600]
