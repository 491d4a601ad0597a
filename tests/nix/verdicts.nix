# Whether an option takes a value, for many values of many options in one evaluation.  `samples` is a JSON file with
# { "lanes.*.model": [ "gpt-5", … ], … }, in the spelling of the options; the answer has a boolean for each value.
{
  lib ? import <nixpkgs/lib>,
  samples,
}:
let
  options = (import ./eval.nix { inherit lib; }).evaluated.options.services.intent-board;
  typeOf =
    path:
    let
      step = at: name: if name == "*" then at.type.getSubOptions [ ] else at.${name};
    in
    (lib.foldl' step options (lib.splitString "." path)).type;
  takes =
    type: value:
    let
      merged = lib.mergeDefinitions [ "sample" ] type [
        {
          file = "sample";
          inherit value;
        }
      ];
    in
    (builtins.tryEval (builtins.deepSeq merged.mergedValue true)).success;
in
lib.mapAttrs (path: map (takes (typeOf path))) (builtins.fromJSON (builtins.readFile samples))
