# The package.  The source holds the tests less those that need a machine of their own: tests/nix and tests/boot look at
# the module and at systemd, tests/agents installs agent programs, tests/rehearsal sets itself up.
{
  lib,
  python3Packages,
  installShellFiles,
  bubblewrap,
  git,
  openssh,
  util-linux,
}:
let
  root = ../.;
  project = (lib.importTOML ./pyproject.toml).project;
in
python3Packages.buildPythonApplication {
  pname = project.name;
  inherit (project) version;
  pyproject = true;

  src = lib.fileset.toSource {
    inherit root;
    fileset =
      lib.fileset.difference
        (lib.fileset.unions [
          ./LICENSE
          ./README.md
          ./pyproject.toml
          ./src
          ../docs
          ../scripts
          ../tests
        ])
        (
          lib.fileset.unions (
            map lib.fileset.maybeMissing [
              ../tests/nix
              ../tests/boot
              ../tests/agents
              ../tests/rehearsal
            ]
          )
        );
  };
  sourceRoot = "source/package";

  build-system = [ python3Packages.hatchling ];

  dependencies = with python3Packages; [
    alembic
    apprise
    click
    pydantic
    rich
    sqlalchemy
    tomli-w
  ];

  nativeBuildInputs = [ installShellFiles ];

  # What the board itself starts, wherever it is started from: by a unit, by a person, or under sudo with an empty PATH.
  makeWrapperArgs = [
    "--suffix"
    "PATH"
    ":"
    (lib.makeBinPath [
      bubblewrap
      git
      openssh
      util-linux
    ])
  ];

  postInstall = ''
    $out/bin/board man >board.1
    installManPage board.1
    installShellCompletion --cmd board \
      --bash <($out/bin/board completion bash) \
      --zsh <($out/bin/board completion zsh) \
      --fish <($out/bin/board completion fish)
  '';

  nativeCheckInputs = [
    bubblewrap
    git
  ]
  ++ (with python3Packages; [
    hypothesis
    pathspec
    pytest-subprocess
    pytestCheckHook
  ]);
  # As scripts/test runs them: in the repository's root, where the tests are, and with their helpers on the path.
  preCheck = ''
    export HOME=$TMPDIR PATH=$out/bin:$PATH
    cd ..
  '';
  pytestFlags = [
    "--rootdir=."
    "--config-file=package/pyproject.toml"
    "--import-mode=prepend"
  ];
  # The rooms that need this program and its libraries.  The others want root, a second user, a box in the box that a
  # build already is, or what a system has in /usr/bin; a build has none of these, and scripts/test runs them.
  enabledTestPaths = [
    "tests/board"
    "tests/config"
    "tests/contracts"
    "tests/notify"
    "tests/store"
    "tests/test_boundaries.py"
    "tests/test_imports.py"
  ];
  disabledTestMarks = [ "faults" ];
  pythonImportsCheck = [ "intent_board" ];

  meta = {
    inherit (project) description;
    license = lib.licenses.mit;
    mainProgram = "board";
    platforms = lib.platforms.linux;
  };
}
