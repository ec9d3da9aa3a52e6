"""The page of `trimtab serve`: what a stream has learned, whether to trust it, and the way back."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.applications import Starlette


def add_page(app: "Starlette") -> None:
    """Let an app that has a hub, its tokens and a way to classify (in its `state`) also show the page."""
    from trimtab.serve.page.routes import routes

    app.router.routes.extend(routes(app.state))
