# The whole story on a real NixOS: a scripted family to bereit_fuer_deployment, with the power cut in between.
{ pkgs, module }:
let
  story = ../scripts/rehearsal;
  # The rehearsal's agent splits it into three.
  intent = pkgs.writeText "units.md" ''
    # Intent: Lengths and weights

    ## Success criteria

    - `sh check.sh` exits with 0.
  '';
  agent = pkgs.writeShellScriptBin "scripted-agent" "exec ${pkgs.python3}/bin/python3 ${story}/agent.py";
  scripted = {
    runtime = "scripted";
    model = "scripted-small";
    reasoningEffort = null;
  };
in
pkgs.testers.runNixOSTest {
  name = "intent-board";

  nodes.blunix =
    { config, pkgs, ... }:
    {
      imports = [ module ];

      users.users.lukas.isNormalUser = true;
      users.users.stranger.isNormalUser = true;
      environment.systemPackages = [
        pkgs.git
        # The stage is the rehearsal's own.
        (pkgs.python3.withPackages (python: [
          (python.toPythonModule config.services.intent-board.package)
        ]))
      ];

      services.intent-board = {
        enable = true;
        board = {
          owner = "lukas";
          defaultRepository = "units";
        };
        runtimes.scripted = {
          kind = "command";
          package = agent;
          network = false;
        };
        modelPools.scripted = [
          "scripted-small"
          "scripted-large"
        ];
        lanes = {
          schwer = scripted // {
            iterationLimit = 5;
          };
          leicht = scripted // {
            iterationLimit = 5;
          };
        };
        queues = {
          operator = scripted;
          inspect = scripted;
          split = scripted;
        };
        repositories.units = {
          remoteUrl = "file:///srv/remote.git";
          branch = "main";
          checks = [
            [
              "sh"
              "check.sh"
            ]
          ];
        };
        units.tickSeconds = 5;
      };
    };

  testScript = ''
    import json

    def phases():
        cards = json.loads(blunix.succeed("su - lukas -c 'board list --json'"))
        return {card["slug"]: card["phase"] for card in cards}

    def until(what, seconds=300):
        with blunix.nested("waiting for the cards"):
            retry(lambda _: what(phases()), seconds)

    blunix.wait_for_unit("intent-board.target")
    blunix.succeed(
        "cd /srv && python3 -c 'import sys, pathlib; sys.path.insert(0, \"${story}\"); import story;"
        " story.make_repository(pathlib.Path(\"/srv\"))'",
        "chown -R intent-board /srv/remote.git",
    )

    blunix.fail("su - stranger -c 'board list'")
    blunix.succeed("su - lukas -c 'board submit ${intent} --slug units'")
    until(lambda seen: any(phase.startswith("in_umsetzung") for phase in seen.values()))

    blunix.crash()
    blunix.start()

    until(lambda seen: seen.get("units") == "bereit_fuer_deployment")
    blunix.succeed("systemctl is-active intent-board.target")
    blunix.fail("systemctl list-units --state=failed --no-legend 'intent-board*' | grep .")
  '';
}
