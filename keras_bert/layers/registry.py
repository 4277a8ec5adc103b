"""The list of `Positions`, in the order in which messages name them."""

from keras_bert.checks import check_choice
from keras_bert.layers.positions import LearnedPositions, NoPositions, Positions, SinusoidPositions
from keras_bert.layers.relative_positions import RelativePositions

POSITIONS: list[Positions] = [LearnedPositions(), SinusoidPositions(), NoPositions(), RelativePositions()]


def positions_named(name: str) -> Positions:
    """Returns the `Positions` of this name."""
    check_choice("positions", name, [positions.name for positions in POSITIONS])
    return next(positions for positions in POSITIONS if positions.name == name)


def positions_of(model_type: str) -> str | None:
    """Returns the name of the positions that a model type of transformers has, `None` if it leaves them open."""
    for positions in POSITIONS:
        if positions.model_type == model_type:
            return positions.name
    return None
