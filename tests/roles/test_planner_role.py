"""The Planner's split of a card that ran into its limit: all or nothing, and the children are independent."""

from __future__ import annotations

import pytest
from roles_bench import OWNER, Bench

from intent_board.board.model import Card, Refused

CRITERIA = "## Success criteria\\n\\n- {slug} is there.\\n"
CHILD = "===CHILD===\\nslug: {slug}\\n# Intent: {slug}\\n\\n" + CRITERIA + "===END-CHILD===\\n"
TWO = CHILD.format(slug="greet-a") + CHILD.format(slug="greet-b")


def planned(bench: Bench, report: str) -> Card:
    bench.agent(f"step(); final('===SPLIT-REPORT===\\n{report}===END-SPLIT-REPORT===')")
    return bench.drained("split")


def test_the_children_take_lane_and_scope_and_are_independent(bench: Bench) -> None:
    before = bench.at_its_limit()
    bench.store.happen("greet", "split", actor=OWNER)
    assert bench.store.card("greet").phase == before.phase
    card = planned(bench, TWO)
    assert (card.phase, card.kind) == ("wartet_auf_kinder", "parent"), card.reason
    children = bench.store.family("greet")
    assert [child.slug for child in children] == ["greet-a", "greet-b"]
    for child in children:
        assert (child.lane, child.write_scope, child.blocked_by) == (before.lane, before.write_scope, ())
        assert child.acceptance_criteria == (f"{child.slug} is there.",)


def test_the_planner_sees_the_interim_reports(bench: Bench) -> None:
    bench.at_its_limit()
    bench.store.happen("greet", "split", actor=OWNER)
    label = "Report of an earlier attempt that did not get to its end"
    bench.agent(f"""
reports = [text for name, text in data if name == {label!r}]
slug = f"seen-{{len(reports)}}"
final("===SPLIT-REPORT===\\n" + {CHILD!r}.replace("\\\\n", "\\n").format(slug=slug) + "===END-SPLIT-REPORT===")
""")
    bench.drained("split")
    assert [child.slug for child in bench.store.family("greet")] == ["seen-2"]


@pytest.mark.parametrize(
    "report",
    [
        "",
        TWO + CHILD.format(slug="greet-a"),
        CHILD.format(slug="greet"),
        CHILD.format(slug="Greet-A"),
        TWO.replace("===END-CHILD===", "", 1),
        "".join(CHILD.format(slug=f"greet-{number}") for number in range(11)),
        CHILD.format(slug="taken"),
    ],
)
def test_a_wrong_report_creates_no_child_and_is_kept(bench: Bench, report: str) -> None:
    bench.submit("taken")
    before = bench.at_its_limit()
    bench.store.happen("greet", "split", actor=OWNER)
    card = planned(bench, report)
    assert (card.phase, card.status, card.kind) == (before.phase, before.status, before.kind)
    assert bench.store.family("greet") == ()
    assert "===SPLIT-REPORT===" in (bench.store.raw(bench.last().job.id) or "")


def test_a_card_below_its_limit_is_not_split(bench: Bench) -> None:
    bench.building()
    bench.agent("built(outcome='needs_input', question='Which?')")
    bench.drained("builder-schwer")
    with pytest.raises(Refused, match="ran into its limit"):
        bench.store.happen("greet", "split", actor=OWNER)
