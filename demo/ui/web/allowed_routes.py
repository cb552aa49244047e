"""The routes that answer, the names by which the server may be asked, and the sites whose requests it takes.

Covered: routes of gradio that this page does not use; DNS rebinding, by the `Host` header; requests sent by a page of
another site, by `Origin` and `Sec-Fetch-Site`, which all current browsers send.

Not covered: programs that are no browser, which can send any header; other users of the same machine or network.
"""

import ipaddress
import re
from collections.abc import Collection

from starlette.routing import compile_path  # gradio's own router

from demo.ui.web import preview

ROUTES = {
    "GET": (
        "/",
        "/config",
        "/theme.css",
        "/favicon.ico",
        "/manifest.json",
        "/robots.txt",
        preview.ADDRESS,
        preview.CARD,
        preview.BADGE,
        "/static/{path:path}",
        "/assets/{path:path}",
        "/gradio_api/info",
        "/gradio_api/app_id",  # a page whose connection was lost asks whether it is still the same server
        "/gradio_api/startup-events",  # gradio asks it of itself when it starts
        "/gradio_api/heartbeat/{session_hash}",
        "/gradio_api/queue/data",
        "/gradio_api/upload_progress",
        "/gradio_api/file={path_or_url:path}",
        "/gradio_api/call/{api_name}/{event_id}",
        "/gradio_api/call/v2/{api_name}/{event_id}",
    ),
    "HEAD": ("/", preview.ADDRESS, preview.CARD, preview.BADGE, "/gradio_api/file={path_or_url:path}"),
    "POST": (
        "/gradio_api/queue/join",
        "/gradio_api/run/predict",  # events that do not queue, such as Cancel
        "/gradio_api/upload",
        "/gradio_api/cancel",
        "/gradio_api/reset",
        "/gradio_api/call/{api_name}",
        "/gradio_api/call/{api_name}/",
        "/gradio_api/call/v2/{api_name}",
        "/gradio_api/call/v2/{api_name}/",
    ),
}
"""By method, in gradio's notation."""
MCP = ("/gradio_api/mcp", "/gradio_api/mcp/", "/gradio_api/mcp/http", "/gradio_api/mcp/http/")
MCP_ROUTES = {
    "GET": (*MCP, "/gradio_api/mcp/schema", "/gradio_api/mcp/sse"),
    "POST": (*MCP, "/gradio_api/mcp/messages/"),
    "DELETE": MCP,
}
"""They exist with --mcp only."""

_OPEN = [
    (method, compile_path(route)[0])
    for table in (ROUTES, MCP_ROUTES)
    for method, routes in table.items()
    for route in routes
]
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:/@\s]+?)\.?)(?::\d*)?", re.IGNORECASE)
HUGGING_FACE = (".hf.space", ".huggingface.tech")
"""Ends of the names by which browsers and the proxy ask a Space. Only Hugging Face gives out such names."""


def is_open(method: str, path: str) -> bool:
    """Whether the page, the API or MCP uses this path, given as gradio's router sees it."""
    return any(method == one and route.match(path) for one, route in _OPEN)


def is_ours(host: str, names: Collection[str], space: bool = False) -> bool:
    """Whether a `Host` header names this server: this machine, one of `names`, or any literal address.

    A page of another site whose name was made to lead here (DNS rebinding) sends that name, never an address.
    """
    name = _name(host)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name in names or (space and name.endswith(HUGGING_FACE))
    return True


def is_foreign(origin: str, host: str, names: Collection[str]) -> bool:
    """Whether an `Origin` header names a site other than the server asked (`host`) and `names`."""
    _, _, place = origin.partition("://")
    if place and place.lower() == host.lower():
        return False
    name = _name(place)
    revision = re.fullmatch(r"(.+?)--.+(\.hf\.space)", name)  # another revision of the same Space
    return name not in names and (revision is None or "".join(revision.groups()) not in names)


def _name(host: str) -> str:
    """Without port, brackets and final dot; '' if it is not a host."""
    parts = _HOST.fullmatch(host)
    return (parts[1] or parts[2]).lower() if parts else ""
