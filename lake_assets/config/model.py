"""What all models of the config have in common."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Base of all models: frozen, and a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
