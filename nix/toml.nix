# The options as the tree of board.toml: snake_case, no nulls (TOML has none, and one broke such a file before),
# and none of what only NixOS knows.
{ lib }:
let
  snake =
    name:
    lib.concatMapStrings (char: if lib.toLower char == char then char else "_${lib.toLower char}") (
      lib.stringToCharacters name
    );
  withoutNulls = lib.filterAttrs (_: value: value != null);
  deeplyWithoutNulls =
    value:
    if lib.isAttrs value then
      lib.mapAttrs (_: deeplyWithoutNulls) (withoutNulls value)
    else if lib.isList value then
      map deeplyWithoutNulls (lib.filter (entry: entry != null) value)
    else
      value;

  # A section's keys are ours and change their spelling; the keys of `names` are the user's and keep it.
  section =
    names:
    lib.mapAttrs' (
      key: value: {
        name = snake key;
        value = if builtins.elem key names then withoutNulls value else value;
      }
    );
  plain = value: withoutNulls (section [ ] value);
  entries = lib.mapAttrs (_: plain);

  command =
    runtime:
    if runtime.command != null then
      runtime.command
    else if runtime.package != null then
      [ (lib.getExe runtime.package) ]
    else
      null;
  runtimeSection =
    runtime:
    withoutNulls (
      section [
        "environment"
        "credentials"
      ] (removeAttrs runtime [ "package" ] // { command = command runtime; })
    );
in
{
  inherit snake;

  # A runtime that nobody gave a program is not there, rather than one that fails at the first run.
  usable = lib.filterAttrs (_: runtime: command runtime != null);

  render =
    cfg:
    lib.recursiveUpdate {
      board = plain cfg.board;
      limits = plain cfg.limits;
      scheduler = plain cfg.scheduler;
      lanes = entries cfg.lanes;
      model_pools = cfg.modelPools;
      runtimes = lib.mapAttrs (_: runtimeSection) (
        lib.filterAttrs (_: r: command r != null) cfg.runtimes
      );
      queues = entries cfg.queues;
      roles = entries cfg.roles;
      repositories = entries cfg.repositories;
      repair = plain cfg.repair;
      split = plain cfg.split;
      deploy = plain cfg.deploy;
      notifications = plain cfg.notifications;
    } (deeplyWithoutNulls cfg.extraSettings);
}
