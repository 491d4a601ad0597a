"""Trees as a hostile agent leaves them: nothing of theirs runs, nothing but their bytes gets into a commit."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from workspace_bench import Bench, git, make_bench

from intent_board.workspace import WorkspaceError


def refused(bench: Bench, base: str | None, **values: object) -> tuple[str, ...]:
    with pytest.raises(WorkspaceError) as error:
        bench.commit(base, **values)
    assert error.value.kind == "check_failed"
    assert error.value.detail[0].split(":")[0] in str(error.value)
    return error.value.detail


def trap(bench: Bench) -> tuple[Path, str]:
    """A file that exists as soon as anything of the agent's ran, and a command that makes it."""
    witness = bench.root / "ran"
    return witness, f"touch {witness}; cat"


def everything(bench: Bench, base: str) -> None:
    """Every operation that may look at a tree or its commit."""
    made = bench.commit(base)
    bench.workspace.tree_report("code", "my-card")
    bench.workspace.diff("code", base, made.hash, 10_000)
    bench.workspace.patch_id("code", made.hash, base=base)
    tree = bench.workspace.checkout("code", made.hash, "1-1")
    assert bench.workspace.unchanged(tree, "code", made.hash)
    bench.workspace.save_tree("code", "my-card")
    bench.workspace.publish("code", "main", made.hash)
    assert bench.workspace.clone("code", "my-card", base).is_dir()


def test_nothing_in_the_clones_own_git_directory_runs_or_counts(bench: Bench) -> None:
    tree, base = bench.clone()
    witness, command = trap(bench)
    (tree / ".git" / "hooks").mkdir()
    for hook in ("pre-commit", "post-checkout", "pre-push", "post-index-change", "reference-transaction"):
        path = tree / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o755)
    included = bench.root / "included"
    included.write_text(f"[alias]\n\tx = !{command}\n[core]\n\tfsmonitor = {command}\n")
    (tree / ".git" / "config").write_text(
        f"[core]\n\tfsmonitor = {command}\n\tsshCommand = {command}\n\thooksPath = .git/hooks\n\tpager = {command}\n"
        f'[filter "x"]\n\tclean = {command}\n\tsmudge = {command}\n\tprocess = {command}\n\trequired = true\n'
        f'[diff "x"]\n\ttextconv = {command}\n\tcommand = {command}\n[diff]\n\texternal = {command}\n'
        f'[merge "x"]\n\tdriver = {command}\n[gpg]\n\tprogram = {command}\n[include]\n\tpath = {included}\n'
        f'[remote "origin"]\n\turl = {bench.root / "elsewhere"}\n\tuploadpack = {command}\n'
    )
    (tree / ".git" / "info" / "attributes").write_text("* filter=x diff=x merge=x\n")
    (tree / ".git" / "info" / "exclude").write_text("*\n")
    (tree / ".git" / "objects" / "info" / "alternates").write_text(f"{bench.root}\n")
    (tree / ".git" / "info" / "grafts").write_text(f"{base}\n")
    (tree / ".git" / "index").write_bytes(b"not an index")
    (tree / ".git" / "refs" / "replace").mkdir()
    (tree / ".git" / "refs" / "replace" / base).write_text("0" * 40 + "\n")
    (tree / ".git" / "HEAD").write_text("ref: refs/heads/other\n")
    (tree / "src" / "a.txt").write_text("changed\n")
    everything(bench, base)
    assert not witness.exists()
    assert git("show", "--format=", "--name-only", "main", cwd=bench.remote) == "src/a.txt"


def test_attributes_of_the_tree_change_no_byte_and_run_nothing(bench: Bench) -> None:
    tree, base = bench.clone()
    files = {
        "crlf.txt": b"a\r\nb\n",
        "ident.txt": b"$Id$ $Id: old $\n",
        "utf16.txt": "ä\n".encode("utf-16"),
        "subst.txt": b"$Format:%H$\n",
        "union.txt": b"1\n",
    }
    for name, content in files.items():
        (tree / name).write_bytes(content)
    (tree / ".gitattributes").write_text(
        "* text=auto eol=crlf ident\nutf16.txt working-tree-encoding=UTF-16\nsubst.txt export-subst\n"
        "union.txt merge=union -diff\n[attr]binary text\n"
    )
    made = bench.commit(base)
    assert {name: content for name, content in bench.files(made.hash).items() if name in files} == files
    for tree in (
        bench.workspace.checkout("code", made.hash, "1-1"),
        bench.workspace.clone("code", "second", made.hash),
    ):
        assert {name: (tree / name).read_bytes() for name in files} == files
        assert git("status", "--porcelain", cwd=tree) == ""
    assert "+1" in bench.workspace.diff("code", base, made.hash, 10_000).split("b/union.txt")[-1], "-diff hides nothing"


def test_a_merge_driver_of_the_repository_hides_no_conflict(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    bench.write({".gitattributes": "* merge=union\n", "list": "1\n"})
    tree, base = bench.clone()
    (tree / "list").write_text("2\n")
    made = bench.commit(base)
    tip = bench.write({"list": "3\n"})
    bench.workspace.fetch("code")
    with pytest.raises(WorkspaceError) as error:
        bench.workspace.rebase("code", made.hash, tip, base=base)
    assert error.value.detail == ("list",)


@pytest.mark.parametrize(
    "name",
    [
        "sub/.git",
        "sub/.GIT",
        "sub/.Git",
        ".gIt",
        "git~1",
        "sub/GIT~2",
        "sub/.g\u200cit",
        "sub/.git ",
        "sub/.git.",
        "sub/.git:x",
    ],
)
@pytest.mark.parametrize("kind", ["directory", "file", "link"])
def test_a_second_git_of_any_spelling_is_refused(bench: Bench, name: str, kind: str) -> None:
    tree, base = bench.clone()
    path = tree / name
    path.parent.mkdir(exist_ok=True)
    if kind == "directory":
        git("init", "-q", str(path.parent / "tmp"), cwd=bench.root)
        (path.parent / "tmp" / ".git").rename(path)
    elif kind == "file":
        path.write_text("gitdir: /elsewhere\n")
    else:
        path.symlink_to("README.md")
    (detail,) = refused(bench, base)
    assert "is a .git" in detail
    report = bench.workspace.tree_report("code", "my-card")
    assert report.refused == (detail,)


def test_a_nested_repository_in_an_ignored_directory_is_refused_too(bench: Bench) -> None:
    tree, base = bench.clone()
    (tree / ".gitignore").write_text("vendor/\n")
    git("init", "-q", "vendor/lib", cwd=tree)
    assert refused(bench, base) == ("vendor/lib/.git: is a .git below or beside the repository's own; remove it",)


def test_a_gitlink_can_not_be_made(bench: Bench) -> None:
    tree, base = bench.clone()
    git("update-index", "--add", "--cacheinfo", f"160000,{base},sub", cwd=tree)
    (tree / "sub").mkdir()
    (tree / "sub" / "file").write_text("x\n")
    assert bench.commit(base).paths == ("sub/file",)


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_replaced_git_directory_is_refused(bench: Bench, kind: str) -> None:
    tree, base = bench.clone()
    (tree / ".git").rename(bench.root / "moved")
    if kind == "link":
        (tree / ".git").symlink_to(bench.mirror)
    else:
        (tree / ".git").write_text(f"gitdir: {bench.mirror}\n")
    (tree / "x").write_text("x\n")
    assert refused(bench, base)[0].startswith(".git: is a .git")
    bench.workspace.remove_tree("code", "my-card")
    assert bench.mirror.is_dir() and not tree.exists()


def test_devices_pipes_and_sockets_are_refused(bench: Bench) -> None:
    tree, base = bench.clone()
    os.mkfifo(tree / "pipe")
    (tree / ".gitignore").write_text("ignored\n")
    os.mkfifo(tree / "ignored")
    with socket.socket(socket.AF_UNIX) as server:
        previous = Path.cwd()
        os.chdir(tree)
        server.bind("socket")
        os.chdir(previous)
    expected = {f"{name}: is a device, pipe or socket; remove it" for name in ("pipe", "ignored", "socket")}
    if os.geteuid() == 0:
        try:
            os.mknod(tree / "device", 0o600 | 0o020000, os.makedev(1, 3))
            expected.add("device: is a device, pipe or socket; remove it")
        except PermissionError:
            pass  # a container may not make one
    assert set(refused(bench, base)) == expected


@pytest.mark.parametrize(
    ("path", "target", "good"),
    [
        ("a", "README.md", True),
        ("d/b", "../src/a.txt", True),
        ("d/c", "./x", True),
        ("d/broken", "../nowhere/at/all", True),
        ("a", "/etc/passwd", False),
        ("a", "..", False),
        ("d/b", "../../x", False),
        ("d/b", "x/../../../y", False),
        ("a", "src/../..", False),
        ("a", ".git/config", False),
        ("d/b", "../.GIT/config", False),
        ("a", "/nix/store/abc-result", False),
        (".gitattributes", "README.md", False),
        ("d/.gitmodules", "../README.md", False),
        (".GITIGNORE", "README.md", False),
    ],
)
def test_links_stay_links_and_may_not_lead_out(bench: Bench, path: str, target: str, good: bool) -> None:
    tree, base = bench.clone()
    (tree / path).parent.mkdir(exist_ok=True)
    (tree / path).symlink_to(target)
    if good:
        made = bench.commit(base)
        assert bench.files(made.hash)[path] == target.encode()
        assert git("ls-tree", made.hash, path, cwd=bench.mirror).startswith("120000 ")
    else:
        assert refused(bench, base)[0].startswith(f"{path}: is a link")


def test_a_link_that_was_there_before_stays(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    (bench.person / "out").symlink_to("/etc/hosts")
    bench.write({"a": "1\n"})
    tree, base = bench.clone()
    (tree / "a").write_text("2\n")
    assert bench.commit(base).paths == ("a",)


def test_nothing_behind_a_link_to_a_directory_is_read(bench: Bench) -> None:
    outside = bench.root / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    tree, base = bench.clone()
    (tree / "src" / "a.txt").unlink()
    (tree / "src").rmdir()
    (tree / "src").symlink_to(outside)
    assert refused(bench, base) == (
        f"src: is a link out of the tree, to {outside}; remove it or list it in .gitignore",
    )
    bench.workspace.remove_tree("code", "my-card")
    assert (outside / "secret").exists()


def test_a_hard_link_to_a_file_outside_is_refused_and_one_inside_is_not(bench: Bench) -> None:
    (bench.root / "outside").write_text("host file\n")
    tree, base = bench.clone()
    (tree / "one").write_text("x\n")
    os.link(tree / "one", tree / "two")
    assert bench.commit(base).paths == ("one", "two")
    os.link(bench.root / "outside", tree / "three")
    assert refused(bench, base)[0].startswith("three: has another name outside the tree")


WEIRD = [
    b"-n", b"--help", b"new\nline", b'quo"te', b"back\\slash", b"tab\t", b"non-utf8-\xff\xfe", b"*", b"?", b"[a]",
    b":(exclude)x", b" lead", b"trail ", b"a:b", b"\xc3\xa4", b"e\xcc\x81", b"\xc3\xa9", b"case", b"CASE",
    b"$(touch x)",    b"\xe2\x80\xae.txt", b"%s", b"#x", b"!x", b"~", b"con", b"x" * 255,
]  # fmt: skip


def test_every_name_that_a_file_can_have_goes_through(bench: Bench) -> None:
    tree, base = bench.clone()
    for directory in (b"", b"dir \n\xfe/"):
        place = os.fsencode(tree) + b"/" + directory
        Path(os.fsdecode(place)).mkdir(exist_ok=True)
        for name in WEIRD:
            Path(os.fsdecode(place + name)).write_bytes(name)
    (tree / ".gitignore").write_text("*.out\n")
    (tree / ":left.out").write_text("x")
    made = bench.commit(base)
    assert len(made.paths) == len(set(made.paths)) == 2 * len(WEIRD) + 1
    "\n".join(made.paths).encode()  # can be stored
    assert all("\n" not in path and "\u202e" not in path for path in made.paths)
    raw = subprocess.run(
        ["git", "ls-tree", "-r", "-z", "--name-only", made.hash], cwd=bench.mirror, capture_output=True, check=True
    ).stdout.split(b"\0")[:-1]
    assert {name.split(b"/")[-1] for name in raw} >= set(WEIRD)
    assert bench.workspace.paths_changed("code", base, made.hash) == made.paths
    other = bench.workspace.clone("code", "other", made.hash)
    assert bench.commit(made.hash, slug="other") is None
    for name in WEIRD:
        Path(os.fsdecode(os.fsencode(other) + b"/" + name)).unlink()
    assert len(bench.commit(made.hash, slug="other").paths) == len(WEIRD)
    checkout = bench.workspace.checkout("code", made.hash, "1-1")
    assert bench.workspace.unchanged(checkout, "code", made.hash)


def test_a_file_and_a_directory_can_change_places(bench: Bench) -> None:
    tree, base = bench.clone()
    (tree / "README.md").unlink()
    (tree / "README.md").mkdir()
    (tree / "README.md" / "deep").write_text("1\n")
    (tree / "src" / "a.txt").unlink()
    (tree / "src").rmdir()
    (tree / "src").write_text("2\n")
    made = bench.commit(base)
    assert made.paths == ("README.md", "README.md/deep", "src", "src/a.txt")
    assert bench.files(made.hash) == {"README.md/deep": b"1\n", "run.sh": b"#!/bin/sh\n", "src": b"2\n"}


def test_large_files_are_refused_before_they_fill_memory(bench: Bench) -> None:
    tree, base = bench.clone()
    with (tree / "huge").open("wb") as file:
        file.truncate(1 << 40)
    assert "has 1099511627776 bytes, more than" in refused(bench, base)[0]
    (tree / "huge").unlink()
    for number in range(4):
        with (tree / f"part{number}").open("wb") as file:
            file.truncate(30 * 1024 * 1024)
    assert "makes the whole change larger than" in refused(bench, base)[0]


def test_a_deep_tree_is_refused_and_can_be_removed(bench: Bench) -> None:
    tree, base = bench.clone()
    fd = os.open(tree, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    assert refused(bench, base)[0].endswith("lies too deep; remove it")
    bench.workspace.remove_tree("code", "my-card")
    assert list((bench.config.state_dir / "trees").iterdir()) == []


def test_a_tree_without_permissions_can_be_read_kept_and_removed(bench: Bench) -> None:
    tree, _ = bench.clone()
    (tree / "locked" / "below").mkdir(parents=True)
    (tree / "locked" / "below" / "file").write_text("x")
    (tree / "src" / ".gitignore").write_text("ignored\n")
    (tree / "src" / "ignored").write_text("x")
    for name in ("locked/below/file", "locked/below", "locked", "src/.gitignore", "README.md", ""):
        (tree / name).chmod(0)
    report = bench.workspace.tree_report("code", "my-card")
    assert [file.path for file in report.files] == ["locked/below/file", "src/.gitignore"]
    (tree / "locked").chmod(0)
    tree.chmod(0)
    bench.workspace.remove_tree("code", "my-card")
    assert not tree.exists()
    assert "locked/below/file" in bench.files(git("rev-parse", "refs/board/my-card", cwd=bench.mirror))


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----\nMIIB\n",
        "x = ''\n  -----BEGIN OPENSSH PRIVATE KEY-----\n''",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ",
        "\0\0binary\0-----BEGIN EC PRIVATE KEY-----\r\n",
    ],
)
def test_a_private_key_is_refused_wherever_it_stands(bench: Bench, text: str) -> None:
    tree, base = bench.clone()
    (tree / "notes").write_text(text)
    before = sorted(path.name for path in (bench.mirror / "objects").rglob("*"))
    assert refused(bench, base) == ("notes: a private key",)
    assert sorted(path.name for path in (bench.mirror / "objects").rglob("*")) == before


def test_a_key_that_was_there_before_hinders_nobody(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    key = "-----BEGIN PRIVATE KEY-----\nMIIB\n"
    bench.write({"test.pem": key})
    tree, base = bench.clone()
    (tree / "test.pem").write_text(f"# a test key\n{key}")
    assert bench.commit(base).paths == ("test.pem",)
    (tree / "test.pem").write_text(key + key)
    assert refused(bench, base) == ("test.pem: a private key",)


def test_our_own_credentials_are_refused_in_content_name_link_and_message(bench: Bench) -> None:
    value = "sk-live-0123456789"
    key = "-----\nline one of a key\nline two of a key\n-----\n"
    tree, base = bench.clone()
    (tree / "a").write_text(f"key = {value}\n")
    (tree / f"b-{value}").write_text("x")
    (tree / "c").symlink_to(f"d-{value}")
    (tree / "e").write_bytes(b"\0\xff" + b"line two of a key")
    found = refused(bench, base, forbidden_values=(value, key, "", "x"), body=f"I used {value}")
    assert sorted(found) == [
        "a: a credential of the board",
        f"b-{value}: its name holds a credential of the board",
        "c: a credential of the board",
        "e: a credential of the board",
        "the commit message: a credential of the board",
    ]


def test_files_that_need_a_filter_are_refused_before_they_are_kept(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    bench.write(
        {".gitattributes": "secret/** filter=git-crypt diff=git-crypt\n", "secret/old": "\0GITCRYPT\0", "a": "1\n"}
    )
    tree, base = bench.clone()
    assert (tree / "secret" / "old").read_bytes() == b"\0GITCRYPT\0"
    (tree / "a").write_text("2\n")
    assert bench.commit(base).paths == ("a",)
    (tree / "secret" / "new").write_text("in the clear\n")
    before = sorted(path.name for path in (bench.mirror / "objects").rglob("*"))
    assert refused(bench, base) == ("secret/new: filter=git-crypt",)
    assert sorted(path.name for path in (bench.mirror / "objects").rglob("*")) == before


def test_repositories_that_the_board_can_not_carry_are_refused_with_a_sentence(tmp_path: Path) -> None:
    bench = make_bench(tmp_path)
    bench.write({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    with pytest.raises(WorkspaceError, match="git-lfs"):
        bench.clone()
    (bench.person / ".gitattributes").unlink()
    first = bench.write({"a": "1\n"})
    git("update-index", "--add", "--cacheinfo", f"160000,{first},lib", cwd=bench.person)
    git("commit", "-q", "-m", "Submodule", cwd=bench.person)
    git("push", "-q", "origin", "HEAD:main", cwd=bench.person)
    with pytest.raises(WorkspaceError, match="submodule at lib"):
        bench.clone()
    assert list((bench.config.state_dir / "trees").iterdir()) == []
