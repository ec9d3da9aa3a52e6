from .hub import Hub as Hub
from .records import Answer as Answer
from .records import Correction as Correction
from .records import Guess as Guess
from .records import Request as Request
from .settings import StreamSettings as StreamSettings
from .snapshots import Snapshot as Snapshot
from .tenant import Tenant as Tenant
