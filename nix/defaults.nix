# The lanes, pools, runtimes and queues that are there unless the user says otherwise.  They stand below mkDefault, so
# that a user's own defaults win, and above the default of an option, which may say something else.
{ lib }:
let
  weak = lib.mkOverride 1200;
  ours = lib.mapAttrsRecursive (_: weak);

  lane = phase: iterationLimit: {
    inherit phase iterationLimit;
    runtime = "codex";
    model = "gpt-5.6-luna";
    reasoningEffort = "none";
  };
  thinking = role: {
    inherit role;
    runtime = "codex";
    model = "gpt-5.6-sol";
    reasoningEffort = "medium";
  };
in
ours {
  lanes = {
    schwer = lane "in_umsetzung" 20;
    leicht = lane "in_umsetzung_leicht" 10;
  };
  modelPools = {
    codex = [
      "gpt-6-astra"
      "gpt-5.6-sol"
      "gpt-5.6-terra"
      "gpt-5.6-luna"
    ];
    claude = [
      "sonnet"
      "opus"
      "haiku"
    ];
    openrouter = [
      "moonshotai/kimi-k2-thinking"
      "deepseek/deepseek-v3.2"
      "cohere/north-mini-code:free"
      "nvidia/nemotron-3-super-120b-a12b:free"
    ];
  };
  queues = {
    operator = thinking "operator";
    review.role = "reviewer";
    publish.role = "publish";
    repair.role = "fixer";
    inspect = thinking "inspector";
    split = thinking "planner";
    deploy.role = "deploy";
  };
}
// {
  runtimes.codex = {
    kind = weak "codex";
    # As a whole, so that a user's credentials stand instead of this one and not beside it.
    credentials = weak { OPENAI_API_KEY = "openai-api-key"; };
  };
}
