"""Role texts: the packaged ones are whole and say what they must, and a wrong one is never used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from intent_board.config import MODEL_ROLES, BoardConfig, parse
from intent_board.roles.text import RoleTextError, load

GOOD = "---\nrole-id: builder\nrole-version: 7\nstatus: active\nowner: lukas\n---\n# Build\n\nAs we do.\n"


def config(contract: Path | None = None) -> BoardConfig:
    raw: dict[str, object] = {"board": {"owner": "lukas"}}
    if contract is not None:
        raw["roles"] = {"builder": {"contract": str(contract)}}
    return parse(raw)


@pytest.mark.parametrize("role", [*MODEL_ROLES, "planner-dialogue"])
def test_every_role_has_a_packaged_text_behind_the_shared_one(role: str) -> None:
    text = load(role, config())
    assert text.shared.startswith("# Rules for every role")
    assert text.own.startswith("# Role: ")
    assert re.fullmatch(r"[0-9a-f]{64}", text.hash)
    assert "---" not in text.own.splitlines()[:3]


@pytest.mark.parametrize(
    ("role", "markers"),
    [
        ("operator", ["===OPERATOR-DECISION===", "===END-OPERATOR-DECISION==="]),
        ("builder", ["===BUILD-RESULT===", "===END-BUILD-RESULT==="]),
        ("reviewer", ["===REVIEW-REPORT===", "===END-REVIEW-REPORT==="]),
        ("fixer", ["===FIX_RESULT===", "===END_FIX_RESULT==="]),
        ("inspector", ["===INSPECTION_RESULT===", "===END_ROUTING_RESULT==="]),
        ("planner", ["===SPLIT-REPORT===", "===CHILD===", "===END-CHILD===", "===END-SPLIT-REPORT==="]),
    ],
)
def test_a_text_names_the_markers_of_its_answer(role: str, markers: list[str]) -> None:
    lines = load(role, config()).own.splitlines()
    assert [marker for marker in markers if marker not in lines] == []


@pytest.mark.parametrize("role", ["builder", "fixer"])
def test_who_makes_files_is_told_how_a_flake_gets_to_see_them(role: str) -> None:
    own = load(role, config()).own
    assert "`git add" in own and "does not exist for `nix`" in own


def test_an_override_is_used_and_recorded_by_version_and_hash(tmp_path: Path) -> None:
    file = tmp_path / "builder.md"
    file.write_text(GOOD)
    packaged, own = load("builder", config()), load("builder", config(file))
    assert own.own == "# Build\n\nAs we do.\n"
    assert own.record() == {
        "role": "builder",
        "version": "7",
        "shared_version": packaged.shared_version,
        "sha256": own.hash,
    }
    assert own.hash != packaged.hash
    file.write_text(GOOD.replace("As we do", "As they do"))
    assert load("builder", config(file)).hash != own.hash


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("active", "draft"), "status is 'draft'"),
        (GOOD.replace("status: active\n", ""), "lacks status"),
        (GOOD.replace("owner: lukas", "owner:"), "'owner:' is wrong"),
        (GOOD.replace("owner: lukas", "owner: lukas\nowner: eve"), "'owner: eve' is wrong"),
        (GOOD.replace("owner: lukas", "owner: lukas\nmodel: x"), "'model: x' is wrong"),
        (GOOD.replace("role-id: builder", "role-id: reviewer"), "role-id is 'reviewer'"),
        (GOOD.removeprefix("---\n"), "has no front matter"),
        ("---\nrole-id: builder\n", "has no front matter"),
        (GOOD.split("# Build")[0], "has no text"),
        ("", "has no front matter"),
        ("x" * 300_000, "larger than"),
    ],
)
def test_a_wrong_text_is_a_load_error_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "builder.md"
    file.write_text(text)
    with pytest.raises(RoleTextError) as caught:
        load("builder", config(file))
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_text_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(RoleTextError, match=r"cannot be read .*roles\.builder\.contract"):
        load("builder", config(tmp_path / "none.md"))
    (tmp_path / "binary.md").write_bytes(b"---\n\xff\xfe\n---\n")
    with pytest.raises(RoleTextError, match="not UTF-8"):
        load("builder", config(tmp_path / "binary.md"))
