"""Our reading of .gitignore against git's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from workspace_bench import git

from intent_board.workspace import WorkspaceError, ignore
from intent_board.workspace.ignore import asker
from intent_board.workspace.tree import survey

TREES = {
    "nested and negated": (
        {".gitignore": "*.log\n!keep.log\nbuild/\n/top\n", "a/.gitignore": "!*.log\nx\n", "a/b/.gitignore": "*\n!y\n"},
        ["a.log", "keep.log", "a/c.log", "a/x", "x", "a/b/y", "a/b/z", "top", "a/top", "build/o", "a/build/o/p",
         "build.txt"],
    ),
    "a file inside an ignored directory can't come back": (
        {".gitignore": "dir/\n!dir/keep\n", "dir/.gitignore": "!keep\n"}, ["dir/keep", "dir/other"],
    ),
    "in a directory whose files are ignored it can": ({".gitignore": "dir/*\n!dir/keep\n"}, ["dir/keep", "dir/b/c"]),
    "stars": (
        {".gitignore": "a/**/z\n**/deep\nfoo*bar\n/q/*.o\n**/v/**\n"},
        ["a/z", "a/b/z", "a/b/c/z", "x/deep/y", "deep", "fooXbar", "s/foobar", "q/m.o", "q/r/m.o", "v/1", "w/v/2"],
    ),
    "spaces, escapes and comments": (
        {".gitignore": "# comment\n\\#hash\n\\!bang\ntrail   \nkept\\ \nsp ace\n[ab]c\n[!x]d\n?e\n\n"},
        ["#hash", "!bang", "trail", "kept ", "sp ace", "ac", "cc", "xd", "yd", "ee", "eee", "# comment"],
    ),
    "line ends and a byte order mark": ({".gitignore": "\ufeffone\r\ntwo\r\nthree"}, ["one", "two", "three", "four"]),
    "everything of a virtual environment": ({".venv/.gitignore": "*\n"}, [".venv/bin/python", ".venv/x", "venv"]),
    "a directory only": ({".gitignore": "name/\n"}, ["name", "sub/name/x"]),
    "case counts": ({".gitignore": "UPPER\n"}, ["upper", "UPPER"]),
    "umlauts": ({".gitignore": "ü*\n"}, ["über", "uber", "sub/üx"]),
}  # fmt: skip


def ours(root: Path) -> set[str]:
    found = survey(root, {}, digits=40, ignored=asker(root.parent / f"{root.name}-ours", "when_available"))
    return {path.decode(errors="surrogateescape") for path in found.paths}


def gits(root: Path) -> set[str]:
    listing = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    out = subprocess.run(listing, cwd=root, capture_output=True, check=True).stdout
    return {path.decode(errors="surrogateescape") for path in out.split(b"\0")[:-1]}


@pytest.mark.parametrize("name", TREES)
def test_the_same_files_are_left_out_as_by_git(tmp_path: Path, name: str) -> None:
    rules, files = TREES[name]
    git("init", "-q", ".", cwd=tmp_path)
    for file, text in {**dict.fromkeys(files, "x"), **rules}.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text, newline="")
    assert ours(tmp_path) == gits(tmp_path)


def test_rules_that_are_no_file_of_text_do_no_harm(tmp_path: Path) -> None:
    git("init", "-q", ".", cwd=tmp_path)
    (tmp_path / ".gitignore").write_bytes(b"\0\xff\xfe\n[\n\\\n!\n" + b"a/" * 1000 + b"\n*.log\n" + b"x\n" * 10_000)
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".gitignore").symlink_to("/etc/passwd")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / ".gitignore").mkdir()
    (tmp_path / "c" / ".gitignore" / "y").write_text("x")
    found = survey(tmp_path, {}, digits=40, ignored=asker(tmp_path.parent / "ours", "when_available"))
    assert sorted(found.changed) == [b".gitignore", b"c/.gitignore/y"]
    assert found.refused[0].startswith("b/.gitignore: is a link, and git reads this file")


def test_the_agents_own_git_directory_says_nothing_about_it(tmp_path: Path) -> None:
    git("init", "-q", ".", cwd=tmp_path)
    (tmp_path / ".git" / "info").mkdir(exist_ok=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("*\n")
    (tmp_path / "excludes").write_text("*\n")
    git("config", "core.excludesFile", str(tmp_path / "excludes"), cwd=tmp_path)
    git("config", "core.fsmonitor", f"touch {tmp_path}/ran", cwd=tmp_path)
    (tmp_path / ".gitignore").write_text("b\n")
    for name in ("a", "b"):
        (tmp_path / name).write_text("x")
    assert ours(tmp_path) == {".gitignore", "a", "excludes"}


def test_rules_that_take_for_ever_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ignore, "TIMEOUT", 0.3)
    (tmp_path / ".gitignore").write_text(("a*" * 100 + "b\n") * 2000)
    paths = [b"a" * 240 + b"%d" % number for number in range(20_000)]
    for path in paths[:10]:
        (tmp_path / path.decode()).write_text("x")
    with pytest.raises(WorkspaceError, match="take more than") as error:
        ignore.ask(tmp_path, paths, tmp_path.parent / "ours", "when_available")
    assert error.value.kind == "check_failed"
