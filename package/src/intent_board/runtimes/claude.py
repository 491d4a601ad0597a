"""Runtime `claude`: Claude Code (`claude -p`).

Measured with version 2.1.332.  A step is one model message: the distinct `message.id` of its assistant events.
It stops by itself after `--max-turns` of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from intent_board import sandbox
from intent_board.runtimes import failures
from intent_board.runtimes.order import Order, Outcome
from intent_board.runtimes.program import Launch, Places, Program, Verdict, complaint, number, short

#: It waits as long as a provider says before it tries again.  Longer than this is the board's to wait.
RETRY_SECONDS = 60.0
_ENVIRONMENT = {
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    # A background task would wake the model again after its answer.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_MAX_RETRIES": "3",
}


class Claude(Program):
    """A run of `claude -p`."""

    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self._messages: set[str] = set()
        self._open_tools: set[str] = set()
        self._result: dict[str, Any] | None = None
        self._api_error: tuple[int | None, str] | None = None
        self._retry_at: float | None = None
        self._started = False

    # --- start -----------------------------------------------------------------------------------------------------

    def launch(self, places: Places) -> Launch:
        order = self.order
        argv = [*order.profile.command, "-p", "--output-format", "stream-json", "--verbose"]
        argv += ["--max-turns", str(order.iteration_limit), "--permission-prompts", "none", "--setting-sources", ""]
        argv += ["--strict-mcp-config", "--disable-slash-commands", *self._permissions(places)]
        if order.model is not None:
            argv += ["--model", order.model]
        if order.reasoning_effort is not None:
            argv += ["--effort", order.reasoning_effort]
        state = str(places.state)
        environment = {
            **_ENVIRONMENT,
            "API_TIMEOUT_MS": str(int(min(600.0, order.idle_seconds / 2) * 1000)),
            **order.profile.environment,
            "HOME": state,
            "CLAUDE_CONFIG_DIR": f"{state}/claude",
            "CLAUDE_CODE_TMPDIR": f"{state}/tmp",
            "TMPDIR": f"{state}/tmp",
        }
        (places.state_outside / "tmp").mkdir(mode=0o700)
        return Launch(tuple(argv), environment)

    def _permissions(self, places: Places) -> Iterator[str]:
        """Its tools and what it may do without asking; nobody is there to be asked.

        The agent tool is in neither list: sub-agents would take steps that nobody counts.
        """
        order = self.order
        shell = [f"Bash({command}:*)" for command in order.allowed_commands]
        if order.writes:
            # In our box, which is the boundary, asking only costs steps: it would refuse to touch .git, say.
            free = not shell and sandbox.sandboxed(order.config.board.sandbox)
            yield from ("--permission-mode", "bypassPermissions" if free else "acceptEdits")
            yield from ("--tools", "Read,Edit,Write,Bash,Grep,Glob", "--allowedTools", *(shell or ["Bash"]))
            if places.report is not None:
                yield from ("--add-dir", str(places.report.parent))
            return
        # Only what is listed, and no shell at all where no command is allowed.
        yield from ("--permission-mode", "dontAsk", "--tools", "Read,Grep,Glob" + (",Bash" if shell else ""))
        if shell:
            yield from ("--allowedTools", *shell)

    # --- events ----------------------------------------------------------------------------------------------------

    def event(self, event: dict[str, Any]) -> None:
        self._started = True
        match event.get("type"):
            case "assistant" if isinstance(event.get("message"), dict):
                self._assistant(event["message"], event)
            case "user" if isinstance(event.get("message"), dict):
                for block in _blocks(event["message"]):
                    self._open_tools.discard(str(block.get("tool_use_id")))
            case "system" if event.get("subtype") == "api_retry":
                self._retry(event)
            case "rate_limit_event" if isinstance(event.get("rate_limit_info"), dict):
                self._limit(event["rate_limit_info"])
            case "result":
                # A later result replaces an earlier one, but no failure replaces an answer.
                if self._result is None or self._result.get("is_error") is not False:
                    self._result = event
                self.finished = True
                self._use(event)
        self.waiting_for_model = not self._open_tools

    def _assistant(self, message: dict[str, Any], event: dict[str, Any]) -> None:
        if message.get("model") == "<synthetic>":
            # The program's own words about an error of its provider.
            if event.get("error"):
                text = " ".join(str(block.get("text", "")) for block in _blocks(message))
                self._api_error = (None, text or str(event["error"]))
            return
        if event.get("parent_tool_use_id") is None and isinstance(message.get("id"), str):
            self._messages.add(message["id"])
            self.steps = len(self._messages)
            self.over_limit = self.steps > self.order.iteration_limit
        for block in _blocks(message):
            if block.get("type") == "text":
                self.said(block.get("text"))
            elif block.get("type") == "tool_use":
                self._open_tools.add(str(block.get("id")))

    def _retry(self, event: dict[str, Any]) -> None:
        status = event.get("error_status")
        known = status if isinstance(status, int) and not isinstance(status, bool) else None
        self._api_error = (known, str(event.get("error", "")))
        delay = event.get("retry_delay_ms")
        seconds = delay / 1000 if isinstance(delay, (int, float)) and not isinstance(delay, bool) else 0.0
        if seconds > RETRY_SECONDS:
            outcome = failures.of_status(*self._api_error)
            reason = f"The provider refused ({known or self._api_error[1]}) and asks to wait {seconds:.0f} seconds."
            self.trouble = Verdict(outcome, reason, retry_at=time.time() + seconds)

    def _limit(self, info: dict[str, Any]) -> None:
        when = info.get("resetsAt")
        if info.get("status") == "rejected" and isinstance(when, (int, float)) and not isinstance(when, bool):
            self._retry_at = float(when)

    def _use(self, result: dict[str, Any]) -> None:
        usage = result.get("usage")
        if isinstance(usage, dict):
            cached = number(usage.get("cache_read_input_tokens"))
            written = number(usage.get("cache_creation_input_tokens"))
            self.usage = {
                "input_tokens": number(usage.get("input_tokens")) + cached + written,
                "cached_input_tokens": cached,
                "output_tokens": number(usage.get("output_tokens")),
            }
        cost = result.get("total_cost_usd")
        if isinstance(cost, (int, float)) and not isinstance(cost, bool):
            self.cost_usd = float(cost)

    # --- end -------------------------------------------------------------------------------------------------------

    def verdict(self, exit_code: int, stderr: str, now: float) -> Verdict:
        result = self._result
        if result is None:
            return self._no_result(exit_code, stderr, now)
        text = result.get("result")
        if result.get("is_error") is False and result.get("subtype") == "success" and isinstance(text, str):
            return Verdict(Outcome.ANSWERED, "", text)
        if result.get("subtype") == "error_max_turns":
            limit = self.order.iteration_limit
            return Verdict(Outcome.LIMIT_REACHED, f"The limit of {limit} steps was reached.")
        errors = result.get("errors")
        listed = [str(error) for error in errors] if isinstance(errors, list) else []
        said = " ".join([str(text or ""), *listed])
        status = result.get("api_error_status")
        known = status if isinstance(status, int) and not isinstance(status, bool) else None
        return self._failure(known, said if said.strip() else str(result.get("subtype")), now)

    def _no_result(self, exit_code: int, stderr: str, now: float) -> Verdict:
        if self._api_error is not None:
            return self._failure(*self._api_error, now)
        if not self._started:
            reason = f"Claude Code refused to start ({exit_code}): {complaint(stderr)}"
            refused = failures.of_text(stderr)
            bad = refused is Outcome.BAD_CREDENTIALS
            return Verdict(refused if bad else Outcome.REFUSED_CONFIGURATION, reason)
        return Verdict(Outcome.FAILED, f"Claude Code ended with {exit_code} and without a result: {complaint(stderr)}")

    def _failure(self, status: int | None, text: str, now: float) -> Verdict:
        outcome = failures.of_status(status, text)
        waits = outcome in (Outcome.RATE_LIMITED, Outcome.QUOTA, Outcome.OUTAGE)
        when = (self._retry_at or failures.retry_time(text, now)) if waits else None
        return Verdict(outcome, short(text), retry_at=when)


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
