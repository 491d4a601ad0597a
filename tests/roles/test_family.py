"""A family through the roles: its synthesis, with and without something missing between the children."""

from __future__ import annotations

from roles_bench import Bench

CHILD = "open('a.txt', 'w').write('a\\n'); built()"


def synthesis(bench: Bench) -> str:
    """A parent whose one child is built, reviewed and published; returns the synthesis card's slug."""
    bench.submit()
    bench.agent("""final(decision("split", children=[child("greet-a", ["a.txt"])]))""")
    bench.drained("operator")
    bench.ticked()
    bench.agent(CHILD)
    bench.drained("builder-leicht")
    bench.agent("final(review())")
    bench.drained("review")
    assert bench.drained("publish", "greet-a").phase == "bereit_fuer_deployment"
    bench.ticked()
    card = bench.ticked("greet-synthese")
    assert (card.phase, card.write_scope) == ("in_umsetzung", ("a.txt",))
    return card.slug


def test_a_synthesis_that_changes_nothing_has_the_branch_reviewed(bench: Bench) -> None:
    start = bench.tip
    slug = synthesis(bench)
    tip = bench.push("Somebody else", other__md="x")
    bench.agent("built('Nothing is missing.')")
    card = bench.drained("builder-schwer", slug)
    assert (card.phase, card.commit, card.base) == ("im_review", tip, start)
    job = bench.job(slug)
    assert job.snapshot["paths"] == ["a.txt", "other.md"]
    assert [check["exit_code"] for check in job.snapshot["checks"]] == [0]
    bench.agent("""final(review() if "a.txt" in dict(data)["Diff"] else "no diff")""")
    bench.drained("review")
    assert bench.drained("publish", slug).phase == "bereit_fuer_deployment"
    parent = bench.ticked()
    assert (parent.phase, parent.commit) == ("bereit_fuer_deployment", tip)
    assert bench.tip == tip


def test_a_synthesis_over_a_broken_branch_fails_its_checks(bench: Bench) -> None:
    slug = synthesis(bench)
    bench.push("Breaks it", bad__txt="BROKEN")
    bench.agent("built('Nothing is missing.')")
    card = bench.drained("builder-schwer", slug)
    assert (card.phase, card.status) == ("klaerung_reparatur", "check_failed")
    parent = bench.ticked()
    assert parent.phase == "durch_kinder_blockiert"
    assert slug in parent.reason


def test_a_refused_synthesis_goes_on_from_the_branch(bench: Bench) -> None:
    slug = synthesis(bench)
    bench.agent("built('Nothing is missing.')")
    first = bench.drained("builder-schwer", slug)
    bench.agent("""
        finding = dict(severity="blocker", path="a.txt", text="a is not enough")
        final(review("planung_mit_feedback", [finding], False))
    """)
    bench.drained("review")
    bench.store.happen(slug, "retry", actor="lukas")
    bench.ticked()
    bench.agent("open('a.txt', 'a').write('more\\n'); built()")
    card = bench.drained("builder-schwer", slug)
    assert (card.phase, card.base) == ("im_review", first.commit)
    bench.push("Meanwhile", other__md="x")
    bench.agent("final(review())")
    bench.drained("review")
    assert bench.drained("publish", slug).phase == "im_review"
    bench.drained("review")
    assert bench.drained("publish", slug).phase == "bereit_fuer_deployment"
