"""A model server for the machine's Codex: it answers orders as the scripted agent does, in Codex' own protocol.

Started in the machine as a unit: `python3 boot_model.py DIRECTORY PORT`; DIRECTORY holds model_server.py and agent.py.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

FILE = "lib/area.sh"
TEXT = '# Areas.\n\nm2_to_cm2() {\n    echo "$(($1 * 10000))"\n}\n'


def serve(directory: str, port: int) -> None:
    sys.path.insert(0, directory)
    from agent import Order
    from model_server import ModelServer

    class Answering(ModelServer):
        """Answers from what it is asked, and not from a list."""

        def __init__(self) -> None:
            super().__init__({})

        def server_bind(self) -> None:
            self.server_address = ("127.0.0.1", port)
            super().server_bind()

        def take(self, body: dict[str, Any]) -> tuple[dict[str, Any], int]:
            if not body.get("tools"):
                return {"text": "ok"}, 0
            with self._lock:
                self.calls.append(body)
            order = Order("\n".join(texts(body["input"])))
            acted = any(item.get("type") == "function_call_output" for item in body["input"])
            return answer(order, acted), len(self.calls)

    Answering()
    threading.Event().wait()


def texts(items: list[dict[str, Any]]) -> list[str]:
    """Every text of a request's input."""
    return [part.get("text", "") for item in items for part in item.get("content") or [] if isinstance(part, dict)]


def answer(order: Any, acted: bool) -> dict[str, Any]:
    if order.facts["role"] == "builder":
        if not acted:
            write = f"cat > {FILE} <<'EOT'\n{TEXT}EOT"
            return {"text": "Writing it.", "tools": [{"name": "exec_command", "arguments": {"cmd": write}}]}
        result = {"schema_version": 1, "outcome": "done", "summary": "Adds m2_to_cm2.", "question": None, "tests": []}
        return {"text": block("BUILD-RESULT", result)}
    if order.facts["role"] == "reviewer":
        criteria = json.loads(order.data["Acceptance criteria"])
        judged = [{"index": one["index"], "met": True, "reason": "seen in the diff"} for one in criteria]
        report = {"schema_version": 1, "decision": "bereit_fuer_deployment", "commit_hash": order.facts["commit"],
                  "nonce": order.facts["nonce"], "summary": "Read it.", "findings": [], "criteria": judged}  # fmt: skip
        return {"text": block("REVIEW-REPORT", report)}
    raise SystemExit(f"no answer for a {order.facts['role']}")


def block(marker: str, value: dict[str, Any]) -> str:
    return f"==={marker}===\n{json.dumps(value)}\n===END-{marker}==="


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
