"""A scripted model on loopback, in the protocols of Codex (Responses) and Claude Code (Messages), streamed.

One model call takes one step of the script; the last step is repeated.  Calls that offer no tools (titles,
summaries) get a fixed text and take none.  A step is a dict, every key optional:

    text, tools [{"name", "arguments"}]    what the model answers
    status, message, kind, headers         an HTTP error instead
    stream_error {"type", "message"}       a failure inside the stream, after the content
    drop                                   cut the connection in mid-stream
    stall                                  seconds to wait in mid-stream
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Step = dict[str, Any]
ERROR_KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}


class ModelServer(ThreadingHTTPServer):
    """Listens as soon as it is made.  `calls` holds the body of every model call that took a step."""

    daemon_threads = True

    def __init__(self, *steps: Step) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._steps, self._lock = steps, threading.Lock()
        self.calls: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def take(self, body: dict[str, Any]) -> tuple[Step, int]:
        """The step for this call, and the call's number (0: it takes none)."""
        with self._lock:
            if not body.get("tools"):
                return {"text": "ok"}, 0
            self.calls.append(body)
            return self._steps[min(len(self.calls), len(self._steps)) - 1], len(self.calls)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ModelServer

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._reply(200, {"object": "list", "data": []})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = self.path.split("?")[0].rstrip("/")
        answer = {"/responses": self._responses, "/messages": self._messages}.get("/" + path.rsplit("/", 1)[1])
        if answer is None:
            return self._reply(200, {"input_tokens": 1})
        self.server.keys.add(self.headers.get("Authorization") or self.headers.get("x-api-key") or "")
        step, call = self.server.take(body)
        if "status" in step:
            kind = step.get("kind") or ERROR_KINDS.get(step["status"], "api_error")
            error = {"type": kind, "code": kind, "message": step.get("message", f"scripted {step['status']}")}
            return self._reply(step["status"], {"type": "error", "error": error}, step.get("headers"))
        self._open_stream()
        for event in answer(step, call):
            if event is None:
                time.sleep(step.get("stall", 0))
                if step.get("drop"):
                    self.close_connection = True
                    return self.connection.close()
            else:
                self._send(event)
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _reply(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", **(headers or {}), "Content-Length": len(data)}.items():
            self.send_header(key, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _open_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _send(self, event: dict[str, Any]) -> None:
        raw = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    # Each of these yields the events of one answer; None is the middle of the stream, where trouble comes.

    def _responses(self, step: Step, call: int) -> Iterator[dict[str, Any] | None]:
        output: list[dict[str, Any]] = []
        if "text" in step:
            content = [{"type": "output_text", "text": step["text"], "annotations": []}]
            output.append({"type": "message", "id": f"msg_{call}", "role": "assistant", "content": content})
        for n, tool in enumerate(step.get("tools", [])):
            item = {"id": f"fc_{call}_{n}", "call_id": f"call_{call}_{n}", "name": tool["name"]}
            output.append({"type": "function_call", **item, "arguments": json.dumps(tool["arguments"])})
        usage = {
            "input_tokens": 1000,
            "output_tokens": 50,
            "total_tokens": 1050,
            "input_tokens_details": {"cached_tokens": 200},
            "output_tokens_details": {"reasoning_tokens": 10},
        }
        done = {"id": f"resp_{call}", "object": "response", "status": "completed", "output": output, "usage": usage}
        yield {"type": "response.created", "response": {**done, "status": "in_progress", "output": [], "usage": None}}
        for n, item in enumerate(output):
            hollow = {"content": []} if item["type"] == "message" else {}
            yield {"type": "response.output_item.added", "output_index": n, "item": {**item, **hollow}}
            if item["type"] == "message":
                for piece in _pieces(step["text"]):
                    place = {"output_index": n, "content_index": 0, "item_id": item["id"]}
                    yield {"type": "response.output_text.delta", **place, "delta": piece}
            yield None
            yield {"type": "response.output_item.done", "output_index": n, "item": item}
        if error := step.get("stream_error"):
            code = {"code": error["type"], "message": error["message"]}
            yield {"type": "response.failed", "response": {**done, "status": "failed", "error": code}}
        else:
            yield {"type": "response.completed", "response": done}

    def _messages(self, step: Step, call: int) -> Iterator[dict[str, Any] | None]:
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if "text" in step:
            pieces = [{"type": "text_delta", "text": piece} for piece in _pieces(step["text"])]
            blocks.append(({"type": "text", "text": ""}, pieces))
        for n, tool in enumerate(step.get("tools", [])):
            head = {"type": "tool_use", "id": f"toolu_{call}_{n}", "name": tool["name"], "input": {}}
            blocks.append((head, [{"type": "input_json_delta", "partial_json": json.dumps(tool["arguments"])}]))
        usage = {
            "input_tokens": 800,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 200,
            "output_tokens": 50,
        }
        message = {"id": f"msg_{call}", "type": "message", "role": "assistant", "model": "scripted", "content": []}
        start = {**message, "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
        yield {"type": "message_start", "message": start}
        for n, (head, deltas) in enumerate(blocks):
            yield {"type": "content_block_start", "index": n, "content_block": head}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": n, "delta": delta}
            yield None
            yield {"type": "content_block_stop", "index": n}
        if error := step.get("stream_error"):
            yield {"type": "error", "error": error}
        else:
            stop = "tool_use" if step.get("tools") else "end_turn"
            yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}
            yield {"type": "message_stop"}


def _pieces(text: str) -> list[str]:
    size = max(40, len(text) // 50)
    return [text[at : at + size] for at in range(0, len(text), size)]
