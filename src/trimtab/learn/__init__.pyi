from .coop import CoOp as CoOp
from .coop import LearningStep as LearningStep
from .coop import few_shots as few_shots
from .coop import learn_coop as learn_coop
from .run import Shape as Shape
from .run import learn_from_images as learn_from_images
from .run import learn_from_store as learn_from_store
