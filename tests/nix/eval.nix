# Evaluates module.nix with the module `host` and gives back what the tests look at.  Nothing of nixpkgs but lib.
{
  lib ? import <nixpkgs/lib>,
  host ? { },
}:
let
  nixos = import ./nixos.nix { inherit lib; };
  module = lib.modules.importApply ../../module.nix { packageFor = pkgs: pkgs.intent-board; };
  evaluated = lib.evalModules {
    modules = [
      nixos.module
      module
      host
    ];
  };
  inherit (evaluated) config;
  # Everything that the values of a host end up in, so that evaluating this evaluates all of it.
  all = {
    faults = map (a: a.message) (lib.filter (a: !a.assertion) config.assertions);
    inherit (config) warnings;
    settings = config.services.intent-board.settings;
    units = nixos.files config.systemd;
    links = nixos.links config.systemd;
    tmpfiles = config.systemd.tmpfiles.settings;
    inherit (config) users;
    sudo = config.security.sudo.extraRules;
    sudoRs = config.security.sudo-rs.extraRules;
    etc = lib.mapAttrs (_: file: toString file.source) config.environment.etc;
    packages = map toString config.environment.systemPackages;
  };
  doc = lib.optionAttrSetToDocList (evaluated.options.services.intent-board);
in
{
  inherit evaluated config all;
  # What tests/boot puts into a tree that is no NixOS: no path of this checkout, so that it is the same everywhere.
  boot = {
    inherit (all)
      faults
      units
      links
      tmpfiles
      users
      sudo
      settings
      ;
    configFile = toString config.services.intent-board.configFile;
    # Store path -> file of this repository.
    scripts.${builtins.unsafeDiscardStringContext "${../../nix/note-failure.sh}"} =
      "nix/note-failure.sh";
  };
  inherit (nixos) pkgs fake;
  options = map (
    option:
    builtins.removeAttrs option [
      "declarations"
      "declarationPositions"
    ]
  ) (lib.filter (option: option.visible == true && !option.internal) doc);
  # The derivation of the checked file, to be built.
  inherit (config.services.intent-board) configFile;
}
