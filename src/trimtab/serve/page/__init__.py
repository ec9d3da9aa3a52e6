"""The page of `trimtab serve`: what a stream has learned, whether to trust it, and the way back."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.applications import Starlette


def add_page(app: "Starlette") -> None:
    """Let an app that has a hub, its tokens and a way to classify (in its `state`) also show the page."""
    from secrets import token_bytes

    from trimtab.serve.page.routes import routes
    from trimtab.serve.page.safety import SECRET

    setattr(app.state, SECRET, token_bytes(32))
    app.router.routes.extend(routes(app.state))
