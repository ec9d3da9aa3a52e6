"""What is known of each method without importing it: where it comes from, what it keeps, what it asks for."""

from dataclasses import dataclass

# The columns of the MCP paper's comparison of methods, and what each asks.
TRAITS = {
    "Multimodal": "learns on the image side and on the text side",
    "HistInfo": "uses the images that came before",
    "NoEncGrad": "needs no gradient through an encoder",
    "NoExtraData": "needs no extra data or model",
    "HighEntro": "learns from uncertain images too",
    "ExpTestDist": "looks at how the test images are distributed",
}


@dataclass(frozen=True)
class MethodInfo:
    """One row of the table."""

    name: str
    where: str  # module:class
    title: str
    paper: str
    year: int
    venue: str
    keeps: str
    gradients: bool = False  # whether it takes a gradient step per image (in closed form here)
    views: str = "optional"  # "one", "optional" or "several": what it makes of more than one view
    traits: frozenset[str] = frozenset({"NoEncGrad", "NoExtraData"})  # of TRAITS; the paper's where it has the method

    @property
    def extra_data(self) -> bool:
        """Whether it needs data or models besides the encoder."""
        return "NoExtraData" not in self.traits


_CACHE = frozenset({"HistInfo", "NoEncGrad", "NoExtraData"})

METHODS = (
    MethodInfo(
        name="zero_shot",
        where="trimtab.methods.zero_shot:ZeroShot",
        title="Zero-shot",
        paper="CLIP",
        year=2021,
        venue="ICML",
        keeps="nothing",
        views="one",
    ),
    MethodInfo(
        name="zero_vote",
        where="trimtab.methods.zero_vote:ZeroVote",
        title="ZERO",
        paper="Frustratingly Easy Test-Time Adaptation",
        year=2024,
        venue="NeurIPS",
        keeps="nothing",
        views="several",
    ),
    MethodInfo(
        name="tda",
        where="trimtab.methods.tda:TDA",
        title="TDA",
        paper="Efficient Test-Time Adaptation of Vision-Language Models",
        year=2024,
        venue="CVPR",
        keeps="two caches",
        traits=_CACHE | {"HighEntro"},
    ),
    MethodInfo(
        name="dmn",
        where="trimtab.methods.dmn:DMN",
        title="DMN-ZS",
        paper="Dual Memory Networks",
        year=2024,
        venue="CVPR",
        keeps="a memory",
        traits=_CACHE,
    ),
    MethodInfo(
        name="boostadapter",
        where="trimtab.methods.boostadapter:BoostAdapter",
        title="BoostAdapter",
        paper="Regional Bootstrapping",
        year=2024,
        venue="NeurIPS",
        keeps="two caches",
        views="several",
        traits=_CACHE,
    ),
    MethodInfo(
        name="dpe",
        where="trimtab.methods.dpe:DPE",
        title="DPE",
        paper="Dual Prototype Evolving",
        year=2024,
        venue="NeurIPS",
        keeps="a cache, moving text",
        gradients=True,
        traits=_CACHE | {"Multimodal"},
    ),
    MethodInfo(
        name="tps",
        where="trimtab.methods.tps:TPS",
        title="TPS",
        paper="Test-Time Prototype Shifting",
        year=2025,
        venue="WACV",
        keeps="nothing",
        gradients=True,
        views="several",
    ),
    MethodInfo(
        name="mcp",
        where="trimtab.methods.mcp:MCP",
        title="MCP",
        paper="Multi-Cache Enhanced Prototype Learning",
        year=2025,
        venue="ICCV",
        keeps="three caches",
        traits=_CACHE | {"HighEntro", "ExpTestDist"},
    ),
    MethodInfo(
        name="mcp_plus",
        where="trimtab.methods.mcp_plus:MCPPlus",
        title="MCP++",
        paper="Multi-Cache Enhanced Prototype Learning",
        year=2025,
        venue="ICCV",
        keeps="three caches",
        gradients=True,
        traits=_CACHE | {"Multimodal", "HighEntro", "ExpTestDist"},
    ),
)
