"""The rules of `board lint`: realistic intents in both languages, what must not be warned about, hostile documents."""

from __future__ import annotations

import time

import pytest

from intent_board.contracts import lint
from intent_board.contracts.package_lists import PackageLists, packages, survey

LOCAL, DEEP, OTHER = "hosts/blunix/packages.nix", "hosts/blunix/desktop/packages.nix", "hosts/tnix/packages.nix"
GLOBAL = "hosts/globalServices/packages.nix"
TREE = {
    LOCAL: "{ pkgs, ... }: { environment.systemPackages = with pkgs; [ htop git ripgrep ]; }",
    DEEP: "{ pkgs, ... }: { environment.systemPackages = [ pkgs.kdePackages.kate pkgs.file ]; }",
    OTHER: "{ pkgs, ... }: { environment.systemPackages = with pkgs; [ ripgrep fd ]; }",
    GLOBAL: "{ pkgs }: with pkgs; [ htop git file kdePackages.kate ]",
    "hosts/pinix/default.nix": "{}",
    "modules/packages.nix": "with pkgs; [ htop ripgrep fd ]",
}
LISTS = survey(TREE, lambda paths: {path: TREE[path] for path in paths})


def german(ziel: str, umfang: str = "Wie im Ziel.", *, out: str = "keine", more: str = "") -> str:
    return (
        f"# Intent: Aufräumen\n\n## Ziel\n\n{ziel}\n\n## Umfang\n\n{umfang}\n\n"
        f"## Explizit Ausgeschlossenes\n\n{out}\n\n## Annahmen\n\nkeine\n\n## Offene Risiken\n\nkeine\n\n"
        f"## Erfolgskriterien\n\n- `nix flake check` ist grün\n{more}"
    )


def english(goal: str, scope: str = "As in the goal.", *, out: str = "none", more: str = "") -> str:
    return (
        f"# Intent: Tidy up\n\n## Goal\n\n{goal}\n\n## Scope\n\n{scope}\n\n## Out of scope\n\n{out}\n\n"
        "## Assumptions\n\nnone\n\n## Open risks\n\nnone\n\n## Success criteria\n\n"
        f"- `nix flake check` exits with 0\n{more}"
    )


def found(text: str, rule: str, lists: PackageLists | None = LISTS) -> list[lint.Finding]:
    return [finding for finding in lint.check(text, lists) if finding.rule == rule]


# --- title, slug, sections ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [german("Es wird schneller."), english("It gets faster."), english("x").replace("\n", "\r\n")]
)
def test_a_whole_intent_has_no_finding(text: str) -> None:
    assert lint.check(text, LISTS) == ()


@pytest.mark.parametrize(
    "text", ["", "\n", "Title\n", "# Something\n", "# Intent:\n", "# Intent: a\u202eb\n", "\n# Intent: x\n"]
)
def test_a_document_without_a_title_is_no_intent(text: str) -> None:
    assert [(one.line, one.rule) for one in lint.check(text) if one.rule in lint.REFUSED] == [(1, "title")]


def test_a_title_or_a_name_that_makes_no_slug_is_told() -> None:
    assert [one.rule for one in lint.check(english("x").replace("Tidy up", "…"))] == ["slug"]
    assert [one.rule for one in lint.check(english("x"), slug="done-synthese")] == ["slug"]
    assert lint.check(english("x"), slug="tidy") == ()


def test_each_section_that_lacks_is_told_in_both_languages() -> None:
    texts = [one.text for one in found("# Intent: x\n\n## Goal\n\ny\n", "sections")]
    assert len(texts) == 5
    assert texts[0] == "the section 'Annahmen' ('Assumptions') is missing"


def test_empty_and_repeated_sections_and_criteria_without_a_list_are_told_with_their_lines() -> None:
    text = english("x").replace("none", "", 1).replace("- `nix", "`nix") + "\n## Ziel\n\nagain\n"
    told = {one.line: one.text for one in found(text, "sections")}
    lines = text.split("\n")
    assert lines[min(told) - 1] == "## Out of scope" and "is empty" in told[min(told)]
    assert "has no list" in told[lines.index("## Success criteria") + 1]
    assert "already in line 3" in told[lines.index("## Ziel") + 1]


def test_headings_in_fences_are_no_sections_and_words_below_a_deeper_heading_belong_to_it() -> None:
    assert len(found("# Intent: x\n```\n## Goal\ny\n```\n", "sections")) == 6
    assert found(english("### First\n\nAll of it."), "sections") == []


# --- package lists --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (german("`htop` wird aus `environment.systemPackages` entfernt."), ["htop"]),
        (german("Nimm htop und git aus environment.systemPackages heraus."), ["htop", "git"]),
        (german("In environment.systemPackages ändert sich:\n\n- htop entfernen\n- fd hinzufügen"), ["htop"]),
        (german("Folgende Pakete werden aus systemPackages entfernt:\n\n- htop\n- git"), ["htop", "git"]),
        (german("Das Paket kate soll nicht mehr installiert sein."), ["kate"]),
        (german("Das Paket htop wird nicht mehr gebraucht und deinstalliert."), ["htop"]),
        (german("Das htop-Paket entfällt."), ["htop"]),
        (german("### Entfernen\n\n- htop\n", "Betrifft environment.systemPackages."), ["htop"]),
        (english("Remove `htop` from `environment.systemPackages`."), ["htop"]),
        (english("Add ripgrep to environment.systemPackages."), ["ripgrep"]),
        (english("Drop the packages htop and\nkdePackages.kate."), ["htop", "kdepackages.kate"]),
        (english("Uninstall Htop, git stays.", "Only `environment.systemPackages`."), ["htop"]),
        (english("Install these:\n\n```nix\nenvironment.systemPackages = with pkgs; [ htop fd ];\n```"), ["htop"]),
        (english("As follows.", "In systemPackages:\n\n```diff\n- htop\n+ fd\n  git\n```"), ["htop"]),
        (german("htop soll weg.", "environment.systemPackages"), ["htop"]),
        (german("Auf blunix fehlt git in environment.systemPackages."), ["git"]),
        (german("x", "- blunix:\n  - environment.systemPackages:\n    - entfernen: htop\n    - neu: fd"), ["htop"]),
        (english("Take **htop** out of environment.systemPackages."), ["htop"]),
        (english("Packages:\n\n| package | what |\n|---|---|\n| htop | remove |\n| fd | add |\n"), ["htop"]),
        (english("x", "- [ ] remove `htop` from `environment.systemPackages`"), ["htop"]),
        (german("x", "- `hosts/blunix/dns.nix` (neu)\n- `htop` in `environment.systemPackages`"), ["htop"]),
        (english("Move `pkgs.file` elsewhere.", "environment.systemPackages"), ["file"]),
    ],
)
def test_a_package_in_several_lists_needs_the_meant_ones(text: str, names: list[str]) -> None:
    told = found(text, "package-lists")
    assert sorted(one.text.split()[0] for one in told) == sorted(names)
    lines = text.lower().split("\n")
    assert all(one.text.split()[0] in lines[one.line - 1] for one in told)


def test_the_finding_names_the_lists_of_the_repository() -> None:
    said = found(english("Remove `htop` from `environment.systemPackages`."), "package-lists")[0].text
    assert LOCAL in said and GLOBAL in said and "modules/packages.nix" not in said


@pytest.mark.parametrize(
    "text",
    [
        english("Remove `fd` from `environment.systemPackages`."),  # in one relevant list
        english("Remove `ripgrep` from `environment.systemPackages` on blunix."),  # in one of that host
        english("Add `hello` to `environment.systemPackages`."),  # in none
        english(f"Remove `htop` from `environment.systemPackages` in {LOCAL}."),
        english("Remove `htop` from `environment.systemPackages`.", f"`{GLOBAL}` and nothing else."),
        english("Remove `htop` from `environment.systemPackages`.", "globalServices/packages.nix"),
        english("Remove `htop` from `environment.systemPackages`.", "`hosts/*/packages.nix`, all of them."),
        english("Remove `htop`, see /etc/nixos/hosts/blunix/packages.nix."),
        german("`htop` wird aus systemPackages entfernt.", out=f"`{GLOBAL}` bleibt."),
        german("Entferne `fd` aus systemPackages.", out="htop entfernen"),
        english("Add a git hook and remove the file time.txt."),  # nothing about packages
        english("Add `hosts/blunix/git/htop.nix` to the imports, and the option --htop."),
        english("We use htop and git every day."),
        english("Speed up the installation.", "Installed packages: nothing changes."),
        german("Entferne `fd` aus systemPackages, git bleibt unverändert."),
    ],
)
def test_where_the_list_is_plain_nothing_is_said(text: str) -> None:
    assert found(text, "package-lists") == []


def test_without_a_repository_nothing_is_said_about_packages() -> None:
    assert found(english("Remove `htop` from `environment.systemPackages`."), "package-lists", None) == []


@pytest.mark.parametrize(
    ("nix", "names"),
    [
        ("{ environment = { systemPackages = with pkgs; [ a b ]; }; x = [ c ]; }", {"a", "b"}),
        (
            "environment.systemPackages = (with pkgs; [ a ]) ++ lib.optionals cond [ pkgs.b ] ++ [ c ]; y = [ d ];",
            {"a", "b", "c"},
        ),
        (
            "# systemPackages = [ no ];\n/* [ no ] */ with pkgs; [ a # no\n \"no\" ''no ''${x} [ no ]'' ./no.nix ]",
            {"a"},
        ),
        (
            "[ (python3.withPackages (ps: with ps; [ requests ])) (lib.hiPrio vim) ]",
            {"python3", "vim", "hiPrio", "lib.hiPrio"},
        ),
        ("[ (firefox.override { extra = [ no ]; }) a ]", {"firefox", "a"}),
        ("systemPackages = with pkgs; with lib; [ a ]; fonts.packages = [ b ];", {"a"}),
        ("[ a", {"a"}),
        ("", set()),
    ],
)
def test_nix_is_read_without_being_evaluated(nix: str, names: set[str]) -> None:
    assert packages(nix) == names


# --- the design step ------------------------------------------------------------------------------------------------

STEP = "\n## Design\n\nInterfaces: option `x`. The service reads it, the module writes it, the deployer activates it.\n"
SCHRITT = (
    "\n## Entwurf\n\nSchnittstelle ist `x`. Der Dienst liest sie, das Modul schreibt sie, der Deployer aktiviert sie.\n"
)


@pytest.mark.parametrize(
    "text",
    [
        english("The relay runs on blunix and tnix."),
        english("One relay.", "`hosts/blunix/relay.nix` and `hosts/neu/relay.nix`"),
        english("The timer runs on all hosts."),
        german("Der Zeitgeber läuft auf mehreren Hosts."),
        german("Das Relay läuft auf blunix und pinix."),
        english("A new entry.", "`agents/catalog.json`"),
        english("Shorter text.", "- `agents/roles/operator.md`"),
        english("Raise `roles.reviewer.allowed_commands` by one."),
        english("Set the Reviewer's model to opus."),
        german("Das Modell des Reviewers wird geändert."),
        german("Der Rollentext soll kürzer werden."),
    ],
)
def test_what_crosses_a_boundary_needs_a_design_step(text: str) -> None:
    told = found(text, "design")
    assert len(told) == 1 and told[0].line in (5, 9)
    assert "missing: the interfaces, who reads, who writes, who activates" in told[0].text
    assert found(text + STEP, "design") == found(text + SCHRITT, "design") == []


def test_a_part_of_a_design_step_leaves_the_rest_to_be_said() -> None:
    text = english("The relay runs on blunix and tnix.")
    half = STEP.replace("the deployer activates it", "that is all")
    assert "(missing: who activates)" in found(text + half, "design")[0].text
    apart = "\n## A\n\nInterfaces. The service reads it.\n\n## B\n\nThe module writes and activates it.\n"
    assert "(missing: who reads)" in found(text + apart, "design")[0].text
    assert len(found(text.replace("none", STEP.partition("\n\n")[2], 1), "design")) == 1  # out of scope says nothing


@pytest.mark.parametrize(
    "text",
    [
        english("The relay runs on blunix."),
        english("The relay runs on blunix.", out="tnix and pinix, agents/catalog.json"),
        english("The relay runs on blunix, not on tnix."),
        german("Nur blunix. tnix bleibt unverändert, `agents/catalog.json` bleibt unberührt."),
        english("The Operator decides, the Builder builds, the Reviewer reviews, the Planner plans."),
        german("Der Reviewer soll die Dokumentation sehen, danach baut der Builder weiter."),
        english("Describe the roles in docs/roles.html.", "ansible/roles/web/tasks/main.yml"),
        english("x", more="- no change below `hosts/tnix/`, `hosts/blunix/a.nix` exists\n"),
    ],
)
def test_one_host_or_the_mere_name_of_a_role_needs_none(text: str) -> None:
    assert found(text, "design") == []


# --- hostile documents ----------------------------------------------------------------------------------------------

MANY = [
    "htop " * 200_000,
    "Remove the package htop, " * 40_000,
    "- " * 500_000,
    "\n".join(f"{' ' * (n % 400)}- remove package:" for n in range(5_000)),
    "## Goal\n" * 100_000,
    "agents/" * 140_000,
    "hosts/" * 160_000,
    "hosts/*/" * 100 + "* " * 300_000,
    "all " * 250_000,
    "all" + " " * 1_000_000,
    "```\n+" + " htop" * 190_000,
    "\u0130" * 400_000 + "\nremove package htop",
    "not " * 250_000,
    "a." * 500_000,
    "İ\n" * 200_000 + "blunix tnix",
    "\n".join(f"hosts/h{n}/packages.nix" for n in range(35_000)),
]


@pytest.mark.parametrize("number", range(len(MANY)))
def test_a_huge_document_takes_time_in_proportion_and_few_findings(number: int) -> None:
    text = "# Intent: x\n" + MANY[number]
    began = time.process_time()
    told = lint.check(text, LISTS)
    assert time.process_time() - began < 12  # a quadratic rule takes minutes here
    assert len(told) <= lint.MAX_FINDINGS
    assert all(1 <= one.line <= text.count("\n") + 1 for one in told)


@pytest.mark.parametrize(
    "nix",
    [
        "[" * 500_000,
        "(" * 500_000,
        '"' * 499_999,
        "'" * 499_999,
        "/*" * 300_000,
        "+" * 500_000,
        "1" * 500_000,
        "with " * 100_000,
    ],
)
def test_a_huge_nix_file_takes_time_in_proportion(nix: str) -> None:
    began = time.process_time()
    assert packages(nix) == frozenset()
    assert time.process_time() - began < 8


def test_more_findings_than_anybody_reads_are_counted() -> None:
    told = lint.check("# Intent: x\n" + "## Goal\n\n" * 500)
    assert len(told) == lint.MAX_FINDINGS and "more findings" in told[-1].text
