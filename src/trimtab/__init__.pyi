from .checks import check_method as check_method
from .classifier import Classifier as Classifier
from .encoders import load_encoder as load_encoder
from .errors import TrimtabError as TrimtabError
from .features import FeatureStore as FeatureStore
from .fusion import oracle_weights as oracle_weights
from .methods import list_methods as list_methods
from .methods import make_method as make_method
from .methods.boostadapter import BoostAdapter as BoostAdapter
from .methods.ctpt import CTPT as CTPT
from .methods.difftpt import DiffTPT as DiffTPT
from .methods.dmn import DMN as DMN
from .methods.dpe import DPE as DPE
from .methods.mcp import MCP as MCP
from .methods.mcp_plus import MCPPlus as MCPPlus
from .methods.rtpt import RTPT as RTPT
from .methods.tda import TDA as TDA
from .methods.tps import TPS as TPS
from .methods.tpt import TPT as TPT
from .methods.zero_shot import ZeroShot as ZeroShot
from .methods.zero_vote import ZeroVote as ZeroVote
from .presets import preset as preset
from .stream import Prediction as Prediction
from .stream import Predictions as Predictions
from .stream import Stream as Stream
from .task import Task as Task

__version__: str
