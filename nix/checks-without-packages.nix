# What can be said about the module with nixpkgs' lib alone.  Each check is decided while it is evaluated; its
# derivation only writes down that it was.
{ lib, system }:
let
  eval = host: import ../tests/nix/eval.nix { inherit lib host; };
  done =
    name: said:
    builtins.deepSeq said (derivation {
      name = "intent-board-${name}";
      inherit system;
      builder = "/bin/sh";
      args = [
        "-c"
        "echo ok > $out"
      ];
    });
  without =
    what: list:
    if list == [ ] then list else throw "intent-board: ${what}:\n${lib.concatStringsSep "\n" list}";

  example = (eval ../examples/blunix.nix).all;
  untouched = (eval { }).all;
in
{
  example = done "example" [
    (without "examples/blunix.nix is refused" example.faults)
    (without "examples/blunix.nix is warned of" example.warnings)
    example
  ];
  disabled = done "disabled" (
    without "a host that does not enable the board gets units" (lib.attrNames untouched.units)
  );
  options-doc = done "options-doc" (
    if builtins.readFile ../docs/options.md == import ./options-doc.nix { inherit lib; } then
      true
    else
      throw "intent-board: docs/options.md is stale; run scripts/options-doc"
  );
}
