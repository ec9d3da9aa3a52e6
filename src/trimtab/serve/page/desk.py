"""Desk: what the page's routes need of the server, and who may see which stream."""

from typing import Any

from starlette.datastructures import State
from starlette.requests import Request

from trimtab.serve.access import Access, Role
from trimtab.serve.hub import Hub
from trimtab.serve.page.safety import refuse_unknown, role_on, token_of
from trimtab.serve.problems import Problem
from trimtab.serve.service import Service
from trimtab.serve.tenant import Tenant


class Desk:
    """The app's state as the page sees it: `hub`, `access` and `service`."""

    def __init__(self, state: State) -> None:
        self._state = state

    @property
    def hub(self) -> Hub:
        """The streams."""
        hub: Hub = self._state.hub
        return hub

    @property
    def access(self) -> Access:
        """The tokens."""
        access: Access = self._state.access
        return access

    @property
    def service(self) -> Service:
        """How a picture is classified: decoded, encoded together with others, answered."""
        service: Service = self._state.service
        return service

    def names(self, request: Request) -> list[str]:
        """The streams that whoever asks may see."""
        refuse_unknown(request, self.access)
        token = token_of(request)
        return sorted(name for name in self.hub.names() if self.access.role(token, name) is not None)

    def stream(self, request: Request, needed: Role = "classify") -> tuple[Tenant, Role]:
        """The stream in the address, and what whoever asks may do with it."""
        name = request.path_params["name"]
        role = role_on(request, self.access, name)
        if needed == "admin" and role != "admin":
            raise Problem(403, "This needs an admin token.")
        return self.hub.get(name), role

    def summary(self, name: str) -> dict[str, Any]:
        """A stream in a line; one that sleeps is not woken."""
        tenant = self.hub.get(name)
        settings = tenant.settings
        about = {"method": settings.method, "encoder": settings.encoder, "classes": len(settings.labels)}
        return {**tenant.summary(), **about, "trouble": tenant.trouble}
