{
  description = "Hand work on a NixOS host to headless coding agents: validated decisions, scheduled builds, reviewed commits, one deployment host";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];

      # An input that carries nixpkgs' lib and nothing else serves to look at the module.  What needs packages is then
      # left out, with a word about it.
      packaged = nixpkgs ? legacyPackages;
      perSystem =
        what: f:
        lib.genAttrs systems (
          system:
          if packaged then
            f system nixpkgs.legacyPackages.${system}
          else
            lib.warn "intent-board: this nixpkgs has no packages, so ${what}.${system} is left out" { }
        );
      package = pkgs: pkgs.callPackage ./package { };

      module = lib.modules.importApply ./module.nix {
        packageFor = pkgs: self.packages.${pkgs.stdenv.hostPlatform.system}.default;
      };
    in
    {
      packages = perSystem "packages" (
        _: pkgs: rec {
          intent-board = package pkgs;
          default = intent-board;
        }
      );

      overlays.default = final: _prev: { intent-board = package final; };

      nixosModules = {
        default = module;
        intent-board = module;
      };

      apps = perSystem "apps" (
        system: _:
        lib.genAttrs [ "default" "board" ] (_: {
          type = "app";
          program = lib.getExe self.packages.${system}.default;
          meta.description = "The board's program for people";
        })
      );

      checks =
        lib.recursiveUpdate
          (lib.genAttrs systems (system: import ./nix/checks-without-packages.nix { inherit lib system; }))
          (
            perSystem "checks" (
              system: pkgs: {
                package = self.packages.${system}.default;
                vm = import ./nix/vm.nix {
                  inherit pkgs;
                  module = self.nixosModules.default;
                };
              }
            )
          );

      devShells = perSystem "devShells" (
        system: pkgs: {
          # scripts/setup.sh runs everything in here on NixOS, where wheels with programs in them do not start.
          default = pkgs.mkShell {
            inputsFrom = [ self.packages.${system}.default ];
            packages = [
              pkgs.bubblewrap
              pkgs.git
              pkgs.openssh
              pkgs.util-linux
              pkgs.nixfmt
              (pkgs.python3.withPackages (
                python:
                with python;
                [
                  hypothesis
                  mypy
                  pathspec
                  pip
                  pytest
                  pytest-subprocess
                  ruff
                ]
                ++ self.packages.${system}.default.dependencies
              ))
            ];
            # The tests look for nixpkgs' lib as everybody does.
            NIX_PATH = "nixpkgs=${nixpkgs}";
          };
        }
      );

      # A derivation for each system, or nothing: nix takes no empty set for a formatter.
      formatter = lib.optionalAttrs packaged (perSystem "formatter" (_: pkgs: pkgs.nixfmt-tree));
    };
}
