# services.intent-board: the board as NixOS units.  The flake applies it with the package it builds; without flakes,
# `imports = [ (import ./module.nix { }) ]` does.
{
  packageFor ? pkgs: pkgs.callPackage ./package { },
}:
{
  config,
  lib,
  pkgs,
  ...
}:
let
  cfg = config.services.intent-board;
  # Who runs everything but the deployer.  Not an option: sudo's rule, the deployer and people's habits name it.
  serviceUser = "intent-board";
  buildUser = "intent-board-deploy";

  toml = import ./nix/toml.nix { inherit lib; };
  units = import ./nix/units.nix {
    inherit
      config
      lib
      pkgs
      serviceUser
      ;
  };
  checks = import ./nix/checks.nix {
    inherit
      config
      lib
      serviceUser
      buildUser
      ;
    inherit toml;
  };

  written = (pkgs.formats.toml { }).generate "board.toml" cfg.settings;
  # The program that will read the file says whether it can, before the system exists.
  checked = pkgs.runCommand "board.toml" { } ''
    ${cfg.package}/bin/board config check ${written}
    cp ${written} $out
  '';

  # sudo compares the command by path: people find it in their profile, and the program calls itself by its own path.
  asServiceUser = {
    groups = [ cfg.board.group ];
    runAs = serviceUser;
    commands =
      map
        (command: {
          inherit command;
          options = [
            "NOPASSWD"
            "NOSETENV"
          ];
        })
        [
          "${cfg.package}/bin/board"
          "/run/current-system/sw/bin/board"
        ];
  };
in
{
  _file = ./module.nix;
  imports = [ ./nix/options.nix ];

  config = lib.mkIf cfg.enable (
    lib.mkMerge [
      { services.intent-board = import ./nix/defaults.nix { inherit lib; }; }
      {
        inherit (checks) assertions warnings;

        services.intent-board = {
          package = lib.mkOptionDefault (packageFor pkgs);
          settings = toml.render cfg;
          configFile = checked;
        };

        environment = {
          systemPackages = [ cfg.package ];
          etc."intent-board/board.toml".source = cfg.configFile;
          etc."scripts/close-my-pane.sh" = {
            source = ./scripts/close-my-pane;
            mode = "0555";
          };
        };

        users.users.${serviceUser} = {
          isSystemUser = true;
          group = cfg.board.group;
          description = "Intent board";
          home = cfg.board.stateDir;
        };
        users.groups.${cfg.board.group}.members = [ cfg.board.owner ];

        security.sudo.extraRules = lib.mkIf config.security.sudo.enable [ asServiceUser ];
        security.sudo-rs.extraRules = lib.mkIf config.security.sudo-rs.enable [ asServiceUser ];

        systemd = {
          inherit (units)
            services
            paths
            timers
            targets
            slices
            ;
          tmpfiles.settings."10-intent-board" = units.tmpfiles;
        };
      }
      (lib.mkIf (cfg.deploy.repository != null) {
        users.users.${buildUser} = {
          isSystemUser = true;
          group = buildUser;
          description = "Intent board: builds what will be deployed";
          home = "/var/lib/intent-board-build";
        };
        users.groups.${buildUser} = { };
      })
    ]
  );
}
