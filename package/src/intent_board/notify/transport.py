"""Apprise, one message at a time, with bounds on its waiting and nothing of it in any log."""

from __future__ import annotations

import logging

#: Seconds for each wait on the network, unless the URL asks for less.
WAIT_SECONDS = 10.0


def usable(url: str) -> bool:
    """Whether Apprise knows what to do with it."""
    from apprise import Apprise  # slow to load

    _quiet()
    return Apprise.instantiate(url, suppress_exceptions=True) is not None


def deliver(url: str, title: str, body: str) -> bool:
    """Send one plain text; whether the service took it."""
    from apprise import Apprise, AppriseAsset, NotifyFormat

    _quiet()
    asset = AppriseAsset(async_mode=False, secure_logging=True)
    plugin = Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if plugin is None:
        return False
    for bound in ("socket_connect_timeout", "socket_read_timeout"):
        setattr(plugin, bound, min(getattr(plugin, bound) or WAIT_SECONDS, WAIT_SECONDS))
    sender = Apprise(asset=asset)
    sender.add(plugin)
    return bool(sender.notify(title=title, body=body, body_format=NotifyFormat.TEXT))


def _quiet() -> None:
    """Apprise and what it calls would log addresses."""
    for name in ("apprise", "requests", "urllib3"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
