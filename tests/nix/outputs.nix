# The outputs of flake.nix with a nixpkgs that has the real lib and fake packages: builders give back what they were
# asked for, so that whatever can be evaluated without the real packages is.
{
  nixpkgsLib ? import <nixpkgs/lib>,
}:
let
  # lib.fileset reads the tree with a builtin of nix 2.14; for an older nix the paths must at least be there.
  lib =
    if builtins ? readFileType then
      nixpkgsLib
    else
      nixpkgsLib.extend (
        _: old: {
          fileset = {
            unions = map (path: if builtins.pathExists path then path else throw "${toString path} is missing");
            difference = positive: _: positive;
            maybeMissing = path: if builtins.pathExists path then path else ./.;
            toSource = { root, fileset }: builtins.deepSeq fileset root;
          };
        }
      );
  nixos = import ./nixos.nix { inherit lib; };
  pythonPackages = lib.genAttrs [
    "alembic"
    "apprise"
    "click"
    "hatchling"
    "hypothesis"
    "mypy"
    "pathspec"
    "pip"
    "pydantic"
    "pytest"
    "pytest-subprocess"
    "pytestCheckHook"
    "rich"
    "ruff"
    "sqlalchemy"
    "tomli-w"
  ] nixos.fake;
  pkgs =
    nixos.pkgs
    // lib.genAttrs [ "git" "installShellFiles" "nixfmt" "nixfmt-tree" ] nixos.fake
    // {
      inherit lib;
      stdenv.hostPlatform.system = "x86_64-linux";
      writeShellScriptBin = name: _: nixos.fake name;
      python3 = nixos.fake "python3" // {
        withPackages =
          f:
          nixos.fake "python3-with-packages" // { with' = f (pythonPackages // { toPythonModule = x: x; }); };
      };
      python3Packages = pythonPackages // {
        buildPythonApplication = asked: nixos.fake asked.pname // asked // { inherit asked; };
      };
      mkShell = asked: nixos.fake "shell" // { inherit asked; };
      callPackage =
        path: extra: import path (builtins.intersectAttrs (lib.functionArgs (import path)) pkgs // extra);
      testers.runNixOSTest =
        test:
        let
          node = lib.evalModules {
            modules = [
              nixos.module
              { config._module.args.pkgs = lib.mkForce pkgs; }
              test.nodes.blunix
            ];
          };
        in
        nixos.fake "vm-test" // { inherit test node; };
    };
  flake = import ../../flake.nix;
  self = flake.outputs {
    inherit self;
    nixpkgs = {
      inherit lib;
      outPath = "/nixpkgs";
      legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (_: pkgs);
    };
  };
  x86 = output: self.${output}.x86_64-linux;
  package = (x86 "packages").default;
in
{
  systems = lib.mapAttrs (_: output: lib.attrNames output) (
    removeAttrs self [
      "nixosModules"
      "overlays"
    ]
  );
  modules = lib.attrNames self.nixosModules;
  overlay = (self.overlays.default pkgs { }).intent-board.pname;
  package = {
    inherit (package.asked)
      pname
      version
      postInstall
      preCheck
      sourceRoot
      enabledTestPaths
      pytestFlags
      disabledTestMarks
      ;
    source = toString package.asked.src;
    inputs = map (input: input.name) (
      package.asked.nativeCheckInputs ++ package.asked.nativeBuildInputs ++ package.asked.build-system
    );
    dependencies = map (input: input.name) package.asked.dependencies;
  };
  apps = lib.mapAttrs (_: app: app.program) (x86 "apps");
  checks = lib.attrNames (x86 "checks");
  shell = map (input: input.name) (x86 "devShells").default.asked.packages;
  formatter = (x86 "formatter").name;
  vm =
    let
      inherit ((x86 "checks").vm) node test;
    in
    {
      faults = map (a: a.message) (lib.filter (a: !a.assertion) node.config.assertions);
      inherit (node.config) warnings;
      units = lib.attrNames (nixos.files node.config.systemd);
      settings = node.config.services.intent-board.settings;
      inherit (test) name testScript;
    };
}
