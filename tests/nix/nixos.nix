# What nixpkgs' lib does not carry, so that the module can be evaluated by the real module system without the rest of
# nixpkgs: fake packages, pkgs.formats.toml, the NixOS options that the module touches, and systemd's unit options with
# the text that NixOS would write for them.
{ lib }:
let
  inherit (lib) mkOption types;

  fake = name: {
    type = "derivation";
    inherit name;
    pname = name;
    outPath = "${builtins.storeDir}/00000000000000000000000000000000-${name}";
    meta.mainProgram = name;
  };

  # TOML by inline tables: JSON's strings, numbers and booleans are TOML's.
  toml =
    value:
    if builtins.isAttrs value then
      "{ ${
        lib.concatStringsSep ", " (lib.mapAttrsToList (key: v: "${builtins.toJSON key} = ${toml v}") value)
      } }"
    else if builtins.isList value then
      "[ ${lib.concatMapStringsSep ", " toml value} ]"
    else
      builtins.toJSON value;

  pkgs =
    lib.genAttrs [
      "bashInteractive"
      "bubblewrap"
      "cargo"
      "claude-code"
      "codex"
      "coreutils"
      "diffutils"
      "findutils"
      "gawk"
      "gitMinimal"
      "gnugrep"
      "gnumake"
      "gnused"
      "gnutar"
      "gzip"
      "intent-board"
      "jq"
      "nodejs"
      "nixos-rebuild-ng"
      "openssh"
      "ripgrep"
      "rustc"
      "util-linux"
    ] fake
    // {
      writeText = builtins.toFile;
      runtimeShell = "${fake "bash"}/bin/bash";
      formats.toml = _: {
        type = types.attrs;
        generate =
          name: value:
          builtins.toFile name (
            lib.concatStrings (lib.mapAttrsToList (key: v: "${key} = ${toml v}\n") value)
          );
      };
      # A real derivation, which a test builds.
      runCommand =
        name: environment: text:
        derivation (
          environment
          // {
            inherit name;
            # Pure evaluation does not know where it runs.
            system = builtins.currentSystem or "x86_64-linux";
            builder = "/bin/sh";
            PATH = "/usr/bin:/bin";
            args = [
              "-ec"
              text
            ];
          }
        );
    };

  anything = mkOption {
    type = types.anything;
    default = { };
  };
  flag =
    default:
    mkOption {
      type = types.bool;
      inherit default;
    };
  rules = mkOption {
    type = types.listOf types.attrs;
    default = [ ];
  };

  # --- systemd ----------------------------------------------------------------------------------------------------

  atom = types.nullOr (
    types.oneOf [
      types.bool
      types.int
      types.str
      types.path
    ]
  );
  section = mkOption {
    type = types.attrsOf (types.either (types.listOf atom) atom);
    default = { };
  };
  unitNames = mkOption {
    type = types.listOf (
      types.strMatching "[a-zA-Z0-9@%:_.\\-]+[.](service|socket|target|path|timer|slice)"
    );
    default = [ ];
  };
  common = {
    description = mkOption {
      type = types.singleLineStr;
      default = "";
    };
    enable = flag true;
    wants = unitNames;
    requires = unitNames;
    upholds = unitNames;
    after = unitNames;
    before = unitNames;
    partOf = unitNames;
    onFailure = unitNames;
    wantedBy = unitNames;
    unitConfig = section;
  };
  unit =
    extra:
    mkOption {
      type = types.attrsOf (types.submodule { options = common // extra; });
      default = { };
    };

  service = {
    serviceConfig = section;
    environment = mkOption {
      type = types.attrsOf (types.nullOr types.str);
      default = { };
    };
    path = mkOption {
      type = types.listOf (types.either types.package types.str);
      default = [ ];
    };
    restartIfChanged = flag true;
    stopIfChanged = flag true;
  };

  text =
    value:
    if value == true then
      "true"
    else if value == false then
      "false"
    else
      toString value;
  lines =
    values:
    lib.concatStrings (
      lib.concatLists (
        lib.mapAttrsToList (
          key: value: map (v: "${key}=${text v}\n") (if builtins.isList value then value else [ value ])
        ) values
      )
    );
  block = name: values: "[${name}]\n${lines values}";
  heading =
    u:
    block "Unit" (
      lib.filterAttrs (_: value: value != [ ] && value != "") {
        Description = u.description;
        Wants = u.wants;
        Requires = u.requires;
        Upholds = u.upholds;
        After = u.after;
        Before = u.before;
        PartOf = u.partOf;
        OnFailure = u.onFailure;
      }
      // u.unitConfig
    );
  # NixOS gives every service these after its own path.
  defaultPath = map fake [
    "coreutils"
    "findutils"
    "gnugrep"
    "gnused"
    "systemd"
  ];
  serviceText =
    u:
    let
      path = map toString (u.path ++ defaultPath);
      search = lib.concatStringsSep ":" (map (p: "${p}/bin") path ++ map (p: "${p}/sbin") path);
      variables = u.environment // {
        PATH = search;
      };
    in
    heading u
    + block "Service" (
      {
        Environment = lib.mapAttrsToList (key: value: builtins.toJSON "${key}=${value}") variables;
      }
      // u.serviceConfig
      // lib.optionalAttrs (!u.restartIfChanged) { X-RestartIfChanged = false; }
      // lib.optionalAttrs (!u.stopIfChanged) { X-StopIfChanged = false; }
    );
  named =
    suffix: render: units:
    lib.mapAttrs' (name: u: lib.nameValuePair "${name}.${suffix}" (render u)) units;
in
{
  inherit pkgs fake;

  module = {
    options = {
      assertions = mkOption {
        type = types.listOf types.unspecified;
        default = [ ];
      };
      warnings = mkOption {
        type = types.listOf types.str;
        default = [ ];
      };
      environment.systemPackages = mkOption {
        type = types.listOf types.package;
        default = [ ];
      };
      environment.etc = anything;
      users.users = anything;
      users.groups = anything;
      networking.hostName = mkOption {
        type = types.str;
        default = "blunix";
      };
      nix.package = mkOption {
        type = types.package;
        default = fake "nix";
      };
      nix.enable = flag true;
      networking.nameservers = mkOption {
        type = types.listOf types.str;
        default = [ ];
      };
      networking.resolvconf.useLocalResolver = flag false;
      nix.settings = mkOption {
        type = types.attrs;
        default = { };
      };
      boot.kernel.sysctl = anything;
      security.allowUserNamespaces = flag true;
      security.sudo.enable = flag true;
      security.sudo.execWheelOnly = flag false;
      security.sudo.extraRules = rules;
      security.sudo-rs.enable = flag false;
      security.sudo-rs.execWheelOnly = flag false;
      security.sudo-rs.extraRules = rules;
      services.resolved.enable = flag false;
      system.build = mkOption {
        type = types.attrs;
        default.nixos-rebuild = fake "nixos-rebuild";
      };
      systemd = {
        package = mkOption {
          type = types.package;
          default = fake "systemd";
        };
        services = unit service;
        paths = unit { pathConfig = section; };
        timers = unit { timerConfig = section; };
        targets = unit { };
        slices = unit { sliceConfig = section; };
        tmpfiles.settings = anything;
      };
    };
    config._module.args = { inherit pkgs; };
  };

  # File name -> text, and the links that wantedBy makes.
  files =
    systemd:
    named "service" serviceText systemd.services
    // named "path" (u: heading u + block "Path" u.pathConfig) systemd.paths
    // named "timer" (u: heading u + block "Timer" u.timerConfig) systemd.timers
    // named "target" heading systemd.targets
    // named "slice" (u: heading u + block "Slice" u.sliceConfig) systemd.slices;
  links =
    systemd:
    lib.concatLists (
      lib.mapAttrsToList
        (
          suffix: units:
          lib.concatLists (
            lib.mapAttrsToList (name: u: map (by: "${by}.wants/${name}.${suffix}") u.wantedBy) units
          )
        )
        {
          service = systemd.services;
          path = systemd.paths;
          timer = systemd.timers;
          target = systemd.targets;
        }
    );
}
