"""Schemas: what the interface's answers hold, for its description (OpenAPI) and for the client."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Guess(BaseModel):
    """A label and its probability."""

    label: str = Field(examples=["frog"])
    score: float = Field(examples=[0.83])


class Answered(BaseModel):
    """What the stream says of one picture."""

    id: str = Field(description="For a later correction.", examples=["000000000042"])
    label: str = Field(examples=["frog"])
    score: float = Field(description="The label's probability.", examples=[0.83])
    predictions: list[Guess] = Field(description="The best labels, best first.")
    zero_shot: Guess = Field(description="What the text alone says.")
    seen: int = Field(description="How many images the stream has seen, this one included if it was learned.")
    version: int = Field(description="Changes with whatever changes the stream.")
    learned: bool
    why_not: str = Field(description="Why it was not learned; empty if it was.", examples=[""])
    agree: bool = Field(description="Whether all parts with something to say name the label: the best sign there is.")
    unknown: bool = Field(description="Whether it seems to show none of the labels.")
    replayed: bool = Field(description="Whether this is the answer to an earlier request with the same key.")
    durable: bool = Field(description="Whether it is written down, so that a crash does not lose it.")
    parts: dict[str, Guess] | None = Field(
        None, description="The best label of each part with something to say; with ?explain=parts."
    )


class Answers(BaseModel):
    """The answers to the pictures of a request, in their order."""

    stream: str = Field(examples=["frogs"])
    answers: list[Answered]


class Refusal(BaseModel):
    """Why a request was not answered."""

    error: str = Field(examples=["There is no stream 'frogs'."])
    status: int = Field(examples=[404])
    request_id: str = Field(examples=["9f2c51d07f7d4b1e"])


class StreamInfo(BaseModel):
    """A stream: what it was made with, and how it is."""

    name: str = Field(examples=["frogs"])
    mode: Literal["adapting", "frozen", "zero-shot only"]
    seen: int
    version: int
    labels: list[str]
    encoder: str = Field(examples=["lite"])
    method: str = Field(examples=["mcp"])
    fingerprint: str = Field(description="Of the task: labels, texts and scale. A state fits only its own.")
    settings: dict[str, Any]
    last_snapshot: str | None


class StreamList(BaseModel):
    """The streams that this token may see."""

    streams: list[str]


class SnapshotInfo(BaseModel):
    """What the stream had learned at some point."""

    name: str
    seen: int
    when: float = Field(description="Seconds since 1970.")
    bytes: int
    agreement: float | None
    note: str


class SnapshotList(BaseModel):
    """All snapshots of a stream, oldest first."""

    snapshots: list[SnapshotInfo]


class Feedback(BaseModel):
    """Somebody knows what a picture shows."""

    model_config = ConfigDict(extra="forbid")
    id: str = Field(description="From the answer.", min_length=1, max_length=128, examples=["000000000042"])
    label: str = Field(description="One of the stream's labels.", min_length=1, max_length=1000, examples=["toad"])


class Note(BaseModel):
    """What to remember of a snapshot."""

    model_config = ConfigDict(extra="forbid")
    note: str = Field("", max_length=200, examples=["before the new camera"])


class HuggingFaceRequest(BaseModel):
    """A picture, or several, as Hugging Face's clients send them."""

    inputs: str | list[str] = Field(description="Base64.", examples=["iVBORw0KGgo..."])
    parameters: dict[str, Any] = Field(default_factory=dict, examples=[{"top_k": 3}])


class ServerInfo(BaseModel):
    """In the shape of the Open Inference Protocol."""

    name: str = "trimtab"
    version: str
    extensions: list[str] = []


class Tensor(BaseModel):
    """In the shape of the Open Inference Protocol."""

    name: str
    datatype: str
    shape: list[int]


class ModelInfo(BaseModel):
    """In the shape of the Open Inference Protocol."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[Tensor]
    outputs: list[Tensor]


class Live(BaseModel):
    """In the shape of the Open Inference Protocol."""

    live: bool


class Ready(BaseModel):
    """In the shape of the Open Inference Protocol."""

    ready: bool


class Correction(BaseModel):
    """What became of a human answer."""

    id: str
    label: str
    before: str | None = Field(description="What the stream had said, if it still knows.")
    moved: int = Field(description="Items that the image had left, which now stand under the label.")
    placed: bool = Field(description="Whether the image stands under the label now.")
    seen: int
    version: int


class CacheItem(BaseModel):
    """An image that a cache holds."""

    id: str | None
    position: int
    cache: str
    age: int
    entropy: float


class CachedLabel(BaseModel):
    """What the caches hold of one label."""

    label: str
    items: list[CacheItem]


class CacheContents(BaseModel):
    """What the caches hold."""

    labels: list[CachedLabel]


class Evicted(BaseModel):
    """How many things are gone."""

    items: int


class Numbers(BaseModel):
    """Figures by name."""

    model_config = ConfigDict(extra="allow")


class Images(BaseModel):
    """Images and what was said of them."""

    images: list[dict[str, Any]]
